/** Branches (spec/timeline.md, section 10): a fork hides the blocks that are not on its path. */
import type { Block } from "./blocks.js";
import { abandon } from "./interrupts.js";
import type { Fork } from "./operations.js";
import type { TimelineState } from "./state.js";

export function fork({ run }: TimelineState, { branchId }: Fork): void {
  Object.assign(run, { forked: true, left: branchId ?? null, hasState: false });
}

/** Hide blocks, and those that are anchored to them. */
export function leave(state: TimelineState, ids: readonly string[], branchId: string): void {
  const hidden = new Set(ids);
  for (const block of state.all()) {
    if (!hidden.has(block.id) && !hidden.has(block.anchorId ?? "")) continue;
    hidden.add(block.id);
    hide(state, block, branchId);
  }
}

export function hide(state: TimelineState, block: Block, branchId: string): void {
  if (block.branchId !== undefined) return;
  abandon(state, block);
  state.stopWaiting(block);
  state.update(block, { branchId }, "pendingAnchor" as never);
  state.held.delete(block.id);
}
