"""What graphs say by hand, as the helpers of CopilotKit do, and what they keep from pages."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from agui import AgUi
from clients import Sdk, collect, human
from pages import Page, kinds

pytestmark = pytest.mark.anyio


@pytest.fixture
async def here(http: httpx.AsyncClient, agui: AgUi) -> Page:
    return Page(http, agui, "by_hand")


async def test_a_message_said_ahead_gives_way_to_the_one_that_is_kept(here: Page) -> None:
    seen = await here.say("hello", "u1")
    ahead = [each for each in seen.events if each.get("messageId") == "ahead"]

    assert kinds(ahead) == ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]
    assert [each["id"] for each in here.messages] == ["u1", "kept", "after"]
    at = next(index for index, each in enumerate(seen.events) if each.get("messageId") == "kept")
    replaced = seen.events[at - 1]
    assert replaced["type"] == "MESSAGES_SNAPSHOT"
    assert [each["id"] for each in replaced["messages"]] == ["u1", "search-1"]


async def test_a_call_made_by_hand_is_told_as_a_call(here: Page) -> None:
    seen = await here.say("hello", "u1")
    told = [each for each in seen.events if each.get("toolCallId") == "search-1"]

    assert kinds(told) == ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"]
    assert (told[0]["toolCallName"], told[1]["delta"]) == ("search", '{"for":"it"}')


async def test_a_state_shown_ahead_gives_way_to_the_one_that_is_kept(here: Page) -> None:
    seen = await here.say("hello", "u1")
    snapshots = [each["snapshot"] for each in seen.events if each["type"] == "STATE_SNAPSHOT"]

    assert snapshots == [{}, {"progress": 0.5}, {"progress": 1.0}]
    assert here.state == {"progress": 1.0}


async def test_whoever_comes_meanwhile_has_what_was_said_by_hand(here: Page, gate: Path) -> None:
    async with here.open(
        messages=[{"id": "u1", "role": "user", "content": "hello"}], state={"until": str(gate)}
    ) as own:
        await own.until("0.5")
        late = here.another()
        async with late.open("/connect") as attached:
            first = await attached.until("MESSAGES_SNAPSHOT")
            gate.touch()  # noqa: ASYNC240 - one file
            here.take(await own.rest())
            late.take(await attached.rest())

    assert b'"snapshot":{"progress":0.5}' in first
    assert b'"On it."' in first
    assert late.messages == here.messages
    assert late.state == here.state


async def test_a_run_stopped_after_it_showed_a_state_takes_that_back(here: Page, gate: Path) -> None:
    async with here.open(
        messages=[{"id": "u1", "role": "user", "content": "hello"}], state={"until": str(gate)}
    ) as own:
        await own.until("0.5")
        await here.stop()
        here.take(await own.rest())
    assert here.state == {"until": str(gate)}


async def test_other_events_keep_their_names(here: Page) -> None:
    seen = await here.say("hello", "u1")
    custom = [(each["name"], each["value"]) for each in seen.events if each["type"] == "CUSTOM"]
    assert custom == [("weather", {"is": "fine"}), ("Exit", True)]


async def test_what_a_subgraph_says_by_hand_is_its_own(http: httpx.AsyncClient, agui: AgUi) -> None:
    here = Page(http, agui, "by_hand_below")
    seen = await here.say("hello", "u1")
    [start] = [each for each in seen.events if each["type"] == "TEXT_MESSAGE_START" and each["messageId"] == "ahead"]

    assert start["subagentRunId"].startswith("inner:")
    assert [each["id"] for each in here.messages] == ["u1", "kept", "after"]


async def test_classic_streams_have_none_of_it(sdk: Sdk) -> None:
    """LangGraph has no stream mode for dispatched events."""
    modes = ["custom", "messages-tuple", "updates"]
    parts = await collect(sdk.runs.stream(await sdk.thread(), "by_hand", input=human("hello"), stream_mode=modes))
    assert {part.event for part in parts} == {"metadata", "messages", "updates"}


# -- what pages are not told ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "copilotkit:"])
@pytest.mark.parametrize(
    ("metadata", "text", "calls"),
    [
        ({}, True, ["write", "read"]),
        ({"emit-messages": False}, False, ["write", "read"]),
        ({"emit-tool-calls": False}, True, []),
        ({"emit-tool-calls": "read"}, True, ["read"]),
        ({"emit-tool-calls": ["write"]}, True, ["write"]),
        ({"emit-messages": False, "emit-tool-calls": False}, False, []),
    ],
)
async def test_a_model_may_keep_what_it_says_from_pages(
    http: httpx.AsyncClient, agui: AgUi, prefix: str, metadata: dict[str, Any], text: bool, calls: list[str]
) -> None:
    seen = await Page(http, agui, "selective").say(
        "hello", state={"metadata": {prefix + name: value for name, value in metadata.items()}}
    )
    assert ("TEXT_MESSAGE_START" in kinds(seen.events)) is text
    assert [each["toolCallName"] for each in seen.events if each["type"] == "TOOL_CALL_START"] == calls


@pytest.mark.parametrize("name", ["predict_state", "copilotkit:emit-intermediate-state"])
async def test_a_state_that_a_call_foretells_is_announced_before_it(
    http: httpx.AsyncClient, agui: AgUi, name: str
) -> None:
    foretold = [{"state_key": "draft", "tool": "write", "tool_argument": "text"}]
    seen = await Page(http, agui, "selective").say("hello", state={"metadata": {name: foretold}})
    at = [index for index, each in enumerate(seen.events) if each.get("name") == "PredictState"]

    assert len(at) == 1
    assert seen.events[at[0]]["value"] == foretold
    assert seen.events[at[0] + 1]["type"] == "TOOL_CALL_START"
    assert seen.events[at[0] + 1]["toolCallName"] == "write"


# -- tools that were stopped -------------------------------------------------------------------------------------------


async def test_a_tool_that_is_stopped_is_answered_for(http: httpx.AsyncClient, agui: AgUi, gate: Path) -> None:
    here = Page(http, agui, "slow_tool")
    here.messages = [{"id": "u1", "role": "user", "content": "fetch"}]
    async with here.open(state={"until": str(gate)}, forwardedProps={"rawEvents": True}) as own:
        await own.until("tool-started")
        await here.stop()
        seen = here.take(await own.rest())
    [answer] = [each for each in seen.events if each["type"] == "TOOL_CALL_RESULT"]

    assert (answer["toolCallId"], answer["content"]) == ("call-1", '{"status":"stopped"}')
    await here.say("never mind", state={"until": None})
    assert here.texts[-1] == ("assistant", "Nothing to fetch.")
    assert [each["id"] for each in here.messages if each["role"] == "tool"] == [answer["messageId"]]


async def test_a_tool_of_a_subgraph_that_is_stopped_is_answered_for(
    http: httpx.AsyncClient, agui: AgUi, gate: Path
) -> None:
    here = Page(http, agui, "slow_tool_below")
    here.messages = [{"id": "u1", "role": "user", "content": "fetch"}]
    async with here.open(state={"until": str(gate)}, forwardedProps={"rawEvents": True}) as own:
        await own.until("tool-started")
        await here.stop()
        seen = here.take(await own.rest())
    [answer] = [each for each in seen.events if each["type"] == "TOOL_CALL_RESULT"]

    assert answer["subagentRunId"].startswith("inner:")
    await here.say("never mind", state={"until": None})
    assert here.texts[-1] == ("assistant", "Nothing to fetch.")


async def test_a_page_that_saw_nothing_of_it_can_go_on_too(http: httpx.AsyncClient, agui: AgUi, gate: Path) -> None:
    here = Page(http, agui, "slow_tool")
    here.messages = [{"id": "u1", "role": "user", "content": "fetch"}]
    async with here.open(state={"until": str(gate)}, forwardedProps={"rawEvents": True}) as own:
        await own.until("tool-started")
        await here.stop()
        await own.rest()
    other = here.another()
    await other.connect()
    assert [each["role"] for each in other.messages] == ["user", "assistant"]

    await other.say("never mind", state={"until": None})
    assert [each["role"] for each in other.messages] == ["user", "assistant", "tool", "user", "assistant"]


async def test_a_call_of_a_tool_of_the_page_waits_for_the_page(http: httpx.AsyncClient, agui: AgUi) -> None:
    here = Page(http, agui, "asks_page")
    tools = [{"name": "colour", "description": "of the page"}]
    await here.say("which colour?", tools=tools)
    await here.say("well?", tools=tools)
    assert "tool" not in [each["role"] for each in here.messages]
