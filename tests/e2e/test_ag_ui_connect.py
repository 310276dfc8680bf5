"""A page that reconnects over AG-UI: connecting, resuming from a cursor, following over many runs."""

import asyncio
from typing import Any

import httpx
import pytest
from agui_checker import AgUiChecker
from clients import TIMEOUT, Sdk
from pages import OpenPage, events_in, kinds

from threadwire.core.ids import thread_id_from_name

pytestmark = pytest.mark.anyio


# -- connecting --------------------------------------------------------------------------------------------------------


async def test_connecting_to_an_idle_thread_sends_its_state(page: OpenPage) -> None:
    here = page("tools")
    await here.send("hello")
    seen = await here.another().connect()

    assert kinds(seen.events) == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    assert set(seen.ids) == {None}


async def test_an_unknown_thread_is_reported_with_its_status(page: OpenPage) -> None:
    seen = await page("chat").connect()
    assert [(each["type"], each["code"]) for each in seen.events] == [("RUN_ERROR", "404")]


@pytest.mark.parametrize("name", ["", "x" * 256, "line\nbreak", "bell\x07"])
async def test_an_invalid_thread_id_is_reported_with_its_status(
    http: httpx.AsyncClient, agui: AgUiChecker, name: str
) -> None:
    response = await http.post("/ag-ui/chat/connect", json={"threadId": name})
    [event] = agui.check(response.content).events
    assert (event["type"], event["code"]) == ("RUN_ERROR", "404")


@pytest.mark.parametrize("path", ["/ag-ui/chat/connect", "/copilotkit/agent/chat/connect"])
@pytest.mark.parametrize("body", [{}, {"threadId": None}], ids=str)
async def test_a_missing_thread_id_is_reported_with_its_status(
    http: httpx.AsyncClient, agui: AgUiChecker, path: str, body: dict[str, None]
) -> None:
    [event] = agui.check((await http.post(path, json=body)).content).events
    assert (event["type"], event["code"]) == ("RUN_ERROR", "422")


async def test_a_thread_that_is_deleted_under_an_attached_run_is_reported(
    page: OpenPage, http: httpx.AsyncClient, agui: AgUiChecker
) -> None:
    here = page("chat")
    messages = [{"id": "u1", "role": "user", "content": "one two three four five six"}]
    async with here.open(messages=messages, state={"delay": 0.2}) as own, here.open("/connect") as attached:
        await own.until('"delta":" one"')
        await http.delete(f"/threads/{thread_id_from_name(here.thread_id)}")
        streams = [await own.rest(), await attached.rest()]
    for sent in streams:
        last = agui.check(sent).events[-1]
        assert (last["type"], last["code"]) == ("RUN_ERROR", "404")


async def test_a_failed_run_is_reported_after_the_snapshots(page: OpenPage, sdk: Sdk) -> None:
    here = page("fails")
    failed = await here.send("hello", state={"text": "hello"})
    assert failed.events[-1]["type"] == "RUN_ERROR"
    [run] = await sdk.runs.list(thread_id_from_name(here.thread_id))

    seen = await here.another().connect()

    assert kinds(seen.events) == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "CUSTOM", "RUN_FINISHED"]
    assert seen.events[3]["name"] == "run_failed"
    value = seen.events[3]["value"]
    assert (value["runId"], value["error"]["error"]) == (run["run_id"], "ValueError")


async def test_an_unknown_agent_is_reported_with_its_status(http: httpx.AsyncClient, agui: AgUiChecker) -> None:
    [event] = agui.check((await http.post("/ag-ui/nope/connect", json={"threadId": "x"})).content).events
    assert (event["type"], event["code"]) == ("RUN_ERROR", "404")


async def test_connecting_attaches_in_the_middle_of_a_message(page: OpenPage) -> None:
    here = page("chat")
    body = [{"id": "u1", "role": "user", "content": "a long answer in many words, please, word by word"}]
    async with here.open(messages=body, state={"delay": 0.05}) as own:
        await own.until('"delta":" a"')
        late = here.another()
        async with late.open("/connect") as attached:
            await attached.until("MESSAGES_SNAPSHOT")
            here.receive(await own.rest())
            late.receive(await attached.rest())

    assert late.messages == here.messages
    assert late.state == here.state
    assert late.texts[-1] == ("assistant", "You said: " + body[0]["content"])


async def test_a_run_continues_when_its_client_leaves(page: OpenPage) -> None:
    here = page("chat")
    messages = [{"id": "u1", "role": "user", "content": "one two three four five six"}]
    async with here.open(messages=messages, state={"delay": 0.05}) as own:
        await own.until('"delta":" one"')
    late = here.another()
    await late.connect()
    assert late.texts[-1] == ("assistant", "You said: one two three four five six")


@pytest.mark.parametrize("how", ["background", "delayed"])
async def test_connecting_attaches_to_runs_started_through_the_api(sdk: Sdk, page: OpenPage, how: str) -> None:
    thread_id = await sdk.thread()
    given = {"messages": [{"role": "user", "id": "u1", "content": "one two three"}], "delay": 0.05}
    after = {"after_seconds": 1} if how == "delayed" else {}
    run = await sdk.runs.create(thread_id, "chat", input=given, **after)
    here = page("chat", thread_id)
    seen = await here.connect()

    assert seen.events[0]["runId"] == run["run_id"]
    assert here.texts == [("user", "one two three"), ("assistant", "You said: one two three")]


async def test_a_state_updated_between_two_connects_is_sent(sdk: Sdk, page: OpenPage) -> None:
    here = page("echo", await sdk.thread())
    await here.run(state={"text": "one"})
    await sdk.threads.update_state(here.thread_id, {"text": "moved"})
    await here.connect()
    assert here.state["text"] == "moved"


# -- cursors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["header", "body"])
async def test_every_cursor_receives_exactly_what_follows_it(page: OpenPage, by: str) -> None:
    here = page("tools")
    whole = await here.send("hello", "u1")
    pairs = list(zip(whole.events, whole.ids, strict=True))
    positions = [position for position in whole.ids if position]

    for cursor in positions[:-1]:
        after = [event for event, position in pairs[whole.ids.index(cursor) + 1 :]]
        seen = await here.another().connect(cursor, by=by)
        rest = [event for event in seen.events if event["type"] != "RUN_STARTED"]

        assert seen.events[0]["type"] == "RUN_STARTED"
        assert _without_run_ids(rest)[-len(after) :] == _without_run_ids(after)
        assert {each["type"] for each in rest[: -len(after)]} <= {
            "STEP_STARTED",
            "TEXT_MESSAGE_START",
            "TOOL_CALL_START",
        }


_STARTS = {"STEP_STARTED", "TEXT_MESSAGE_START", "TOOL_CALL_START"}


def _without_run_ids(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each page knows a run under a different id."""
    return [{name: value for name, value in each.items() if name != "runId"} for each in events]


async def test_a_cursor_in_an_earlier_run_continues_into_later_runs(page: OpenPage) -> None:
    here = page("chat")
    await here.send("one", "u1")
    cursor = here.cursor
    other = here.another()
    await other.connect()
    await here.send("two", "u2")
    seen = await other.connect(cursor)

    assert kinds(seen.events).count("RUN_STARTED") == 1
    assert "STATE_SNAPSHOT" in kinds(seen.events)
    assert other.messages == here.messages


async def test_a_cursor_at_the_end_receives_nothing_new(page: OpenPage) -> None:
    here = page("chat")
    await here.send("one", "u1")
    before = here.messages
    seen = await here.connect(here.cursor)
    assert kinds(seen.events) == ["RUN_STARTED", "RUN_FINISHED"]
    assert here.messages == before


@pytest.mark.parametrize("cursor", ["999999", "nonsense", "-1", "0"])
async def test_an_unknown_cursor_receives_everything(page: OpenPage, cursor: str) -> None:
    here = page("chat")
    await here.send("one", "u1")
    seen = await here.another().connect(cursor)
    assert kinds(seen.events) == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]


async def test_a_dropped_connection_is_resumed_from_the_cursor(page: OpenPage) -> None:
    here = page("chat")
    messages = [{"id": "u1", "role": "user", "content": "one two three four five six seven"}]
    async with here.open(messages=messages, state={"delay": 0.03}) as own:
        await own.until('"delta":" three"')
        sent = own.sent[: own.sent.rindex(b"\n\n") + 2]
    seen = here._agui.until_dropped(sent, messages=messages)
    here.messages, here.state = seen.messages, seen.state
    cursor = [each for each in seen.ids if each][-1]
    await here.connect(cursor)

    assert here.texts == [("user", messages[0]["content"]), ("assistant", "You said: " + messages[0]["content"])]


# -- following ---------------------------------------------------------------------------------------------------------


async def test_a_thread_is_followed_over_many_runs(page: OpenPage, http: httpx.AsyncClient, agui: AgUiChecker) -> None:
    here = page("chat")
    await here.send("one", "u1")
    async with http.stream("GET", f"{here.url}/threads/{here.thread_id}/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        chunks = response.aiter_raw()
        sent = b""
        async with asyncio.timeout(TIMEOUT):
            for number in (2, 3):
                await here.send(str(number), f"u{number}")
                while sent.count(b"RUN_FINISHED") < number:
                    sent += await anext(chunks)
    seen = agui.check(sent)

    assert kinds(events_in(sent)).count("RUN_STARTED") == 3
    assert seen.messages == here.messages


async def test_following_an_idle_thread_starts_with_its_state(
    page: OpenPage, http: httpx.AsyncClient, agui: AgUiChecker
) -> None:
    here = page("chat")
    await here.send("one", "u1")
    async with asyncio.timeout(TIMEOUT), http.stream("GET", f"{here.url}/threads/{here.thread_id}/events") as response:
        sent = b""
        async for chunk in response.aiter_raw():
            sent += chunk
            if b"RUN_FINISHED" in sent:
                break
    seen = agui.check(sent)

    assert kinds(events_in(sent)) == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    assert (seen.messages, seen.state) == (here.messages, here.state)


async def test_following_joins_a_run_in_the_middle_of_a_message(
    page: OpenPage, http: httpx.AsyncClient, agui: AgUiChecker
) -> None:
    here = page("chat")
    messages = [{"id": "u1", "role": "user", "content": "one two three four five six seven"}]
    async with here.open(messages=messages, state={"delay": 0.03}) as own:
        await own.until('"delta":" three"')
        async with (
            asyncio.timeout(TIMEOUT),
            http.stream("GET", f"{here.url}/threads/{here.thread_id}/events") as response,
        ):
            sent = b""
            async for chunk in response.aiter_raw():
                sent += chunk
                if b"RUN_FINISHED" in sent:
                    break
    seen = agui.check(sent)

    assert kinds(events_in(sent)).count("RUN_STARTED") == 1
    assert [(each["role"], each["content"]) for each in seen.messages] == [
        ("user", messages[0]["content"]),
        ("assistant", "You said: " + messages[0]["content"]),
    ]


async def test_following_resumes_from_a_position(page: OpenPage, http: httpx.AsyncClient, agui: AgUiChecker) -> None:
    here = page("chat")
    first = await here.send("one", "u1")
    middle = [each for each in first.ids if each][2]
    url = f"{here.url}/threads/{here.thread_id}/events"
    async with asyncio.timeout(TIMEOUT), http.stream("GET", url, headers={"last-event-id": middle}) as response:
        sent = b""
        async for chunk in response.aiter_raw():
            sent += chunk
            if b"RUN_FINISHED" in sent:
                break
    expected = [f"id: {each}".encode() for each in first.ids if each and int(each) > int(middle)]
    assert [line for line in sent.split(b"\n") if line.startswith(b"id: ")] == expected


async def test_following_an_unknown_thread_or_agent_is_rejected(http: httpx.AsyncClient) -> None:
    assert (await http.get("/ag-ui/chat/threads/nope/events")).status_code == 404
    assert (await http.get("/ag-ui/nope/threads/nope/events")).status_code == 404
