"""A full-stack application: a page of another origin, routes of its own for logging in, JSON Web Tokens, and threads
that belong to their users."""

import httpx
import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient

PROJECT = "full_stack"
PAGE = "http://localhost:3000"
HELLO = {"messages": [{"role": "user", "content": "hello"}]}


def token_of(url: str, email: str) -> str:
    response = httpx.post(f"{url}/api/login", json={"email": email}, headers={"origin": PAGE}).raise_for_status()
    assert response.headers["access-control-allow-origin"] == PAGE
    token: str = response.json()["token"]
    return token


def client_of(url: str, token: str) -> SyncLangGraphClient:
    return get_sync_client(url=url, headers={"Authorization": f"Bearer {token}", "Origin": PAGE}, api_key=None)


def test_a_user_logs_in_and_talks(url: str) -> None:
    with client_of(url, token_of(url, "ada@example.org")) as ada:
        thread = ada.threads.create()["thread_id"]
        parts = list(ada.runs.stream(thread, "agent", input=HELLO, stream_mode="values"))
        assert parts[-1].data["messages"][-1]["content"] == "Ada, you said: hello"
        assert [each["thread_id"] for each in ada.threads.search(ids=[thread])] == [thread]
        [run] = ada.runs.list(thread)
        assert run["kwargs"]["config"]["configurable"]["langgraph_auth_user"]["email"] == "ada@example.org"


def test_users_do_not_see_each_other(url: str) -> None:
    with (
        client_of(url, token_of(url, "ada@example.org")) as ada,
        client_of(url, token_of(url, "bob@example.org")) as bob,
    ):
        thread = ada.threads.create()["thread_id"]
        assert bob.threads.search(ids=[thread]) == []
        assert bob.http.client.get(f"/threads/{thread}/state").status_code == 404
        wait = bob.http.client.post(f"/threads/{thread}/runs/wait", json={"assistant_id": "agent", "input": HELLO})
        assert wait.status_code == 404


def test_stateless_runs_act_as_the_user(url: str) -> None:
    with client_of(url, token_of(url, "bob@example.org")) as bob:
        values = bob.runs.wait(None, "agent", input=HELLO)
        assert values["messages"][-1]["content"] == "Bob, you said: hello"


@pytest.mark.parametrize("form", ["none", "{}x", "x{}"])
def test_tokens_that_the_application_did_not_issue_are_rejected(url: str, form: str) -> None:
    token = form.format(token_of(url, "ada@example.org"))
    headers = {"authorization": f"Bearer {token}", "origin": PAGE}
    response = httpx.post(f"{url}/threads", json={}, headers=headers)
    assert (response.status_code, response.json()) == (401, {"detail": "Invalid token"})


def test_the_applications_own_routes_decide_for_themselves(url: str) -> None:
    assert httpx.get(f"{url}/api/me").status_code == 401
    headers = {"authorization": f"Bearer {token_of(url, 'ada@example.org')}"}
    assert httpx.get(f"{url}/api/me", headers=headers).json() == {"email": "ada@example.org"}
    assert httpx.post(f"{url}/api/login", json={"email": "eve@example.org"}).status_code == 403


def test_a_page_may_ask_before_it_sends_a_token(url: str) -> None:
    asked = {"origin": PAGE, "access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    response = httpx.options(f"{url}/threads", headers=asked)
    assert (response.status_code, response.headers["access-control-allow-origin"]) == (200, PAGE)
