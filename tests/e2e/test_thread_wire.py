"""The thread wire over HTTP: every run of a thread as events, and commands."""

import asyncio
from typing import Any

import httpx
import pytest
from clients import Sdk, fresh_id, human, wait_for_start
from wire import CHANNELS, WireThread, data_of, ends, is_root_end, statuses, take, text_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def wire(http: httpx.AsyncClient) -> WireThread:
    return WireThread(http)


# -- runs -------------------------------------------------------------------------------------------------------------


async def test_run_start_creates_the_thread(wire: WireThread, http: httpx.AsyncClient) -> None:
    run_id = await wire.start("chat", human("hello"), config={"configurable": {"thread_id": wire.thread_id}})
    events = await wire.events(is_root_end)
    assert statuses(events) == ["running", "completed"]
    assert text_of(events) == "You said: hello"
    run = (await http.get(f"/threads/{wire.thread_id}/runs/{run_id}")).json()
    assert (run["status"], run["multitask_strategy"]) == ("success", "enqueue")


async def test_a_stream_can_be_opened_before_the_thread_exists(wire: WireThread) -> None:
    async with wire.open() as events:
        await wire.start("chat", human("hello"))
        received = await take(events, is_root_end)
    assert received == await wire.events(is_root_end)


async def test_runs_of_the_classic_api_appear_with_their_tokens(wire: WireThread, http: httpx.AsyncClient) -> None:
    await http.post("/threads", json={"thread_id": wire.thread_id})
    async with wire.open() as events:
        body = {"assistant_id": "chat", "input": human("hello"), "stream_mode": "updates"}
        await http.post(f"/threads/{wire.thread_id}/runs/wait", json=body)
        live = await take(events, is_root_end)
    assert text_of(live) == "You said: hello"
    assert live == await wire.events(is_root_end)


async def test_a_stream_continues_over_many_runs(wire: WireThread) -> None:
    await wire.start("chat", human("one", "h1"))
    await wire.start("chat", human("two", "h2"))
    events = await wire.events(ends(2), "messages", "lifecycle")
    assert statuses(events) == ["running", "completed"] * 2
    assert text_of(events) == "You said: oneYou said: two"


async def test_values_have_standard_content(wire: WireThread) -> None:
    await wire.start("chat", human("hello"))
    last = data_of(await wire.events(is_root_end), "values")[-1]["messages"]
    assert last[0] == {"type": "human", "content": "hello", "id": "human-1"}
    assert last[1]["content"] == [{"type": "text", "text": "You said: hello"}]
    assert last[1]["response_metadata"]["output_version"] == "v1"


async def test_a_checkpoint_precedes_the_values_of_its_step(wire: WireThread, http: httpx.AsyncClient) -> None:
    await wire.start("chat", human("hello"))
    events = await wire.events(is_root_end, "values", "checkpoints", "lifecycle")
    steps = [event["method"] for event in events]
    assert steps == ["lifecycle", "checkpoints", "checkpoints", "values", "checkpoints", "values", "lifecycle"]
    history = (await http.post(f"/threads/{wire.thread_id}/history", json={})).json()
    assert [each["checkpoint_id"] for each in history[::-1]] == [each["id"] for each in data_of(events, "checkpoints")]


async def test_a_failed_run_ends_with_its_error(wire: WireThread) -> None:
    await wire.start("fails", {"text": "x"})
    events = await wire.events(is_root_end, "lifecycle")
    assert data_of(events, "lifecycle")[-1] == {"event": "failed", "graph_name": "fails", "error": "boom!"}


async def test_a_cancelled_run_is_interrupted(wire: WireThread, http: httpx.AsyncClient, sdk: Sdk) -> None:
    run_id = await wire.start("slow", {"seconds": 3600})
    await wait_for_start(sdk, {"thread_id": wire.thread_id, "run_id": run_id})
    await http.post(f"/threads/{wire.thread_id}/runs/{run_id}/cancel")
    events = await wire.events(is_root_end)
    assert statuses(events) == ["running", "interrupted"]
    assert not data_of(events, "input.requested")


async def test_a_state_update_outside_a_run_appears_as_values(wire: WireThread, http: httpx.AsyncClient) -> None:
    await wire.start("echo", {"text": "one"})
    await wire.events(is_root_end)
    await http.post(f"/threads/{wire.thread_id}/state", json={"values": {"text": "by hand"}})
    events = await wire.events(lambda event: event["params"]["data"].get("text") == "by hand", "values")
    assert events[-1]["params"]["data"] == {"text": "by hand", "echoed": "one"}


# -- subscriptions and positions --------------------------------------------------------------------------------------


async def test_channels_and_namespaces_filter_events(wire: WireThread) -> None:
    await wire.start("nested", human("hello"))
    everything = await wire.events(is_root_end)
    (subgraph,) = {tuple(event["params"]["namespace"]) for event in everything} - {()}

    lifecycle = await wire.events(is_root_end, "lifecycle")
    expected = [event["event_id"] for event in everything if event["method"] == "lifecycle"]
    assert [event["event_id"] for event in lifecycle] == expected
    root = await wire.events(is_root_end, namespaces=[[]], depth=0)
    assert {tuple(event["params"]["namespace"]) for event in root} == {()}
    name = subgraph[0].partition(":")[0]
    for prefix in (subgraph[0], name):
        below = await wire.events(
            lambda event: event["params"]["data"].get("event") == "completed", "lifecycle", namespaces=[[prefix]]
        )
        assert {tuple(event["params"]["namespace"]) for event in below} == {subgraph}


async def test_since_resumes_after_any_event_without_losing_one(wire: WireThread) -> None:
    await wire.start("everything", human("hello"))
    events = await wire.events(is_root_end)
    for at, event in enumerate(events[:-1]):
        resumed = await wire.events(is_root_end, since=event["seq"])
        ids = [each["event_id"] for each in resumed]
        rest = [each["event_id"] for each in events[at + 1 :]]
        assert ids[-len(rest) :] == rest
        assert set(ids[: -len(rest)]) <= {each["event_id"] for each in events[: at + 1]}


async def test_a_position_beyond_the_log_is_rejected(wire: WireThread, http: httpx.AsyncClient) -> None:
    body = {"channels": ["values"], "since": 7}
    response = await http.post(f"/threads/{wire.thread_id}/stream/events", json=body)
    assert response.status_code == 400
    assert "7 is beyond the last entry of this thread" in response.json()["detail"]


@pytest.mark.parametrize(
    ("body", "status", "detail"),
    [
        ({}, 400, "channels is required and must be a non-empty array"),
        ({"channels": []}, 400, "channels is required and must be a non-empty array"),
        ({"channels": ["values", "bogus"]}, 400, "channels contains unsupported entries: bogus."),
        ({"channels": ["custom:"]}, 400, "channels contains unsupported entries: custom:."),
        ({"channels": ["values"], "depth": -1}, 422, "depth: "),
        ({"channels": ["values"], "depth": True}, 422, "depth: "),
        ({"channels": ["values"], "since": "3"}, 422, "since: "),
        ({"channels": ["values"], "namespaces": ["sub"]}, 422, "namespaces.0: "),
    ],
)
async def test_an_invalid_subscription_is_rejected(
    http: httpx.AsyncClient, body: Any, status: int, detail: str
) -> None:
    response = await http.post(f"/threads/{fresh_id()}/stream/events", json=body)
    assert response.status_code == status
    assert response.json()["detail"].startswith(detail)


async def test_a_thread_id_must_be_a_uuid(http: httpx.AsyncClient) -> None:
    for path, body in [("stream/events", {"channels": ["values"]}), ("commands", {"id": 1, "method": "state.get"})]:
        response = await http.post(f"/threads/nope/{path}", json=body)
        assert (response.status_code, response.json()) == (422, {"detail": "Invalid thread ID: must be a UUID"})


async def test_two_pages_receive_the_same_events(wire: WireThread) -> None:
    async with wire.open() as one, wire.open() as other:
        await wire.start("everything", human("hello"))
        received, also = await asyncio.gather(take(one, is_root_end), take(other, is_root_end))
    assert received == also


# -- interrupts -------------------------------------------------------------------------------------------------------


async def test_an_interrupt_is_requested_before_the_run_is_interrupted(wire: WireThread) -> None:
    await wire.start("approve", {"topic": "x"})
    events = await wire.events(is_root_end)
    methods = [event["method"] for event in events]
    assert methods.index("input.requested") < len(methods) - 1
    (requested,) = data_of(events, "input.requested")
    assert requested["payload"] == requested["value"] == {"question": "ok?", "topic": "x"}
    assert statuses(events) == ["running", "interrupted"]

    await wire.result("input.respond", namespace=[], interrupt_id=requested["interrupt_id"], response={"ok": True})
    resumed = await wire.events(ends(2))
    assert statuses(resumed) == ["running", "interrupted", "running", "completed"]


async def test_several_interrupts_are_answered_together(wire: WireThread) -> None:
    await wire.start("approve_many", {"answers": []})
    events = await wire.events(is_root_end)
    requested = [event for event in events if event["method"] == "input.requested"]
    assert len(requested) == 3
    assert sorted(len(event["params"]["namespace"]) for event in requested) == [0, 0, 1]
    responses = [
        {
            "interrupt_id": event["params"]["data"]["interrupt_id"],
            "namespace": event["params"]["namespace"],
            "response": f"answer {number}",
        }
        for number, event in enumerate(requested)
    ]
    await wire.result("input.respond", responses=responses)
    resumed = await wire.events(ends(2), "lifecycle", "values", "input")
    answers = data_of(resumed, "values")[-1]["answers"]
    assert all(any(f"answer {number}" in str(each) for each in answers) for number in range(3))


async def test_an_answer_can_carry_an_update(wire: WireThread) -> None:
    await wire.start("approve", {"topic": "x"})
    (requested,) = data_of(await wire.events(is_root_end), "input.requested")
    await wire.result(
        "input.respond", interrupt_id=requested["interrupt_id"], response={"ok": True}, update={"topic": "y"}
    )
    assert data_of(await wire.events(ends(2)), "values")[-1]["topic"] == "y"


async def test_of_two_answers_to_an_interrupt_one_wins(wire: WireThread) -> None:
    await wire.start("approve", {"topic": "x"})
    (requested,) = data_of(await wire.events(is_root_end), "input.requested")
    answers = [
        wire.command("input.respond", interrupt_id=requested["interrupt_id"], response={"ok": ok})
        for ok in (True, False)
    ]
    replies = await asyncio.gather(*answers)
    assert sorted(reply.get("error", "") for reply in replies) == ["", "no_such_run"]


async def test_an_answer_to_an_unknown_interrupt_is_rejected(wire: WireThread) -> None:
    await wire.start("approve", {"topic": "x"})
    await wire.events(is_root_end)
    reply = await wire.command("input.respond", interrupt_id="nope", response=1)
    assert (reply["error"], reply["message"]) == (
        "no_such_interrupt",
        "Unknown or already-consumed interrupt: nope",
    )


async def test_the_input_of_a_run_on_an_interrupted_thread_is_the_answer(wire: WireThread) -> None:
    await wire.start("approve", {"topic": "x"})
    await wire.events(is_root_end)
    await wire.start("approve", {"ok": "yes"})
    values = data_of(await wire.events(ends(2)), "values")[-1]
    assert values["answer"] == {"ok": "yes"}


# -- state ------------------------------------------------------------------------------------------------------------


async def test_state_get_returns_values_and_checkpoint(wire: WireThread, http: httpx.AsyncClient) -> None:
    await wire.start("chat", human("hello"))
    await wire.events(is_root_end)
    state = (await http.get(f"/threads/{wire.thread_id}/state")).json()
    result = await wire.result("state.get", namespace=[])
    assert result["checkpoint"] == {"id": state["checkpoint_id"], "ns": ""}
    assert [each["id"] for each in result["values"]["messages"]] == ["human-1", "ai-1"]
    assert await wire.result("state.get", namespace=[], keys=["nope"]) == {**result, "values": {}}


async def test_checkpoints_are_listed_in_pages(wire: WireThread) -> None:
    await wire.start("chat", human("hello"))
    written = [each["id"] for each in data_of(await wire.events(is_root_end), "checkpoints")]
    listed = (await wire.result("state.listCheckpoints"))["checkpoints"]
    assert [each["id"] for each in listed] == written[::-1]
    assert [each["step"] for each in listed] == [1, 0, -1]
    page = (await wire.result("state.listCheckpoints", limit=1, before=listed[0]["id"]))["checkpoints"]
    assert page == listed[1:2]


async def test_a_fork_runs_from_an_earlier_checkpoint(wire: WireThread, http: httpx.AsyncClient) -> None:
    await wire.start("chat", human("hello"))
    written = data_of(await wire.events(is_root_end), "checkpoints")
    forked = await wire.result("state.fork", checkpoint_id=written[0]["id"], input=human("again"))
    assert forked["thread_id"] == wire.thread_id
    await wire.events(ends(2))
    messages = (await wire.result("state.get"))["values"]["messages"]
    assert [each["content"] for each in messages[:1]] == ["again"]
    assert (await http.get(f"/threads/{wire.thread_id}/runs/{forked['run_id']}")).json()["status"] == "success"


async def test_run_start_forks_from_the_checkpoint_in_its_config(wire: WireThread) -> None:
    await wire.start("chat", human("hello"))
    written = data_of(await wire.events(is_root_end), "checkpoints")
    await wire.start("chat", human("again"), config={"configurable": {"checkpoint_id": written[0]["id"]}})
    await wire.events(ends(2))
    messages = (await wire.result("state.get"))["values"]["messages"]
    assert [each["content"] for each in messages[:1]] == ["again"]


async def test_a_message_is_injected_without_a_run(wire: WireThread) -> None:
    await wire.start("chat", human("hello"))
    await wire.events(is_root_end)
    assert await wire.result("input.inject", namespace=[], message={"role": "user", "content": "by the way"}) == {}
    assert (await wire.result("state.get"))["values"]["messages"][-1]["content"] == "by the way"


async def test_the_tree_of_a_run_names_its_subgraphs(wire: WireThread) -> None:
    run_id = await wire.start("nested", human("hello"))
    await wire.events(is_root_end)
    tree = (await wire.result("agent.getTree", run_id=run_id))["tree"]
    assert (tree["namespace"], tree["status"], tree["graph_name"]) == ([], "completed", "nested")
    (child,) = tree["children"]
    assert child["status"] == "completed"
    assert child["namespace"][0].partition(":")[0] == child["graph_name"]
    assert (await wire.result("agent.getTree"))["tree"] == tree


# -- invalid commands -------------------------------------------------------------------------------------------------

UNKNOWN = "1f0c0000-0000-6000-8000-000000000000"


@pytest.mark.parametrize(
    ("method", "params", "code", "message"),
    [
        ("run.begin", {}, "unknown_command", "Unknown protocol command: run.begin"),
        ("run.start", {}, "invalid_argument", '"assistant_id" is a required property'),
        ("run.start", {"assistant_id": 1}, "invalid_argument", "assistant_id: "),
        (
            "run.start",
            {"assistant_id": "chat", "multitaskStrategy": "bogus"},
            "invalid_argument",
            "multitask_strategy: ",
        ),
        ("run.start", {"assistant_id": "chat", "config": []}, "invalid_argument", "config: "),
        ("run.start", {"assistant_id": "nope"}, "unknown_error", "422: Invalid assistant: 'nope'. Must be either:"),
        ("input.respond", {"interrupt_id": "nope"}, "no_such_run", "No interrupted run is bound to this thread."),
        ("input.respond", {"responses": []}, "invalid_argument", "responses: "),
        ("input.respond", {}, "invalid_argument", '"interrupt_id" is a required property'),
        ("input.inject", {"message": {"role": "ai", "content": "x"}}, "invalid_argument", "message.role: "),
        (
            "input.inject",
            {"namespace": ["sub"], "message": {"role": "user", "content": "x"}},
            "not_supported",
            "Messages can be injected only at the root",
        ),
        ("state.get", {"namespace": "x"}, "invalid_argument", "namespace: "),
        ("state.get", {"namespace": ["nope:1"]}, "no_such_namespace", "Unknown namespace: nope:1"),
        ("state.listCheckpoints", {"limit": 0}, "invalid_argument", "limit: "),
        ("state.listCheckpoints", {"before": UNKNOWN}, "no_such_checkpoint", "Unknown checkpoint: "),
        ("state.fork", {"checkpoint_id": UNKNOWN}, "no_such_checkpoint", "Thread "),
        ("state.fork", {}, "invalid_argument", '"checkpoint_id" is a required property'),
        ("agent.getTree", {"run_id": UNKNOWN}, "no_such_run", "Unknown run: "),
        ("agent.getTree", {"run_id": "nope"}, "no_such_run", "Unknown run: nope"),
        ("subscription.subscribe", {"channels": ["values"]}, "not_supported", "Subscriptions need a WebSocket."),
        ("run.start", [], "invalid_argument", "body: "),
    ],
)
async def test_an_invalid_command_gets_a_code(
    wire: WireThread, http: httpx.AsyncClient, method: str, params: Any, code: str, message: str
) -> None:
    await wire.start("chat", human("hello"))
    await wire.events(is_root_end)
    body = {"id": 9, "method": method, "params": params}
    reply = (await http.post(f"/threads/{wire.thread_id}/commands", json=body)).json()
    assert (reply["type"], reply["id"], reply["error"]) == ("error", 9, code)
    assert reply["message"].startswith(message)


async def test_commands_on_a_thread_that_does_not_exist(wire: WireThread) -> None:
    missing = f"404: Thread with ID {wire.thread_id} not found"
    for method, params in [("state.get", {}), ("state.listCheckpoints", {}), ("state.fork", {"checkpoint_id": "x"})]:
        reply = await wire.command(method, **params)
        assert (reply["error"], reply["message"]) == ("unknown_error", missing)
    assert (await wire.command("agent.getTree"))["error"] == "no_such_run"
    assert (await wire.command("input.respond", interrupt_id="x"))["error"] == "no_such_run"


@pytest.mark.parametrize("body", [{}, [], {"id": "1", "method": "x"}, {"id": 1}, {"id": True, "method": "x"}])
async def test_a_body_that_is_not_a_command_is_rejected(http: httpx.AsyncClient, body: Any) -> None:
    response = await http.post(f"/threads/{fresh_id()}/commands", json=body)
    assert response.status_code == 400
    assert response.json() == {
        "type": "error",
        "id": None,
        "error": "invalid_argument",
        "message": "Protocol commands must include an integer id and string method.",
    }


async def test_a_busy_thread_rejects_a_run_that_must_not_wait(wire: WireThread, gate: Any) -> None:
    await wire.start("slow", {"until": str(gate)})
    reply = await wire.command("run.start", assistant_id="slow", input={}, multitaskStrategy="reject")
    assert reply["error"] == "unknown_error"
    assert reply["message"].startswith("409: Thread is already running a task.")


async def test_foreign_origins_are_rejected(http: httpx.AsyncClient) -> None:
    for path, body in [("stream/events", {"channels": CHANNELS}), ("commands", {"id": 1, "method": "state.get"})]:
        response = await http.post(
            f"/threads/{fresh_id()}/{path}", json=body, headers={"Origin": "https://evil.example"}
        )
        assert response.status_code == 403
