"""CopilotKit's runtime over HTTP: run, connect, stop, suggest."""

import asyncio
import uuid
from pathlib import Path
from typing import Any

import httpx
import pytest
from agui_checker import AgUiChecker
from clients import eventually
from pages import COPILOTKIT, CopilotKitPage, OpenCopilotKitPage, Page, hello, kinds

from threadwire.core.ids import thread_id_from_name
from threadwire.testing.server import running_server

pytestmark = pytest.mark.anyio

EMPTY = ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]

# -- run, connect, stop ------------------------------------------------------------------------------------------------


async def test_a_conversation_is_stored_and_loaded_again(copilotkit: OpenCopilotKitPage) -> None:
    here = copilotkit("chat")
    await here.send("one", "u1")
    await here.send("two", "u2")
    other = here.another()
    await other.connect()

    assert [text for _, text in here.texts] == ["one", "You said: one", "two", "You said: two"]
    assert other.messages == here.messages


async def test_a_stream_has_the_usual_headers(http: httpx.AsyncClient) -> None:
    response = await http.post(f"{COPILOTKIT}/agent/chat/run", json=hello(str(uuid.uuid4())))
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-accel-buffering"] == "no"
    assert b"\r" not in response.content


async def test_an_unknown_thread_is_empty(copilotkit: OpenCopilotKitPage) -> None:
    seen = await copilotkit("chat").connect()
    assert kinds(seen.events) == EMPTY
    assert [each.get("snapshot", each.get("messages")) for each in seen.events[1:3]] == [{}, []]


async def test_a_deleted_thread_is_reported_in_the_stream(
    copilotkit: OpenCopilotKitPage, http: httpx.AsyncClient
) -> None:
    here = copilotkit("chat")
    await here.send("hello")
    await http.delete(f"/threads/{thread_id_from_name(here.thread_id)}")

    [event] = (await here.connect()).events

    assert (event["type"], event["code"]) == ("RUN_ERROR", "404")


async def test_connecting_to_an_unknown_thread_does_not_create_it(
    copilotkit: OpenCopilotKitPage, http: httpx.AsyncClient
) -> None:
    here = copilotkit("chat")
    await here.connect()
    assert (await http.get(f"/threads/{thread_id_from_name(here.thread_id)}")).status_code == 404


@pytest.mark.parametrize(("choice", "events"), [("error", ["RUN_ERROR"]), ("empty", EMPTY)])
@pytest.mark.parametrize("wire", [Page, CopilotKitPage])
async def test_the_handling_of_unknown_threads_is_configurable(
    project: Path, tmp_path: Path, agui: AgUiChecker, choice: str, events: list[str], wire: type[Page]
) -> None:
    env = {"THREADWIRE_UNKNOWN_THREAD": choice, "THREADWIRE_STORAGE": "memory"}
    with running_server(project, tmp_path / "data", env=env) as server:
        async with httpx.AsyncClient(base_url=server.url) as http:
            assert kinds((await wire(http, agui, "chat").connect()).events) == events


@pytest.mark.parametrize("name", ["", "x" * 256, "line\nbreak"])
async def test_an_invalid_thread_id_is_reported_in_the_stream(
    http: httpx.AsyncClient, agui: AgUiChecker, name: str
) -> None:
    response = await http.post(f"{COPILOTKIT}/agent/chat/connect", json=hello(name))
    [event] = agui.check(response.content).events
    assert (event["type"], event["code"]) == ("RUN_ERROR", "404")


async def test_connecting_attaches_to_a_run_and_leaving_does_not_stop_it(copilotkit: OpenCopilotKitPage) -> None:
    here = copilotkit("chat")
    text = "a long answer in many words, please, word by word"
    async with here.open(messages=[{"id": "u1", "role": "user", "content": text}], state={"delay": 0.05}) as own:
        await own.until("a long")
        late = here.another()
        async with late.open("/connect") as left:
            await left.until("MESSAGES_SNAPSHOT")
    await late.connect()
    assert late.texts[-1] == ("assistant", f"You said: {text}")


@pytest.mark.parametrize("by", ["header", "body"])
async def test_a_client_resumes_from_its_cursor(copilotkit: OpenCopilotKitPage, by: str) -> None:
    here = copilotkit("chat")
    await here.send("one", "u1")
    seen = await here.connect(here.cursor, by=by)
    assert kinds(seen.events) == ["RUN_STARTED", "RUN_FINISHED"]


async def test_a_second_run_on_a_busy_thread_is_rejected_like_the_node_runtime_does(
    http: httpx.AsyncClient, copilotkit: OpenCopilotKitPage, gate: Path
) -> None:
    here = copilotkit("slow")
    async with here.open(state={"until": str(gate)}) as own:
        await own.until('"wait"')
        response = await http.post(f"{COPILOTKIT}/agent/slow/run", json=hello(here.thread_id))
        await here.stop()
    assert response.status_code == 409
    assert response.json()["error"] == "Thread already running"
    assert "already running" in response.json()["message"]


async def test_a_run_is_stopped_once(copilotkit: OpenCopilotKitPage, gate: Path) -> None:
    here = copilotkit("slow")
    async with here.open(state={"until": str(gate)}, runId="mine") as own:
        await own.until('"wait"')
        other = await here.stop("another")
        stopped = await here.stop("mine")
        seen = here.receive(await own.rest())
    again = await here.stop()

    assert other == {"stopped": False, "message": f"Run 'another' is not the active run for thread '{here.thread_id}'."}
    assert stopped == {
        "stopped": True,
        "interrupt": {"type": "RUN_ERROR", "message": "Run stopped by user", "code": "STOPPED"},
    }
    assert again == {"stopped": False, "message": f"No active run for thread '{here.thread_id}'."}
    assert seen.events[-1] == {"type": "RUN_FINISHED", "threadId": here.thread_id, "runId": "mine"}


@pytest.mark.parametrize("body", [b"", b"  ", b"{}"])
async def test_a_stop_without_a_run_id_stops_the_thread(http: httpx.AsyncClient, body: bytes) -> None:
    response = await http.post(f"{COPILOTKIT}/agent/chat/stop/idle", content=body)
    assert (response.status_code, response.json()["stopped"]) == (200, False)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"runID": "x"}', "Invalid stop request"),
        (b'{"runId": "x", "more": 1}', "Invalid stop request"),
        (b"[]", "Invalid stop request"),
        (b"{", "Invalid stop request"),
        (b'{"runId": 1}', "Invalid stop request"),
        (b'{"runId": " "}', "Invalid runId"),
        (b'{"runId": null}', "Invalid runId"),
    ],
)
async def test_an_invalid_stop_request_stops_nothing(http: httpx.AsyncClient, body: bytes, error: str) -> None:
    response = await http.post(f"{COPILOTKIT}/agent/chat/stop/idle", content=body)
    assert (response.status_code, response.json()) == (400, {"error": error})


@pytest.mark.parametrize("new", [True, False])
async def test_an_interrupt_survives_a_reload_and_is_answered(copilotkit: OpenCopilotKitPage, new: bool) -> None:
    here = copilotkit("approve")
    await here.run(state={"topic": "tests"})
    late = here.another()
    seen = await late.connect()
    [interrupt] = late.interrupts
    assert [each["name"] for each in seen.events if each["type"] == "CUSTOM"] == ["on_interrupt"]

    answer = {"approved": True}
    await late.run(
        **{"resume": [{"interruptId": interrupt["id"], "status": "resolved", "payload": answer}]}
        if new
        else {"forwardedProps": {"command": {"resume": answer, "interruptEvent": "whatever"}}}
    )
    assert late.state["answer"] == answer
    assert late.interrupts == []


@pytest.mark.parametrize(
    ("sent", "parsed"), [("yes", "yes"), ('{"approved": true}', {"approved": True}), ("42", 42), ([1], [1])]
)
async def test_a_legacy_answer_is_parsed_if_it_is_json(copilotkit: OpenCopilotKitPage, sent: Any, parsed: Any) -> None:
    here = copilotkit("approve")
    await here.run(state={"topic": "tests"})
    await here.run(forwardedProps={"command": {"resume": sent}})
    assert here.state["answer"] == parsed


async def test_a_run_without_new_input_interrupts_again(copilotkit: OpenCopilotKitPage) -> None:
    """Even if the graph has a channel for what the page sends with every request."""
    here = copilotkit("approve")
    await here.run(state={"topic": "tests"})
    [interrupt] = here.interrupts
    await here.run(tools=[{"name": "t", "description": "d"}])
    assert here.interrupts == [interrupt]


@pytest.mark.parametrize("operation", ["run", "suggest"])
async def test_a_stop_that_arrives_before_its_run_stops_it(
    copilotkit: OpenCopilotKitPage, gate: Path, operation: str
) -> None:
    here = copilotkit("slow")
    assert (await here.stop("mine"))["stopped"] is False
    async with here.open(f"/{operation}", state={"until": str(gate)}, runId="mine") as own:
        seen = here.receive(await own.rest())
    assert seen.events[-1]["type"] == "RUN_FINISHED"
    assert not await asyncio.to_thread(gate.exists)


# -- what an agent written for CopilotKit receives ---------------------------------------------------------------------


async def test_context_and_properties_reach_the_graph(copilotkit: OpenCopilotKitPage) -> None:
    here = copilotkit("copilot")
    await here.send(
        "hello", context=[{"description": "The time", "value": "noon"}], forwardedProps={"user": "Ann", "mood": "fine"}
    )
    assert here.texts[-1] == ("assistant", "I know The time: noon, Ann.")
    assert here.state == {"mood": "fine"}


async def test_a_frontend_tool_call_round_trips(copilotkit: OpenCopilotKitPage) -> None:
    here = copilotkit("copilot")
    tools = [{"name": "notify", "description": "Show it.", "parameters": {"type": "object", "properties": {}}}]
    await here.send("tell me", tools=tools)
    [call] = here.messages[-1]["toolCalls"]
    assert call["function"] == {"name": "notify", "arguments": '{"title":"a title","message":"a message"}'}

    late = here.another()
    await late.connect()
    assert late.messages == here.messages

    answer = {"id": "t1", "role": "tool", "toolCallId": call["id"], "content": "shown"}
    await late.run(messages=[*late.messages, answer], tools=tools, forwardedProps={"user": "Ann"})
    assert late.texts[-1] == ("assistant", "shown, Ann!")


# -- suggestions -------------------------------------------------------------------------------------------------------

SUGGEST = {
    "tools": [{"name": "copilotkitSuggest", "description": "Suggest.", "parameters": {"type": "object"}}],
    "forwardedProps": {"toolChoice": {"type": "function", "function": {"name": "copilotkitSuggest"}}},
}


@pytest.mark.parametrize("operation", ["suggest", "run"])
async def test_a_suggestion_leaves_no_thread(http: httpx.AsyncClient, agui: AgUiChecker, operation: str) -> None:
    thread_id = str(uuid.uuid4())
    before = await _all_threads(http)
    body = hello(thread_id, **SUGGEST)
    response = await http.post(f"{COPILOTKIT}/agent/copilot/{operation}", json=body)
    seen = agui.check(response.content, messages=body["messages"])

    assert seen.events[0]["threadId"] == thread_id
    assert "Go on, please." in seen.messages[-1]["toolCalls"][0]["function"]["arguments"]
    assert await _all_threads(http) == before


async def test_a_suggestion_does_not_touch_the_thread_it_names(
    http: httpx.AsyncClient, copilotkit: OpenCopilotKitPage
) -> None:
    here = copilotkit("copilot")
    await here.send("hello")
    await http.post(f"{COPILOTKIT}/agent/copilot/suggest", json=hello(here.thread_id, **SUGGEST))
    late = here.another()
    await late.connect()
    assert late.messages == here.messages


@pytest.mark.parametrize("how", ["leave", "stop"])
async def test_an_abandoned_suggestion_is_stopped(
    http: httpx.AsyncClient, copilotkit: OpenCopilotKitPage, gate: Path, how: str
) -> None:
    here = copilotkit("slow")
    before = await _all_threads(http)
    async with here.open("/suggest", state={"until": str(gate)}) as own:
        await own.until('"wait"')
        if how == "stop":
            assert (await here.stop())["stopped"] is True
            await own.rest()

    async def discarded() -> bool:
        return await _all_threads(http) == before

    await eventually(discarded)


async def _all_threads(http: httpx.AsyncClient) -> int:
    return int((await http.post("/threads/count", json={})).text)
