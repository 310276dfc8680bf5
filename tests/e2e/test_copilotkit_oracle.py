"""Ours beside CopilotKit's own Node runtime: the same requests to both.

Statuses, the keys of what is answered, and the names of errors are the same; sentences and details may be other ones.
What differs on purpose is listed here with both statuses, and explained in docs/reference/copilotkit.md.
"""

import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from clients import PATIENCE, eventually
from oracle import node_runtime

from threadwire.testing.server import RunningServer

pytestmark = pytest.mark.anyio


def asking(thread_id: str, text: str = "hello", **more: Any) -> dict[str, Any]:
    return {
        "threadId": thread_id,
        "runId": f"run of {thread_id}",
        "messages": [{"id": "u1", "role": "user", "content": text}],
        "tools": [],
        "context": [],
        "state": {},
        "forwardedProps": {},
        **more,
    }


def enveloped(method: str, params: Any = None, body: Any = None) -> dict[str, Any]:
    return (
        {"method": method} | ({} if params is None else {"params": params}) | ({} if body is None else {"body": body})
    )


def resource(path: str, **more: Any) -> dict[str, Any]:
    return enveloped("resource/request", {"path": path, **more})


LOOKED_AT = ("messages", "events", "state")
STOP = "/agent/default/stop/t"
AGENT = {"agentId": "default"}

SAME: list[tuple[str, str, Any]] = [
    ("GET", "/info/nothing", None),
    ("POST", "/info", None),
    ("GET", "/nothing", None),
    ("PROPFIND", "/nothing", None),
    ("PROPFIND", "", None),
    ("OPTIONS", "/info", None),
    ("GET", "/a%0Ab", None),
    ("GET", "/threads/a%0Ab", None),
    ("GET", "/threads//messages", None),
    ("PATCH", "/threads/", {}),
    ("POST", STOP.removesuffix("t"), {}),
    ("GET", "/agent/default", None),
    ("GET", "/memories", None),
    ("POST", "/agent/nope/run", asking("a")),
    ("POST", "/agent/nope/connect", asking("a")),
    ("POST", "/agent/nope/suggest", asking("a")),
    ("POST", "/agent/nope/stop/t", {}),
    ("POST", "/agent/default/run", b""),
    ("POST", "/agent/default/run", b"{"),
    ("POST", "/agent/default/run", b"[]"),
    ("POST", "/agent/default/run", {"runId": "x"}),
    ("POST", "/agent/default/run", {"threadId": 1, "runId": "x"}),
    ("POST", "/agent/default/connect", b"{"),
    ("POST", "/agent/default/suggest", b"{"),
    ("GET", "/agent/default/run", None),
    ("PUT", "/agent/default/connect", None),
    ("DELETE", STOP, None),
    ("POST", "/threads", {}),
    ("GET", "/threads/x", None),
    ("GET", "/threads/x/archive", None),
    ("POST", STOP, None),
    ("POST", STOP, {}),
    ("POST", STOP, {"runId": "r"}),
    ("POST", STOP, {"more": 1}),
    ("POST", STOP, b"{"),
    ("POST", STOP, b"[]"),
    ("GET", "/threads?agentId=default", None),
    ("POST", "/transcribe", None),
    ("GET", "", None),
    ("PUT", "/", None),
    ("POST", "", b"{"),
    ("POST", "", b"[]"),
    ("POST", "", {}),
    ("POST", "", enveloped("x")),
    ("POST", "", enveloped("agent/run", body={})),
    ("POST", "", enveloped("agent/run", AGENT)),
    ("POST", "", enveloped("agent/run", {"agentId": "nope"}, asking("a"))),
    ("POST", "", enveloped("agent/stop", AGENT)),
    ("POST", "", enveloped("agent/stop", {**AGENT, "threadId": "t"})),
    ("POST", "", enveloped("agent/stop", {**AGENT, "threadId": "t"}, {"more": 1})),
    ("POST", "", resource("/threads")),
    ("POST", "", resource("/threads?agentId=default", httpMethod="GET")),
    ("POST", "", resource("/memories", httpMethod="GET")),
    ("POST", "", resource("threads", httpMethod="GET")),
]

OTHERWISE: list[tuple[str, str, Any, int, int]] = [
    ("GET", "/threads?agentId=nope", None, 200, 404),
    ("GET", "/threads/never/messages", None, 200, 404),
    ("GET", "/threads/never/state", None, 200, 404),
    ("GET", "/threads/never/events", None, 200, 404),
    ("PATCH", "/threads/never", {**AGENT, "name": "n"}, 422, 404),
    ("POST", "/threads/never/archive", AGENT, 422, 404),
    ("DELETE", "/threads/never", AGENT, 422, 404),
    ("POST", "/threads/clear", None, 204, 422),
    ("POST", "/annotate", {}, 422, 404),
    ("GET", "/inspector-metadata", None, 204, 404),
    ("POST", "", enveloped("info", 1), 200, 400),
    ("POST", "", enveloped("transcribe"), 400, 503),
]


class Pair:
    """Both runtimes."""

    def __init__(self, node: httpx.AsyncClient, ours: httpx.AsyncClient) -> None:
        self.node = node
        self.ours = ours

    async def ask(self, verb: str, path: str, body: Any = None) -> tuple[httpx.Response, httpx.Response]:
        return await _ask(self.node, verb, path, body), await _ask(self.ours, verb, path, body)


async def _ask(client: httpx.AsyncClient, verb: str, path: str, body: Any) -> httpx.Response:
    sent = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {} if body is None else {"content-type": "application/json"}
    return await client.request(verb, f"/copilotkit{path}", content=sent, headers=headers)


@pytest.fixture(scope="module")
def node_url() -> Iterator[str]:
    with node_runtime() as url:
        yield url


@pytest.fixture
async def pair(node_url: str, server: RunningServer) -> AsyncIterator[Pair]:
    async with (
        httpx.AsyncClient(base_url=node_url, timeout=PATIENCE) as node,
        httpx.AsyncClient(base_url=server.url, timeout=PATIENCE) as ours,
    ):
        yield Pair(node, ours)


def outline(response: httpx.Response) -> Any:
    """What of an answer a client acts upon."""
    answer = response.json()
    error = answer.get("error")
    return response.status_code, set(answer), error if not isinstance(error, str) or "`" not in error else "…"


@pytest.mark.parametrize(("verb", "path", "body"), SAME)
async def test_the_answer_is_theirs(pair: Pair, verb: str, path: str, body: Any) -> None:
    node, ours = await pair.ask(verb, path, body)
    assert outline(ours) == outline(node)
    if node.status_code == 405:
        assert set(node.headers["allow"].split(", ")) <= set(ours.headers["allow"].split(", "))


@pytest.mark.parametrize(("verb", "path", "body", "there", "here"), OTHERWISE)
async def test_what_differs_is_what_is_said_to(
    pair: Pair, verb: str, path: str, body: Any, there: int, here: int
) -> None:
    node, ours = await pair.ask(verb, path, body)
    assert (node.status_code, ours.status_code) == (there, here)


@pytest.mark.parametrize("ask", [("GET", "/info", None), ("POST", "", enveloped("info"))])
async def test_info_has_everything_theirs_has(pair: Pair, ask: tuple[str, str, Any]) -> None:
    node, ours = [answer.json() for answer in await pair.ask(*ask)]
    assert set(node) <= set(ours)
    assert set(node["agents"]["default"]) <= set(ours["agents"]["default"])
    for name in ("version", "mode", "suggestions", "a2uiEnabled", "telemetryDisabled"):
        assert ours[name] == node[name], name
    assert set(node["threadEndpoints"]) == set(ours["threadEndpoints"])


async def test_a_stop_is_answered_like_theirs_before_and_after(pair: Pair) -> None:
    thread_id = str(uuid.uuid4())
    asked = {"default": asking(thread_id, "slow"), "chat": asking(thread_id, "a b c d e f", state={"delay": 0.3})}
    answers = []
    for client, agent in ((pair.node, "default"), (pair.ours, "chat")):
        stop = f"/agent/{agent}/stop/{thread_id}"
        async with running(client, agent, asked[agent]):
            wrong = await _ask(client, "POST", stop, {"runId": "another"})
            right = await _ask(client, "POST", stop, {"runId": asked[agent]["runId"]})
            assert right.json()["stopped"] is True

            async def stopped(client: httpx.AsyncClient = client, stop: str = stop) -> Any:
                again = await _ask(client, "POST", stop, None)
                return None if again.json()["stopped"] else again

            again = await eventually(stopped)
        answers.append([each.json() for each in (wrong, right, again)])

    assert answers[1] == answers[0]


@contextlib.asynccontextmanager
async def running(client: httpx.AsyncClient, agent: str, body: dict[str, Any]) -> AsyncIterator[None]:
    """A run that has begun to answer."""
    async with client.stream("POST", f"/copilotkit/agent/{agent}/run", json=body) as response:
        sent = ""
        async for text in response.aiter_text():
            sent += text
            if "TEXT_MESSAGE_CONTENT" in sent:
                break
        yield


async def test_a_thread_is_listed_and_looked_at_like_theirs(pair: Pair) -> None:
    thread_id = str(uuid.uuid4())
    seen = []
    for client, agent in ((pair.node, "default"), (pair.ours, "chat")):
        await _ask(client, "POST", f"/agent/{agent}/run", asking(thread_id))
        threads = (await _ask(client, "GET", f"/threads?agentId={agent}", None)).json()["threads"]
        [record] = [each for each in threads if each["id"] == thread_id]
        assert record.pop("agentId") == agent
        looked = [(await _ask(client, "GET", f"/threads/{thread_id}/{what}", None)).json() for what in LOOKED_AT]
        seen.append((record, *looked))
    (there, *of_theirs), (here, *of_ours) = seen

    assert set(there) <= set(here)
    for name in ("name", "organizationId", "createdById", "archived"):
        assert here[name] == there[name], name
    assert [set(each) for each in of_ours] == [set(each) for each in of_theirs] == [{what} for what in LOOKED_AT]
    assert of_ours[0]["messages"][0] == of_theirs[0]["messages"][0] == {"id": "u1", "role": "user", "content": "hello"}
    assert [set(each) for each in of_ours[0]["messages"]] == [set(each) for each in of_theirs[0]["messages"]]
