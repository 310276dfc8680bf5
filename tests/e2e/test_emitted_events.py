"""Messages, tool calls and state that graphs emit, as CopilotKit's helpers do, and what they hide from pages."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from agui_checker import AgUiChecker
from clients import Sdk, collect, human
from pages import Page, kinds

pytestmark = pytest.mark.anyio


@pytest.fixture
async def here(http: httpx.AsyncClient, agui: AgUiChecker) -> Page:
    return Page(http, agui, "by_hand")


async def test_an_emitted_message_is_replaced_by_the_stored_one(here: Page) -> None:
    seen = await here.send("hello", "u1")
    ahead = [each for each in seen.events if each.get("messageId") == "ahead"]

    assert kinds(ahead) == ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]
    assert [each["id"] for each in here.messages] == ["u1", "kept", "after"]
    at = next(index for index, each in enumerate(seen.events) if each.get("messageId") == "kept")
    replaced = seen.events[at - 1]
    assert replaced["type"] == "MESSAGES_SNAPSHOT"
    assert [each["id"] for each in replaced["messages"]] == ["u1", "search-1"]


async def test_an_emitted_tool_call_is_sent_as_a_tool_call(here: Page) -> None:
    seen = await here.send("hello", "u1")
    sent = [each for each in seen.events if each.get("toolCallId") == "search-1"]

    assert kinds(sent) == ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"]
    assert (sent[0]["toolCallName"], sent[1]["delta"]) == ("search", '{"for":"it"}')


async def test_an_emitted_state_is_replaced_by_the_stored_one(here: Page) -> None:
    seen = await here.send("hello", "u1")
    snapshots = [each["snapshot"] for each in seen.events if each["type"] == "STATE_SNAPSHOT"]

    assert snapshots == [{}, {"progress": 0.5}, {"progress": 1.0}]
    assert here.state == {"progress": 1.0}


async def test_a_client_that_attaches_receives_what_was_emitted(here: Page, gate: Path) -> None:
    async with here.open(
        messages=[{"id": "u1", "role": "user", "content": "hello"}], state={"until": str(gate)}
    ) as own:
        await own.until("0.5")
        late = here.another()
        async with late.open("/connect") as attached:
            first = await attached.until("MESSAGES_SNAPSHOT")
            gate.touch()  # noqa: ASYNC240 - one file
            here.receive(await own.rest())
            late.receive(await attached.rest())

    assert b'"snapshot":{"progress":0.5}' in first
    assert b'"On it."' in first
    assert late.messages == here.messages
    assert late.state == here.state


async def test_a_stopped_run_reverts_its_emitted_state(here: Page, gate: Path) -> None:
    async with here.open(
        messages=[{"id": "u1", "role": "user", "content": "hello"}], state={"until": str(gate)}
    ) as own:
        await own.until("0.5")
        await here.stop()
        here.receive(await own.rest())
    assert here.state == {"until": str(gate)}


async def test_other_events_keep_their_names(here: Page) -> None:
    seen = await here.send("hello", "u1")
    custom = [(each["name"], each["value"]) for each in seen.events if each["type"] == "CUSTOM"]
    assert custom == [("weather", {"is": "fine"}), ("Exit", True)]


async def test_messages_emitted_by_a_subgraph_belong_to_it(http: httpx.AsyncClient, agui: AgUiChecker) -> None:
    here = Page(http, agui, "by_hand_below")
    seen = await here.send("hello", "u1")
    [start] = [each for each in seen.events if each["type"] == "TEXT_MESSAGE_START" and each["messageId"] == "ahead"]

    assert start["subagentRunId"].startswith("inner:")
    assert [each["id"] for each in here.messages] == ["u1", "kept", "after"]


async def test_langgraph_streams_do_not_contain_emitted_events(sdk: Sdk) -> None:
    """LangGraph has no stream mode for dispatched events."""
    modes = ["custom", "messages-tuple", "updates"]
    parts = await collect(sdk.runs.stream(await sdk.thread(), "by_hand", input=human("hello"), stream_mode=modes))
    assert {part.event for part in parts} == {"metadata", "messages", "updates"}


# -- what pages do not receive ----------------------------------------------------------------------------------------


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
async def test_a_model_can_hide_its_output_from_pages(
    http: httpx.AsyncClient, agui: AgUiChecker, prefix: str, metadata: dict[str, Any], text: bool, calls: list[str]
) -> None:
    seen = await Page(http, agui, "selective").send(
        "hello", state={"metadata": {prefix + name: value for name, value in metadata.items()}}
    )
    assert ("TEXT_MESSAGE_START" in kinds(seen.events)) is text
    assert [each["toolCallName"] for each in seen.events if each["type"] == "TOOL_CALL_START"] == calls


@pytest.mark.parametrize("name", ["predict_state", "copilotkit:emit-intermediate-state"])
async def test_a_state_predicted_by_a_tool_call_is_announced_before_it(
    http: httpx.AsyncClient, agui: AgUiChecker, name: str
) -> None:
    predicted = [{"state_key": "draft", "tool": "write", "tool_argument": "text"}]
    seen = await Page(http, agui, "selective").send("hello", state={"metadata": {name: predicted}})
    at = [index for index, each in enumerate(seen.events) if each.get("name") == "PredictState"]

    assert len(at) == 1
    assert seen.events[at[0]]["value"] == predicted
    assert seen.events[at[0] + 1]["type"] == "TOOL_CALL_START"
    assert seen.events[at[0] + 1]["toolCallName"] == "write"


# -- tools that were stopped -------------------------------------------------------------------------------------------


async def test_a_stopped_tool_gets_a_result(http: httpx.AsyncClient, agui: AgUiChecker, gate: Path) -> None:
    here = Page(http, agui, "slow_tool")
    here.messages = [{"id": "u1", "role": "user", "content": "fetch"}]
    async with here.open(state={"until": str(gate)}, forwardedProps={"rawEvents": "log"}) as own:
        await own.until("tool-started")
        await here.stop()
        seen = here.receive(await own.rest())
    [result] = [each for each in seen.events if each["type"] == "TOOL_CALL_RESULT"]

    assert (result["toolCallId"], result["content"]) == ("call-1", '{"status":"stopped"}')
    await here.send("never mind", state={"until": None})
    assert here.texts[-1] == ("assistant", "Nothing to fetch.")
    assert [each["id"] for each in here.messages if each["role"] == "tool"] == [result["messageId"]]


async def test_a_stopped_tool_of_a_subgraph_gets_a_result(
    http: httpx.AsyncClient, agui: AgUiChecker, gate: Path
) -> None:
    here = Page(http, agui, "slow_tool_below")
    here.messages = [{"id": "u1", "role": "user", "content": "fetch"}]
    async with here.open(state={"until": str(gate)}, forwardedProps={"rawEvents": "log"}) as own:
        await own.until("tool-started")
        await here.stop()
        seen = here.receive(await own.rest())
    [result] = [each for each in seen.events if each["type"] == "TOOL_CALL_RESULT"]

    assert result["subagentRunId"].startswith("inner:")
    await here.send("never mind", state={"until": None})
    assert here.texts[-1] == ("assistant", "Nothing to fetch.")


async def test_a_client_that_did_not_see_the_result_can_continue_too(
    http: httpx.AsyncClient, agui: AgUiChecker, gate: Path
) -> None:
    here = Page(http, agui, "slow_tool")
    here.messages = [{"id": "u1", "role": "user", "content": "fetch"}]
    async with here.open(state={"until": str(gate)}, forwardedProps={"rawEvents": "log"}) as own:
        await own.until("tool-started")
        await here.stop()
        await own.rest()
    other = here.another()
    await other.connect()
    assert [each["role"] for each in other.messages] == ["user", "assistant"]

    await other.send("never mind", state={"until": None})
    assert [each["role"] for each in other.messages] == ["user", "assistant", "tool", "user", "assistant"]


async def test_a_frontend_tool_call_waits_for_the_page(http: httpx.AsyncClient, agui: AgUiChecker) -> None:
    here = Page(http, agui, "asks_page")
    tools = [{"name": "colour", "description": "of the page"}]
    await here.send("which colour?", tools=tools)
    await here.send("well?", tools=tools)
    assert "tool" not in [each["role"] for each in here.messages]
