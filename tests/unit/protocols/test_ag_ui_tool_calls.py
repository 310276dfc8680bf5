"""Streamed tool calls as AG-UI events."""

from typing import Any

from threadwire.core.entries import Entry, Kind
from threadwire.core.ids import RunId, Seq
from threadwire.protocols.ag_ui.encode import Options, RunEncoder

RUN = RunId("01a1e0f0-e5c3-7916-b07a-1eef68159e17")


def types(encoder: RunEncoder, kind: str, data: Any) -> list[tuple[str, Any]]:
    """The type of each event of an entry, with its delta."""
    events = encoder.events(Entry(Seq(1), RUN, 1, 0, (), kind, data))
    return [(event["type"], event.get("delta")) for event in events]


def call(arguments: str, call_id: str | None = None, name: str | None = None) -> list[dict[str, Any]]:
    return [{"index": 0, "id": call_id, "name": name, "args": arguments}]


def test_arguments_continue_after_a_snapshot_without_their_message() -> None:
    encoder = RunEncoder(Options("t"))
    chunk = {"type": "AIMessageChunk", "id": "m", "content": "", "tool_call_chunks": call("{", "c", "add")}
    types(encoder, Kind.MESSAGES, {"i": 0, "chunk": chunk, "meta": {}})
    state = {"messages": [{"type": "human", "id": "h", "content": "Hi"}]}
    types(encoder, Kind.STATE, {"full": True, "set": state, "keys": ["messages"]})

    later = types(encoder, Kind.MESSAGES, {"i": 0, "patch": {"content": "", "tool_call_chunks": call("}")}})

    assert later == [("TOOL_CALL_ARGS", "}")]


def test_call_id_of_a_call_that_is_open_in_another_message_ends_that_call_first() -> None:
    encoder = RunEncoder(Options("t"))
    first, second = (
        {"type": "AIMessageChunk", "id": message_id, "content": "", "tool_call_chunks": call("{}", "c", "add")}
        for message_id in "mn"
    )
    types(encoder, Kind.MESSAGES, {"i": 0, "chunk": first, "meta": {}})

    assert types(encoder, Kind.MESSAGES, {"i": 1, "chunk": second, "meta": {}}) == [
        ("TOOL_CALL_END", None),
        ("TOOL_CALL_START", None),
        ("TOOL_CALL_ARGS", "{}"),
    ]
