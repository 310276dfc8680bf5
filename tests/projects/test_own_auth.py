"""Auth as in LangGraph's documentation, and in templates of full-stack applications: bearer tokens, private threads, a
store by user, scoped access, and a custom route that requires a credential."""

import uuid
from collections.abc import Iterator

import httpx
import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient
from langgraph_sdk.errors import APIStatusError

PROJECT = "own_auth"


def client_of(url: str, token: str) -> SyncLangGraphClient:
    return get_sync_client(url=url, headers={"Authorization": f"Bearer {token}"}, api_key=None)


@pytest.fixture
def alice(url: str) -> Iterator[SyncLangGraphClient]:
    with client_of(url, "user1-token") as client:
        yield client


@pytest.fixture
def bob(url: str) -> Iterator[SyncLangGraphClient]:
    with client_of(url, "user2-token") as client:
        yield client


def status_of(failed: pytest.ExceptionInfo[APIStatusError]) -> tuple[int, str]:
    return failed.value.response.status_code, failed.value.response.json()["detail"]


@pytest.mark.parametrize(
    ("headers", "detail"),
    [({}, "Missing authorization"), ({"authorization": "Bearer nonsense"}, "Invalid token")],
)
@pytest.mark.parametrize("path", ["/threads", "/runs/wait", "/store/items", "/unknown"])
def test_requests_without_a_valid_token_are_rejected(url: str, path: str, headers: dict[str, str], detail: str) -> None:
    response = httpx.post(f"{url}{path}", json={}, headers=headers)
    assert (response.status_code, response.json()) == (401, {"detail": detail})


@pytest.mark.parametrize("path", ["/ok", "/info", "/docs", "/openapi.json"])
def test_some_pages_need_no_token(url: str, path: str) -> None:
    assert httpx.get(f"{url}{path}").status_code == 200


def test_custom_routes_require_a_token(url: str) -> None:
    assert httpx.get(f"{url}/hello").status_code == 401
    headers = {"authorization": "Bearer user1-token"}
    assert httpx.get(f"{url}/hello", headers=headers).json() == {"hello": "world"}


def test_conversations_are_private(alice: SyncLangGraphClient, bob: SyncLangGraphClient) -> None:
    thread = alice.threads.create()
    assert thread["metadata"] == {"owner": "user1"}
    with pytest.raises(APIStatusError) as failed:
        bob.threads.get(thread["thread_id"])
    assert status_of(failed) == (404, f"Thread with ID {thread['thread_id']} not found")
    run = {"assistant_id": "agent", "input": {"text": "hi"}}
    rejected = bob.http.client.post(f"/threads/{thread['thread_id']}/runs/wait", json=run)
    assert (rejected.status_code, rejected.json()) == (404, {"detail": "Thread or assistant not found."})
    assert thread["thread_id"] in [each["thread_id"] for each in alice.threads.search(limit=1000)]
    assert thread["thread_id"] not in [each["thread_id"] for each in bob.threads.search(limit=1000)]


def test_the_user_and_what_a_handler_adds_reach_the_graph(alice: SyncLangGraphClient) -> None:
    thread = alice.threads.create()["thread_id"]
    values = alice.runs.wait(thread, "agent", input={"text": "hi"})
    assert (values["greeting"], values["identity"]) == ("Hello Alice", "user1 Alice")
    [run] = alice.runs.list(thread)
    assert run["metadata"]["started_by"] == "user1"
    stored = run["kwargs"]["config"]["configurable"]
    assert stored["langgraph_auth_user"]["display_name"] == "Alice"
    assert (stored["langgraph_auth_user_id"], stored["langgraph_auth_permissions"]) == ("user1", ["threads:write"])


def test_access_depends_on_permissions(url: str) -> None:
    with client_of(url, "reader-token") as reader, pytest.raises(APIStatusError) as failed:
        reader.threads.create()
    assert status_of(failed) == (403, "User lacks the required permissions.")


def test_what_no_handler_allows_is_forbidden(alice: SyncLangGraphClient) -> None:
    for attempt in (lambda: alice.assistants.create("agent"), lambda: alice.crons.search()):
        with pytest.raises(APIStatusError) as failed:
            attempt()
        assert status_of(failed) == (403, "Forbidden")


def test_the_store_is_separate_for_each_user(alice: SyncLangGraphClient, bob: SyncLangGraphClient) -> None:
    key = str(uuid.uuid4())
    alice.store.put_item(("user1", "notes"), key, {"a": 1})
    assert alice.store.get_item(("user1", "notes"), key)["value"] == {"a": 1}
    with pytest.raises(APIStatusError) as failed:
        bob.store.get_item(("user1", "notes"), key)
    assert status_of(failed) == (403, "Not authorized")
