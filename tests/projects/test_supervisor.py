"""A supervisor that delegates to workers, each a subgraph."""

from dialogue import texts, user
from langgraph_sdk.client import SyncLangGraphClient

PROJECT = "supervisor"


def test_the_workers_report_and_the_supervisor_summarizes(client: SyncLangGraphClient, thread: str) -> None:
    said = texts(client.runs.wait(thread, "supervisor", input=user("Tea, and 6 times 7")))
    assert said[-1] == "Summary: facts about tea, and 42."
    assert said.index("Found facts about tea") < said.index("It is 42")


def test_the_steps_of_the_workers_are_streamed_in_order(client: SyncLangGraphClient, thread: str) -> None:
    parts = client.runs.stream(thread, "supervisor", input=user("Tea"), stream_mode="updates", stream_subgraphs=True)
    events = [(part.event.split("|")[-1].split(":")[0], *part.data) for part in parts if part.event != "metadata"]
    workers = [node for _, node in events if node in ("researcher", "calculator", "supervisor")]
    assert workers == ["supervisor", "researcher", "supervisor", "calculator", "supervisor"]
    assert ("researcher", "tools") in events
    assert ("calculator", "tools") in events
