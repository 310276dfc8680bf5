"""Our runtime compared with CopilotKit's own Node runtime: the same requests to both.

Statuses, the keys of responses and the names of errors are the same; error texts and details may differ. The deliberate
differences are listed here with both statuses, and explained in docs/reference/copilotkit.md.
"""

import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from clients import TIMEOUT, eventually

from copilotkit_runtime import node_runtime
from threadwire.testing.server import RunningServer

pytestmark = pytest.mark.anyio


def run_body(thread_id: str, text: str = "hello", **fields: Any) -> dict[str, Any]:
    return {
        "threadId": thread_id,
        "runId": f"run of {thread_id}",
        "messages": [{"id": "u1", "role": "user", "content": text}],
        "tools": [],
        "context": [],
        "state": {},
        "forwardedProps": {},
        **fields,
    }


def envelope(method: str, params: Any = None, body: Any = None) -> dict[str, Any]:
    return (
        {"method": method} | ({} if params is None else {"params": params}) | ({} if body is None else {"body": body})
    )


def resource(path: str, **fields: Any) -> dict[str, Any]:
    return envelope("resource/request", {"path": path, **fields})


VIEWS = ("messages", "events", "state")
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
    ("POST", "/agent/nope/run", run_body("a")),
    ("POST", "/agent/nope/connect", run_body("a")),
    ("POST", "/agent/nope/suggest", run_body("a")),
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
    ("POST", "", envelope("x")),
    ("POST", "", envelope("agent/run", body={})),
    ("POST", "", envelope("agent/run", AGENT)),
    ("POST", "", envelope("agent/run", {"agentId": "nope"}, run_body("a"))),
    ("POST", "", envelope("agent/stop", AGENT)),
    ("POST", "", envelope("agent/stop", {**AGENT, "threadId": "t"})),
    ("POST", "", envelope("agent/stop", {**AGENT, "threadId": "t"}, {"more": 1})),
    ("POST", "", resource("/threads")),
    ("POST", "", resource("/threads?agentId=default", httpMethod="GET")),
    ("POST", "", resource("/memories", httpMethod="GET")),
    ("POST", "", resource("threads", httpMethod="GET")),
]

DIFFERENT: list[tuple[str, str, Any, int, int]] = [
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
    ("POST", "", envelope("info", 1), 200, 400),
    ("POST", "", envelope("transcribe"), 400, 503),
]


class Pair:
    """Both runtimes."""

    def __init__(self, node: httpx.AsyncClient, ours: httpx.AsyncClient) -> None:
        self.node = node
        self.ours = ours

    async def request(self, method: str, path: str, body: Any = None) -> tuple[httpx.Response, httpx.Response]:
        return await _request(self.node, method, path, body), await _request(self.ours, method, path, body)


async def _request(client: httpx.AsyncClient, method: str, path: str, body: Any) -> httpx.Response:
    sent = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {} if body is None else {"content-type": "application/json"}
    return await client.request(method, f"/copilotkit{path}", content=sent, headers=headers)


@pytest.fixture(scope="module")
def node_url() -> Iterator[str]:
    with node_runtime() as url:
        yield url


@pytest.fixture
async def pair(node_url: str, server: RunningServer) -> AsyncIterator[Pair]:
    async with (
        httpx.AsyncClient(base_url=node_url, timeout=TIMEOUT) as node,
        httpx.AsyncClient(base_url=server.url, timeout=TIMEOUT) as ours,
    ):
        yield Pair(node, ours)


def outline(response: httpx.Response) -> Any:
    """The parts of a response that a client acts on."""
    content = response.json()
    error = content.get("error")
    return response.status_code, set(content), error if not isinstance(error, str) or "`" not in error else "…"


@pytest.mark.parametrize(("method", "path", "body"), SAME)
async def test_responses_are_the_same(pair: Pair, method: str, path: str, body: Any) -> None:
    node, ours = await pair.request(method, path, body)
    assert outline(ours) == outline(node)
    if node.status_code == 405:
        assert set(node.headers["allow"].split(", ")) <= set(ours.headers["allow"].split(", "))


@pytest.mark.parametrize(("method", "path", "body", "node_status", "our_status"), DIFFERENT)
async def test_only_the_listed_responses_differ(
    pair: Pair, method: str, path: str, body: Any, node_status: int, our_status: int
) -> None:
    node, ours = await pair.request(method, path, body)
    assert (node.status_code, ours.status_code) == (node_status, our_status)


@pytest.mark.parametrize("call", [("GET", "/info", None), ("POST", "", envelope("info"))])
async def test_info_has_every_field_of_the_node_runtime(pair: Pair, call: tuple[str, str, Any]) -> None:
    node, ours = [content.json() for content in await pair.request(*call)]
    assert set(node) <= set(ours)
    assert set(node["agents"]["default"]) <= set(ours["agents"]["default"])
    for name in ("version", "mode", "suggestions", "a2uiEnabled", "telemetryDisabled"):
        assert ours[name] == node[name], name
    assert set(node["threadEndpoints"]) == set(ours["threadEndpoints"])


async def test_stop_responses_are_the_same_before_and_after(pair: Pair) -> None:
    thread_id = str(uuid.uuid4())
    bodies = {"default": run_body(thread_id, "slow"), "chat": run_body(thread_id, "a b c d e f", state={"delay": 0.3})}
    responses = []
    for client, agent in ((pair.node, "default"), (pair.ours, "chat")):
        stop = f"/agent/{agent}/stop/{thread_id}"
        async with running(client, agent, bodies[agent]):
            other = await _request(client, "POST", stop, {"runId": "another"})
            stopped_now = await _request(client, "POST", stop, {"runId": bodies[agent]["runId"]})
            assert stopped_now.json()["stopped"] is True

            async def stopped(client: httpx.AsyncClient = client, stop: str = stop) -> Any:
                again = await _request(client, "POST", stop, None)
                return None if again.json()["stopped"] else again

            again = await eventually(stopped)
        responses.append([each.json() for each in (other, stopped_now, again)])

    assert responses[1] == responses[0]


@contextlib.asynccontextmanager
async def running(client: httpx.AsyncClient, agent: str, body: dict[str, Any]) -> AsyncIterator[None]:
    """Run an agent until it has started to stream its message."""
    async with client.stream("POST", f"/copilotkit/agent/{agent}/run", json=body) as response:
        sent = ""
        async for text in response.aiter_text():
            sent += text
            if "TEXT_MESSAGE_CONTENT" in sent:
                break
        yield


async def test_thread_lists_and_views_are_the_same(pair: Pair) -> None:
    thread_id = str(uuid.uuid4())
    seen = []
    for client, agent in ((pair.node, "default"), (pair.ours, "chat")):
        await _request(client, "POST", f"/agent/{agent}/run", run_body(thread_id))
        threads = (await _request(client, "GET", f"/threads?agentId={agent}", None)).json()["threads"]
        [record] = [each for each in threads if each["id"] == thread_id]
        assert record.pop("agentId") == agent
        views = [(await _request(client, "GET", f"/threads/{thread_id}/{view}", None)).json() for view in VIEWS]
        seen.append((record, *views))
    (node_record, *node_views), (our_record, *our_views) = seen

    assert set(node_record) <= set(our_record)
    for name in ("name", "organizationId", "createdById", "archived"):
        assert our_record[name] == node_record[name], name
    assert [set(each) for each in our_views] == [set(each) for each in node_views] == [{view} for view in VIEWS]
    assert (
        our_views[0]["messages"][0] == node_views[0]["messages"][0] == {"id": "u1", "role": "user", "content": "hello"}
    )
    assert [set(each) for each in our_views[0]["messages"]] == [set(each) for each in node_views[0]["messages"]]
