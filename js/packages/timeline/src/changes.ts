/** A copy of the server's timeline, kept up to date by the changes that its stream sends (spec/timeline.md, 12). */
import type { Block, InterruptBlock } from "./blocks.js";
import { type Message, mergeChunk } from "./chunks.js";
import { isObject, type Json, type JsonObject } from "./json.js";
import type { Splice } from "./operations.js";
import { appended, type TimelineState } from "./state.js";

export type Change =
  | { change: "insert"; after: string | null; block: Block }
  | { change: "update"; id: string; set: Partial<Block>; unset?: string[] }
  | { change: "append"; id: string; text: string; rev: number; updatedAt: number }
  | { change: "merge"; id: string; chunk: Message; rev: number; updatedAt: number }
  | { change: "remove"; id: string }
  | { change: "values"; values?: Json; set?: JsonObject; unset?: string[]; splice?: Record<string, Splice> }
  | { change: "reset" };

export interface ServerRun {
  id: string;
  status: string;
  error?: Json;
}

/** A page of the server's timeline. */
export interface Page {
  blocks: Block[];
  interrupts: InterruptBlock[];
  run: ServerRun | null;
  /** How the last run ended, if none has started since. */
  ended?: ServerRun;
  values: Json;
  seq: number;
  before?: string;
}

/** What one entry of the server's log changed. */
export interface ChangeEvent {
  changes: Change[];
  run?: ServerRun | null;
  ended?: ServerRun;
  /** What a node wrote for the application. */
  custom?: Json[];
}

/** Replace everything with the server's last page, except what the user has sent and the server does not have (9.2). */
export function replaceByPage(state: TimelineState, page: Page): void {
  const sent = state.blocks().filter((block) => isUnsent(block) && !page.blocks.some(({ id }) => id === block.id));
  const submitting = new Map(state.blocks().filter(isSubmitting).map((block) => [block.id, block]));
  state.restore([...page.blocks, ...sent], page.values);
  for (const block of page.blocks) {
    const before = submitting.get(block.id);
    if (before && block.kind === "interrupt" && !block.completed) {
      const { phase, frozenValue } = before;
      state.set(state.get(block.id)!, { phase, ...(frozenValue !== undefined && { frozenValue }) });
    }
  }
  hold(state);
}

/** Add an earlier page. Blocks that are already known stay as they are. */
export function prependPage(state: TimelineState, page: Page): void {
  let after: string | undefined;
  for (const block of page.blocks) {
    if (!state.get(block.id)) state.place({ ...block }, after);
    after = block.id;
  }
}

/** Apply a change. `hasAll` says whether the copy has all blocks, and not only the last ones. */
export function applyChange(state: TimelineState, change: Change, hasAll: boolean): void {
  switch (change.change) {
    case "insert":
      insert(state, change.block, change.after, hasAll);
      break;
    case "update":
      update(state, change.id, change.set, change.unset ?? []);
      break;
    case "append":
    case "merge": {
      const block = state.get(change.id);
      if (block?.kind !== "message") return;
      const { rev, updatedAt } = change;
      const { message: shown } = block;
      const message = change.change === "append" ? appended(shown, change.text) : mergeChunk(shown, change.chunk);
      state.set(block, { message, rev, updatedAt });
      break;
    }
    case "remove":
      state.remove(change.id);
      break;
    case "values":
      state.values = change.values !== undefined ? change.values : patched(state.values, change);
      break;
    case "reset":
      state.clear();
  }
}

function insert(state: TimelineState, block: Block, after: string | null, hasAll: boolean): void {
  if (state.get(block.id)) state.remove(block.id); // this client sent it; the server decides its position
  const isKnown = after === null ? hasAll : state.get(after);
  if (isKnown) state.place({ ...block }, after ?? undefined);
  hold(state, block.runId);
}

function update(state: TimelineState, id: string, set: Partial<Block>, unset: string[]): void {
  const block = state.get(id);
  if (!block) return;
  // Whether another client gave the answer (7.8a).
  const elsewhere = block.kind === "interrupt" && (block.phase === "open" || block.outcome === "answered-elsewhere");
  state.set(block, set, unset);
  if (block.kind === "interrupt" && block.completed) {
    const isAnswer = block.outcome === "answered" && !block.breakpoint;
    state.set(block, elsewhere && isAnswer ? { outcome: "answered-elsewhere" } : {}, ["error"]);
  }
  hold(state, block.runId);
}

/**
 * Hide the streaming messages of one run, or of all runs, if the application only wants to show complete ones (4.8).
 * The server's timeline shows everything.
 */
function hold(state: TimelineState, runId?: string): void {
  if (state.options.partialDisplay !== "hold") return;
  const asked = new Set([...state.open].map((id) => state.get(id)!.runId));
  for (const block of state.all()) {
    if (block.kind !== "message" || (runId !== undefined && block.runId !== runId)) continue;
    const visible = block.status !== "streaming" || (block.runId !== undefined && asked.has(block.runId));
    if (visible !== block.visible) state.set(block, { visible });
  }
}

function patched(values: Json, { set = {}, unset = [], splice = {} }: Change & { change: "values" }): Json {
  const before = Object.entries(isObject(values) ? values : {}).filter(([key]) => !unset.includes(key));
  const after = new Map([...before, ...Object.entries(set)]);
  for (const [key, [at, drop, items]] of Object.entries(splice)) {
    const list = after.get(key);
    if (Array.isArray(list)) after.set(key, list.toSpliced(at, drop, ...items));
  }
  return Object.fromEntries(after);
}

function isUnsent(block: Block): boolean {
  return block.kind === "message" && (block.status === "pending" || block.status === "failed") && block.seq === 0;
}

function isSubmitting(block: Block): block is InterruptBlock {
  return block.kind === "interrupt" && block.phase === "submitting";
}
