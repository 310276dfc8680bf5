/**
 * Operations that only the log of a thread has: namespaces that end, input that replaces answers, the positions of
 * forks, and how a run was undone. A separate entry point, because a page receives run streams, or a timeline that the
 * server has folded.
 */
import { fork, hide } from "./branches.js";
import type { Block, InterruptBlock } from "./blocks.js";
import { abandon, newest } from "./interrupts.js";
import { sameJson } from "./json.js";
import type { Fork, LogOperation, Operation, RunEnd } from "./operations.js";
import { apply } from "./reducer.js";
import { TimelineState } from "./state.js";

export { TimelineState };

/** Apply an operation that results from a log entry (spec/timeline.md, section 13). */
export function applyLogged(state: TimelineState, operation: LogOperation | Operation): void {
  state.stamp = operation;
  switch (operation.op) {
    case "namespace.ended":
      endNamespace(state);
      break;
    case "run.input":
      for (const id of [...state.open]) abandon(state, state.interrupt(id));
      break;
    case "run.forked":
      forkAt(state, operation);
      break;
    case "run.ended":
      endRun(state, operation);
      break;
    default:
      apply(state, operation);
  }
}

function endNamespace(state: TimelineState): void {
  if (state.isRoot) return;
  for (const [key, { ns }] of state.views) {
    if (sameJson(ns.slice(0, state.ns.length), state.ns)) state.views.delete(key);
  }
}

// -- branches --------------------------------------------------------------------------------------------------------

function forkAt(state: TimelineState, operation: Fork): void {
  fork(state, operation);
  const { branchId, position } = operation;
  if (branchId === undefined || position === undefined) return;
  state.run.forkedAt ||= state.stamp.seq ?? 0;
  follow(state, position, branchId);
}

/** Continue from a position. Whatever is not on the path to it is hidden. */
function follow(state: TimelineState, position: number, branchId: string): void {
  state.forks.push([state.stamp.seq ?? 0, position]);
  const path = pathOf(state.forks);
  const isOnPath = ({ seq }: Block) => path.some(([first, last]) => first <= seq && seq <= last);
  for (const block of state.all()) {
    if (!isOnPath(block)) hide(state, block, branchId);
    else if (block.branchId !== undefined) {
      // In a later attempt, what the first one has noted still counts.
      (state.run.unhidden ??= {})[block.id] ??= block.branchId;
      state.update(block, {}, "branchId");
    }
  }
}

/** The positions on the current path, as pairs of the first and the last one. */
function pathOf(forks: TimelineState["forks"]): [number, number][] {
  const path: [number, number][] = [];
  let last = Infinity;
  for (const [at, base] of forks.toReversed()) {
    if (at > last) continue;
    path.push([at, last]);
    last = base;
  }
  return [...path, [0, last]];
}

// -- runs that were undone -------------------------------------------------------------------------------------------

function endRun(state: TimelineState, end: Operation & { op: "run.ended" }): void {
  if (end.status === "rolled_back") rollBack(state);
  const { completed } = state.run;
  apply(state, end);
  for (const block of unanswered(state, end)) if (completed.has(block.id)) reopen(state, block);
}

/** The interrupts whose answers were lost with the run (7.10a). */
function unanswered(state: TimelineState, { unanswered: ids = [] }: RunEnd): InterruptBlock[] {
  return ids.flatMap((id) => newest(state, id) ?? []);
}

/** Remove what a run created, and return to what was before it (4.10b). */
function rollBack(state: TimelineState): void {
  for (const id of [...state.run.blocks].reverse()) state.remove(id);
  const { forkedAt, left, completed } = state.run;
  if (forkedAt && left !== null) {
    hideAgain(state);
    follow(state, forkedAt - 1, left);
  }
  for (const id of [...completed]) reopen(state, state.interrupt(id));
}

/** Hide what the forks of the run have shown, as it was hidden before. */
function hideAgain(state: TimelineState): void {
  for (const [id, branchId] of Object.entries(state.run.unhidden ?? {})) {
    const block = state.get(id);
    if (!block) continue;
    hide(state, block, branchId);
    state.update(block, { branchId }); // the fork may also have hidden it (10.3)
  }
}

function reopen(state: TimelineState, block: InterruptBlock): void {
  state.update(
    block,
    { phase: "open", completed: false },
    "outcome",
    "frozenValue",
    "response",
    "respondedAt",
    "respondedBy",
    "respondedVia",
    "completedRunId",
  );
}
