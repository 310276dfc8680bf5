"""The protocol of CopilotKit's runtime over HTTP: every route, and every way in which it refuses."""

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from agui import AgUi
from clients import PATIENCE, Sdk, eventually
from pages import CopilotKitPage, Page, kinds

from threadwire.core.ids import assistant_id_of, thread_id_named
from threadwire.testing.server import running_server

pytestmark = pytest.mark.anyio

MakePage = Callable[..., CopilotKitPage]
BASE = "/copilotkit"


@pytest.fixture
async def page(http: httpx.AsyncClient, agui: AgUi) -> MakePage:
    return lambda agent, thread_id=None: CopilotKitPage(http, agui, agent, thread_id)


def hello(thread_id: str = "some thread", **more: Any) -> dict[str, Any]:
    message = {"id": "u1", "role": "user", "content": "hello"}
    return {
        "threadId": thread_id,
        "runId": str(uuid.uuid4()),
        "messages": [message],
        "tools": [],
        "context": [],
        **more,
    }


# -- info --------------------------------------------------------------------------------------------------------------


async def test_the_runtime_says_what_it_offers(http: httpx.AsyncClient) -> None:
    info = (await http.get(f"{BASE}/info")).json()
    agents = info.pop("agents")

    assert info == {
        "version": "1.75.0",
        "audioFileTranscriptionEnabled": False,
        "mode": "sse",
        "threadEndpoints": {"list": True, "inspect": True, "mutations": True, "realtimeMetadata": False},
        "singleRoute": {
            "resourceOperations": True,
            "threadEndpoints": {"list": True, "inspect": True, "mutations": True, "realtimeMetadata": False},
        },
        "suggestions": True,
        "a2uiEnabled": False,
        "openGenerativeUIEnabled": False,
        "telemetryDisabled": True,
    }
    assert list(agents)[:3] == ["default", "echo", "chat"]
    assert (agents["chat"]["name"], agents["chat"]["className"]) == ("chat", "LangGraphAgent")
    assert agents["default"]["description"] == "Says what it was told."
    assert agents["chat"]["capabilities"]["transport"]["resumable"] is True


async def test_an_assistant_of_ones_own_is_an_agent_too(sdk: Sdk, http: httpx.AsyncClient, page: MakePage) -> None:
    made = await sdk.assistants.create("chat", name="mine", description="My own.")
    agent = (await http.get(f"{BASE}/info")).json()["agents"][made["assistant_id"]]
    here = page(made["assistant_id"])
    await here.say("hello")

    assert agent["description"] == "My own."
    assert here.texts[-1] == ("assistant", "You said: hello")


async def test_the_first_graph_is_the_default_agent(page: MakePage) -> None:
    here = page("default")
    await here.run(state={"text": "hello"})
    assert here.state == {"text": "hello", "echoed": "hello"}


@pytest.mark.parametrize("name", ["chat", assistant_id_of("chat")])
async def test_another_default_agent_can_be_set(project: Path, tmp_path: Path, agui: AgUi, name: str) -> None:
    env = {"THREADWIRE_DEFAULT_AGENT": name, "THREADWIRE_STORAGE": "memory"}
    with running_server(project, tmp_path / "data", env=env) as server:
        async with httpx.AsyncClient(base_url=server.url) as http:
            here = CopilotKitPage(http, agui, "default")
            await here.say("hello")
    assert here.texts[-1] == ("assistant", "You said: hello")


def test_a_default_agent_that_does_not_exist_is_refused_at_start(project: Path, tmp_path: Path) -> None:
    with (
        pytest.raises(TimeoutError, match="default_agent is 'nope'"),
        running_server(project, tmp_path / "data", env={"THREADWIRE_DEFAULT_AGENT": "nope"}),
    ):
        pass


# -- run, connect, stop ------------------------------------------------------------------------------------------------


async def test_a_conversation_is_had_and_found_again(page: MakePage) -> None:
    here = page("chat")
    await here.say("one", "u1")
    await here.say("two", "u2")
    other = here.another()
    await other.connect()

    assert [text for _, text in here.texts] == ["one", "You said: one", "two", "You said: two"]
    assert other.messages == here.messages


async def test_a_stream_is_sent_as_streams_are(http: httpx.AsyncClient) -> None:
    response = await http.post(f"{BASE}/agent/chat/run", json=hello(str(uuid.uuid4())))
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-accel-buffering"] == "no"
    assert b"\r" not in response.content


async def test_a_thread_that_nobody_has_made_is_empty(page: MakePage) -> None:
    seen = await page("chat").connect()
    assert kinds(seen.events) == ["RUN_STARTED", "RUN_FINISHED"]


async def test_connecting_to_nothing_makes_nothing(page: MakePage, http: httpx.AsyncClient) -> None:
    here = page("chat")
    await here.connect()
    assert (await http.get(f"/threads/{thread_id_named(here.thread_id)}")).status_code == 404


@pytest.mark.parametrize(("choice", "events"), [("error", ["RUN_ERROR"]), ("empty", ["RUN_STARTED", "RUN_FINISHED"])])
@pytest.mark.parametrize("wire", [Page, CopilotKitPage])
async def test_what_an_unknown_thread_is_can_be_set(
    project: Path, tmp_path: Path, agui: AgUi, choice: str, events: list[str], wire: type[Page]
) -> None:
    env = {"THREADWIRE_UNKNOWN_THREAD": choice, "THREADWIRE_STORAGE": "memory"}
    with running_server(project, tmp_path / "data", env=env) as server:
        async with httpx.AsyncClient(base_url=server.url) as http:
            assert kinds((await wire(http, agui, "chat").connect()).events) == events


@pytest.mark.parametrize("name", ["", "x" * 256, "line\nbreak"])
async def test_a_thread_that_cannot_be_is_told_in_the_stream(http: httpx.AsyncClient, agui: AgUi, name: str) -> None:
    response = await http.post(f"{BASE}/agent/chat/connect", json=hello(name))
    [event] = agui.check(response.content).events
    assert (event["type"], event["code"]) == ("RUN_ERROR", "422")


async def test_connecting_attaches_to_a_run_and_leaving_does_not_stop_it(page: MakePage) -> None:
    here = page("chat")
    text = "a long answer in many words, please, word by word"
    async with here.open(messages=[{"id": "u1", "role": "user", "content": text}], state={"delay": 0.05}) as own:
        await own.until("a long")
        late = here.another()
        async with late.open("/connect") as left:
            await left.until("MESSAGES_SNAPSHOT")
    await late.connect()
    assert late.texts[-1] == ("assistant", f"You said: {text}")


@pytest.mark.parametrize("by", ["header", "body"])
async def test_a_page_goes_on_from_its_cursor(page: MakePage, by: str) -> None:
    here = page("chat")
    await here.say("one", "u1")
    seen = await here.connect(here.cursor, by=by)
    assert kinds(seen.events) == ["RUN_STARTED", "RUN_FINISHED"]


async def test_a_second_run_on_a_busy_thread_is_refused_in_their_words(
    http: httpx.AsyncClient, page: MakePage, gate: Path
) -> None:
    here = page("slow")
    async with here.open(state={"until": str(gate)}) as own:
        await own.until('"wait"')
        refused = await http.post(f"{BASE}/agent/slow/run", json=hello(here.thread_id))
        await here.stop()
    assert refused.status_code == 409
    assert refused.json()["error"] == "Thread already running"
    assert "already running" in refused.json()["message"]


async def test_a_run_is_stopped_once(page: MakePage, gate: Path) -> None:
    here = page("slow")
    async with here.open(state={"until": str(gate)}, runId="mine") as own:
        await own.until('"wait"')
        other = await here.stop("another")
        stopped = await here.stop("mine")
        seen = here.take(await own.rest())
    again = await here.stop()

    assert other == {"stopped": False, "message": f"Run 'another' is not the active run for thread '{here.thread_id}'."}
    assert stopped == {
        "stopped": True,
        "interrupt": {"type": "RUN_ERROR", "message": "Run stopped by user", "code": "STOPPED"},
    }
    assert again == {"stopped": False, "message": f"No active run for thread '{here.thread_id}'."}
    assert seen.events[-1] == {"type": "RUN_FINISHED", "threadId": here.thread_id, "runId": "mine"}


@pytest.mark.parametrize("body", [b"", b"  ", b"{}"])
async def test_a_stop_without_a_run_means_the_thread(http: httpx.AsyncClient, body: bytes) -> None:
    response = await http.post(f"{BASE}/agent/chat/stop/idle", content=body)
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
async def test_a_stop_that_is_not_understood_stops_nothing(http: httpx.AsyncClient, body: bytes, error: str) -> None:
    response = await http.post(f"{BASE}/agent/chat/stop/idle", content=body)
    assert (response.status_code, response.json()) == (400, {"error": error})


@pytest.mark.parametrize("new", [True, False])
async def test_an_interrupt_outlives_a_reload_and_is_answered(page: MakePage, new: bool) -> None:
    here = page("approve")
    await here.run(state={"topic": "tests"})
    late = here.another()
    seen = await late.connect()
    [asked] = late.interrupts
    assert [each["name"] for each in seen.events if each["type"] == "CUSTOM"] == ["on_interrupt"]

    answer = {"approved": True}
    await late.run(
        **{"resume": [{"interruptId": asked["id"], "status": "resolved", "payload": answer}]}
        if new
        else {"forwardedProps": {"command": {"resume": answer, "interruptEvent": "whatever"}}}
    )
    assert late.state["answer"] == answer
    assert late.interrupts == []


@pytest.mark.parametrize(
    ("sent", "meant"), [("yes", "yes"), ('{"approved": true}', {"approved": True}), ("42", 42), ([1], [1])]
)
async def test_an_answer_of_the_older_kind_is_what_was_meant(page: MakePage, sent: Any, meant: Any) -> None:
    here = page("approve")
    await here.run(state={"topic": "tests"})
    await here.run(forwardedProps={"command": {"resume": sent}})
    assert here.state["answer"] == meant


async def test_a_run_without_anything_new_asks_again(page: MakePage) -> None:
    """Also of a graph that has a place for what the page always sends."""
    here = page("approve")
    await here.run(state={"topic": "tests"})
    [asked] = here.interrupts
    await here.run(tools=[{"name": "t", "description": "d"}])
    assert here.interrupts == [asked]


# -- what an agent written for CopilotKit gets -------------------------------------------------------------------------


async def test_context_and_properties_reach_the_graph(page: MakePage) -> None:
    here = page("copilot")
    await here.say(
        "hello", context=[{"description": "The time", "value": "noon"}], forwardedProps={"user": "Ann", "mood": "fine"}
    )
    assert here.texts[-1] == ("assistant", "I know The time: noon, Ann.")
    assert here.state == {"mood": "fine"}


async def test_a_tool_of_the_page_goes_there_and_back(page: MakePage) -> None:
    here = page("copilot")
    tools = [{"name": "notify", "description": "Show it.", "parameters": {"type": "object", "properties": {}}}]
    await here.say("tell me", tools=tools)
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
async def test_a_suggestion_leaves_nothing_behind(http: httpx.AsyncClient, agui: AgUi, operation: str) -> None:
    thread_id = str(uuid.uuid4())
    before = await _all_threads(http)
    asked = hello(thread_id, **SUGGEST)
    response = await http.post(f"{BASE}/agent/copilot/{operation}", json=asked)
    seen = agui.check(response.content, messages=asked["messages"])

    assert seen.events[0]["threadId"] == thread_id
    assert "Go on, please." in seen.messages[-1]["toolCalls"][0]["function"]["arguments"]
    assert await _all_threads(http) == before


async def test_a_suggestion_does_not_touch_the_thread_it_names(http: httpx.AsyncClient, page: MakePage) -> None:
    here = page("copilot")
    await here.say("hello")
    await http.post(f"{BASE}/agent/copilot/suggest", json=hello(here.thread_id, **SUGGEST))
    late = here.another()
    await late.connect()
    assert late.messages == here.messages


@pytest.mark.parametrize("how", ["leave", "stop"])
async def test_a_suggestion_nobody_waits_for_is_stopped(
    http: httpx.AsyncClient, page: MakePage, gate: Path, how: str
) -> None:
    here = page("slow")
    before = await _all_threads(http)
    async with here.open("/suggest", state={"until": str(gate)}) as own:
        await own.until('"wait"')
        if how == "stop":
            assert (await here.stop())["stopped"] is True
            await own.rest()

    async def gone() -> bool:
        return await _all_threads(http) == before

    await eventually(gone)


async def _all_threads(http: httpx.AsyncClient) -> int:
    return int((await http.post("/threads/count", json={})).text)


# -- threads -----------------------------------------------------------------------------------------------------------


@pytest.fixture
async def agent(sdk: Sdk) -> str:
    """An agent that no other test has."""
    return (await sdk.assistants.create("chat"))["assistant_id"]


async def listed(http: httpx.AsyncClient, agent: str, **query: Any) -> Any:
    response = await http.get(f"{BASE}/threads", params={"agentId": agent, **query})
    assert response.status_code == 200, response.text
    return response.json()


async def test_the_threads_of_an_agent_are_listed_as_pages_call_them(
    http: httpx.AsyncClient, page: MakePage, agent: str
) -> None:
    here, other = page(agent), page(agent, str(uuid.uuid4()))
    await here.say("one")
    await other.say("two")
    await page("chat").say("of another agent")
    await here.say("three")
    page_of_threads = await listed(http, agent)

    assert page_of_threads["nextCursor"] is None
    assert [each["id"] for each in page_of_threads["threads"]] == [here.thread_id, other.thread_id]
    first = page_of_threads["threads"][0]
    assert set(first) == {
        "id", "name", "agentId", "organizationId", "createdById", "archived", "createdAt", "updatedAt", "lastRunAt",
    }  # fmt: skip
    assert (first["name"], first["agentId"], first["archived"]) == (None, agent, False)
    assert (first["organizationId"], first["createdById"]) == ("", "")
    assert first["createdAt"] < first["lastRunAt"] <= first["updatedAt"]
    assert first["createdAt"].endswith("Z")


async def test_the_list_is_had_in_pages(http: httpx.AsyncClient, page: MakePage, agent: str) -> None:
    threads = [page(agent) for _ in range(5)]
    for thread in threads:
        await thread.say("hello")
    found: list[str] = []
    cursor: dict[str, str] = {}
    sizes = []
    while True:
        part = await listed(http, agent, limit=2, **cursor)
        sizes.append(len(part["threads"]))
        found += [each["id"] for each in part["threads"]]
        if part["nextCursor"] is None:
            break
        cursor = {"cursor": part["nextCursor"]}

    assert sizes == [2, 2, 1]
    assert found == [thread.thread_id for thread in reversed(threads)]


async def test_the_default_agent_has_the_threads_of_its_graph(http: httpx.AsyncClient, page: MakePage) -> None:
    here = page("echo")
    await here.run(state={"text": "x"})
    [found] = [each for each in (await listed(http, "default", limit=100))["threads"] if each["id"] == here.thread_id]
    assert found["agentId"] == "default"


async def test_threads_of_all_agents_are_listed_with_their_agents(
    http: httpx.AsyncClient, page: MakePage, agent: str, sdk: Sdk
) -> None:
    own, of_graph = page(agent), page("chat")
    await own.say("hello")
    await of_graph.say("hello")
    without_runs = await sdk.thread()
    found = {
        each["id"]: each["agentId"]
        for each in (await http.get(f"{BASE}/threads", params={"limit": 100})).json()["threads"]
    }

    assert (found[own.thread_id], found[of_graph.thread_id]) == (agent, "chat")
    assert without_runs not in found


async def test_a_name_in_metadata_that_means_another_thread_is_not_believed(
    http: httpx.AsyncClient, page: MakePage, agent: str
) -> None:
    here = page(agent)
    await here.say("hello")
    thread_id = thread_id_named(here.thread_id)
    await http.patch(f"/threads/{thread_id}", json={"metadata": {"ag_ui_thread_id": "another"}})
    assert [each["id"] for each in (await listed(http, agent))["threads"]] == [thread_id]


async def test_a_thread_is_named_archived_and_taken_back(http: httpx.AsyncClient, page: MakePage, agent: str) -> None:
    here = page(agent, f"with / and % {uuid.uuid4()}")
    await here.say("hello")
    address = f"{BASE}/threads/{quote(here.thread_id, safe='')}"

    renamed = (await http.patch(address, json={"agentId": agent, "name": "A name"})).json()
    assert (renamed["id"], renamed["name"], renamed["archived"]) == (here.thread_id, "A name", False)
    archived = await http.post(f"{address}/archive", json={"agentId": agent})
    assert archived.json() == {"threadId": here.thread_id, "archived": True}
    assert (await listed(http, agent))["threads"] == []
    [found] = (await listed(http, agent, includeArchived="true"))["threads"]
    assert (found["name"], found["archived"]) == ("A name", True)

    back = (await http.patch(address, json={"agentId": agent, "archived": False})).json()
    assert (back["name"], back["archived"]) == ("A name", False)
    assert len((await listed(http, agent))["threads"]) == 1
    unnamed = (await http.patch(address, json={"agentId": agent, "name": None})).json()
    assert unnamed["name"] is None


async def test_the_order_of_the_list_is_that_of_runs(http: httpx.AsyncClient, page: MakePage, agent: str) -> None:
    first, second = page(agent), page(agent)
    await first.say("hello")
    await second.say("hello")
    await http.patch(f"{BASE}/threads/{first.thread_id}", json={"agentId": agent, "name": "renamed"})
    assert [each["id"] for each in (await listed(http, agent))["threads"]] == [second.thread_id, first.thread_id]


async def test_a_deleted_thread_is_gone(http: httpx.AsyncClient, page: MakePage, agent: str) -> None:
    here = page(agent)
    await here.say("hello")
    address = f"{BASE}/threads/{here.thread_id}"
    deleted = await http.request("DELETE", address, json={"agentId": agent})

    assert deleted.json() == {"threadId": here.thread_id, "deleted": True}
    assert (await listed(http, agent))["threads"] == []
    again = await http.request("DELETE", address, json={"agentId": agent})
    assert (again.status_code, again.json()["error"]) == (404, "Thread not found")


@pytest.mark.parametrize(("verb", "more"), [("PATCH", ""), ("DELETE", ""), ("POST", "/archive")])
async def test_a_thread_of_another_agent_is_not_found(
    http: httpx.AsyncClient, page: MakePage, agent: str, verb: str, more: str
) -> None:
    here = page("chat")
    await here.say("hello")
    refused = await http.request(verb, f"{BASE}/threads/{here.thread_id}{more}", json={"agentId": agent, "name": "x"})
    assert refused.status_code == 404
    assert refused.json() == {"error": "Thread not found", "message": f"Thread '{here.thread_id}' not found"}


@pytest.mark.parametrize(("verb", "more"), [("PATCH", ""), ("DELETE", ""), ("POST", "/archive")])
async def test_a_change_that_does_not_say_whose_is_refused(http: httpx.AsyncClient, verb: str, more: str) -> None:
    refused = await http.request(verb, f"{BASE}/threads/any{more}", json={})
    assert refused.status_code == 400
    assert refused.json() == {"error": "Invalid request body", "details": '"agentId" is a required property'}


@pytest.mark.parametrize("body", [{"name": 1}, {"name": "x" * 256}, {"archived": "perhaps"}])
async def test_a_change_that_makes_no_sense_is_refused(http: httpx.AsyncClient, body: dict[str, Any]) -> None:
    refused = await http.patch(f"{BASE}/threads/any", json={"agentId": "chat", **body})
    assert (refused.status_code, refused.json()["error"]) == (400, "Invalid request body")


@pytest.mark.parametrize("query", [{"limit": 0}, {"limit": "x"}, {"limit": 101}, {"cursor": "x"}, {"cursor": "-1"}])
async def test_a_list_that_makes_no_sense_is_refused(http: httpx.AsyncClient, query: dict[str, Any]) -> None:
    refused = await http.get(f"{BASE}/threads", params={"agentId": "chat", **query})
    assert (refused.status_code, refused.json()["error"]) == (400, "Invalid request")


async def test_what_is_not_offered_says_so(http: httpx.AsyncClient) -> None:
    for path in ("subscribe", "clear"):
        refused = await http.post(f"{BASE}/threads/{path}", json={})
        assert (refused.status_code, set(refused.json())) == (422, {"error"})
    transcribed = await http.post(f"{BASE}/transcribe", json={"audio": "", "mimeType": "audio/wav"})
    assert (transcribed.status_code, transcribed.json()["error"]) == (503, "service_not_configured")


# -- looking at a thread -----------------------------------------------------------------------------------------------


async def test_the_messages_of_a_thread_are_flat(http: httpx.AsyncClient, page: MakePage) -> None:
    here = page("tools")
    await here.say("hello", "u1")
    messages = (await http.get(f"{BASE}/threads/{here.thread_id}/messages")).json()["messages"]

    assert messages[0] == {"id": "u1", "role": "user", "content": "hello"}
    assert messages[1]["toolCalls"] == [{"id": "call-1", "name": "add", "args": '{"a":20,"b":22}'}]
    assert (messages[2]["role"], messages[2]["toolCallId"], messages[2]["content"]) == ("tool", "call-1", "42")
    assert messages[3]["content"] == "The sum is 42."


async def test_the_state_of_a_thread_is_without_its_messages(http: httpx.AsyncClient, page: MakePage, sdk: Sdk) -> None:
    here = page("echo")
    await here.run(state={"text": "x"})
    assert (await http.get(f"{BASE}/threads/{here.thread_id}/state")).json() == {"state": here.state}
    unused = await sdk.thread()
    assert (await http.get(f"{BASE}/threads/{unused}/state")).json() == {"state": None}
    assert (await http.get(f"{BASE}/threads/{unused}/messages")).json() == {"messages": []}
    assert (await http.get(f"{BASE}/threads/{unused}/events")).json() == {"events": []}


async def test_a_thread_is_looked_at_while_it_is_at_work(http: httpx.AsyncClient, page: MakePage, gate: Path) -> None:
    here = page("by_hand")
    async with here.open(messages=[{"id": "u1", "role": "user", "content": "x"}], state={"until": str(gate)}) as own:
        await own.until("0.5")
        messages = (await http.get(f"{BASE}/threads/{here.thread_id}/messages")).json()["messages"]
        state = (await http.get(f"{BASE}/threads/{here.thread_id}/state")).json()["state"]
        events = (await http.get(f"{BASE}/threads/{here.thread_id}/events")).json()["events"]
    assert [each["id"] for each in messages] == ["u1", "ahead", "search-1"]
    assert state == {"progress": 0.5}
    assert events[-1] == {"type": "STATE_SNAPSHOT", "snapshot": {"progress": 0.5}}


@pytest.mark.parametrize("agent", ["tools", "showcase", "nested", "everything", "by_hand"])
async def test_the_events_of_a_thread_replay_it(
    http: httpx.AsyncClient, page: MakePage, agui: AgUi, agent: str
) -> None:
    """Fewer than were sent, and whoever takes them in ends up with the same."""
    here = page(agent)
    sent = len((await here.say("hello", "u1")).events)
    if agent != "everything":
        sent += len((await here.say("again", "u2")).events)
    events = (await http.get(f"{BASE}/threads/{here.thread_id}/events")).json()["events"]
    replayed = agui.check(b"".join(f"data: {_json(each)}\n\n".encode() for each in events))

    assert len(events) < sent
    assert replayed.messages == here.messages
    assert replayed.state == here.state
    assert replayed.interrupts == here.interrupts


async def test_the_events_of_failed_runs_are_told_too(http: httpx.AsyncClient, page: MakePage, agui: AgUi) -> None:
    here = page("fails")
    await here.run(state={"text": "one"})
    await here.run(state={"text": "two"})
    events = (await http.get(f"{BASE}/threads/{here.thread_id}/events")).json()["events"]
    agui.check(b"".join(f"data: {_json(each)}\n\n".encode() for each in events))
    assert kinds(events).count("RUN_ERROR") == 2


def _json(value: Any) -> str:
    return httpx.Request("POST", "http://x", json=value).content.decode()


@pytest.mark.parametrize("what", ["messages", "events", "state"])
async def test_a_thread_that_is_not_there_cannot_be_looked_at(http: httpx.AsyncClient, what: str) -> None:
    refused = await http.get(f"{BASE}/threads/nothing here/{what}")
    assert (refused.status_code, refused.json()["error"]) == (404, "Thread not found")


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["run", "connect", "suggest", "stop/x"])
async def test_an_unknown_agent_is_not_found(http: httpx.AsyncClient, operation: str) -> None:
    body = {} if operation == "stop/x" else hello()
    refused = await http.post(f"{BASE}/agent/no%20such/{operation}", json=body)
    assert refused.status_code == 404
    assert refused.json() == {"error": "Agent not found", "message": "Agent 'no such' does not exist"}


@pytest.mark.parametrize("operation", ["run", "connect", "suggest"])
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"runId": "x"}', b'{"threadId": 1, "runId": "x"}'])
async def test_a_body_that_is_not_understood_is_refused(http: httpx.AsyncClient, operation: str, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    refused = await http.post(f"{BASE}/agent/chat/{operation}", content=body, headers=headers)
    assert (refused.status_code, refused.json()["error"]) == (400, "Invalid request body")
    assert refused.json()["details"]


async def test_a_message_that_makes_no_sense_is_refused(http: httpx.AsyncClient) -> None:
    refused = await http.post(f"{BASE}/agent/chat/run", json=hello(messages=[{"role": "user"}]))
    assert (refused.status_code, refused.json()["error"]) == (400, "Invalid request body")


@pytest.mark.parametrize(
    ("path", "verb", "allowed"),
    [
        ("", "GET", "POST"),
        ("/", "PUT", "POST"),
        ("", "PROPFIND", "POST"),
        ("/info", "POST", "GET"),
        ("/agent/chat/run", "GET", "POST"),
        ("/agent/chat/connect/", "GET", "POST"),
        ("/agent/chat/stop/x", "DELETE", "POST"),
        ("/threads", "POST", "GET"),
        ("/threads/x", "GET", "DELETE, PATCH"),
        ("/threads/a%0Ab", "TRACE", "DELETE, PATCH"),
        ("/threads/", "PATCH", "GET"),
        ("/threads/x/archive", "GET", "DELETE, PATCH, POST"),
    ],
)
async def test_another_verb_is_refused_with_those_that_are_allowed(
    http: httpx.AsyncClient, path: str, verb: str, allowed: str
) -> None:
    refused = await http.request(verb, BASE + path)
    assert (refused.status_code, refused.json()) == (405, {"error": "Method not allowed"})
    assert refused.headers["allow"] == allowed


@pytest.mark.parametrize("path", ["/nothing", "/a%0Ab", "/agent/chat", "/memories", "/annotate", "/inspector-metadata"])
@pytest.mark.parametrize("verb", ["GET", "POST", "PROPFIND"])
async def test_what_there_is_not_is_not_found(http: httpx.AsyncClient, path: str, verb: str) -> None:
    refused = await http.request(verb, BASE + path)
    assert (refused.status_code, refused.json()) == (404, {"error": "Not found"})


@pytest.mark.parametrize("path", ["/info/", "//info", "/threads/", "/agent/chat/stop/x/"])
async def test_slashes_too_many_do_no_harm(http: httpx.AsyncClient, path: str) -> None:
    verb = "POST" if "stop" in path else "GET"
    assert (await http.request(verb, BASE + path)).status_code == 200


# -- the transport with one address ------------------------------------------------------------------------------------


@pytest.fixture(params=["", "/"])
async def envelope(http: httpx.AsyncClient, request: pytest.FixtureRequest) -> Callable[..., Any]:
    async def post(method: str, params: Any = None, body: Any = ...) -> httpx.Response:
        sent = {"method": method}
        sent |= {} if params is None else {"params": params}
        sent |= {} if body is ... else {"body": body}
        return await http.post(BASE + request.param, json=sent)

    return post


async def test_an_envelope_has_every_operation(
    http: httpx.AsyncClient, envelope: Callable[..., Any], agui: AgUi, agent: str
) -> None:
    thread_id = f"in an envelope {uuid.uuid4()}"
    assert (await envelope("info")).json() == (await http.get(f"{BASE}/info")).json()

    body = hello(thread_id)
    ran = agui.check((await envelope("agent/run", {"agentId": agent}, body)).content, messages=body["messages"])
    assert ran.messages[-1]["content"] == "You said: hello"
    connected = agui.check((await envelope("agent/connect", {"agentId": agent}, hello(thread_id))).content)
    assert connected.messages == ran.messages
    suggested = agui.check((await envelope("agent/suggest", {"agentId": agent}, body)).content)
    assert suggested.events[-1]["type"] == "RUN_FINISHED"

    where = {"agentId": agent, "threadId": thread_id}
    assert (await envelope("agent/stop", where)).json()["stopped"] is False
    assert (await envelope("agent/stop", where, {"runId": "x"})).json()["stopped"] is False
    assert (await envelope("agent/stop", where, {"more": 1})).status_code == 400


async def test_an_envelope_reaches_the_threads(
    http: httpx.AsyncClient, envelope: Callable[..., Any], agent: str
) -> None:
    thread_id = f"a/b & {uuid.uuid4()}"
    await envelope("agent/run", {"agentId": agent}, hello(thread_id))
    quoted = quote(thread_id, safe="")

    async def ask(verb: str, path: str, body: Any = ...) -> Any:
        return await envelope("resource/request", {"path": path, "httpMethod": verb}, body)

    [found] = (await ask("GET", f"/threads?agentId={agent}&limit=1")).json()["threads"]
    address = f"/threads/{quoted}"
    assert found["id"] == thread_id
    assert (await ask("patch", address, {"agentId": agent, "name": "n"})).json()["name"] == "n"
    assert (await ask("POST", f"{address}/archive", {"agentId": agent})).json()["archived"] is True
    assert len((await ask("GET", f"{address}/messages")).json()["messages"]) == 2
    assert (await ask("GET", f"{address}/state")).json() == {"state": {}}
    assert (await ask("DELETE", address, {"agentId": agent})).json()["deleted"] is True
    assert (await ask("GET", f"{address}/messages")).status_code == 404


async def test_an_envelope_leads_nowhere_else(envelope: Callable[..., Any]) -> None:
    for path in ("/info", "/agent/chat/run", "/threadsx", "/../threads", "/memories"):
        refused = await envelope("resource/request", {"path": path, "httpMethod": "GET"})
        assert (refused.status_code, refused.json()) == (404, {"error": "Not found"}), path
    for path in ("threads", "//threads", "http://elsewhere/threads"):
        refused = await envelope("resource/request", {"path": path, "httpMethod": "GET"})
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request"), path


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"{", "Invalid JSON in request body"),
        (b"[]", "Missing method field"),
        (b"{}", "Missing method field"),
        (b'{"method": "x"}', "Unsupported method 'x'"),
        (b'{"method": "info", "params": 1}', "params: is not an object"),
        (b'{"method": "agent/run", "body": {}}', "Missing or invalid parameter 'agentId'"),
        (b'{"method": "agent/run", "params": {"agentId": "chat"}}', "Missing request body for JSON handler"),
        (b'{"method": "agent/stop", "params": {"agentId": "chat"}}', "Missing or invalid parameter 'threadId'"),
        (
            b'{"method": "resource/request", "params": {"path": "/threads"}}',
            "Missing or invalid parameter 'httpMethod'",
        ),
    ],
)
async def test_an_envelope_that_is_not_understood_is_refused(
    http: httpx.AsyncClient, sent: bytes, message: str
) -> None:
    refused = await http.post(BASE, content=sent, headers={"content-type": "application/json"})
    assert (refused.status_code, refused.json()) == (400, {"error": "invalid_request", "message": message})


async def test_an_envelope_is_json(http: httpx.AsyncClient) -> None:
    refused = await http.post(BASE, content=b"hello", headers={"content-type": "text/plain"})
    assert (refused.status_code, refused.json()["error"]) == (415, "invalid_request")


async def test_an_envelope_is_refused_like_what_is_in_it(envelope: Callable[..., Any]) -> None:
    unknown = await envelope("agent/run", {"agentId": "a/stop/b"}, hello())
    assert (unknown.status_code, unknown.json()["error"]) == (404, "Agent not found")
    malformed = await envelope("agent/run", {"agentId": "chat"}, {"threadId": 1})
    assert (malformed.status_code, malformed.json()["error"]) == (400, "Invalid request body")
    assert (await envelope("transcribe", body={})).status_code == 503
    for method in ("inspector/metadata", "inspector/learning"):
        assert (await envelope(method)).status_code == 404


async def test_leaving_an_envelope_leaves_the_run(http: httpx.AsyncClient, page: MakePage) -> None:
    here = page("chat")
    text = "one two three four five six"
    body = hello(here.thread_id, messages=[{"id": "u1", "role": "user", "content": text}], state={"delay": 0.05})
    sent = {"method": "agent/run", "params": {"agentId": "chat"}, "body": body}
    async with http.stream("POST", BASE, json=sent) as stream:
        async for chunk in stream.aiter_raw():
            if b"one" in chunk:
                break
    async with asyncio.timeout(PATIENCE):
        await here.connect()
    assert here.texts[-1] == ("assistant", f"You said: {text}")


@pytest.mark.parametrize("operation", ["run", "suggest"])
async def test_a_stop_that_overtakes_its_run_waits_for_it(page: MakePage, gate: Path, operation: str) -> None:
    here = page("slow")
    assert (await here.stop("mine"))["stopped"] is False
    async with here.open(f"/{operation}", state={"until": str(gate)}, runId="mine") as own:
        seen = here.take(await own.rest())
    assert seen.events[-1]["type"] == "RUN_FINISHED"
    assert not await asyncio.to_thread(gate.exists)
