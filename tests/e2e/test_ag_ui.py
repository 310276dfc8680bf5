"""AG-UI as a page uses it: what it sends, what it receives, and what is rejected."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from agui_checker import AgUiChecker
from pages import OpenPage, Page, events_in, kinds

from threadwire.core.ids import thread_id_from_name
from threadwire.testing.server import running_server

pytestmark = pytest.mark.anyio


# -- running ----------------------------------------------------------------------------------------------------------


async def test_a_conversation_continues_by_message_ids(page: OpenPage) -> None:
    here = page("chat")
    await here.send("one", "u1")
    await here.send("two", "u2")

    assert here.texts == [
        ("user", "one"),
        ("assistant", "You said: one"),
        ("user", "two"),
        ("assistant", "You said: two"),
    ]


async def test_clients_choose_their_own_thread_and_run_ids(page: OpenPage, http: httpx.AsyncClient) -> None:
    here = page("chat")
    seen = await here.send("hello", runId="my run")
    thread = (await http.get(f"/threads/{thread_id_from_name(here.thread_id)}")).json()

    for each in (seen.events[0], seen.events[-1]):
        assert (each["threadId"], each["runId"]) == (here.thread_id, "my run")
    assert thread["metadata"]["ag_ui_thread_id"] == here.thread_id
    assert (await here.another().connect()).events[0]["runId"] != "my run"


async def test_a_run_id_can_be_reused(page: OpenPage) -> None:
    here = page("chat")
    await here.send("one", runId="again")
    await here.send("two", runId="again")
    assert len(here.messages) == 4


async def test_a_stream_ends_with_what_is_stored(page: OpenPage) -> None:
    """A page that followed the run and a page that loads afterwards have exactly the same data."""
    for agent in ("tools", "showcase", "nested", "everything"):
        here = page(agent)
        await here.send("hello", "u1")
        other = here.another()
        await other.connect()

        assert [each for each in other.messages if each["role"] != "activity"] == [
            each for each in here.messages if each["role"] != "activity"
        ]
        assert other.state == here.state
        assert other.interrupts == here.interrupts


async def test_steps_tools_and_usage_are_sent(page: OpenPage) -> None:
    seen = await page("tools").send("hello")
    types = kinds(seen.events)

    assert types.index("TOOL_CALL_START") < types.index("TOOL_CALL_RESULT")
    assert [each["stepName"] for each in seen.events if each["type"] == "STEP_STARTED"] == ["model", "tools", "model"]
    assert seen.events[-1]["usage"][0]["totalTokens"] > 0


async def test_state_is_sent_as_a_snapshot_and_then_as_deltas(page: OpenPage) -> None:
    here = page("showcase")
    seen = await here.send("hello")

    assert kinds(seen.events).index("STATE_SNAPSHOT") < kinds(seen.events).index("STATE_DELTA")
    assert here.state["metrics"] == {"sums": 2, "of": {"a": 1, "b": 2}}
    assert "messages" not in here.state


async def test_raw_events_are_sent_only_on_request(page: OpenPage) -> None:
    without = await page("chat").send("hello")
    requested = await page("chat").send("hello", forwardedProps={"rawEvents": True})
    log = await page("chat").send("hello", forwardedProps={"rawEvents": "log"})

    assert "RAW" not in kinds(without.events)
    events = {each["event"]["event"] for each in requested.events if each["type"] == "RAW"}
    assert {"on_chain_start", "on_chat_model_stream", "on_chain_end"} <= events
    assert {"run.started", "state"} <= {each["event"]["kind"] for each in log.events if each["type"] == "RAW"}


async def test_raw_events_can_be_switched_on_for_an_agent(tmp_path: Path, agui: AgUiChecker) -> None:
    agents = Path(__file__).parent.parent / "graphs" / "agents.py"
    graphs = {"chat": {"path": f"{agents}:chat", "raw_events": ["updates"]}}
    config = tmp_path / "langgraph.json"
    config.write_text(json.dumps({"dependencies": [str(agents.parent)], "graphs": graphs}))
    with running_server(config, tmp_path / "data", env={"THREADWIRE_STORAGE": "memory"}) as server:
        async with httpx.AsyncClient(base_url=server.url) as http:
            by_default = await Page(http, agui, "chat").send("hello")
            without = await Page(http, agui, "chat").send("hello", forwardedProps={"rawEvents": False})

    assert {each["event"]["event"] for each in by_default.events if each["type"] == "RAW"} == {"updates"}
    assert "RAW" not in kinds(without.events)


async def test_a_followed_thread_has_raw_events_on_request(page: OpenPage, http: httpx.AsyncClient) -> None:
    here = page("chat")
    await here.send("hello")
    path = f"/ag-ui/chat/threads/{here.thread_id}/events"
    async with http.stream("GET", f"{path}?rawEvents=updates", headers={"last-event-id": "1"}) as response:
        seen: list[dict[str, Any]] = []
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                seen.append(json.loads(line[6:]))
            if seen and seen[-1]["type"] == "RUN_FINISHED":
                break
    assert {each["event"]["event"] for each in seen if each["type"] == "RAW"} == {"updates"}
    assert (await http.get(f"{path}?rawEvents=everything")).status_code == 422


async def test_clients_of_protocol_1_0_receive_the_outcome(page: OpenPage) -> None:
    seen = await page("chat").send("hello", protocolVersion="1.0")
    assert seen.events[-1]["outcome"] == {"type": "success"}


async def test_an_error_closes_open_entities_and_is_sent(page: OpenPage) -> None:
    seen = await page("fails").run(state={"text": "x"})
    assert seen.events[-1] == {"type": "RUN_ERROR", "message": "boom!", "code": "ValueError"}


# -- what a page sends -------------------------------------------------------------------------------------------------


async def test_only_changed_state_is_written(page: OpenPage) -> None:
    here = page("echo")
    await here.run(state={"text": "one", "unknown": 1})
    assert here.state == {"text": "one", "echoed": "one"}

    await here.run(state={**here.state, "text": "two"})
    assert here.state == {"text": "two", "echoed": "two"}


async def test_an_edited_message_forks_the_thread_before_it(page: OpenPage) -> None:
    here = page("chat")
    await here.send("one", "u1")
    await here.send("two", "u2")
    edited = [{**here.messages[0]}, here.messages[1], {"id": "u2", "role": "user", "content": "three"}]
    await here.run(messages=edited)

    assert here.texts == [
        ("user", "one"),
        ("assistant", "You said: one"),
        ("user", "three"),
        ("assistant", "You said: three"),
    ]
    other = here.another()
    await other.connect()
    assert other.messages == here.messages


async def test_the_first_message_can_be_edited_too(page: OpenPage) -> None:
    here = page("chat")
    await here.send("one", "u1")
    await here.run(messages=[{"id": "u1", "role": "user", "content": "other"}])
    assert here.texts == [("user", "other"), ("assistant", "You said: other")]


async def test_an_answer_can_be_regenerated(page: OpenPage) -> None:
    here = page("chat")
    await here.send("one", "u1")
    await here.send("two", "u2")
    await here.run(messages=here.messages[:3])

    assert here.texts[-2:] == [("user", "two"), ("assistant", "You said: two")]
    assert len(here.messages) == 4


async def test_a_client_that_is_behind_undoes_nothing(page: OpenPage) -> None:
    here = page("chat")
    await here.send("one", "u1")
    behind = here.another()
    await behind.connect()
    await here.send("two", "u2")
    await behind.send("three", "u3")

    assert [text for role, text in behind.texts if role == "user"] == ["one", "two", "three"]


async def test_a_multipart_message_round_trips_unchanged(page: OpenPage) -> None:
    here = page("chat")
    parts = [
        {"type": "text", "text": "look"},
        {"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}},
        {"type": "image", "source": {"type": "url", "value": "https://example.com/a.png", "mimeType": "image/png"}},
        {"type": "document", "source": {"type": "data", "value": "aGk=", "mimeType": "application/pdf"}},
    ]
    await here.send(parts, "u1")
    other = here.another()
    await other.connect()

    assert here.messages[0]["content"] == parts
    assert other.messages[0]["content"] == parts


async def test_a_frontend_tool_call_round_trips(page: OpenPage) -> None:
    """The run ends with a call that the server cannot execute. The page returns the result, and a new run continues."""
    here = page("asks_page")
    first = await here.send("what colour is the page?", tools=[{"name": "colour", "description": "of the page"}])
    [call] = here.messages[-1]["toolCalls"]
    assert first.events[-1]["type"] == "RUN_FINISHED"

    answer = {"id": "t1", "role": "tool", "toolCallId": call["id"], "content": "blue"}
    await here.run(messages=[*here.messages, answer])
    assert here.texts[-1] == ("assistant", "It is blue.")

    repeated = await here.run(messages=[*here.messages, {**answer, "id": "t2"}])
    assert [each["id"] for each in repeated.messages if each["role"] == "tool"] == ["t1"]


# -- stopping, busy threads --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run_named_by", [None, "page", "server"])
async def test_a_run_is_stopped(page: OpenPage, gate: Path, run_named_by: str | None) -> None:
    here = page("slow")
    async with here.open(state={"until": str(gate)}, runId="mine") as own:
        await own.until('"stepName":"wait"')
        late = here.another()
        async with late.open("/connect") as attached:
            started = events_in(await attached.until("RUN_STARTED"))[0]
            run_id = {None: None, "page": "mine", "server": started["runId"]}[run_named_by]
            assert (await here.stop("another"))["stopped"] is False
            assert (await here.stop(run_id))["stopped"] is True
            seen = here.receive(await own.rest())
            late.receive(await attached.rest())

    assert seen.events[-1] == {"type": "RUN_FINISHED", "threadId": here.thread_id, "runId": "mine"}
    assert (await here.stop())["stopped"] is False


async def test_a_second_run_on_a_busy_thread_is_rejected(page: OpenPage, http: httpx.AsyncClient, gate: Path) -> None:
    here = page("slow")
    async with here.open(state={"until": str(gate)}) as own:
        await own.until('"stepName":"wait"')
        response = await http.post(here.url, json=here.body())
        assert (response.status_code, "already running" in response.json()["detail"]) == (409, True)
        gate.touch()  # noqa: ASYNC240 - one file
        here.receive(await own.rest())


# -- agents ------------------------------------------------------------------------------------------------------------


async def test_agents_describe_their_capabilities(http: httpx.AsyncClient) -> None:
    agents = (await http.get("/ag-ui")).json()["agents"]
    one = (await http.get("/ag-ui/echo")).json()

    assert one in agents
    assert one["description"] == "Echoes its input."
    assert one["capabilities"]["transport"]["resumable"] is True
    assert (await http.get("/ag-ui/nope")).status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"threadId": "t"},
        {"threadId": 5, "runId": "r"},
        {"threadId": "t", "runId": "r", "messages": "hello"},
        {"threadId": "t", "runId": "r", "messages": [{"role": "user", "content": "no id"}]},
        {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "nobody", "content": "x"}]},
        {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": 5}]},
        {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": ["x"]}]},
        {"threadId": "t", "runId": "r", "tools": {"not": "a list"}},
        {"threadId": "t", "runId": "r", "resume": [{"status": "resolved"}]},
        {"threadId": "t\n", "runId": "r", "messages": []},
    ],
)
async def test_an_invalid_body_is_rejected_with_a_reason(http: httpx.AsyncClient, body: Any) -> None:
    response = await http.post("/ag-ui/chat", json=body)
    assert response.status_code == 422
    assert response.json()["detail"]


async def test_a_missing_body_is_rejected_with_a_reason(http: httpx.AsyncClient) -> None:
    for path in ("/ag-ui/chat", "/ag-ui/chat/connect"):
        response = await http.post(path)
        assert (response.status_code, response.json()["detail"]) == (422, "A request body is required")
    assert (await http.post("/ag-ui/chat/stop/t", json={"other": 1})).status_code == 422
