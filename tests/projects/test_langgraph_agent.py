"""Pages that keep their Node side: AG-UI's `LangGraphAgent`, alone and inside CopilotKit's Node runtime."""

import json
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import SyncLangGraphClient

from copilotkit_runtime import node_runtime_for, run_langgraph_agent

PROJECT = "assistant"

Events = list[dict[str, Any]]
SHOWN = ("TEXT_MESSAGE_", "TOOL_CALL_", "RUN_")


def user_messages(*texts: str) -> dict[str, Any]:
    return {"messages": [{"id": f"user-{at}", "role": "user", "content": text} for at, text in enumerate(texts)]}


def outline(events: Events) -> list[str]:
    """The types of the events that a page shows, each once in a row."""
    types = [event["type"] for event in events if event["type"].startswith(SHOWN)]
    return [kind for before, kind in zip(["", *types], types, strict=False) if kind != before]


def text_of(events: Events) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")


def results(events: Events) -> list[str]:
    return [event["content"] for event in events if event["type"] == "TOOL_CALL_RESULT"]


ONE_CALL = [
    "RUN_STARTED",
    "TEXT_MESSAGE_START",
    "TEXT_MESSAGE_CONTENT",
    "TEXT_MESSAGE_END",
    "TOOL_CALL_START",
    "TOOL_CALL_ARGS",
    "TOOL_CALL_END",
    "TOOL_CALL_RESULT",
    "TEXT_MESSAGE_START",
    "TEXT_MESSAGE_CONTENT",
    "TEXT_MESSAGE_END",
    "RUN_FINISHED",
]


def test_text_precedes_the_call_of_a_tool(url: str) -> None:
    events = run_langgraph_agent(url, "sums", {"threadId": str(uuid.uuid4()), **user_messages("Add")})
    assert outline(events) == ONE_CALL
    assert (text_of(events), results(events)) == ("Let me add.The result: 3.", ["3"])
    states = [event["snapshot"] for event in events if event["type"] == "STATE_SNAPSHOT"]
    assert states[-1]["total"] == 3


def test_every_event_is_valid_for_a_page(servers: dict[str, str], runtimes: dict[str, str]) -> None:
    """A page validates the events, and stops at one that is not valid. If text precedes a call, `LangGraphAgent` takes
    the call's `parentMessageId` from the result of the tool. Only on Threadwire: the stock server does not always
    include the id of such a result."""
    for text, called in (("Add", ["3"]), ("Add twice", ["3", "42"])):
        run = {"threadId": str(uuid.uuid4()), **user_messages(text)}
        for events in (
            run_langgraph_agent(servers["threadwire"], "sums", run),
            run_of_page(runtimes["threadwire"], "sums", str(uuid.uuid4()), text),
        ):
            assert sorted(results(events)) == called
            parents = [event["parentMessageId"] for event in events if event["type"] == "TOOL_CALL_START"]
            assert len(parents) == len(called)
            assert all(isinstance(parent, str) for parent in parents)
            assert text_of(events) == f"Let me add.The result: {' and '.join(called)}."


def test_a_second_turn_continues_the_thread(url: str, client: SyncLangGraphClient) -> None:
    thread = str(uuid.uuid4())
    first = run_langgraph_agent(url, "sums", {"threadId": thread, **user_messages("Add")})
    [snapshot] = [event["messages"] for event in first if event["type"] == "MESSAGES_SNAPSHOT"][-1:]
    again = [*snapshot, {"id": "user-again", "role": "user", "content": "Add"}]
    second = run_langgraph_agent(url, "sums", {"threadId": thread, "messages": again})
    assert outline(second) == ONE_CALL
    values: Any = client.threads.get_state(thread)["values"]
    assert [message["type"] for message in values["messages"]] == ["human", "ai", "tool", "ai"] * 2


def test_an_interrupt_is_shown_and_answered(url: str) -> None:
    run = {"threadId": str(uuid.uuid4()), **user_messages("Hello")}
    asked = run_langgraph_agent(url, "careful", run)
    [interrupt] = [event for event in asked if event["type"] == "CUSTOM" and event["name"] == "on_interrupt"]
    assert interrupt["value"] == "Really?"
    run_langgraph_agent(url, "careful", {**run, "forwardedProps": {"command": {"resume": "yes"}}})
    state = httpx.get(f"{url}/threads/{run['threadId']}/state").json()
    assert (state["values"]["messages"][-1]["content"], state["next"]) == ("You said yes.", [])


@pytest.fixture(scope="module")
def runtimes(servers: dict[str, str]) -> Iterator[dict[str, str]]:
    """CopilotKit's Node runtime in front of each server."""
    with (
        node_runtime_for(servers["stock"], "sums", "careful") as stock,
        node_runtime_for(servers["threadwire"], "sums", "careful") as threadwire,
    ):
        yield {"stock": stock, "threadwire": threadwire}


@pytest.fixture(params=["stock", "threadwire"])
def runtime(request: pytest.FixtureRequest, runtimes: dict[str, str]) -> str:
    return runtimes[request.param]


def run_of_page(runtime: str, agent: str, thread: str, text: str, **fields: Any) -> Events:
    body = {
        "threadId": thread,
        "runId": str(uuid.uuid4()),
        **user_messages(text),
        "tools": [],
        "context": [],
        "state": {},
        "forwardedProps": {},
        **fields,
    }
    response = httpx.post(f"{runtime}/copilotkit/agent/{agent}/run", json=body, timeout=60)
    assert response.status_code == 200, response.text
    lines = response.text.splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def test_copilotkits_node_runtime_runs_an_agent(runtime: str) -> None:
    events = run_of_page(runtime, "sums", str(uuid.uuid4()), "Add")
    assert outline(events) == ONE_CALL
    assert (text_of(events), results(events)) == ("Let me add.The result: 3.", ["3"])


def test_copilotkits_node_runtime_forwards_an_interrupt(runtime: str) -> None:
    thread = str(uuid.uuid4())
    asked = run_of_page(runtime, "careful", thread, "Hello")
    assert [event["value"] for event in asked if event.get("name") == "on_interrupt"] == ["Really?"]
    answered = run_of_page(runtime, "careful", thread, "Hello", forwardedProps={"command": {"resume": "yes"}})
    [snapshot] = [event["messages"] for event in answered if event["type"] == "MESSAGES_SNAPSHOT"][-1:]
    assert snapshot[-1]["content"] == "You said yes."
    assert answered[-1]["type"] == "RUN_FINISHED"
