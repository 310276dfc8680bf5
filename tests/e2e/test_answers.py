"""Answers in the log: which interrupt, which response, and which protocol they came through (spec/log.md, 6.11)."""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from agui_checker import AgUiChecker
from clients import Sdk
from pages import CopilotKitPage, Page, events_in

from threadwire.core.entries import Entry, Kind
from threadwire.core.ids import Seq

pytestmark = pytest.mark.anyio

Connect = Callable[[str, str], Awaitable[list[Entry]]]


@pytest.fixture
def log_of(http: httpx.AsyncClient, agui: AgUiChecker) -> Connect:
    """Returns the log of a thread, from its second entry on, as AG-UI's RAW events show it."""

    async def read(agent: str, thread_id: str) -> list[Entry]:
        here = Page(http, agui, agent, thread_id)
        async with here.open("/connect", cursor="1", forwardedProps={"rawEvents": "log"}) as stream:
            raw = [each["event"] for each in events_in(await stream.rest()) if each["type"] == "RAW"]
        return [
            Entry(Seq(number), None, 0, 0, tuple(each["ns"]), each["kind"], each["data"])
            for number, each in enumerate(raw, 2)
        ]

    return read


def answers_in(log: list[Entry]) -> list[Any]:
    return [entry.data for entry in log if entry.kind == Kind.INPUT_ANSWERED]


@pytest.mark.parametrize("by_id", [False, True])
async def test_an_answer_by_the_langgraph_api_is_recorded(sdk: Sdk, log_of: Connect, by_id: bool) -> None:
    thread_id = await sdk.thread()
    values = await sdk.runs.wait(thread_id, "approve", input={"topic": "x"})
    [interrupt] = values["__interrupt__"]
    resume = {interrupt["id"]: "yes"} if by_id else "yes"
    await sdk.runs.wait(thread_id, "approve", command={"resume": resume})

    answers = [{"id": interrupt["id"], "response": "yes"}]
    assert answers_in(await log_of("approve", thread_id)) == [
        {"value": resume, "answers": answers, "by": None, "via": "langgraph"}
    ]


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize(("page", "via"), [(Page, "ag-ui"), (CopilotKitPage, "copilotkit")])
async def test_an_answer_by_a_page_is_recorded(
    http: httpx.AsyncClient, agui: AgUiChecker, log_of: Connect, page: type[Page], via: str, legacy: bool
) -> None:
    here = page(http, agui, "approve")
    await here.run(state={"topic": "tests"})
    [interrupt] = here.interrupts
    by_id = {"resume": [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"ok": True}}]}
    await here.run(**({"forwardedProps": {"command": {"resume": '{"ok": true}'}}} if legacy else by_id))

    response = {"ok": True}
    value = response if legacy else {interrupt["id"]: response}
    answers = [{"id": interrupt["id"], "response": response}]
    assert answers_in(await log_of("approve", here.thread_id)) == [
        {"value": value, "answers": answers, "by": None, "via": via}
    ]


async def test_the_log_records_what_is_pending_and_what_was_answered(
    sdk: Sdk, http: httpx.AsyncClient, log_of: Connect
) -> None:
    """Three parallel interrupts, one of them in a subgraph, and then two of one node in sequence."""
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "approve_many", input={"answers": []})

    async def folded() -> list[Any]:
        """The interrupts according to the log. What is pending agrees with the state."""
        blocks = (await http.get(f"/threads/{thread_id}/timeline")).json()["blocks"]
        thread = await sdk.threads.get(thread_id)
        pending = {each["id"]: each["value"] for of_task in thread["interrupts"].values() for each in of_task}
        assert {each["interruptId"]: each["value"] for each in blocks if not each["completed"]} == pending
        return blocks

    ids = {each["value"]: each["interruptId"] for each in await folded()}
    for resume in ({ids["left?"]: "L"}, {ids["deep?"]: "D", ids["right?"]: "R"}, "1", "2"):
        await sdk.runs.wait(thread_id, "approve_many", command={"resume": resume})
        answered = [each for each in await folded() if each["completed"]]

    responses = {each["value"]: each["response"] for each in answered}
    assert responses == {"left?": "L", "right?": "R", "deep?": "D", "first?": "1", "second?": "2"}
    [deep] = [each for each in answered if each["ns"]]
    assert (deep["value"], deep["ns"][0].partition(":")[0]) == ("deep?", "deep")
    recorded = [each for data in answers_in(await log_of("approve_many", thread_id)) for each in data["answers"]]
    assert [each["ns"] for each in recorded if "ns" in each] == [deep["ns"]]


async def test_an_update_of_the_state_is_not_an_answer(sdk: Sdk, http: httpx.AsyncClient, log_of: Connect) -> None:
    """6.15"""
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "approve", input={"topic": "x"})
    await sdk.threads.update_state(thread_id, {"answer": "yes"}, as_node="ask")
    await sdk.runs.wait(thread_id, "approve", input=None)

    assert answers_in(await log_of("approve", thread_id)) == []
    [block] = (await http.get(f"/threads/{thread_id}/timeline")).json()["blocks"]
    assert block["outcome"] == "abandoned"
