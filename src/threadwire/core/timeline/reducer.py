"""Applies operations to a timeline: which rule handles which operation (spec/timeline.md, sections 4, 6 and 7)."""

from typing import Any, assert_never

from threadwire.core.entries import Json
from threadwire.core.timeline import branches, interrupts, messages, widgets
from threadwire.core.timeline.changes import PatchValues
from threadwire.core.timeline.operations import (
    Custom,
    Forget,
    InterruptAnswered,
    InterruptFrozen,
    Interrupts,
    InterruptsPending,
    MessageDelta,
    MessageFull,
    MessageMeta,
    MessageRemove,
    MessageSnapshot,
    MessageText,
    NamespaceEnded,
    Operation,
    RunEnded,
    RunForked,
    RunInput,
    RunStarted,
    Stamp,
    Ui,
    UiRemove,
    Values,
    ValuesPatch,
)
from threadwire.core.timeline.state import TimelineState, View, same_json


def apply(state: TimelineState, operation: Operation, stamp: Stamp) -> None:
    """Apply an operation; what it changes is recorded in the state."""
    state.stamp = stamp
    match operation:
        case MessageText(message_id, text):
            messages.text(state, message_id, text)
        case MessageDelta():
            messages.delta(state, operation)
        case MessageSnapshot():
            messages.snapshot(state, operation)
        case MessageFull():
            messages.full(state, operation)
        case MessageMeta(message_id, meta):
            messages.meta(state, message_id, meta)
        case MessageRemove(message_id):
            messages.remove(state, message_id)
        case ValuesPatch():
            _patch(state, operation)
        case Values(values) if isinstance(values, dict):
            _patch(state, ValuesPatch(full=True, set=values))
        case Values(values):
            _replace(state, values)
        case NamespaceEnded():
            _end_namespace(state)
        case Ui(ui):
            widgets.show(state, ui)
        case UiRemove(ui_id):
            widgets.remove(state, ui_id)
        case Interrupts(asked):
            interrupts.ask(state, asked)
        case InterruptsPending(pending):
            interrupts.reconcile(state, pending, answered=False)
        case InterruptAnswered():
            interrupts.answer(state, operation)
        case InterruptFrozen():
            interrupts.freeze(state, operation)
        case RunStarted(attempt):
            _start_run(state, attempt)
        case RunInput():
            interrupts.abandon_all(state)
        case RunForked():
            branches.fork(state, operation)
        case RunEnded():
            _end_run(state, operation)
        case Custom():
            pass
        case Forget():
            state.reset()
        case unknown:
            assert_never(unknown)


# -- states -----------------------------------------------------------------------------------------------------------


def _replace(state: TimelineState, values: Json) -> None:
    """Apply a state that is not an object."""
    if not state.stamp.ns:
        interrupts.continue_from_breakpoint(state)
        state.replace_values(values)


def _patch(state: TimelineState, patch: ValuesPatch) -> None:
    view = state.views.setdefault(state.stamp.ns, View())
    if not state.stamp.ns:
        interrupts.continue_from_breakpoint(state)
    _patch_messages(state, view, patch)
    _patch_ui(state, view, patch)
    if state.stamp.ns:
        return
    _patch_values(state, patch)
    state.run.has_state = True
    if isinstance(patch.set.get(state.options.messages_key), list):
        state.run.has_messages = True


def _patch_messages(state: TimelineState, view: View, patch: ValuesPatch) -> None:
    spliced = _spliced(view.messages, patch, state.options.messages_key)
    if spliced is None:
        return
    ids, start, items, dropped = spliced
    view.messages = ids
    if not state.stamp.ns:
        _count(state.root_messages, ids[start : start + len(items)], dropped)
    messages.upsert(state, ids, start, items)
    if not state.stamp.ns:
        _drop(state, "m:", dropped, state.root_messages)


def _patch_ui(state: TimelineState, view: View, patch: ValuesPatch) -> None:
    spliced = _spliced(view.ui, patch, state.options.ui_key)
    if spliced is None:
        return
    ids, start, items, dropped = spliced
    view.ui = ids
    if not state.stamp.ns:
        _count(state.root_ui, ids[start : start + len(items)], dropped)
    widgets.upsert(state, ids, start, items)
    if not state.stamp.ns:
        _drop(state, "u:", dropped, state.root_ui)


def _drop(state: TimelineState, prefix: str, dropped: list[str | None], present: dict[str, int]) -> None:
    """Remove what has left the root state, or hold or hide it (6.3, 6.3b, 10.3)."""
    for block_id in [each for each in state.held if each.startswith(prefix)]:
        if block_id.removeprefix(prefix) in present:
            del state.held[block_id]
    gone = [f"{prefix}{each}" for each in dict.fromkeys(dropped) if each is not None and each not in present]
    # After a rollback, the list before this one is that of the run, and may be of another branch.
    gone = [block_id for block_id in gone if state.is_shown(block_id)]
    run = state.run
    if run.answered and not run.forked and not run.has_state:
        state.held.update(dict.fromkeys(gone))
        return
    if not run.has_state:
        gone += [block_id for block_id in state.held if block_id.startswith(prefix)]
    if run.left is not None and not run.has_state:
        branches.leave(state, gone, run.left)
        return
    for block_id in gone:
        state.remove(block_id)


Spliced = tuple[list[str | None], int, list[Any], list[str | None]]
"""The ids of a list after a patch, the index at which its new elements start, the new elements, and the replaced
ids."""


def _spliced(before: list[str | None] | None, patch: ValuesPatch, key: str) -> Spliced | None:
    """Return what a patch does to a list, or None if it does not touch the list."""
    if isinstance(patch.set.get(key), list):
        items = patch.set[key]
        return [messages.id_of(item) for item in items], 0, items, before or []
    if key not in patch.splice or before is None:
        return None
    at, drop, items = patch.splice[key]
    dropped = before[at : at + drop]
    before[at : at + drop] = [messages.id_of(item) for item in items]
    return before, at, items, dropped


def _count(counts: dict[str, int], added: list[str | None], dropped: list[str | None]) -> None:
    for each in added:
        if each is not None:
            counts[each] = counts.get(each, 0) + 1
    for each in dropped:
        if each is not None:
            counts[each] -= 1
            if not counts[each]:
                del counts[each]


def _patch_values(state: TimelineState, patch: ValuesPatch) -> None:
    apart = {state.options.messages_key, state.options.ui_key}
    new = {key: value for key, value in patch.set.items() if key not in apart}
    if not isinstance(state.values, dict):
        state.replace_values(new)
        return
    before = state.values
    gone = (key for key in before if key in patch.unset or (patch.full and key not in patch.set))
    changed = {key: value for key, value in new.items() if key not in before or not same_json(before[key], value)}
    splice = {key: change for key, change in patch.splice.items() if isinstance(before.get(key), list)}
    state.patch_values(PatchValues(changed, tuple(gone), splice))


def _end_namespace(state: TimelineState) -> None:
    ended = state.stamp.ns
    for ns in [each for each in state.views if ended and each[: len(ended)] == ended]:
        del state.views[ns]


# -- runs -------------------------------------------------------------------------------------------------------------


def _start_run(state: TimelineState, attempt: int) -> None:
    known = state.runs.get(state.stamp.run_id)
    if known is not None and attempt <= known.attempt:
        return  # a replay
    _forget_subgraphs(state)
    state.runs.pop(None, None)
    if known is not None:
        messages.fail_streams(state)
    state.run.attempt, state.run.has_state = attempt, False


def _end_run(state: TimelineState, operation: RunEnded) -> None:
    started = state.stamp.run_id in state.runs
    if operation.status == "rolled_back":
        _roll_back(state)
    else:
        _end_blocks(state, operation)
    del state.runs[state.stamp.run_id]
    if started:  # it was not cancelled while another run held the thread
        state.metas.clear()
        state.deferred.clear()
        _forget_subgraphs(state)


def _end_blocks(state: TimelineState, operation: RunEnded) -> None:
    succeeded = operation.status == "success"
    messages.end_streams(state, succeeded)
    messages.reveal(state)
    if operation.status == "interrupted":
        interrupts.cancel(state)
    interrupts.reopen_unanswered(state, operation.unanswered)
    if succeeded:
        for block_id in list(state.held):
            state.remove(block_id)
        interrupts.continue_from_breakpoint(state)
    if succeeded and operation.pending is not None:
        pending = (*operation.pending, *interrupts.breakpoint_of(operation))
        interrupts.reconcile(state, pending, state.run.answered)


def _roll_back(state: TimelineState) -> None:
    for block_id in reversed(list(state.run.blocks)):
        state.remove(block_id)
    branches.undo(state)
    interrupts.reopen_completed(state)


def _forget_subgraphs(state: TimelineState) -> None:
    state.views = {ns: view for ns, view in state.views.items() if not ns}
