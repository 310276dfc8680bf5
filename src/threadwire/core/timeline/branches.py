"""Branches (spec/timeline.md, section 10): a fork hides the blocks that are not on its path, and shows those that
are."""

from collections.abc import Iterable
from math import inf

from threadwire.core.timeline import interrupts
from threadwire.core.timeline.changes import Block
from threadwire.core.timeline.operations import RunForked
from threadwire.core.timeline.state import TimelineState

Fork = tuple[int, int]
"""The position of a fork, and that of the checkpoint that it starts from."""


def fork(state: TimelineState, operation: RunForked) -> None:
    run = state.run
    run.forked, run.left, run.has_state = True, operation.branch_id, False
    if operation.branch_id is not None and operation.position is not None:
        run.forked_at = run.forked_at or state.stamp.seq
        _follow(state, operation.position, operation.branch_id)


def leave(state: TimelineState, block_ids: Iterable[str], branch_id: str) -> None:
    """Hide blocks, and those that are anchored to them."""
    hidden = set(block_ids)
    for block in list(state.in_order()):
        if block["id"] in hidden or block.get("anchorId") in hidden:
            hidden.add(block["id"])
            _hide(state, block, branch_id)


def undo(state: TimelineState) -> None:
    """Return to the branch that a rolled-back run left."""
    run = state.run
    if run.forked_at and run.left is not None:
        for block_id, branch_id in run.unhidden.items():
            if (block := state.blocks.get(block_id)) is not None:
                _hide(state, block, branch_id)
                state.update(block, {"branchId": branch_id})  # the fork may also have hidden it (10.3)
        _follow(state, run.forked_at - 1, run.left)


def _follow(state: TimelineState, position: int, branch_id: str) -> None:
    """Continue from a position. Whatever is not on the path to it is hidden."""
    state.forks.append((state.stamp.seq, position))
    path = list(_path(state.forks))
    for block in list(state.in_order()):
        if any(first <= block["seq"] <= last for first, last in path):
            if "branchId" in block:  # in a later attempt, what the first one has noted still counts
                state.run.unhidden.setdefault(block["id"], block["branchId"])
            state.update(block, {}, unset=("branchId",))
        else:
            _hide(state, block, branch_id)


def _path(forks: list[Fork]) -> Iterable[tuple[int, float]]:
    """The positions on the current path, as pairs of the first and the last one."""
    last: float = inf
    for at, base in reversed(forks):
        if at <= last:
            yield at, last
            last = base
    yield 0, last


def _hide(state: TimelineState, block: Block, branch_id: str) -> None:
    if "branchId" not in block:
        interrupts.abandon(state, block)
        state.stop_waiting(block)
        state.update(block, {"branchId": branch_id}, unset=("pendingAnchor",))
        state.held.pop(block["id"], None)
