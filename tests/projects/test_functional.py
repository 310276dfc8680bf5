"""The functional API: tasks, an interrupt, and what an entrypoint saves for its next run."""

import uuid
from typing import Any

from langgraph_sdk.client import SyncLangGraphClient

PROJECT = "functional"


def test_a_task_is_not_repeated_after_the_interrupt(client: SyncLangGraphClient, thread: str) -> None:
    topic = uuid.uuid4().hex
    parts = list(client.runs.stream(thread, "functional", input={"topic": topic}, stream_mode=["updates", "custom"]))
    assert [part.data for part in parts if part.event == "custom"] == [{"drafted": topic}]
    assert "__interrupt__" in parts[-1].data
    ended: Any = client.runs.wait(thread, "functional", command={"resume": True})
    assert ended == {"essay": f"An essay about {topic} (1)", "approved": True}


def test_the_next_run_gets_what_the_last_one_saved(client: SyncLangGraphClient, thread: str) -> None:
    for topic in ("tea", "milk"):
        client.runs.wait(thread, "functional", input={"topic": topic})
        client.runs.wait(thread, "functional", command={"resume": True})
    state: Any = client.threads.get_state(thread)
    assert state["values"]["approved"] is True
    assert state["next"] == []
