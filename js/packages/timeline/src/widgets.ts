/** UI blocks (spec/timeline.md, section 5). */
import type { UiMessage } from "./blocks.js";
import { type Json, objectOf } from "./json.js";
import { idOf } from "./messages.js";
import type { TimelineState } from "./state.js";

/** Apply a UI message that a node wrote. */
export function show(state: TimelineState, ui: UiMessage): void {
  const id = idOf(ui);
  if (id === null) return;
  const block = state.widget(id);
  const merges = Boolean(objectOf(ui.metadata).merge);
  if (!block) create(state, id, ui, merges);
  else state.update(block, { ui: merges ? merged(block.ui, ui) : ui });
}

/** Upsert UI messages of a state. */
export function upsert(
  state: TimelineState,
  ids: readonly (string | null)[],
  start: number,
  items: readonly Json[],
): void {
  items.forEach((item, offset) => {
    const id = ids[start + offset] ?? null;
    if (id === null || (!state.isRoot && state.root.ui.has(id))) return;
    const ui = item as UiMessage;
    const block = state.widget(id);
    if (!block) create(state, id, ui, false);
    else state.update(block, state.isRoot ? { ui, ns: [] } : { ui }, "incomplete");
  });
}

function create(state: TimelineState, id: string, ui: UiMessage, incomplete: boolean): void {
  state.removeHidden(`u:${id}`);
  const owner = objectOf(ui.metadata).message_id;
  const message = typeof owner === "string" ? state.message(owner) : undefined;
  const anchorId = (message ?? state.lastMessage())?.id;
  const waits = !message && typeof owner === "string" && owner;
  state.insert(
    {
      id: `u:${id}`,
      kind: "ui",
      ui,
      ...(incomplete && { incomplete }),
      ...(anchorId !== undefined && { anchorId }),
      ...(waits && { pendingAnchor: owner }),
    },
    message ? state.groupEnd(message.id) : state.order.at(-1),
  );
}

function merged(before: UiMessage, after: UiMessage): UiMessage {
  return { ...after, props: { ...objectOf(before.props), ...objectOf(after.props) } };
}
