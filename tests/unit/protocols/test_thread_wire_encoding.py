"""The events of the thread wire, where the recorded transcripts do not show them."""

from typing import Any

from threadwire.core.entries import Entry, Kind, Namespace
from threadwire.core.ids import RunId, Seq
from threadwire.core.json import loads
from threadwire.protocols.langgraph.thread_wire.encode import ThreadWireEncoder
from threadwire.protocols.langgraph.thread_wire.subscription import CHANNELS, Subscription

RUN = RunId("00000000-0000-7000-8000-000000000001")
EVERYTHING = Subscription(frozenset(CHANNELS))


class Log:
    """Feeds entries of one run to an encoder, and returns their events."""

    def __init__(self, subscription: Subscription = EVERYTHING) -> None:
        self._encoder = ThreadWireEncoder(subscription)
        self._seq = 0
        self.feed(Kind.RUN_STARTED, {"attempt": 1, "graph_id": "agent"})

    def feed(self, kind: str, data: Any, ns: Namespace = ()) -> list[dict[str, Any]]:
        self._seq += 1
        entry = Entry(Seq(self._seq), RUN, 1, self._seq, ns, kind, data)
        return [loads(message) for _, message in self._encoder.feed(entry)]

    def chunk(self, number: int, message_id: str, text: str, **fields: Any) -> list[dict[str, Any]]:
        chunk = {"type": "AIMessageChunk", "id": message_id, "content": text, **fields}
        return self.feed(Kind.MESSAGES, {"i": number, "chunk": chunk, "meta": {}})


def data_of(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event["params"]["data"] for event in events]


def test_events_of_concurrent_messages_name_their_message() -> None:
    log = Log()
    log.chunk(0, "one", "a")
    assert "id" not in data_of(log.feed(Kind.MESSAGES, [0, "b"]))[0]
    started = data_of(log.chunk(1, "two", "x"))
    assert [(each["event"], each["id"]) for each in started] == [
        ("message-start", "two"),
        ("content-block-start", "two"),
        ("content-block-delta", "two"),
    ]
    (delta,) = data_of(log.feed(Kind.MESSAGES, [0, "c"]))
    assert (delta["id"], delta["run_id"], delta["delta"]["text"]) == ("one", "one", "c")
    log.feed(Kind.MESSAGES, {"i": 1, "patch": {"content": "", "chunk_position": "last"}})
    assert "id" not in data_of(log.feed(Kind.MESSAGES, [0, "d"]))[0]
    finish, _ = data_of(log.feed(Kind.MESSAGES, {"i": 0, "patch": {"content": "", "chunk_position": "last"}}))
    assert finish["content"] == {"type": "text", "text": "abcd"}


def test_arguments_that_are_not_an_object_are_an_invalid_call() -> None:
    log = Log()
    call = {"index": 0, "id": "call-1", "name": "add", "args": '{"a": 1'}
    log.chunk(0, "one", "", tool_call_chunks=[call])
    (finish, _) = data_of(
        log.feed(Kind.MESSAGES, {"i": 0, "patch": {"tool_call_chunks": [], "chunk_position": "last"}})
    )
    assert (finish["content"]["type"], finish["content"]["args"]) == ("invalid_tool_call", '{"a": 1')


def test_reasoning_and_text_are_separate_blocks() -> None:
    log = Log()
    log.chunk(0, "one", "", additional_kwargs={"reasoning_content": "hm"})
    patch = {"content": "yes", "additional_kwargs": {}}
    events = data_of(log.feed(Kind.MESSAGES, {"i": 0, "patch": patch}))
    assert [(each["event"], each["index"]) for each in events] == [
        ("content-block-finish", 0),
        ("content-block-start", 1),
        ("content-block-delta", 1),
    ]
    assert events[0]["content"] == {"type": "reasoning", "reasoning": "hm"}


def test_a_failed_run_ends_its_open_message_with_the_error() -> None:
    log = Log()
    log.chunk(0, "one", "a")
    events = data_of(log.feed(Kind.RUN_ENDED, {"status": "error", "error": {"error": "E", "message": "boom"}}))
    assert [each["event"] for each in events] == ["content-block-finish", "error", "failed"]
    assert events[1]["message"] == events[2]["error"] == "boom"


def test_a_breakpoint_interrupts_without_a_request() -> None:
    log = Log()
    log.feed(Kind.CHECKPOINT, {"id": "c", "parent": None, "step": 0, "source": "loop", "next": ["tools"]})
    (end,) = data_of(log.feed(Kind.RUN_ENDED, {"status": "success"}))
    assert end["event"] == "interrupted"


def test_an_interrupt_has_the_namespace_of_the_subgraph_that_raised_it() -> None:
    log = Log()
    interrupt = {"id": "i", "value": "ok?"}
    log.feed(Kind.UPDATES, {"value": {"__interrupt__": [interrupt]}}, ("outer:1", "inner:2"))
    log.feed(Kind.UPDATES, {"value": {"__interrupt__": [interrupt]}}, ("outer:1",))
    (event,) = log.feed(Kind.INPUT_REQUESTED, {"interrupts": [interrupt]})
    assert event["params"]["namespace"] == ["outer:1", "inner:2"]


def test_a_subgraph_that_a_tool_call_started_names_the_call_as_its_cause() -> None:
    log = Log(Subscription(frozenset({"lifecycle"})))
    log.feed(Kind.TASK, {"id": "1", "name": "tools", "tool_call_id": "call-1"})
    log.feed(Kind.TASK, {"id": "2", "name": "tools", "tool_call_id": "call-2"})
    for task, call in (("2", "call-2"), ("1", "call-1")):
        (started,) = data_of(log.feed(Kind.CUSTOM, {"value": 1}, (f"tools:{task}",)))
        assert started["cause"] == {"type": "toolCall", "tool_call_id": call}
        assert started["trigger_call_id"] == task


def test_a_subgraph_that_is_a_node_has_no_cause() -> None:
    log = Log(Subscription(frozenset({"lifecycle"})))
    log.feed(Kind.TASK, {"id": "1", "name": "inner", "triggers": []})
    (started,) = data_of(log.feed(Kind.CUSTOM, {"value": 1}, ("inner:1",)))
    assert "cause" not in started


def test_large_updates_that_were_not_requested_have_only_their_keys() -> None:
    (update,) = data_of(Log().feed(Kind.UPDATES, {"slim": {"node": ["messages"]}}))
    assert update == {"node": "node", "keys": ["messages"]}


def test_custom_events_are_selected_by_their_name() -> None:
    log = Log(Subscription(frozenset({"custom:progress"})))
    assert log.feed(Kind.CUSTOM, {"value": {"name": "other"}}) == []
    assert log.feed(Kind.CUSTOM, {"value": "progress"}) == []
    value = {"name": "progress", "share": 0.5}
    assert data_of(log.feed(Kind.CUSTOM, {"value": value})) == [{"name": "progress", "payload": value}]
    dispatched = {"name": "progress", "data": 1}
    assert data_of(log.feed(Kind.DISPATCHED, dispatched)) == [{"name": "progress", "payload": 1}]


def test_values_that_have_no_checkpoint_arrive_with_the_next_entry() -> None:
    log = Log()
    assert log.feed(Kind.STATE, {"full": True, "set": {"a": 1}, "keys": ["a"]}) == []
    values, task = log.feed(Kind.TASK, {"id": "t", "name": "n"})
    assert (values["method"], values["params"]["data"], task["method"]) == ("values", {"a": 1}, "tasks")


def test_tool_results_are_not_messages() -> None:
    message = {"type": "tool", "id": "t", "content": "42", "tool_call_id": "c"}
    assert Log().feed(Kind.MESSAGES, {"i": 0, "message": message, "meta": {}}) == []


def test_a_run_that_never_started_has_no_events() -> None:
    encoder = ThreadWireEncoder(EVERYTHING)
    queued = Entry(Seq(1), RUN, 0, 1, (), Kind.RUN_QUEUED, {})
    ended = Entry(Seq(2), RUN, 0, 2, (), Kind.RUN_ENDED, {"status": "interrupted"})
    assert [*encoder.feed(queued), *encoder.feed(ended)] == []


def test_namespaces_match_with_and_without_task_ids() -> None:
    subscription = Subscription(frozenset({"values"}), (("sub",), ("other:1",)), depth=1)
    assert subscription.includes("values", ("sub:55",))
    assert subscription.includes("values", ("sub:55", "inner:1"))
    assert not subscription.includes("values", ("sub:55", "inner:1", "deep:1"))
    assert subscription.includes("values", ("other:1",))
    assert not subscription.includes("values", ("other:2",))
    assert not subscription.includes("values", ())


def test_content_of_a_provider_becomes_standard_blocks() -> None:
    log = Log()
    content = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "yes"}]
    message = {"type": "ai", "id": "m", "content": content, "response_metadata": {"model_provider": "anthropic"}}
    log.feed(Kind.STATE, {"full": True, "set": {"messages": [message]}, "keys": ["messages"]})
    (values, _) = data_of(log.feed(Kind.TASK, {"id": "t", "name": "n"}))
    blocks = values["messages"][0]["content"]
    assert [(each["type"], each.get("text") or each.get("reasoning")) for each in blocks] == [
        ("reasoning", "hm"),
        ("text", "yes"),
    ]
