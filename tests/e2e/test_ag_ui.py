"""AG-UI over HTTP: what pages send, and what they are shown."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from agui import AgUi
from clients import PATIENCE, Sdk
from pages import OpenStream, Page, events_in, kinds

from threadwire.core.ids import thread_id_named

pytestmark = pytest.mark.anyio

MakePage = Callable[..., Page]


@pytest.fixture
async def page(http: httpx.AsyncClient, agui: AgUi) -> MakePage:
    return lambda agent, thread_id=None: Page(http, agui, agent, thread_id)


# -- running ----------------------------------------------------------------------------------------------------------


async def test_a_conversation_goes_on_by_ids(page: MakePage) -> None:
    here = page("chat")
    await here.say("one", "u1")
    await here.say("two", "u2")

    assert here.texts == [
        ("user", "one"),
        ("assistant", "You said: one"),
        ("user", "two"),
        ("assistant", "You said: two"),
    ]


async def test_a_page_calls_its_thread_and_its_run_as_it_likes(page: MakePage, http: httpx.AsyncClient) -> None:
    here = page("chat")
    seen = await here.say("hello", runId="my run")
    thread = (await http.get(f"/threads/{thread_id_named(here.thread_id)}")).json()

    for each in (seen.events[0], seen.events[-1]):
        assert (each["threadId"], each["runId"]) == (here.thread_id, "my run")
    assert thread["metadata"]["ag_ui_thread_id"] == here.thread_id
    assert (await here.another().connect()).events[0]["runId"] != "my run"


async def test_a_run_id_that_was_used_before_is_no_collision(page: MakePage) -> None:
    here = page("chat")
    await here.say("one", runId="again")
    await here.say("two", runId="again")
    assert len(here.messages) == 4


async def test_a_stream_ends_with_what_is_kept(page: MakePage) -> None:
    """A page that watched and a page that loads hold the same, to the letter."""
    for agent in ("tools", "showcase", "nested", "everything"):
        here = page(agent)
        await here.say("hello", "u1")
        other = here.another()
        await other.connect()

        assert [each for each in other.messages if each["role"] != "activity"] == [
            each for each in here.messages if each["role"] != "activity"
        ]
        assert other.state == here.state
        assert other.interrupts == here.interrupts


async def test_steps_tools_and_usage_are_told(page: MakePage) -> None:
    seen = await page("tools").say("hello")
    told = kinds(seen.events)

    assert told.index("TOOL_CALL_START") < told.index("TOOL_CALL_RESULT")
    assert [each["stepName"] for each in seen.events if each["type"] == "STEP_STARTED"] == ["model", "tools", "model"]
    assert seen.events[-1]["usage"][0]["totalTokens"] > 0


async def test_a_state_is_told_whole_and_then_by_what_changed(page: MakePage) -> None:
    here = page("showcase")
    seen = await here.say("hello")

    assert kinds(seen.events).index("STATE_SNAPSHOT") < kinds(seen.events).index("STATE_DELTA")
    assert here.state["metrics"] == {"sums": 2, "of": {"a": 1, "b": 2}}
    assert "messages" not in here.state


async def test_raw_entries_come_only_when_asked_for(page: MakePage) -> None:
    without = await page("chat").say("hello")
    asked = await page("chat").say("hello", forwardedProps={"rawEvents": True})

    assert "RAW" not in kinds(without.events)
    assert {"run.started", "state"} <= {each["event"]["kind"] for each in asked.events if each["type"] == "RAW"}


async def test_a_modern_page_is_told_more(page: MakePage) -> None:
    seen = await page("chat").say("hello", protocolVersion="1.0")
    assert seen.events[-1]["outcome"] == {"type": "success"}


async def test_an_error_closes_what_is_open_and_is_told(page: MakePage) -> None:
    seen = await page("fails").run(state={"text": "x"})
    assert seen.events[-1] == {"type": "RUN_ERROR", "message": "boom!", "code": "ValueError"}


# -- what a page sends -------------------------------------------------------------------------------------------------


async def test_only_what_is_new_is_written(page: MakePage) -> None:
    here = page("echo")
    await here.run(state={"text": "one", "unknown": 1})
    assert here.state == {"text": "one", "echoed": "one"}

    await here.run(state={**here.state, "text": "two"})
    assert here.state == {"text": "two", "echoed": "two"}


async def test_an_edited_message_takes_the_thread_back_to_before_it(page: MakePage) -> None:
    here = page("chat")
    await here.say("one", "u1")
    await here.say("two", "u2")
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


async def test_the_first_message_can_be_edited_too(page: MakePage) -> None:
    here = page("chat")
    await here.say("one", "u1")
    await here.run(messages=[{"id": "u1", "role": "user", "content": "other"}])
    assert here.texts == [("user", "other"), ("assistant", "You said: other")]


async def test_an_answer_can_be_asked_for_again(page: MakePage) -> None:
    here = page("chat")
    await here.say("one", "u1")
    await here.say("two", "u2")
    await here.run(messages=here.messages[:3])

    assert here.texts[-2:] == [("user", "two"), ("assistant", "You said: two")]
    assert len(here.messages) == 4


async def test_a_page_that_is_behind_undoes_nothing(page: MakePage) -> None:
    here = page("chat")
    await here.say("one", "u1")
    behind = here.another()
    await behind.connect()
    await here.say("two", "u2")
    await behind.say("three", "u3")

    assert [text for role, text in behind.texts if role == "user"] == ["one", "two", "three"]


async def test_a_message_of_several_parts_comes_back_as_it_was_sent(page: MakePage) -> None:
    here = page("chat")
    parts = [
        {"type": "text", "text": "look"},
        {"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}},
        {"type": "image", "source": {"type": "url", "value": "https://example.com/a.png", "mimeType": "image/png"}},
        {"type": "document", "source": {"type": "data", "value": "aGk=", "mimeType": "application/pdf"}},
    ]
    await here.say(parts, "u1")
    other = here.another()
    await other.connect()

    assert here.messages[0]["content"] == parts
    assert other.messages[0]["content"] == parts


async def test_a_tool_of_the_page_goes_there_and_back(page: MakePage) -> None:
    """The run ends with a call that nobody here answers; the page does, and the run goes on from there."""
    here = page("asks_page")
    first = await here.say("what colour is the page?", tools=[{"name": "colour", "description": "of the page"}])
    [call] = here.messages[-1]["toolCalls"]
    assert first.events[-1]["type"] == "RUN_FINISHED"

    answer = {"id": "t1", "role": "tool", "toolCallId": call["id"], "content": "blue"}
    await here.run(messages=[*here.messages, answer])
    assert here.texts[-1] == ("assistant", "It is blue.")

    repeated = await here.run(messages=[*here.messages, {**answer, "id": "t2"}])
    assert [each["id"] for each in repeated.messages if each["role"] == "tool"] == ["t1"]


# -- interrupts --------------------------------------------------------------------------------------------------------


async def test_an_interrupt_is_an_outcome_and_a_custom_event(page: MakePage) -> None:
    here = page("approve")
    seen = await here.run(state={"topic": "tests"})
    [asked] = seen.events[-1]["outcome"]["interrupts"]

    assert asked["message"] == "ok?"
    assert asked["metadata"]["value"] == {"question": "ok?", "topic": "tests"}
    assert [each["name"] for each in seen.events if each["type"] == "CUSTOM"] == ["on_interrupt"]


@pytest.mark.parametrize("reload", [False, True])
@pytest.mark.parametrize("legacy", [False, True])
async def test_an_interrupt_is_answered(page: MakePage, reload: bool, legacy: bool) -> None:
    here = page("approve")
    await here.run(state={"topic": "tests"})
    if reload:
        here = here.another()
        await here.connect()
    [asked] = here.interrupts
    answer: dict[str, Any] = (
        {"forwardedProps": {"command": {"resume": "yes"}}}
        if legacy
        else {"resume": [{"interruptId": asked["id"], "status": "resolved", "payload": "yes"}]}
    )
    await here.run(**answer)

    assert here.state["answer"] == "yes"
    assert here.state["done"] is True
    assert here.interrupts == []
    other = here.another()
    await other.connect()
    assert other.interrupts == []


async def test_an_agent_may_tell_of_interrupts_by_event_alone(http: httpx.AsyncClient, page: MakePage) -> None:
    here = page("asks_by_event")
    seen = await here.say("Paint it?")
    late = here.another()
    connected = await late.connect()
    async with http.stream("GET", f"{here.url}/threads/{here.thread_id}/events") as response:
        followed = events_in(await OpenStream(response).until("RUN_FINISHED"))

    for events in (seen.events, connected.events, followed):
        [told] = [json.loads(each["value"]) for each in events if each["type"] == "CUSTOM"]
        assert told["question"] == "Paint it?"
        assert "outcome" not in events[-1]
    await late.run(forwardedProps={"command": {"resume": "yes"}})
    assert late.texts[-1] == ("assistant", "So: Paint it? yes")


async def test_a_question_that_is_a_text_is_told_as_it_is(page: MakePage) -> None:
    seen = await page("approve_many").run(state={})
    told = [each["value"] for each in seen.events if each["type"] == "CUSTOM"]
    assert sorted(told) == ["deep?", "left?", "right?"]


async def test_a_dismissed_interrupt_is_told_to_the_graph(page: MakePage) -> None:
    here = page("approve")
    await here.run(state={"topic": "tests"})
    [asked] = here.interrupts
    await here.run(resume=[{"interruptId": asked["id"], "status": "cancelled"}])
    assert here.state["answer"] == {"__agui_cancelled__": True, "interrupt_id": asked["id"]}


async def test_several_interrupts_are_answered_some_at_a_time(page: MakePage) -> None:
    here = page("approve_many")
    await here.run(state={})
    assert len(here.interrupts) == 3
    by_question = {each["message"]: each["id"] for each in here.interrupts}

    await here.run(resume=[{"interruptId": by_question["left?"], "status": "resolved", "payload": "L"}])
    assert sorted(each["message"] for each in here.interrupts) == ["deep?", "right?"]

    rest = [
        {"interruptId": by_question[question], "status": "resolved", "payload": question[0].upper()}
        for question in ("right?", "deep?")
    ]
    await here.run(resume=rest)
    assert sorted(here.state["answers"]) == ["deep=D", "left=L", "right=R"]


async def test_an_answer_to_nothing_is_an_error_of_its_own(page: MakePage) -> None:
    seen = await page("approve").run(resume=[{"interruptId": "nope", "status": "resolved"}])
    assert [(each["type"], each["code"]) for each in seen.events] == [("RUN_ERROR", "UNKNOWN_INTERRUPT")]


async def test_an_answer_that_comes_too_late_is_refused_with_the_thread_as_it_is(page: MakePage) -> None:
    here = page("asks")
    await here.say("Paint it?")
    late = here.another()
    await late.connect()
    [asked] = late.interrupts
    answer = {"interruptId": asked["id"], "status": "resolved", "payload": "yes"}
    await here.run(resume=[answer])
    seen = await late.run(resume=[{**answer, "payload": "no"}])

    assert kinds(seen.events) == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED", "RUN_ERROR"]
    assert seen.events[-1]["code"] == "UNKNOWN_INTERRUPT"
    assert (late.messages, late.state, late.interrupts) == (here.messages, here.state, [])


async def test_an_answer_to_another_question_leaves_those_that_are_open(page: MakePage) -> None:
    here = page("asks")
    await here.say("Paint it?")
    seen = await here.run(resume=[{"interruptId": "another", "status": "resolved", "payload": "yes"}])

    assert seen.events[-1]["code"] == "UNKNOWN_INTERRUPT"
    assert [each["message"] for each in here.interrupts] == ["Paint it?"]


# -- connecting --------------------------------------------------------------------------------------------------------


async def test_connecting_shows_a_thread_at_rest(page: MakePage) -> None:
    here = page("tools")
    await here.say("hello")
    seen = await here.another().connect()

    assert kinds(seen.events) == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    assert set(seen.ids) == {None}


async def test_a_thread_that_is_not_there_is_told_with_its_status(page: MakePage) -> None:
    seen = await page("chat").connect()
    assert [(each["type"], each["code"]) for each in seen.events] == [("RUN_ERROR", "404")]


@pytest.mark.parametrize("name", ["", "x" * 256, "line\nbreak", "bell\x07"])
async def test_a_thread_that_cannot_be_is_told_with_its_status(http: httpx.AsyncClient, agui: AgUi, name: str) -> None:
    response = await http.post("/ag-ui/chat/connect", json={"threadId": name})
    [event] = agui.check(response.content).events
    assert (event["type"], event["code"]) == ("RUN_ERROR", "422")


async def test_an_unknown_agent_is_told_with_its_status(http: httpx.AsyncClient, agui: AgUi) -> None:
    [event] = agui.check((await http.post("/ag-ui/nope/connect", json={"threadId": "x"})).content).events
    assert (event["type"], event["code"]) == ("RUN_ERROR", "404")


async def test_connecting_attaches_to_the_middle_of_an_answer(page: MakePage) -> None:
    here = page("chat")
    body = [{"id": "u1", "role": "user", "content": "a long answer in many words, please, word by word"}]
    async with here.open(messages=body, state={"delay": 0.05}) as own:
        await own.until('"delta":" a"')
        late = here.another()
        async with late.open("/connect") as attached:
            await attached.until("MESSAGES_SNAPSHOT")
            here.take(await own.rest())
            late.take(await attached.rest())

    assert late.messages == here.messages
    assert late.state == here.state
    assert late.texts[-1] == ("assistant", "You said: " + body[0]["content"])


async def test_leaving_a_stream_leaves_the_run(page: MakePage) -> None:
    here = page("chat")
    messages = [{"id": "u1", "role": "user", "content": "one two three four five six"}]
    async with here.open(messages=messages, state={"delay": 0.05}) as own:
        await own.until('"delta":" one"')
    late = here.another()
    await late.connect()
    assert late.texts[-1] == ("assistant", "You said: one two three four five six")


@pytest.mark.parametrize("how", ["background", "delayed"])
async def test_connecting_attaches_to_runs_that_no_page_started(sdk: Sdk, page: MakePage, how: str) -> None:
    thread_id = await sdk.thread()
    question = {"messages": [{"role": "user", "id": "u1", "content": "one two three"}], "delay": 0.05}
    after = {"after_seconds": 1} if how == "delayed" else {}
    run = await sdk.runs.create(thread_id, "chat", input=question, **after)
    here = page("chat", thread_id)
    seen = await here.connect()

    assert seen.events[0]["runId"] == run["run_id"]
    assert here.texts == [("user", "one two three"), ("assistant", "You said: one two three")]


async def test_a_state_moved_between_two_connects_is_the_new_one(sdk: Sdk, page: MakePage) -> None:
    here = page("echo", await sdk.thread())
    await here.run(state={"text": "one"})
    await sdk.threads.update_state(here.thread_id, {"text": "moved"})
    await here.connect()
    assert here.state["text"] == "moved"


# -- cursors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["header", "body"])
async def test_every_cursor_gets_exactly_what_follows_it(page: MakePage, by: str) -> None:
    here = page("tools")
    whole = await here.say("hello", "u1")
    pairs = list(zip(whole.events, whole.ids, strict=True))
    positions = [position for position in whole.ids if position]

    for cursor in positions[:-1]:
        after = [event for event, position in pairs[whole.ids.index(cursor) + 1 :]]
        seen = await here.another().connect(cursor, by=by)
        rest = [event for event in seen.events if event["type"] != "RUN_STARTED"]

        assert seen.events[0]["type"] == "RUN_STARTED"
        assert _without_run(rest)[-len(after) :] == _without_run(after)
        assert {each["type"] for each in rest[: -len(after)]} <= {
            "STEP_STARTED",
            "TEXT_MESSAGE_START",
            "TOOL_CALL_START",
        }


_STARTS = {"STEP_STARTED", "TEXT_MESSAGE_START", "TOOL_CALL_START"}


def _without_run(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each page knows a run by another name."""
    return [{name: value for name, value in each.items() if name != "runId"} for each in events]


async def test_a_cursor_in_an_earlier_run_goes_on_into_the_later_ones(page: MakePage) -> None:
    here = page("chat")
    await here.say("one", "u1")
    cursor = here.cursor
    other = here.another()
    await other.connect()
    await here.say("two", "u2")
    seen = await other.connect(cursor)

    assert kinds(seen.events).count("RUN_STARTED") == 1
    assert "STATE_SNAPSHOT" in kinds(seen.events)
    assert other.messages == here.messages


async def test_a_cursor_at_the_end_gets_nothing_new(page: MakePage) -> None:
    here = page("chat")
    await here.say("one", "u1")
    before = here.messages
    seen = await here.connect(here.cursor)
    assert kinds(seen.events) == ["RUN_STARTED", "RUN_FINISHED"]
    assert here.messages == before


@pytest.mark.parametrize("cursor", ["999999", "nonsense", "-1", "0"])
async def test_a_cursor_that_names_nothing_gets_everything(page: MakePage, cursor: str) -> None:
    here = page("chat")
    await here.say("one", "u1")
    seen = await here.another().connect(cursor)
    assert kinds(seen.events) == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]


async def test_a_drop_in_the_middle_is_made_good_by_the_cursor(page: MakePage) -> None:
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


async def test_a_thread_is_followed_over_many_runs(page: MakePage, http: httpx.AsyncClient, agui: AgUi) -> None:
    here = page("chat")
    await here.say("one", "u1")
    async with http.stream("GET", f"{here.url}/threads/{here.thread_id}/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        chunks = response.aiter_raw()
        sent = b""
        async with asyncio.timeout(PATIENCE):
            for number in (2, 3):
                await here.say(str(number), f"u{number}")
                while sent.count(b"RUN_FINISHED") < number:
                    sent += await anext(chunks)
    seen = agui.check(sent)

    assert kinds(events_in(sent)).count("RUN_STARTED") == 3
    assert seen.messages == here.messages


async def test_following_begins_with_a_thread_at_rest_as_it_is(
    page: MakePage, http: httpx.AsyncClient, agui: AgUi
) -> None:
    here = page("chat")
    await here.say("one", "u1")
    async with asyncio.timeout(PATIENCE), http.stream("GET", f"{here.url}/threads/{here.thread_id}/events") as response:
        sent = b""
        async for chunk in response.aiter_raw():
            sent += chunk
            if b"RUN_FINISHED" in sent:
                break
    seen = agui.check(sent)

    assert kinds(events_in(sent)) == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    assert (seen.messages, seen.state) == (here.messages, here.state)


async def test_following_joins_a_run_in_the_middle_of_its_answer(
    page: MakePage, http: httpx.AsyncClient, agui: AgUi
) -> None:
    here = page("chat")
    messages = [{"id": "u1", "role": "user", "content": "one two three four five six seven"}]
    async with here.open(messages=messages, state={"delay": 0.03}) as own:
        await own.until('"delta":" three"')
        async with (
            asyncio.timeout(PATIENCE),
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


async def test_following_goes_on_from_a_position(page: MakePage, http: httpx.AsyncClient, agui: AgUi) -> None:
    here = page("chat")
    first = await here.say("one", "u1")
    middle = [each for each in first.ids if each][2]
    url = f"{here.url}/threads/{here.thread_id}/events"
    async with asyncio.timeout(PATIENCE), http.stream("GET", url, headers={"last-event-id": middle}) as response:
        sent = b""
        async for chunk in response.aiter_raw():
            sent += chunk
            if b"RUN_FINISHED" in sent:
                break
    expected = [f"id: {each}".encode() for each in first.ids if each and int(each) > int(middle)]
    assert [line for line in sent.split(b"\n") if line.startswith(b"id: ")] == expected


async def test_following_refuses_what_is_not_there(http: httpx.AsyncClient) -> None:
    assert (await http.get("/ag-ui/chat/threads/nope/events")).status_code == 404
    assert (await http.get("/ag-ui/nope/threads/nope/events")).status_code == 404


# -- stopping, busy threads --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", [None, "page", "server"])
async def test_a_run_is_stopped(page: MakePage, gate: Path, named: str | None) -> None:
    here = page("slow")
    async with here.open(state={"until": str(gate)}, runId="mine") as own:
        await own.until('"stepName":"wait"')
        late = here.another()
        async with late.open("/connect") as attached:
            started = events_in(await attached.until("RUN_STARTED"))[0]
            run_id = {None: None, "page": "mine", "server": started["runId"]}[named]
            assert (await here.stop("another"))["stopped"] is False
            assert (await here.stop(run_id))["stopped"] is True
            seen = here.take(await own.rest())
            late.take(await attached.rest())

    assert seen.events[-1] == {"type": "RUN_FINISHED", "threadId": here.thread_id, "runId": "mine"}
    assert (await here.stop())["stopped"] is False


async def test_a_second_run_on_a_busy_thread_is_refused(page: MakePage, http: httpx.AsyncClient, gate: Path) -> None:
    here = page("slow")
    async with here.open(state={"until": str(gate)}) as own:
        await own.until('"stepName":"wait"')
        response = await http.post(here.url, json=here.body())
        assert (response.status_code, "already running" in response.json()["detail"]) == (409, True)
        gate.touch()  # noqa: ASYNC240 - one file
        here.take(await own.rest())


# -- agents ------------------------------------------------------------------------------------------------------------


async def test_agents_say_what_they_can_do(http: httpx.AsyncClient) -> None:
    agents = (await http.get("/ag-ui")).json()["agents"]
    one = (await http.get("/ag-ui/echo")).json()

    assert one in agents
    assert one["description"] == "Says what it was told."
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
async def test_nonsense_is_refused_with_a_reason(http: httpx.AsyncClient, body: Any) -> None:
    response = await http.post("/ag-ui/chat", json=body)
    assert response.status_code == 422
    assert response.json()["detail"]


async def test_no_body_is_refused_with_a_reason(http: httpx.AsyncClient) -> None:
    for path in ("/ag-ui/chat", "/ag-ui/chat/connect"):
        response = await http.post(path)
        assert (response.status_code, response.json()["detail"]) == (422, "A request body is required")
    assert (await http.post("/ag-ui/chat/stop/t", json={"other": 1})).status_code == 422
