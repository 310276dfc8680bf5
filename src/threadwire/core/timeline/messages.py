"""Message blocks (spec/timeline.md, section 4)."""

from collections.abc import Iterable, Sequence
from typing import Any

from threadwire.core.entries import Json
from threadwire.core.timeline.changes import Block
from threadwire.core.timeline.chunks import Message, first_chunk, is_chunk, is_last
from threadwire.core.timeline.operations import MessageDelta, MessageFull, MessageSnapshot
from threadwire.core.timeline.state import TimelineState

REMOVE_ALL = "__remove_all__"

_SAME_IN_A_RUN = frozenset(
    {
        "assistant_id",
        "checkpoint_ns",
        "created_by",
        "graph_id",
        "langgraph_api_url",
        "langgraph_auth_permissions",
        "langgraph_auth_user",
        "langgraph_auth_user_id",
        "langgraph_host",
        "langgraph_path",
        "langgraph_plan",
        "langgraph_request_id",
        "langgraph_triggers",
        "langgraph_version",
        "lc_versions",
        "ls_integration",
        "ls_model_type",
        "run_attempt",
        "run_id",
        "thread_id",
        "user_id",
    }
)


def id_of(message: Json) -> str | None:
    """Return the id of a message or widget, or None if it has none and is therefore ignored."""
    found = message.get("id") if isinstance(message, dict) else None
    return found if isinstance(found, str) and found else None


# -- streams ----------------------------------------------------------------------------------------------------------


def delta(state: TimelineState, operation: MessageDelta) -> None:
    chunk = operation.message
    message_id = id_of(chunk)
    if message_id is None:
        return
    block = state.message(message_id)
    if block is None:
        _create(state, message_id, _first(state, first_chunk(chunk), "delta", is_last(chunk)), operation.meta)
        return
    if _starts_over(state, block, message_id, operation.begin):
        _start_over(state, block, first_chunk(chunk), "delta")
    elif block["status"] == "streaming" and block.get("mode") == "delta":
        state.merge(block, chunk)
    else:
        return
    if is_last(chunk):
        state.update(block, {"status": "complete", "visible": True})
    _update_meta(state, block, operation.meta)


def text(state: TimelineState, message_id: str, added: str) -> None:
    if (block := growing(state, message_id)) is not None:
        state.append(block, added)
    else:
        delta(state, MessageDelta({"type": "AIMessageChunk", "id": message_id, "content": added}))


def growing(state: TimelineState, message_id: str) -> Block | None:
    """The block of a message, if a chunk that has only text does nothing but append to it."""
    block = state.message(message_id)
    if block is None or block["status"] != "streaming" or block.get("mode") != "delta":
        return None
    return block if isinstance(block["message"].get("content"), str) else None


def snapshot(state: TimelineState, operation: MessageSnapshot) -> None:
    message_id = id_of(operation.message)
    if message_id is None:
        return
    message = _whole(operation.message)
    block = state.message(message_id)
    if block is None:
        _create(state, message_id, _first(state, message, "snapshot", complete=False), operation.meta)
        return
    if _starts_over(state, block, message_id, begin=False):
        _start_over(state, block, message, "snapshot")
    elif block["status"] == "streaming" and block.get("mode") == "snapshot":
        if not _is_behind(message, block["message"]):
            state.update(block, {"message": message})
    else:
        return
    _update_meta(state, block, operation.meta)


def full(state: TimelineState, operation: MessageFull) -> None:
    message_id = id_of(operation.message)
    if message_id is None or (state.stamp.ns and message_id in state.root_messages):
        return
    block = state.message(message_id)
    message = _whole(operation.message)
    if block is None:
        _create(state, message_id, _complete(message), operation.meta)
    else:
        state.deferred.pop(message_id, None)
        state.update(block, _complete(message), unset=("transient",))
        _update_meta(state, block, operation.meta)


def remove(state: TimelineState, message_id: str) -> None:
    ns = list(state.stamp.ns)
    if message_id == REMOVE_ALL:
        chosen = [block["id"] for block in state.in_order() if block["kind"] == "message" and block["ns"] == ns]
    else:
        chosen = [f"m:{message_id}"]
    for block_id in chosen:
        if not ns or block_id.removeprefix("m:") not in state.root_messages:
            state.remove_shown(block_id)


def meta(state: TimelineState, message_id: str, metadata: dict[str, Json]) -> None:
    block = state.message(message_id)
    if block is None:
        state.metas[message_id] = metadata
    else:
        _update_meta(state, block, metadata)


# -- states -----------------------------------------------------------------------------------------------------------


def upsert(state: TimelineState, ids: Sequence[str | None], start: int, messages: Sequence[Any]) -> None:
    """Upsert messages of a state. `ids` are the ids of the whole list, in which `messages` start at `start`."""
    following = _following(state, ids, start, len(messages))
    for at, message in enumerate(messages, start):
        message_id = ids[at]
        if message_id is None or (state.stamp.ns and message_id in state.root_messages):
            continue
        block = state.message(message_id)
        if block is None:
            state.remove_hidden(f"m:{message_id}")  # first, because a hidden block cannot be a neighbour
            neighbour = _neighbour(state, ids, at, following[at - start])
            _create(state, message_id, _complete(_whole(message)), None, neighbour)
        else:
            _confirm(state, block, message_id, _whole(message))


def _confirm(state: TimelineState, block: Block, message_id: str, message: Message) -> None:
    fields = _complete(message)
    state.deferred.pop(message_id, None)
    if block["status"] == "streaming" and block.get("runId") == state.stamp.run_id:
        if _is_behind(message, block["message"]):
            fields = {"visible": True}
            state.deferred[message_id] = message
    if not state.stamp.ns:
        fields["ns"] = []
    state.update(block, fields, unset=("transient",))


def _following(state: TimelineState, ids: Sequence[str | None], start: int, count: int) -> list[str | None]:
    """Return the nearest known message after each of `count` elements of the list."""
    nearest = _first_known(state, (ids[index] for index in range(start + count, len(ids))))
    found: list[str | None] = []
    for at in range(start + count - 1, start - 1, -1):
        found.append(nearest)
        nearest = _first_known(state, (ids[at],)) or nearest
    return found[::-1]


def _neighbour(
    state: TimelineState, ids: Sequence[str | None], at: int, following: str | None
) -> tuple[str | None] | None:
    """Return the block after which the element belongs according to the list (4.7 b), in a tuple because it may be
    None. Return None if the list does not determine a position.
    """
    if following is None:
        return None
    preceding = _first_known(state, (ids[index] for index in range(at - 1, -1, -1)))
    return (state.order.before(following) if preceding is None else state.group_end(preceding),)


def _first_known(state: TimelineState, ids: Iterable[str | None]) -> str | None:
    return next((f"m:{each}" for each in ids if each is not None and state.message(each) is not None), None)


# -- runs -------------------------------------------------------------------------------------------------------------


def reveal(state: TimelineState) -> None:
    """Make all messages of the run visible."""
    if state.options.partial_display == "hold":
        for block_id in list(state.run.blocks):
            if state.blocks[block_id]["kind"] == "message":
                state.update(state.blocks[block_id], {"visible": True})


def fail_streams(state: TimelineState) -> None:
    """Mark the messages that an earlier attempt of the run was streaming as failed (4.11)."""
    for block in _streaming_of(state):
        state.update(block, {"status": "failed", "transient": True})


def end_streams(state: TimelineState, succeeded: bool) -> None:
    """End the streams of a run that has ended (4.10)."""
    for message_id, message in state.deferred.items():
        if (block := state.message(message_id)) is not None:
            state.update(block, _complete(message))
    for block in _streaming_of(state):
        state.update(block, {"status": "complete" if succeeded else "failed", "visible": True})
    if succeeded and state.run.has_messages:
        for block_id in list(state.run.blocks):
            block = state.blocks[block_id]
            if block["kind"] == "message" and not block["ns"] and block["message"]["id"] not in state.root_messages:
                state.update(block, {"transient": True})


def _streaming_of(state: TimelineState) -> list[Block]:
    created = (state.blocks[block_id] for block_id in state.run.blocks)
    return [block for block in created if block.get("status") == "streaming"]


# -- parts ------------------------------------------------------------------------------------------------------------


def _create(
    state: TimelineState,
    message_id: str,
    fields: dict[str, Json],
    metadata: dict[str, Json] | None,
    neighbour: tuple[str | None] | None = None,
) -> None:
    """Place a new message block (4.7)."""
    block_id = f"m:{message_id}"
    state.remove_hidden(block_id)
    early = state.metas.pop(message_id, None)
    fields |= _meta_field(early if metadata is None else metadata)
    waiting = state.waiting.pop(message_id, [])
    if waiting:
        after = state.order.before(waiting[0])
    else:
        after = state.order.last if neighbour is None else neighbour[0]
    state.insert(block_id, "message", fields, after)
    for each in waiting:
        state.update(state.blocks[each], {"anchorId": block_id}, unset=("pendingAnchor",))


def _first(state: TimelineState, message: Message, mode: str, complete: bool) -> dict[str, Json]:
    visible = complete or state.options.partial_display == "append"
    status = "complete" if complete else "streaming"
    return {"message": message, "visible": visible, "status": status, "mode": mode}


def _complete(message: Message) -> dict[str, Json]:
    return {"message": message, "visible": True, "status": "complete"}


def _whole(message: Message) -> Message:
    return first_chunk(message) if is_chunk(message) else message


def _starts_over(state: TimelineState, block: Block, message_id: str, begin: bool) -> bool:
    match block["status"]:
        case "failed" | "pending":
            return True
        case "streaming":
            return begin
        case _:
            return begin and block.get("runId") == state.stamp.run_id and message_id not in state.root_messages


def _start_over(state: TimelineState, block: Block, message: Message, mode: str) -> None:
    fields: dict[str, Json] = {"message": message, "status": "streaming", "mode": mode}
    if state.stamp.run_id is not None:
        fields["runId"] = state.stamp.run_id
    state.update(block, fields, unset=("transient",))


def _is_behind(message: Message, shown: Message) -> bool:
    """Whether the text is a proper prefix of the text that is shown."""
    text, longer = message.get("content"), shown.get("content")
    return isinstance(text, str) and isinstance(longer, str) and len(text) < len(longer) and longer.startswith(text)


def _update_meta(state: TimelineState, block: Block, metadata: dict[str, Json] | None) -> None:
    state.update(block, _meta_field(metadata))


def _meta_field(metadata: dict[str, Json] | None) -> dict[str, Json]:
    kept = {key: value for key, value in (metadata or {}).items() if key not in _SAME_IN_A_RUN}
    return {"meta": kept} if kept else {}
