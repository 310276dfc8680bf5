"""CopilotKit's runtime over HTTP: listing threads, changing them and inspecting them."""

import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from agui_checker import AgUiChecker
from clients import Sdk
from pages import COPILOTKIT, OpenCopilotKitPage, kinds

from threadwire.core.ids import thread_id_from_name

pytestmark = pytest.mark.anyio

# -- threads -----------------------------------------------------------------------------------------------------------


async def list_threads(http: httpx.AsyncClient, agent: str, **query: Any) -> Any:
    response = await http.get(f"{COPILOTKIT}/threads", params={"agentId": agent, **query})
    assert response.status_code == 200, response.text
    return response.json()


async def test_the_threads_of_an_agent_are_listed_by_their_client_ids(
    http: httpx.AsyncClient, copilotkit: OpenCopilotKitPage, agent: str
) -> None:
    here, other = copilotkit(agent), copilotkit(agent, str(uuid.uuid4()))
    await here.send("one")
    await other.send("two")
    await copilotkit("chat").send("of another agent")
    await here.send("three")
    page_of_threads = await list_threads(http, agent)

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


async def test_the_list_is_paginated(http: httpx.AsyncClient, copilotkit: OpenCopilotKitPage, agent: str) -> None:
    threads = [copilotkit(agent) for _ in range(5)]
    for thread in threads:
        await thread.send("hello")
    found: list[str] = []
    cursor: dict[str, str] = {}
    sizes = []
    while True:
        part = await list_threads(http, agent, limit=2, **cursor)
        sizes.append(len(part["threads"]))
        found += [each["id"] for each in part["threads"]]
        if part["nextCursor"] is None:
            break
        cursor = {"cursor": part["nextCursor"]}

    assert sizes == [2, 2, 1]
    assert found == [thread.thread_id for thread in reversed(threads)]


async def test_the_default_agent_has_the_threads_of_its_graph(
    http: httpx.AsyncClient, copilotkit: OpenCopilotKitPage
) -> None:
    here = copilotkit("echo")
    await here.run(state={"text": "x"})
    [found] = [
        each for each in (await list_threads(http, "default", limit=100))["threads"] if each["id"] == here.thread_id
    ]
    assert found["agentId"] == "default"


async def test_threads_of_all_agents_are_listed_with_their_agents(
    http: httpx.AsyncClient, copilotkit: OpenCopilotKitPage, agent: str, sdk: Sdk
) -> None:
    own, of_graph = copilotkit(agent), copilotkit("chat")
    await own.send("hello")
    await of_graph.send("hello")
    without_runs = await sdk.thread()
    found = {
        each["id"]: each["agentId"]
        for each in (await http.get(f"{COPILOTKIT}/threads", params={"limit": 100})).json()["threads"]
    }

    assert (found[own.thread_id], found[of_graph.thread_id]) == (agent, "chat")
    assert without_runs not in found


async def test_a_client_id_in_metadata_that_names_another_thread_is_ignored(
    http: httpx.AsyncClient, copilotkit: OpenCopilotKitPage, agent: str
) -> None:
    here = copilotkit(agent)
    await here.send("hello")
    thread_id = thread_id_from_name(here.thread_id)
    await http.patch(f"/threads/{thread_id}", json={"metadata": {"ag_ui_thread_id": "another"}})
    assert [each["id"] for each in (await list_threads(http, agent))["threads"]] == [thread_id]


async def test_a_thread_is_renamed_archived_and_restored(
    http: httpx.AsyncClient, copilotkit: OpenCopilotKitPage, agent: str
) -> None:
    here = copilotkit(agent, f"with / and % {uuid.uuid4()}")
    await here.send("hello")
    address = f"{COPILOTKIT}/threads/{quote(here.thread_id, safe='')}"

    renamed = (await http.patch(address, json={"agentId": agent, "name": "A name"})).json()
    assert (renamed["id"], renamed["name"], renamed["archived"]) == (here.thread_id, "A name", False)
    archived = await http.post(f"{address}/archive", json={"agentId": agent})
    assert archived.json() == {"threadId": here.thread_id, "archived": True}
    assert (await list_threads(http, agent))["threads"] == []
    [found] = (await list_threads(http, agent, includeArchived="true"))["threads"]
    assert (found["name"], found["archived"]) == ("A name", True)

    back = (await http.patch(address, json={"agentId": agent, "archived": False})).json()
    assert (back["name"], back["archived"]) == ("A name", False)
    assert len((await list_threads(http, agent))["threads"]) == 1
    unnamed = (await http.patch(address, json={"agentId": agent, "name": None})).json()
    assert unnamed["name"] is None


async def test_the_list_is_ordered_by_last_run(
    http: httpx.AsyncClient, copilotkit: OpenCopilotKitPage, agent: str
) -> None:
    first, second = copilotkit(agent), copilotkit(agent)
    await first.send("hello")
    await second.send("hello")
    await http.patch(f"{COPILOTKIT}/threads/{first.thread_id}", json={"agentId": agent, "name": "renamed"})
    assert [each["id"] for each in (await list_threads(http, agent))["threads"]] == [second.thread_id, first.thread_id]


async def test_a_deleted_thread_is_not_listed(
    http: httpx.AsyncClient, copilotkit: OpenCopilotKitPage, agent: str
) -> None:
    here = copilotkit(agent)
    await here.send("hello")
    address = f"{COPILOTKIT}/threads/{here.thread_id}"
    deleted = await http.request("DELETE", address, json={"agentId": agent})

    assert deleted.json() == {"threadId": here.thread_id, "deleted": True}
    assert (await list_threads(http, agent))["threads"] == []
    again = await http.request("DELETE", address, json={"agentId": agent})
    assert (again.status_code, again.json()["error"]) == (404, "Thread not found")


@pytest.mark.parametrize(("verb", "path"), [("PATCH", ""), ("DELETE", ""), ("POST", "/archive")])
async def test_a_thread_of_another_agent_is_not_found(
    http: httpx.AsyncClient, copilotkit: OpenCopilotKitPage, agent: str, verb: str, path: str
) -> None:
    here = copilotkit("chat")
    await here.send("hello")
    response = await http.request(
        verb, f"{COPILOTKIT}/threads/{here.thread_id}{path}", json={"agentId": agent, "name": "x"}
    )
    assert response.status_code == 404
    assert response.json() == {"error": "Thread not found", "message": f"Thread '{here.thread_id}' not found"}


@pytest.mark.parametrize(("verb", "path"), [("PATCH", ""), ("DELETE", ""), ("POST", "/archive")])
async def test_a_change_without_an_agent_is_rejected(http: httpx.AsyncClient, verb: str, path: str) -> None:
    response = await http.request(verb, f"{COPILOTKIT}/threads/any{path}", json={})
    assert response.status_code == 400
    assert response.json() == {"error": "Invalid request body", "details": '"agentId" is a required property'}


@pytest.mark.parametrize("body", [{"name": 1}, {"name": "x" * 256}, {"archived": "perhaps"}])
async def test_an_invalid_change_is_rejected(http: httpx.AsyncClient, body: dict[str, Any]) -> None:
    response = await http.patch(f"{COPILOTKIT}/threads/any", json={"agentId": "chat", **body})
    assert (response.status_code, response.json()["error"]) == (400, "Invalid request body")


@pytest.mark.parametrize("query", [{"limit": 0}, {"limit": "x"}, {"limit": 101}, {"cursor": "x"}, {"cursor": "-1"}])
async def test_an_invalid_list_request_is_rejected(http: httpx.AsyncClient, query: dict[str, Any]) -> None:
    response = await http.get(f"{COPILOTKIT}/threads", params={"agentId": "chat", **query})
    assert (response.status_code, response.json()["error"]) == (400, "Invalid request")


async def test_unsupported_operations_are_rejected(http: httpx.AsyncClient) -> None:
    for path in ("subscribe", "clear"):
        response = await http.post(f"{COPILOTKIT}/threads/{path}", json={})
        assert (response.status_code, set(response.json())) == (422, {"error"})
    transcribed = await http.post(f"{COPILOTKIT}/transcribe", json={"audio": "", "mimeType": "audio/wav"})
    assert (transcribed.status_code, transcribed.json()["error"]) == (503, "service_not_configured")


# -- inspecting a thread -----------------------------------------------------------------------------------------------


async def test_the_messages_of_a_thread_are_flat(http: httpx.AsyncClient, copilotkit: OpenCopilotKitPage) -> None:
    here = copilotkit("tools")
    await here.send("hello", "u1")
    messages = (await http.get(f"{COPILOTKIT}/threads/{here.thread_id}/messages")).json()["messages"]

    assert messages[0] == {"id": "u1", "role": "user", "content": "hello"}
    assert messages[1]["toolCalls"] == [{"id": "call-1", "name": "add", "args": '{"a":20,"b":22}'}]
    assert (messages[2]["role"], messages[2]["toolCallId"], messages[2]["content"]) == ("tool", "call-1", "42")
    assert messages[3]["content"] == "The sum is 42."


async def test_the_state_of_a_thread_is_without_its_messages(
    http: httpx.AsyncClient, copilotkit: OpenCopilotKitPage, sdk: Sdk
) -> None:
    here = copilotkit("echo")
    await here.run(state={"text": "x"})
    assert (await http.get(f"{COPILOTKIT}/threads/{here.thread_id}/state")).json() == {"state": here.state}
    unused = await sdk.thread()
    assert (await http.get(f"{COPILOTKIT}/threads/{unused}/state")).json() == {"state": None}
    assert (await http.get(f"{COPILOTKIT}/threads/{unused}/messages")).json() == {"messages": []}
    assert (await http.get(f"{COPILOTKIT}/threads/{unused}/events")).json() == {"events": []}


async def test_a_thread_is_inspected_during_a_run(
    http: httpx.AsyncClient, copilotkit: OpenCopilotKitPage, gate: Path
) -> None:
    here = copilotkit("by_hand")
    async with here.open(messages=[{"id": "u1", "role": "user", "content": "x"}], state={"until": str(gate)}) as own:
        await own.until("0.5")
        messages = (await http.get(f"{COPILOTKIT}/threads/{here.thread_id}/messages")).json()["messages"]
        state = (await http.get(f"{COPILOTKIT}/threads/{here.thread_id}/state")).json()["state"]
        events = (await http.get(f"{COPILOTKIT}/threads/{here.thread_id}/events")).json()["events"]
    assert [each["id"] for each in messages] == ["u1", "ahead", "search-1"]
    assert state == {"progress": 0.5}
    assert events[-1] == {"type": "STATE_SNAPSHOT", "snapshot": {"progress": 0.5}}


@pytest.mark.parametrize("agent", ["tools", "showcase", "nested", "everything", "by_hand"])
async def test_the_events_of_a_thread_replay_it(
    http: httpx.AsyncClient, copilotkit: OpenCopilotKitPage, agui: AgUiChecker, agent: str
) -> None:
    """There are fewer events than were sent, and a client that applies them ends up with the same data."""
    here = copilotkit(agent)
    sent = len((await here.send("hello", "u1")).events)
    if agent != "everything":
        sent += len((await here.send("again", "u2")).events)
    events = (await http.get(f"{COPILOTKIT}/threads/{here.thread_id}/events")).json()["events"]
    replayed = agui.check(b"".join(f"data: {_json(each)}\n\n".encode() for each in events))

    assert len(events) < sent
    assert replayed.messages == here.messages
    assert replayed.state == here.state
    assert replayed.interrupts == here.interrupts


async def test_the_events_of_failed_runs_are_included(
    http: httpx.AsyncClient, copilotkit: OpenCopilotKitPage, agui: AgUiChecker
) -> None:
    here = copilotkit("fails")
    await here.run(state={"text": "one"})
    await here.run(state={"text": "two"})
    events = (await http.get(f"{COPILOTKIT}/threads/{here.thread_id}/events")).json()["events"]
    agui.check(b"".join(f"data: {_json(each)}\n\n".encode() for each in events))
    assert kinds(events).count("RUN_ERROR") == 2


def _json(value: Any) -> str:
    return httpx.Request("POST", "http://x", json=value).content.decode()


@pytest.mark.parametrize("view", ["messages", "events", "state"])
async def test_an_unknown_thread_cannot_be_inspected(http: httpx.AsyncClient, view: str) -> None:
    response = await http.get(f"{COPILOTKIT}/threads/nothing here/{view}")
    assert (response.status_code, response.json()["error"]) == (404, "Thread not found")
