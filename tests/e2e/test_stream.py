"""The stream of a run, mode by mode."""

import json

import pytest
from clients import collect, data_of, event_names, human

pytestmark = pytest.mark.anyio

MODES = ["values", "updates", "messages", "messages-tuple", "custom", "events", "debug", "tasks", "checkpoints"]
WIRE_NAMES = {
    "messages-tuple": {"messages"},
    "messages": {"messages/metadata", "messages/partial", "messages/complete"},
}


async def streamed(sdk, graph, given, mode, **kwargs):
    thread_id = await sdk.thread()
    parts = await collect(sdk.runs.stream(thread_id, graph, input=given, stream_mode=mode, **kwargs))
    (run,) = await sdk.runs.list(thread_id)
    assert parts[0].event == "metadata"
    assert parts[0].data == {"run_id": run["run_id"], "attempt": 1}
    return parts[1:]


def without_namespace(parts):
    return {part.event.partition("|")[0] for part in parts}


async def test_values_sends_the_whole_state_after_each_step(sdk):
    parts = await streamed(sdk, "steps", {"count": 2}, "values")
    assert [(part.event, part.data) for part in parts] == [
        ("values", {"count": 2, "done": []}),
        ("values", {"count": 2, "done": [1]}),
        ("values", {"count": 2, "done": [1, 2]}),
    ]


async def test_values_is_the_default(sdk):
    thread_id = await sdk.thread()
    parts = await collect(sdk.runs.stream(thread_id, "echo", input={"text": 1}))
    assert event_names(parts) == ["metadata", "values", "values"]


async def test_updates_sends_what_each_node_returned(sdk):
    parts = await streamed(sdk, "steps", {"count": 2}, "updates")
    assert [(part.event, part.data) for part in parts] == [
        ("updates", {"step": {"done": [1]}}),
        ("updates", {"step": {"done": [2]}}),
    ]


async def test_messages_tuple_sends_each_token_with_its_metadata(sdk):
    parts = await streamed(sdk, "chat", human("good morning"), "messages-tuple")
    assert set(event_names(parts)) == {"messages"}
    chunks = [part.data[0] for part in parts]
    assert [chunk["content"] for chunk in chunks] == ["You", " said:", " good", " morning", ""]
    assert {chunk["type"] for chunk in chunks} == {"AIMessageChunk"}
    assert {chunk["id"] for chunk in chunks} == {"ai-1"}
    assert [chunk.get("chunk_position") for chunk in chunks] == [None, None, None, None, "last"]
    assert chunks[-1]["usage_metadata"]["total_tokens"] == 6
    assert chunks[0]["usage_metadata"] is None
    for key in ("additional_kwargs", "response_metadata", "name", "tool_calls", "invalid_tool_calls"):
        assert key in chunks[0]
    metadata = parts[0].data[1]
    assert metadata["langgraph_node"] == "model"
    assert metadata["langgraph_step"] == 1
    assert metadata["graph_id"] == "chat"
    assert metadata["run_attempt"] == 1
    assert {"run_id", "thread_id", "assistant_id", "langgraph_triggers", "langgraph_path"} <= set(metadata)
    assert all(part.data[1] == metadata for part in parts)


async def test_messages_sends_the_growing_message_and_its_metadata_once(sdk):
    parts = await streamed(sdk, "chat", human("good morning"), "messages")
    assert event_names(parts) == ["messages/metadata", *["messages/partial"] * 5]
    ((message_id, described),) = parts[0].data.items()
    assert message_id == "ai-1"
    assert described["metadata"]["langgraph_node"] == "model"
    assert [part.data[0]["content"] for part in parts[1:]] == [
        "You",
        "You said:",
        "You said: good",
        "You said: good morning",
        "You said: good morning",
    ]
    assert {part.data[0]["type"] for part in parts[1:]} == {"ai"}
    assert parts[-1].data[0]["usage_metadata"]["total_tokens"] == 6


async def test_tool_calls_arrive_in_pieces_and_results_whole(sdk):
    parts = await streamed(sdk, "tools", human("add"), "messages-tuple")
    messages = [part.data[0] for part in parts]
    calls = [piece for message in messages for piece in message.get("tool_call_chunks", [])]
    assert (calls[0]["name"], calls[0]["id"]) == ("add", "call-1")
    assert len(calls) > 2
    assert json.loads("".join(piece["args"] for piece in calls)) == {"a": 20, "b": 22}
    (result,) = [message for message in messages if message["type"] == "tool"]
    assert (result["content"], result["tool_call_id"], result["name"]) == ("42", "call-1", "add")
    assert "".join(message["content"] for message in messages if message["id"] == "ai-3") == "The sum is 42."


async def test_messages_accumulates_tool_calls_and_completes_results(sdk):
    parts = await streamed(sdk, "tools", human("add"), "messages")
    assert set(event_names(parts)) == {"messages/metadata", "messages/partial", "messages/complete"}
    grown = [part.data[0] for part in parts if part.event == "messages/partial" and part.data[0]["id"] == "ai-1"]
    (call,) = grown[-1]["tool_calls"]
    assert (call["name"], call["args"], call["id"]) == ("add", {"a": 20, "b": 22}, "call-1")
    ((result,),) = data_of(parts, "messages/complete")
    assert (result["type"], result["content"]) == ("tool", "42")


async def test_custom_sends_what_nodes_wrote(sdk):
    parts = await streamed(sdk, "nested", human("hi"), "custom")
    assert [(part.event, part.data) for part in parts] == [("custom", {"at": "before"}), ("custom", {"at": "after"})]


async def test_events_sends_every_callback(sdk):
    parts = await streamed(sdk, "chat", human("hi"), "events")
    assert set(event_names(parts)) == {"events"}
    kinds = [part.data["event"] for part in parts]
    assert kinds[0] == "on_chain_start"
    assert kinds[-1] == "on_chain_end"
    assert kinds.count("on_chat_model_start") == kinds.count("on_chat_model_end") == 1
    tokens = [part.data["data"]["chunk"]["content"] for part in parts if part.data["event"] == "on_chat_model_stream"]
    assert "".join(tokens) == "You said: hi"


async def test_tasks_sends_the_start_and_end_of_each_task(sdk):
    started, ended = [part.data for part in await streamed(sdk, "echo", {"text": 1}, "tasks")]
    assert (started["name"], started["input"]) == ("say_again", {"text": 1})
    assert started["triggers"] == ["branch:to:say_again"]
    assert (ended["id"], ended["name"], ended["result"]) == (started["id"], "say_again", {"echoed": 1})
    assert (ended["error"], ended["interrupts"]) == (None, [])


async def test_checkpoints_sends_each_checkpoint(sdk):
    parts = await streamed(sdk, "echo", {"text": 1}, "checkpoints")
    assert [(part.data["metadata"]["step"], part.data["next"]) for part in parts] == [
        (-1, ["__start__"]),
        (0, ["say_again"]),
        (1, []),
    ]
    assert {"config", "parent_config", "values", "metadata", "next", "tasks"} <= set(parts[0].data)


async def test_debug_sends_checkpoints_tasks_and_results(sdk):
    parts = await streamed(sdk, "echo", {"text": 1}, "debug")
    assert [part.data["type"] for part in parts] == ["checkpoint", "checkpoint", "task", "task_result", "checkpoint"]
    assert all({"step", "timestamp", "payload"} <= set(part.data) for part in parts)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("subgraphs", [False, True], ids=["without-subgraphs", "with-subgraphs"])
async def test_a_stream_contains_only_the_events_of_its_mode(sdk, mode, subgraphs):
    parts = await streamed(sdk, "everything", human("hi"), mode, stream_subgraphs=subgraphs)
    assert without_namespace(parts) == WIRE_NAMES.get(mode, {mode})
    nested = [part for part in parts if "|" in part.event]
    # Callback events and accumulated messages have no namespace in their name; the others do, if requested.
    assert bool(nested) == (subgraphs and mode not in ("messages", "events"))


async def test_without_subgraphs_only_their_results_are_sent(sdk):
    parts = await streamed(sdk, "nested", human("hi"), ["values", "updates", "custom", "messages-tuple"])
    assert all("|" not in part.event for part in parts)
    assert [part.data[0]["content"] for part in parts if part.event == "messages"] == ["You said: hi"]
    assert [list(part.data) for part in parts if part.event == "updates"] == [["before"], ["inner"], ["after"]]


async def test_with_subgraphs_their_events_have_a_path(sdk):
    modes = ["values", "updates", "custom", "messages-tuple"]
    parts = await streamed(sdk, "nested", human("hi"), modes, stream_subgraphs=True)
    paths = {part.event.partition("|")[2] for part in parts}
    (path,) = paths - {""}
    assert path.startswith("inner:")
    assert data_of(parts, f"custom|{path}") == [{"at": "inside"}]
    assert [list(update) for update in data_of(parts, f"updates|{path}")] == [["feel"], ["speak"]]
    tokens = [chunk["content"] for chunk, _ in data_of(parts, f"messages|{path}")]
    assert "".join(tokens) == "You said: hi"
    assert len(tokens) > 2
    assert data_of(parts, "messages") == []
    assert data_of(parts, f"values|{path}")[-1]["mood"] == "calm"


async def test_several_modes_are_sent_in_order_of_occurrence(sdk):
    parts = await streamed(sdk, "echo", {"text": 1}, ["values", "updates", "tasks", "checkpoints", "debug"])
    order = [(part.event, part.data.get("type")) if part.event == "debug" else part.event for part in parts]
    assert order.index("updates") < len(order) - 1 - order[::-1].index("values")
    assert [each for each in order if each in ("values", "updates")] == ["values", "updates", "values"]
    assert [each for each in order if each == "tasks"] == ["tasks", "tasks"]
    assert [each for each in order if each == "checkpoints"] == ["checkpoints"] * 3


async def test_all_modes_together_send_the_same_as_each_alone(sdk):
    everything = await streamed(sdk, "nested", human("hi"), MODES, stream_subgraphs=True)
    assert without_namespace(everything) == {
        "values",
        "updates",
        "messages",
        "custom",
        "events",
        "debug",
        "tasks",
        "checkpoints",
    }
    for mode in ("values", "updates", "custom"):
        alone = await streamed(sdk, "nested", human("hi"), mode, stream_subgraphs=True)
        together = [part for part in everything if part.event.partition("|")[0] == mode]
        assert [part.data for part in together] == [part.data for part in alone]


async def test_an_error_is_the_last_event(sdk):
    parts = await streamed(sdk, "fails", {"text": 1}, "values")
    assert [(part.event, part.data) for part in parts] == [
        ("values", {"text": 1}),
        ("error", {"error": "ValueError", "message": "boom!"}),
    ]


@pytest.mark.parametrize("graph", ["chat", "approve", "fails"])
async def test_the_run_has_ended_before_its_stream_ends_so_clients_do_not_reconnect(sdk, graph):
    thread_id = await sdk.thread()
    given = human("hi") if graph == "chat" else {}
    await collect(sdk.runs.stream(thread_id, graph, input=given, stream_resumable=True))
    streams = [path for _, path in sdk.requests if path.endswith("/stream")]
    assert streams == [f"/threads/{thread_id}/runs/stream"]


async def test_on_run_created_receives_the_ids_from_the_headers(sdk):
    thread_id, received = await sdk.thread(), []
    parts = await collect(sdk.runs.stream(thread_id, "echo", input={"text": 1}, on_run_created=received.append))
    assert received == [{"run_id": parts[0].data["run_id"], "thread_id": thread_id}]


async def test_a_stream_contains_only_the_output_schema(sdk):
    """The rest of the state is private to the graph; the stock server does not send it either."""
    parts = await streamed(sdk, "private", {"question": "why"}, ["values", "updates"])
    output = {"answer": "concluded after thinking about why"}
    assert [(part.event, part.data) for part in parts] == [
        ("updates", {"think": None}),
        ("updates", {"conclude": output}),
        ("values", output),
    ]


async def test_functional_and_factory_graphs_stream_like_any_other(sdk):
    functional = await streamed(sdk, "functional", {"number": 4}, ["updates", "custom", "values"])
    assert [(part.event, part.data) for part in functional] == [
        ("custom", {"doubling": 4}),
        ("updates", {"double": 8}),
        ("updates", {"functional": {"doubled": 8, "previous": None}}),
        ("values", {"doubled": 8, "previous": None}),
    ]
    from_factory = await streamed(
        sdk, "factory", {"text": "you"}, "updates", config={"configurable": {"greeting": "hey"}}
    )
    assert [part.data for part in from_factory] == [{"greet": {"echoed": "hey you"}}]


async def test_the_headers_are_those_of_the_stock_server(sdk, http):
    thread_id = await sdk.thread()
    body = {"assistant_id": "echo", "input": {"text": 1}}
    async with http.stream("POST", f"/threads/{thread_id}/runs/stream", json=body) as response:
        raw = b"".join([piece async for piece in response.aiter_raw()])
    (run,) = await sdk.runs.list(thread_id)
    at = f"/threads/{thread_id}/runs/{run['run_id']}"
    assert response.status_code == 200
    assert response.headers["location"] == f"{at}/stream"
    assert response.headers["content-location"] == at
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-accel-buffering"] == "no"
    frames = raw.split(b"\r\n\r\n")
    assert frames.pop() == b""
    assert [frame.split(b"\r\n")[0] for frame in frames] == [b"event: metadata", b"event: values", b"event: values"]
    assert all(frame.split(b"\r\n")[1].startswith(b"data: {") for frame in frames)
    assert b"\n" not in raw.replace(b"\r\n", b"")

    waited = await http.post(f"/threads/{thread_id}/runs/wait", json=body)
    assert waited.headers["location"].endswith("/join")
    assert waited.headers["content-location"].startswith(f"/threads/{thread_id}/runs/")
    assert waited.headers["content-type"] == "application/json"
    created = await http.post(f"/threads/{thread_id}/runs", json=body)
    assert created.headers["content-location"] == f"/threads/{thread_id}/runs/{created.json()['run_id']}"
    assert "location" not in created.headers
