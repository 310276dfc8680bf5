"""The checker of AG-UI streams rejects every stream that breaks a client."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from agui_checker import AgUiChecker, BadStream

Event = dict[str, Any]

STARTED: Event = {"type": "RUN_STARTED", "threadId": "t", "runId": "r", "protocolVersion": "1.0"}
FINISHED: Event = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
FAILED: Event = {"type": "RUN_ERROR", "message": "It broke.", "code": "500"}


def start(message: str) -> Event:
    return {"type": "TEXT_MESSAGE_START", "messageId": message, "role": "assistant"}


def content(message: str, delta: str) -> Event:
    return {"type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": delta}


def end(message: str) -> Event:
    return {"type": "TEXT_MESSAGE_END", "messageId": message}


def messages(*listed: Event) -> Event:
    return {"type": "MESSAGES_SNAPSHOT", "messages": list(listed)}


def state(snapshot: Any) -> Event:
    return {"type": "STATE_SNAPSHOT", "snapshot": snapshot}


def assistant(message: str, text: str) -> Event:
    return {"id": message, "role": "assistant", "content": text}


def frames(events: Sequence[Event]) -> bytes:
    return b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in events)


def finished(**fields: Any) -> Event:
    return {**FINISHED, **fields}


USER: Event = {"id": "u", "role": "user", "content": "hi"}
CALL: Event = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}

GOOD = {
    "a snapshot of an idle thread": [STARTED, state({"n": 1}), messages(USER, assistant("a", "yo")), FINISHED],
    "two runs": [STARTED, FINISHED, STARTED, FINISHED],
    "a run after one that failed": [STARTED, FAILED, STARTED, FINISHED],
    "an error alone": [FAILED],
    "an error with a message open": [STARTED, start("a"), FAILED],
    "nulls in user data": [
        STARTED,
        state({"n": None}),
        {"type": "CUSTOM", "name": "x", "value": None},
        {"type": "ACTIVITY_SNAPSHOT", "messageId": "p", "activityType": "PLAN", "content": {"n": None}},
        finished(result={"n": None}),
    ],
    "usage, metadata and an interrupt": [
        STARTED,
        {**start("a"), "metadata": {"n": None}},
        end("a"),
        finished(
            usage=[{"provider": "p", "inputTokens": 3}],
            outcome={"type": "interrupt", "interrupts": [{"id": "i", "reason": "input_required"}]},
        ),
    ],
    "two concurrent messages": [STARTED, start("a"), start("b"), content("a", "1"), end("b"), end("a"), FINISHED],
}

BAD = {
    "nothing": ([], "end"),
    "no end": ([STARTED], "end"),
    "no start": ([state({}), FINISHED], "First event must be"),
    "a run in a run": ([STARTED, STARTED, FINISHED], "RUN_STARTED"),
    "a delta of a message that is not open": (
        [STARTED, messages(assistant("b", "par")), content("b", "tial"), FINISHED],
        "TEXT_MESSAGE_CONTENT",
    ),
    "an end with a message open": ([STARTED, start("a"), FINISHED], "still active"),
    "an end without ids": ([STARTED, {"type": "RUN_FINISHED"}], "schema"),
    "an unknown event": ([STARTED, {"type": "SOMETHING"}, FINISHED], "schema"),
    "a null timestamp": ([STARTED, {**state({}), "timestamp": None}, FINISHED], "null: STATE_SNAPSHOT.timestamp"),
    "a null content": ([STARTED, messages({**assistant("a", ""), "content": None}), FINISHED], "null"),
    "null tool calls": ([STARTED, messages({**assistant("a", ""), "toolCalls": None}), FINISHED], "null"),
    "a null that only the checker rejects": ([STARTED, {**FAILED, "threadId": None}], "null: RUN_ERROR.threadId"),
    "a null result": ([STARTED, finished(result=None)], "1.0 schema"),
    "a number for a code": ([{**FAILED, "code": 404}], "schema"),
    "a patch that cannot be applied": (
        [STARTED, {"type": "STATE_DELTA", "delta": [{"op": "remove", "path": "/gone"}]}, FINISHED],
        "client says",
    ),
    "a field that no schema has": ([STARTED, {**state({}), "seq": 4}, FINISHED], "client says"),
    "events removed from the protocol": (
        [STARTED, {"type": "THINKING_START"}, {"type": "THINKING_END"}, FINISHED],
        "1.0 schema",
    ),
    "an input without tools": (
        [{**STARTED, "input": {"threadId": "t", "runId": "r", "messages": []}}, FINISHED],
        "0.0.59 schema",
    ),
}

ONLY_1_0 = {
    "a cancelled run": [STARTED, finished(outcome={"type": "cancelled"})],
    "pending tool calls": [STARTED, finished(outcome={"type": "success", "pendingToolCallIds": ["c"]})],
    "a file": [
        STARTED,
        messages(
            {**USER, "content": [{"type": "document", "source": {"type": "file", "value": "f", "mimeType": "a/b"}}]}
        ),
        FINISHED,
    ],
    "parts in a tool result": [
        STARTED,
        messages(
            {**assistant("a", ""), "toolCalls": [CALL]},
            {"id": "m", "role": "tool", "toolCallId": "c", "content": [{"type": "text", "text": "x"}]},
        ),
        FINISHED,
    ],
}


@pytest.mark.parametrize("name", GOOD)
def test_a_stream_that_every_client_accepts_passes(agui: AgUiChecker, name: str) -> None:
    agui.check(frames(GOOD[name]))


@pytest.mark.parametrize("name", BAD)
def test_a_stream_that_breaks_a_client_fails(agui: AgUiChecker, name: str) -> None:
    events, problem = BAD[name]
    with pytest.raises(BadStream, match=problem):
        agui.check(frames(events))


@pytest.mark.parametrize("name", ONLY_1_0)
def test_a_stream_that_copilotkit_silently_ends_passes_only_for_1_0(agui: AgUiChecker, name: str) -> None:
    agui.check(frames(ONLY_1_0[name]), generations=["1.0"])
    with pytest.raises(BadStream, match=r"0\.0\.59 schema"):
        agui.check(frames(ONLY_1_0[name]))


@pytest.mark.parametrize(
    ("stream", "problem"),
    [
        (frames(GOOD["two runs"]).replace(b"\n", b"\r\n"), "carriage return"),
        (frames([STARTED, FINISHED])[:-1], "does not end with an empty line"),
        (b"event: x\n" + frames([STARTED, FINISHED]), "neither data, id nor a comment"),
        (b"id: x\n" + frames([STARTED, FINISHED]), "not a number"),
        (b"id: 2\n" + frames([STARTED]) + b"id: 2\n" + frames([FINISHED]), "2 comes after 2"),
        (b"data:\n" + frames([STARTED, FINISHED]), "neither data"),
        (b"data: {}\n\n" + frames([STARTED, FINISHED]), "without a type"),
        (b"data: \xff\n\n" + frames([STARTED, FINISHED]), "not UTF-8"),
    ],
)
def test_framing_that_a_client_misreads_fails(agui: AgUiChecker, stream: bytes, problem: str) -> None:
    with pytest.raises(BadStream, match=problem):
        agui.check(stream)


def test_ids_and_comments_are_accepted_and_ids_are_returned(agui: AgUiChecker) -> None:
    stream = (
        frames([STARTED]) + b": keep-alive\n\nid: 7\n" + frames([state({"n": 1})]) + b"id: 9\n" + frames([FINISHED])
    )
    seen = agui.check(stream)
    assert (seen.ids, seen.state) == ([None, "7", "9"], {"n": 1})


def test_a_reopened_message_continues(agui: AgUiChecker) -> None:
    seen = agui.check(
        frames([STARTED, messages(assistant("b", "par")), start("b"), content("b", "tial"), end("b"), FINISHED])
    )
    assert seen.messages == [assistant("b", "partial")]


def test_a_replay_after_a_snapshot_shows_as_doubled_text(agui: AgUiChecker) -> None:
    seen = agui.check(
        frames([STARTED, messages(assistant("a", "yo")), start("a"), content("a", "yo"), end("a"), FINISHED])
    )
    assert seen.messages == [assistant("a", "yoyo")]


def test_a_stream_continues_from_the_data_of_the_client(agui: AgUiChecker) -> None:
    delta = {"type": "STATE_DELTA", "delta": [{"op": "replace", "path": "/n", "value": 2}]}
    seen = agui.check(
        frames([STARTED, start("a"), content("a", "lo"), end("a"), delta, FINISHED]),
        messages=[USER, assistant("a", "hel")],
        state={"n": 1},
    )
    assert (seen.messages, seen.state) == ([USER, assistant("a", "hello")], {"n": 2})


def test_pending_interrupts_are_returned(agui: AgUiChecker) -> None:
    interrupt = {"id": "i", "reason": "input_required", "message": "Sure?"}
    seen = agui.check(frames([STARTED, finished(outcome={"type": "interrupt", "interrupts": [interrupt]})]))
    assert seen.interrupts == [interrupt]


def test_a_bad_stream_does_not_affect_the_next(agui: AgUiChecker) -> None:
    for _ in range(20):
        with pytest.raises(BadStream):
            agui.check(frames([STARTED, STARTED]))
        assert agui.check(frames([STARTED, start("a"), content("a", "x"), end("a"), FINISHED])).messages == [
            assistant("a", "x")
        ]
