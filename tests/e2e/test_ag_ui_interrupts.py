"""Interrupts over AG-UI: told in both ways, answered in both ways, one at a time or several."""

import json
from typing import Any

import httpx
import pytest
from pages import OpenPage, OpenStream, events_in, kinds

pytestmark = pytest.mark.anyio


async def test_an_interrupt_is_an_outcome_and_a_custom_event(page: OpenPage) -> None:
    here = page("approve")
    seen = await here.run(state={"topic": "tests"})
    [asked] = seen.events[-1]["outcome"]["interrupts"]

    assert asked["message"] == "ok?"
    assert asked["metadata"]["value"] == {"question": "ok?", "topic": "tests"}
    assert [each["name"] for each in seen.events if each["type"] == "CUSTOM"] == ["on_interrupt"]


@pytest.mark.parametrize("reload", [False, True])
@pytest.mark.parametrize("legacy", [False, True])
async def test_an_interrupt_is_answered(page: OpenPage, reload: bool, legacy: bool) -> None:
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


async def test_an_agent_may_tell_of_interrupts_by_event_alone(http: httpx.AsyncClient, page: OpenPage) -> None:
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


async def test_a_question_that_is_a_text_is_told_as_it_is(page: OpenPage) -> None:
    seen = await page("approve_many").run(state={})
    told = [each["value"] for each in seen.events if each["type"] == "CUSTOM"]
    assert sorted(told) == ["deep?", "left?", "right?"]


async def test_a_dismissed_interrupt_is_told_to_the_graph(page: OpenPage) -> None:
    here = page("approve")
    await here.run(state={"topic": "tests"})
    [asked] = here.interrupts
    await here.run(resume=[{"interruptId": asked["id"], "status": "cancelled"}])
    assert here.state["answer"] == {"__agui_cancelled__": True, "interrupt_id": asked["id"]}


async def test_several_interrupts_are_answered_some_at_a_time(page: OpenPage) -> None:
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


async def test_an_answer_to_nothing_is_an_error_of_its_own(page: OpenPage) -> None:
    seen = await page("approve").run(resume=[{"interruptId": "nope", "status": "resolved"}])
    assert [(each["type"], each["code"]) for each in seen.events] == [("RUN_ERROR", "UNKNOWN_INTERRUPT")]


async def test_an_answer_that_comes_too_late_is_refused_with_the_thread_as_it_is(page: OpenPage) -> None:
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


async def test_an_answer_to_another_question_leaves_those_that_are_open(page: OpenPage) -> None:
    here = page("asks")
    await here.say("Paint it?")
    seen = await here.run(resume=[{"interruptId": "another", "status": "resolved", "payload": "yes"}])

    assert seen.events[-1]["code"] == "UNKNOWN_INTERRUPT"
    assert [each["message"] for each in here.interrupts] == ["Paint it?"]
