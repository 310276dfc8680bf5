"""Interrupt blocks (spec/timeline.md, sections 7 and 11)."""

from collections.abc import Iterator

from threadwire.core.entries import Json
from threadwire.core.timeline import messages
from threadwire.core.timeline.changes import Block
from threadwire.core.timeline.operations import Interrupt, InterruptAnswered, InterruptFrozen, RunEnded
from threadwire.core.timeline.state import TimelineState, same_json

_ANSWER = (
    "outcome",
    "frozenValue",
    "response",
    "respondedAt",
    "respondedBy",
    "respondedVia",
    "completedRunId",
)


# -- asking -----------------------------------------------------------------------------------------------------------


def ask(state: TimelineState, interrupts: tuple[Interrupt, ...], reopen: bool = False) -> None:
    """Show interrupts. With `reopen`, a completed interrupt is asked again even if its value is the same (7.3)."""
    for interrupt in interrupts:
        block = newest(state, interrupt.interrupt_id)
        if block is None:
            _create(state, interrupt, 1)
        elif "branchId" in block:
            _create(state, interrupt, state.generations[interrupt.interrupt_id] + 1)
        elif not block["completed"]:
            state.update(block, _question(interrupt))
        elif (reopen and not _awaits_response(block)) or not same_json(block["value"], interrupt.value):
            _create(state, interrupt, state.generations[interrupt.interrupt_id] + 1)
    if interrupts:
        messages.reveal(state)


def _create(state: TimelineState, interrupt: Interrupt, generation: int) -> Block:
    fields = {"interruptId": interrupt.interrupt_id, **_question(interrupt), "phase": "open", "completed": False}
    if interrupt.breakpoint:
        fields["breakpoint"] = True
    if interrupt.ns is not None:
        fields["ns"] = list(interrupt.ns)
    anchor = _anchor(state, interrupt)
    after = state.order.last
    if anchor is not None:
        fields["anchorId"] = anchor["id"]
        after = state.group_end(anchor["id"])
    suffix = f"#{generation}" if generation > 1 else ""
    return state.insert(f"i:{interrupt.interrupt_id}{suffix}", "interrupt", fields, after)


def _ask_again(state: TimelineState, block: Block) -> Block:
    """Ask an interrupt of another branch again, on this one (10.5)."""
    interrupt_id, schema = block["interruptId"], block.get("responseSchema")
    asked = Interrupt(interrupt_id, block["value"], schema, tuple(block["ns"]), block.get("breakpoint", False))
    return _create(state, asked, state.generations[interrupt_id] + 1)


def _question(interrupt: Interrupt) -> dict[str, Json]:
    schema = {"responseSchema": interrupt.response_schema} if interrupt.response_schema is not None else {}
    return {"value": interrupt.value, **schema}


def newest(state: TimelineState, interrupt_id: str) -> Block | None:
    """The newest generation of an interrupt."""
    generation = state.generations.get(interrupt_id, 0)
    return state.blocks.get(f"i:{interrupt_id}" if generation < 2 else f"i:{interrupt_id}#{generation}")


def _awaits_response(block: Block) -> bool:
    """Whether an interrupt was frozen, but the graph has no response yet and so still lists it as pending (7.3)."""
    frozen = block["outcome"] == "answered" and "respondedAt" in block and not block.get("breakpoint")
    return frozen and "response" not in block


# -- anchors (7.5) ----------------------------------------------------------------------------------------------------


def _anchor(state: TimelineState, interrupt: Interrupt) -> Block | None:
    value = interrupt.value[0] if isinstance(interrupt.value, list) and interrupt.value else interrupt.value
    if isinstance(value, dict):
        metadata = value["metadata"] if isinstance(value.get("metadata"), dict) else {}
        if (widget := state.widget(metadata.get("attachmentId"))) is not None:
            return widget
        calls = {part.get(key) for part in (value, metadata) for key in ("tool_call_id", "toolCallId")}
        if (owner := _owner(state, {call for call in calls if isinstance(call, str)})) is not None:
            return owner
    ns = state.stamp.ns if interrupt.ns is None else interrupt.ns
    inner = state.last_message(ns) if ns else None
    return inner or state.last_message()


def _owner(state: TimelineState, calls: set[str]) -> Block | None:
    """The last message that made one of the tool calls."""
    if not calls:
        return None
    for block_id in state.order.backwards(state.order.last):
        block = state.blocks[block_id]
        if block["kind"] != "message" or "branchId" in block:
            continue
        if any(call.get("id") in calls for call in _tool_calls(block)):
            return block
    return None


def _tool_calls(block: Block) -> Iterator[dict[str, Json]]:
    calls = block["message"].get("tool_calls")
    return (call for call in (calls if isinstance(calls, list) else ()) if isinstance(call, dict))


# -- completing -------------------------------------------------------------------------------------------------------


def answer(state: TimelineState, operation: InterruptAnswered) -> None:
    state.run.answered = True
    for interrupt_id, response in _attributed(state, operation):
        block = newest(state, interrupt_id)
        if block is None:
            continue
        if "branchId" in block:
            block = _ask_again(state, block)
        fields = {"response": response, "respondedAt": state.stamp.at}
        if operation.by is not None:
            fields["respondedBy"] = operation.by
        if operation.via is not None:
            fields["respondedVia"] = operation.via
        if not block["completed"]:
            _complete(state, block, "answered", fields)
        elif block["outcome"] == "answered" and "response" not in block:
            _add(state, block, {**fields, **_completing_run(state)})


def _attributed(state: TimelineState, operation: InterruptAnswered) -> tuple[tuple[str, Json], ...]:
    """Return the interrupt ids and responses of an answer (7.8b)."""
    if operation.answers is not None:
        return operation.answers
    asked = [state.blocks[block_id]["interruptId"] for block_id in _asked(state)]
    response = operation.response
    if isinstance(response, dict) and response and set(response) <= set(asked):
        return tuple(response.items())
    return ((asked[0], response),) if len(asked) == 1 else ()


def freeze(state: TimelineState, operation: InterruptFrozen) -> None:
    block = newest(state, operation.interrupt_id)
    if block is None:
        return
    frozen: dict[str, Json] = {} if operation.frozen_value is None else {"frozenValue": operation.frozen_value[0]}
    if block["completed"]:
        _add(state, block, frozen)
        return
    by = {} if operation.by is None else {"respondedBy": operation.by}
    _complete(state, block, "answered", {**frozen, "respondedAt": state.stamp.at, **by})


def abandon(state: TimelineState, block: Block) -> None:
    """Abandon a block, if it is an interrupt that is open."""
    if block["id"] in state.open:
        _complete(state, block, "abandoned")


def abandon_all(state: TimelineState) -> None:
    """Abandon all open interrupts, because the run takes new input (7.10)."""
    for block_id in list(state.open):
        _complete(state, state.blocks[block_id], "abandoned")


def continue_from_breakpoint(state: TimelineState) -> None:
    """Complete the breakpoint that an earlier run stopped at (7.7a)."""
    if state.stamp.run_id is None:
        return
    for block_id in list(state.open):
        block = state.blocks[block_id]
        if block.get("breakpoint") and block.get("runId") != state.stamp.run_id:
            _complete(state, block, "answered", {"respondedAt": state.stamp.at})


def cancel(state: TimelineState) -> None:
    """Complete the interrupts that a cancelled run asked (7.10)."""
    for block_id in [each for each in state.open if each in state.run.blocks]:
        _complete(state, state.blocks[block_id], "cancelled")


def reopen_completed(state: TimelineState) -> None:
    """Reopen the interrupts that a rolled-back run completed (4.10b)."""
    for block_id in list(state.run.completed):
        _reopen(state, state.blocks[block_id])


def reopen_unanswered(state: TimelineState, interrupt_ids: tuple[str, ...]) -> None:
    """Reopen the interrupts whose answers were lost with the run (7.10a)."""
    for interrupt_id in interrupt_ids:
        block = newest(state, interrupt_id)
        if block is not None and block["id"] in state.run.completed:
            _reopen(state, block)


def _reopen(state: TimelineState, block: Block) -> None:
    state.update(block, {"phase": "open", "completed": False}, unset=_ANSWER)


def reconcile(state: TimelineState, pending: tuple[Interrupt, ...], answered: bool) -> None:
    """Reconcile the timeline with the exact list of pending interrupts (7.9)."""
    ask(state, pending, reopen=True)
    listed = {interrupt.interrupt_id for interrupt in pending}
    for block_id in _asked(state):
        block = state.blocks[block_id]
        if block["interruptId"] not in listed:
            _complete(state, block, "answered" if answered else "abandoned")


def breakpoint_of(operation: RunEnded) -> tuple[Interrupt, ...]:
    """The breakpoint that the run stopped at, or nothing if it did not stop at one (7.7)."""
    if operation.pending or not operation.next or operation.checkpoint_id is None:
        return ()
    value = {"when": "breakpoint", "next": list(operation.next)}
    return (Interrupt(f"bp:{operation.checkpoint_id}", value, breakpoint=True),)


def _asked(state: TimelineState) -> list[str]:
    """The interrupts that are not completed, not counting breakpoints."""
    return [block_id for block_id in state.open if not state.blocks[block_id].get("breakpoint")]


def _complete(state: TimelineState, block: Block, outcome: str, fields: dict[str, Json] | None = None) -> None:
    completed = {"phase": "completed", "completed": True, "outcome": outcome}
    state.update(block, {**completed, **(fields or {}), **_completing_run(state)})


def _completing_run(state: TimelineState) -> dict[str, Json]:
    return {} if state.stamp.run_id is None else {"completedRunId": state.stamp.run_id}


def _add(state: TimelineState, block: Block, fields: dict[str, Json]) -> None:
    """Add the fields that the block lacks."""
    state.update(block, {key: value for key, value in fields.items() if key not in block})
