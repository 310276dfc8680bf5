/** Message blocks (spec/timeline.md, section 4). */
import type { MessageBlock } from "./blocks.js";
import { firstChunk, isChunk, isLast, type Message } from "./chunks.js";
import { type Json, type JsonObject, isObject, sameJson } from "./json.js";
import type { TimelineState } from "./state.js";

const REMOVE_ALL = "__remove_all__";

/** Keys of metadata that are the same for every message of a run (1.3b). */
const SAME_IN_A_RUN =
  /^((assistant|graph|thread|user|run)_id|checkpoint_ns|created_by|lc_versions|ls_(integration|model_type)|run_attempt|langgraph_(api_url|auth_(permissions|user|user_id)|host|path|plan|request_id|triggers|version))$/;

type Ids = readonly (string | null)[];
type Mode = "delta" | "snapshot";

/** The id of a message or widget, or null if it has none and is therefore ignored. */
export function idOf(message: Json | undefined): string | null {
  const id = isObject(message) ? message.id : null;
  return typeof id === "string" && id ? id : null;
}

// -- streams ---------------------------------------------------------------------------------------------------------

export function delta(state: TimelineState, chunk: Message, meta?: JsonObject, begin = false): void {
  const id = idOf(chunk);
  if (id === null) return;
  const block = state.message(id);
  if (!block) {
    create(state, id, first(state, firstChunk(chunk), "delta", isLast(chunk)), meta);
    return;
  }
  if (startsOver(state, block, id, begin)) startOver(state, block, firstChunk(chunk), "delta");
  else if (block.status === "streaming" && block.mode === "delta") state.merge(block, chunk);
  else return;
  if (isLast(chunk)) state.update(block, { status: "complete", visible: true });
  updateMeta(state, block, meta);
}

export function text(state: TimelineState, id: string, added: string): void {
  const block = state.message(id);
  if (block?.status !== "streaming" || typeof block.message.content !== "string") {
    delta(state, { type: "AIMessageChunk", id, content: added });
  } else if (block.mode === "delta") state.append(block, added);
}

export function snapshot(state: TimelineState, received: Message, meta?: JsonObject): void {
  const id = idOf(received);
  if (id === null) return;
  const message = whole(received);
  const block = state.message(id);
  if (!block) {
    create(state, id, first(state, message, "snapshot", false), meta);
    return;
  }
  if (startsOver(state, block, id, false)) startOver(state, block, message, "snapshot");
  else if (block.status === "streaming" && block.mode === "snapshot") {
    if (!isBehind(message, block.message)) state.update(block, { message });
  } else return;
  updateMeta(state, block, meta);
}

export function full(state: TimelineState, received: Message, meta?: JsonObject): void {
  const id = idOf(received);
  if (id === null || (!state.isRoot && state.root.messages.has(id))) return;
  const message = whole(received);
  const block = state.message(id);
  if (!block) {
    create(state, id, complete(message), meta);
    return;
  }
  state.deferred.delete(id);
  state.update(block, complete(message), "transient");
  updateMeta(state, block, meta);
}

export function remove(state: TimelineState, id: string): void {
  const isChosen = ({ kind, ns }: { kind: string; ns: readonly string[] }) => kind === "message" && sameJson(ns, state.ns);
  const all = () => state.order.filter((blockId) => isChosen(state.get(blockId)!));
  for (const blockId of id === REMOVE_ALL ? all() : [`m:${id}`]) {
    if (state.isRoot || !state.root.messages.has(blockId.slice(2))) state.removeShown(blockId);
  }
}

export function metadata(state: TimelineState, id: string, meta: JsonObject): void {
  const block = state.message(id);
  if (block) updateMeta(state, block, meta);
  else state.metas.set(id, meta);
}

// -- states ----------------------------------------------------------------------------------------------------------

/** Upsert messages of a state. They start at `start` in the list whose ids are given. */
export function upsert(state: TimelineState, ids: Ids, start: number, messages: readonly Json[]): void {
  const following = followingOf(state, ids, start, messages.length);
  messages.forEach((each, offset) => {
    const at = start + offset;
    const id = ids[at] ?? null;
    if (id === null || (!state.isRoot && state.root.messages.has(id))) return;
    const message = whole(each as Message);
    const block = state.message(id);
    if (!block) state.removeHidden(`m:${id}`); // it is not a neighbour
    if (block) confirm(state, block, id, message);
    else create(state, id, complete(message), undefined, neighbour(state, ids, at, following[offset]));
  });
}

function confirm(state: TimelineState, block: MessageBlock, id: string, message: Message): void {
  let fields: Partial<MessageBlock> = complete(message);
  state.deferred.delete(id);
  const streams = block.status === "streaming" && block.runId === state.stamp.runId;
  if (streams && isBehind(message, block.message)) {
    fields = { visible: true };
    state.deferred.set(id, message);
  }
  state.update(block, state.isRoot ? { ...fields, ns: [] } : fields, "transient");
}

/** The nearest known message after each of `count` elements of the list. */
function followingOf(state: TimelineState, ids: Ids, start: number, count: number): (string | undefined)[] {
  let nearest = firstKnown(state, ids.slice(start + count));
  const found: (string | undefined)[] = [];
  for (let at = start + count - 1; at >= start; at--) {
    found.unshift(nearest);
    nearest = firstKnown(state, [ids[at] ?? null]) ?? nearest;
  }
  return found;
}

/** The block after which the list places its element (4.7 b). Undefined if the list does not determine a position. */
function neighbour(state: TimelineState, ids: Ids, at: number, following: string | undefined): Place | undefined {
  if (following === undefined) return undefined;
  const preceding = firstKnown(state, ids.slice(0, at).reverse());
  return { after: preceding === undefined ? state.before(following) : state.groupEnd(preceding) };
}

function firstKnown(state: TimelineState, ids: Ids): string | undefined {
  const id = ids.find((each) => each !== null && state.message(each));
  return id === undefined || id === null ? undefined : `m:${id}`;
}

// -- runs ------------------------------------------------------------------------------------------------------------

/** Make all messages of the run visible. */
export function reveal(state: TimelineState): void {
  if (state.options.partialDisplay === "hold") {
    for (const block of messagesOfRun(state)) state.update(block, { visible: true });
  }
}

/** Mark as failed the messages that an earlier attempt of the run was streaming (4.11). */
export function abandon(state: TimelineState): void {
  for (const block of messagesOfRun(state)) {
    if (block.status === "streaming") state.update(block, { status: "failed", transient: true });
  }
}

/** End the streams of a run that has ended (4.10). */
export function endStreams(state: TimelineState, succeeded: boolean): void {
  for (const [id, message] of state.deferred) {
    const block = state.message(id);
    if (block) state.update(block, complete(message));
  }
  const status = succeeded ? "complete" : "failed";
  for (const block of messagesOfRun(state)) {
    if (block.status === "streaming") state.update(block, { status, visible: true });
    const isKnown = block.ns.length > 0 || state.root.messages.has(block.id.slice(2));
    if (succeeded && state.run.hasMessages && !isKnown) state.update(block, { transient: true });
  }
}

function messagesOfRun(state: TimelineState): MessageBlock[] {
  return Array.from(state.run.blocks, (id) => state.get(id)!).filter((block) => block.kind === "message");
}

// -- parts -----------------------------------------------------------------------------------------------------------

interface Place {
  after: string | undefined;
}

type Fields = Pick<MessageBlock, "message" | "visible" | "status" | "mode">;

/** Place a new message block (4.7). */
export function create(state: TimelineState, id: string, fields: Fields, meta?: JsonObject, place?: Place): void {
  const blockId = `m:${id}`;
  state.removeHidden(blockId);
  const early = state.metas.get(id);
  state.metas.delete(id);
  const waiting = [...(state.waiting.get(id) ?? [])];
  state.waiting.delete(id);
  const [owner] = waiting;
  const after = owner !== undefined ? state.before(owner) : place ? place.after : state.order.at(-1);
  state.insert({ id: blockId, kind: "message", ...fields, ...metaField(meta ?? early) }, after);
  for (const each of waiting) state.update(state.widget(each.slice(2))!, { anchorId: blockId }, "pendingAnchor");
}

function first(state: TimelineState, message: Message, mode: Mode, isComplete: boolean): Fields {
  const visible = isComplete || state.options.partialDisplay === "append";
  return { message, visible, status: isComplete ? "complete" : "streaming", mode };
}

function complete(message: Message): Fields {
  return { message, visible: true, status: "complete" };
}

function whole(message: Message): Message {
  return isChunk(message) ? firstChunk(message) : message;
}

function startsOver(state: TimelineState, block: MessageBlock, id: string, begin: boolean): boolean {
  if (block.status === "failed" || block.status === "pending") return true;
  return begin && (block.status === "streaming" || (block.runId === state.stamp.runId && !state.root.messages.has(id)));
}

function startOver(state: TimelineState, block: MessageBlock, message: Message, mode: Mode): void {
  const { runId } = state.stamp;
  state.update(block, { message, status: "streaming", mode, ...(runId !== undefined && { runId }) }, "transient");
}

/** Whether the text is a proper prefix of the text that is shown. */
function isBehind({ content }: Message, { content: shown }: Message): boolean {
  return typeof content === "string" && typeof shown === "string" && content !== shown && shown.startsWith(content);
}

function updateMeta(state: TimelineState, block: MessageBlock, meta: JsonObject | undefined): void {
  state.update(block, metaField(meta));
}

function metaField(meta: JsonObject | undefined): { meta?: JsonObject } {
  const kept = Object.entries(meta ?? {}).filter(([key]) => !SAME_IN_A_RUN.test(key));
  return kept.length > 0 ? { meta: Object.fromEntries(kept) } : {};
}
