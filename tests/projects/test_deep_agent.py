"""A deep agent: a plan, files in the state, and subagents."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
from dialogue import texts, user
from langgraph_sdk.client import SyncLangGraphClient

PROJECT = "deep_agent"


def test_the_plan_the_files_and_the_report_are_in_the_state(client: SyncLangGraphClient, thread: str) -> None:
    state: Any = client.runs.wait(thread, "deep_agent", input=user("Report on tea"))
    assert state["todos"] == [
        {"content": "Research", "status": "completed"},
        {"content": "Report", "status": "completed"},
    ]
    assert state["files"] == {"notes.md": "Tea has 2 grams."}
    assert "I wrote notes.md." in texts(state)
    assert texts(state)[-1] == "Report: Tea has 2 grams."


def test_a_page_that_follows_the_values_sees_the_plan_change(client: SyncLangGraphClient, thread: str) -> None:
    parts = client.runs.stream(thread, "deep_agent", input=user("Report on tea"), stream_mode="values")
    plans = [[each["status"] for each in part.data.get("todos") or []] for part in parts if part.event == "values"]
    changes = [plan for before, plan in zip([None, *plans], plans, strict=False) if plan != before]
    assert changes == [[], ["in_progress", "pending"], ["completed", "completed"]]


def test_the_subagent_streams_in_a_namespace_of_its_own(client: SyncLangGraphClient, thread: str) -> None:
    parts = client.runs.stream(
        thread, "deep_agent", input=user("Report on tea"), stream_mode="updates", stream_subgraphs=True
    )
    nested = [part for part in parts if part.event.startswith("updates|tools:")]
    assert [list(part.data) for part in nested] == [["model"], ["tools"], ["model"]]


def test_the_start_of_the_subagent_names_the_tool_call_that_caused_it(
    url: str, client: SyncLangGraphClient, thread: str
) -> None:
    command = {"assistant_id": "deep_agent", "input": user("Report on tea")}
    body = {"id": 1, "method": "run.start", "params": command}
    assert httpx.post(f"{url}/threads/{thread}/commands", json=body).json()["type"] == "success"
    started = next(each for each in lifecycle_of(url, thread) if each["event"] == "started")
    assert started["namespace"] == [f"tools:{started['trigger_call_id']}"]
    assert started["cause"] == {"type": "toolCall", "tool_call_id": "call-task"}


def lifecycle_of(url: str, thread: str) -> Iterator[dict[str, Any]]:
    with httpx.stream(
        "POST", f"{url}/threads/{thread}/stream/events", json={"channels": ["lifecycle"]}, timeout=30
    ) as response:
        for line in response.iter_lines():
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))["params"]["data"]


def test_files_that_the_application_adds_reach_the_agent(client: SyncLangGraphClient, thread: str) -> None:
    client.runs.wait(thread, "deep_agent", input=user("Report on tea"))
    client.threads.update_state(thread, {"files": {"more.md": "Milk too."}})
    values: Any = client.threads.get_state(thread)["values"]
    assert sorted(values["files"]) == ["more.md", "notes.md"]
