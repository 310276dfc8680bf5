"""Long-term memory by user, in the store."""

import uuid
from typing import Any

from dialogue import texts, user
from langgraph_sdk.client import SyncLangGraphClient

PROJECT = "memory"


def replied(client: SyncLangGraphClient, assistant: str, text: str, **given: Any) -> str:
    return texts(client.runs.wait(None, assistant, input=user(text), **given))[-1]


def of_user(user_id: str) -> dict[str, Any]:
    return {"config": {"configurable": {"user_id": user_id}}}


def test_each_user_has_memories_of_their_own(client: SyncLangGraphClient) -> None:
    ada, eve = f"ada-{uuid.uuid4()}", f"eve-{uuid.uuid4()}"
    assert replied(client, "assistant", "Remember tea", **of_user(ada)) == "I know: tea"
    assert replied(client, "assistant", "Hello", **of_user(eve)) == "I know: nothing"
    assert replied(client, "assistant", "Remember milk", **of_user(ada)) == "I know: milk, tea"
    found = client.store.search_items(("memories", ada))["items"]
    assert sorted(item["value"]["data"] for item in found) == ["milk", "tea"]


def test_the_user_can_be_given_by_the_assistant_or_the_context(client: SyncLangGraphClient) -> None:
    ada, eve = f"ada-{uuid.uuid4()}", f"eve-{uuid.uuid4()}"
    hers = client.assistants.create("assistant", config=of_user(ada)["config"])["assistant_id"]
    assert replied(client, hers, "Remember tea") == "I know: tea"
    assert replied(client, hers, "Remember rice", **of_user(eve)) == "I know: rice"
    assert replied(client, "assistant", "Hello", context={"user_id": ada}) == "I know: tea"


def test_memories_that_the_application_stores_reach_the_graph(client: SyncLangGraphClient) -> None:
    ada = f"ada-{uuid.uuid4()}"
    client.store.put_item(("memories", ada), "k", {"data": "sugar"})
    assert replied(client, "assistant", "Hello", **of_user(ada)) == "I know: sugar"
