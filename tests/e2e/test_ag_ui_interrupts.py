"""Interrupts over AG-UI: sent in both forms, answered in both forms, one at a time or several."""

import json
from typing import Any

import httpx
import pytest
from pages import OpenPage, OpenStream, events_in, kinds

pytestmark = pytest.mark.anyio


async def test_an_interrupt_is_an_outcome_and_a_custom_event(page: OpenPage) -> None:
    here = page("approve")
    seen = await here.run(state={"topic": "tests"})
    [interrupt] = seen.events[-1]["outcome"]["interrupts"]

    assert interrupt["message"] == "ok?"
    assert interrupt["metadata"]["value"] == {"question": "ok?", "topic": "tests"}
    assert [each["name"] for each in seen.events if each["type"] == "CUSTOM"] == ["on_interrupt"]


@pytest.mark.parametrize("reload", [False, True])
@pytest.mark.parametrize("legacy", [False, True])
async def test_an_interrupt_is_answered(page: OpenPage, reload: bool, legacy: bool) -> None:
    here = page("approve")
    await here.run(state={"topic": "tests"})
    if reload:
        here = here.another()
        await here.connect()
    [interrupt] = here.interrupts
    answer: dict[str, Any] = (
        {"forwardedProps": {"command": {"resume": "yes"}}}
        if legacy
        else {"resume": [{"interruptId": interrupt["id"], "status": "resolved", "payload": "yes"}]}
    )
    await here.run(**answer)

    assert here.state["answer"] == "yes"
    assert here.state["done"] is True
    assert here.interrupts == []
    other = here.another()
    await other.connect()
    assert other.interrupts == []


async def test_an_agent_can_report_interrupts_by_event_only(http: httpx.AsyncClient, page: OpenPage) -> None:
    here = page("asks_by_event")
    seen = await here.send("Paint it?")
    late = here.another()
    connected = await late.connect()
    async with http.stream("GET", f"{here.url}/threads/{here.thread_id}/events") as response:
        followed = events_in(await OpenStream(response).until("RUN_FINISHED"))

    for events in (seen.events, connected.events, followed):
        [sent] = [json.loads(each["value"]) for each in events if each["type"] == "CUSTOM"]
        assert sent["question"] == "Paint it?"
        assert "outcome" not in events[-1]
    await late.run(forwardedProps={"command": {"resume": "yes"}})
    assert late.texts[-1] == ("assistant", "So: Paint it? yes")


async def test_an_interrupt_with_a_text_value_is_sent_unchanged(page: OpenPage) -> None:
    seen = await page("approve_many").run(state={})
    sent = [each["value"] for each in seen.events if each["type"] == "CUSTOM"]
    assert sorted(sent) == ["deep?", "left?", "right?"]


async def test_a_dismissed_interrupt_is_reported_to_the_graph(page: OpenPage) -> None:
    here = page("approve")
    await here.run(state={"topic": "tests"})
    [interrupt] = here.interrupts
    await here.run(resume=[{"interruptId": interrupt["id"], "status": "cancelled"}])
    assert here.state["answer"] == {"__agui_cancelled__": True, "interrupt_id": interrupt["id"]}


async def test_several_interrupts_are_answered_in_batches(page: OpenPage) -> None:
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


async def test_an_answer_without_an_interrupt_is_reported_as_unknown(page: OpenPage) -> None:
    seen = await page("approve").run(resume=[{"interruptId": "nope", "status": "resolved"}])
    assert [(each["type"], each["code"]) for each in seen.events] == [("RUN_ERROR", "UNKNOWN_INTERRUPT")]


async def test_a_late_answer_is_rejected_with_the_current_thread(page: OpenPage) -> None:
    here = page("asks")
    await here.send("Paint it?")
    late = here.another()
    await late.connect()
    [interrupt] = late.interrupts
    answer = {"interruptId": interrupt["id"], "status": "resolved", "payload": "yes"}
    await here.run(resume=[answer])
    seen = await late.run(resume=[{**answer, "payload": "no"}])

    assert kinds(seen.events) == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED", "RUN_ERROR"]
    assert seen.events[-1]["code"] == "UNKNOWN_INTERRUPT"
    assert (late.messages, late.state, late.interrupts) == (here.messages, here.state, [])


async def test_an_answer_to_an_unknown_interrupt_leaves_the_open_ones(page: OpenPage) -> None:
    here = page("asks")
    await here.send("Paint it?")
    seen = await here.run(resume=[{"interruptId": "another", "status": "resolved", "payload": "yes"}])

    assert seen.events[-1]["code"] == "UNKNOWN_INTERRUPT"
    assert [each["message"] for each in here.interrupts] == ["Paint it?"]
