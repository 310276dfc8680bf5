"""LangChain's human-in-the-loop middleware: approve, edit, reject."""

from typing import Any

import pytest
from dialogue import texts, user
from langgraph_sdk.client import SyncLangGraphClient

PROJECT = "approvals"

EDITED = {"type": "edit", "edited_action": {"name": "pay", "args": {"amount": 7}}}


@pytest.fixture
def pending(client: SyncLangGraphClient, thread: str) -> Any:
    """The interrupt of a run that waits for a decision."""
    state: Any = client.runs.wait(thread, "approvals", input=user("Pay Ada"))
    [interrupt] = state["__interrupt__"]
    return interrupt


def test_the_interrupt_describes_the_call(client: SyncLangGraphClient, thread: str, pending: Any) -> None:
    [request] = pending["value"]["action_requests"]
    assert (request["name"], request["args"]) == ("pay", {"amount": 100})
    [config] = pending["value"]["review_configs"]
    assert {"approve", "edit", "reject"} <= set(config["allowed_decisions"])
    found = client.threads.get(thread)
    assert (found["status"], [each["id"] for task in found["interrupts"].values() for each in task]) == (
        "interrupted",
        [pending["id"]],
    )


@pytest.mark.parametrize(
    ("decision", "result"),
    [
        ({"type": "approve"}, "paid 100"),
        (EDITED, "paid 7"),
        ({"type": "reject", "message": "Too much."}, "Too much."),
    ],
    ids=["approve", "edit", "reject"],
)
@pytest.mark.parametrize("by_id", [False, True], ids=["plain", "by id"])
def test_a_decision_resumes_the_agent(
    client: SyncLangGraphClient, thread: str, pending: Any, decision: Any, result: str, by_id: bool
) -> None:
    answer: Any = {"decisions": [decision]}
    state = client.runs.wait(thread, "approvals", command={"resume": {pending["id"]: answer} if by_id else answer})
    assert any(text.endswith(result) for text in texts(state)[2:-1])
    assert texts(state)[-1].startswith("Result: ")
    assert client.threads.get(thread)["status"] == "idle"
