/** Interrupt blocks (spec/timeline.md, sections 7 and 11). */
import type { Block, InterruptBlock, MessageBlock } from "./blocks.js";
import { type Json, isObject, objectOf, sameJson } from "./json.js";
import { reveal } from "./messages.js";
import type { Answers, Interrupt, RunEnd } from "./operations.js";
import type { TimelineState } from "./state.js";

// -- asking ----------------------------------------------------------------------------------------------------------

/** Show interrupts. With `reopen`, a completed interrupt is asked again even if its value is the same (7.3). */
export function ask(state: TimelineState, interrupts: readonly Interrupt[], reopen = false): void {
  for (const interrupt of interrupts) {
    const block = newest(state, interrupt.id);
    if (!block) create(state, interrupt, 1);
    else if (block.branchId === undefined && !block.completed) state.update(block, question(interrupt));
    else if (block.branchId !== undefined || (reopen && !awaitsResponse(block)) || !sameJson(block.value, interrupt.value)) {
      create(state, interrupt, state.generations.get(interrupt.id)! + 1);
    }
  }
  if (interrupts.length > 0) reveal(state);
}

function create(state: TimelineState, interrupt: Interrupt, generation: number): InterruptBlock {
  const anchor = anchorOf(state, interrupt);
  const id = `i:${interrupt.id}${generation > 1 ? `#${generation}` : ""}`;
  state.insert(
    {
      id,
      kind: "interrupt",
      interruptId: interrupt.id,
      ...question(interrupt),
      phase: "open",
      completed: false,
      ...(interrupt.breakpoint && { breakpoint: true }),
      ...(interrupt.ns && { ns: interrupt.ns }),
      ...(state.options.isHidden(interrupt.value) && { hidden: true }),
      ...(anchor && { anchorId: anchor }),
    },
    anchor ? state.groupEnd(anchor) : state.order.at(-1),
  );
  return state.interrupt(id);
}

function question({ value = null, responseSchema = null }: Interrupt): Pick<InterruptBlock, "value" | "responseSchema"> {
  return { value, ...(responseSchema !== null && { responseSchema }) };
}

/** The newest generation of an interrupt. */
export function newest(state: TimelineState, interruptId: string): InterruptBlock | undefined {
  const generation = state.generations.get(interruptId) ?? 0;
  return state.interrupt(generation < 2 ? `i:${interruptId}` : `i:${interruptId}#${generation}`);
}

/** Whether an interrupt was frozen, but the graph has no response yet and so still lists it as pending (7.3). */
function awaitsResponse(block: InterruptBlock): boolean {
  const isFrozen = block.outcome === "answered" && "respondedAt" in block && !block.breakpoint;
  return isFrozen && !("response" in block);
}

/** The id of the block that the interrupt is placed after (7.5). */
function anchorOf(state: TimelineState, interrupt: Interrupt): string | undefined {
  const value = Array.isArray(interrupt.value) ? interrupt.value[0] : interrupt.value;
  if (isObject(value)) {
    const metadata = objectOf(value.metadata);
    const { attachmentId = null } = metadata;
    const widget = attachmentId === null ? undefined : state.widget(String(attachmentId));
    if (widget) return widget.id;
    const named = [value.tool_call_id, value.toolCallId, metadata.tool_call_id, metadata.toolCallId];
    const calls = named.filter((call) => typeof call === "string");
    const owner = calls.length > 0 && state.lastMessage((block) => makesCall(block, calls));
    if (owner) return owner.id;
  }
  const ns = interrupt.ns ?? state.ns;
  const inner = ns.length > 0 ? state.lastMessage((block) => sameJson(block.ns, ns)) : undefined;
  return (inner ?? state.lastMessage())?.id;
}

function makesCall({ message }: MessageBlock, calls: readonly Json[]): boolean {
  const made = Array.isArray(message.tool_calls) ? message.tool_calls : [];
  return made.some((call) => isObject(call) && call.id !== undefined && calls.includes(call.id));
}

// -- completing ------------------------------------------------------------------------------------------------------

export function answer(state: TimelineState, answers: Answers): void {
  state.run.answered = true;
  const { by = null, via = null } = answers;
  for (const [id, response] of attributed(state, answers)) {
    let block = newest(state, id);
    if (!block) continue;
    // Another branch was asked (10.5).
    if (block.branchId !== undefined) block = create(state, { ...block, id }, state.generations.get(id)! + 1);
    const fields = {
      response,
      respondedAt: state.stamp.at ?? 0,
      ...(by !== null && { respondedBy: by }),
      ...(via !== null && { respondedVia: via }),
    };
    if (!block.completed) complete(state, block, "answered", fields);
    else if (block.outcome === "answered" && !("response" in block)) {
      add(state, block, { ...fields, ...completingRun(state) });
    }
  }
}

/** The interrupt ids and responses of an answer (7.8b). */
function attributed(state: TimelineState, { answers, response = null }: Answers): [string, Json][] {
  if (answers) return answers.map(({ id, response = null }) => [id, response]);
  const ids = asked(state).map((block) => block.interruptId);
  if (isObject(response)) {
    const named = Object.entries(response);
    if (named.length > 0 && named.every(([id]) => ids.includes(id))) return named;
  }
  return ids.length === 1 ? [[ids[0]!, response]] : [];
}

/** Freeze what the widget showed. Returns whether that changed anything. */
export function freeze(state: TimelineState, id: string, frozen: { frozenValue?: Json }, by: Json = null): boolean {
  const block = newest(state, id);
  if (!block) return false;
  const { rev } = block;
  if (block.completed) add(state, block, frozen);
  else {
    const responded = { respondedAt: state.stamp.at ?? 0, ...(by !== null && { respondedBy: by }) };
    complete(state, block, "answered", { ...frozen, ...responded });
  }
  return block.rev !== rev;
}

/** Abandon a block, if it is an interrupt that is open. */
export function abandon(state: TimelineState, block: Block): void {
  if (block.kind === "interrupt" && !block.completed) complete(state, block, "abandoned");
}

/** Complete the breakpoint that an earlier run stopped at (7.7a). */
export function continueFromBreakpoint(state: TimelineState): void {
  const { runId, at = 0 } = state.stamp;
  if (runId === undefined) return;
  for (const block of notCompleted(state)) {
    if (block.breakpoint && block.runId !== runId) complete(state, block, "answered", { respondedAt: at });
  }
}

/** Complete what a cancelled run asked (7.10). */
export function cancel(state: TimelineState): void {
  for (const block of notCompleted(state)) {
    if (state.run.blocks.has(block.id)) complete(state, block, "cancelled");
  }
}

/** Reconcile the timeline with the exact list of pending interrupts (7.9). */
export function reconcile(state: TimelineState, pending: readonly Interrupt[], answered: boolean): void {
  ask(state, pending, true);
  for (const block of asked(state)) {
    if (pending.every(({ id }) => id !== block.interruptId)) {
      complete(state, block, answered ? "answered" : "abandoned");
    }
  }
}

/** The breakpoint that the run stopped at, if it did (7.7). */
export function breakpointOf({ pending, next = [], checkpointId = null }: RunEnd): Interrupt[] {
  if (pending?.length || next.length === 0 || checkpointId === null) return [];
  return [{ id: `bp:${checkpointId}`, value: { when: "breakpoint", next }, breakpoint: true }];
}

// -- parts -----------------------------------------------------------------------------------------------------------

function notCompleted(state: TimelineState): InterruptBlock[] {
  return Array.from(state.open, (id) => state.interrupt(id));
}

/** The interrupts that are not completed, not counting breakpoints. */
function asked(state: TimelineState): InterruptBlock[] {
  return notCompleted(state).filter((block) => !block.breakpoint);
}

type Outcome = NonNullable<InterruptBlock["outcome"]>;

export function complete(
  state: TimelineState,
  block: InterruptBlock,
  outcome: Outcome,
  fields: Partial<InterruptBlock> = {},
): void {
  state.update(block, { phase: "completed", completed: true, outcome, ...fields, ...completingRun(state) }, "error");
}

function completingRun({ stamp: { runId } }: TimelineState): { completedRunId?: string } {
  return runId === undefined ? {} : { completedRunId: runId };
}

/** Add the fields that the block lacks. */
function add(state: TimelineState, block: InterruptBlock, fields: Partial<InterruptBlock>): void {
  const missing = Object.entries(fields).filter(([key]) => !(key in block));
  state.update(block, Object.fromEntries(missing));
}
