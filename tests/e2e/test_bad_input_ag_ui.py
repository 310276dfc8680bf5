"""AG-UI and CopilotKit accept every input or reject it with an error in the shape of the protocol. No run is lost."""

import json
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from agui_checker import AgUiChecker
from test_bad_input import UNUSUAL_VALUES

from threadwire.testing.server import RunningServer, running_server

pytestmark = pytest.mark.anyio

WIRES = {"ag-ui": "/ag-ui/{}", "copilotkit": "/copilotkit/agent/{}/run"}
FIELDS = ("threadId", "runId", "messages", "state", "tools", "context", "forwardedProps", "resume", "protocolVersion")
UNUSUAL_MESSAGES: list[Any] = [
    {},
    {"id": 1, "role": "user", "content": "x"},
    {"id": "", "role": "user", "content": "x"},
    {"id": "a", "role": "nobody", "content": "x"},
    {"id": "a", "role": "user"},
    {"id": "a", "role": "user", "content": 3},
    {"id": "a", "role": "user", "content": [1]},
    {"id": "a", "role": "user", "content": [{"type": "image"}]},
    {"id": "a", "role": "user", "content": [{"type": "image", "source": "x"}]},
    {"id": "a", "role": "assistant", "toolCalls": "x"},
    {"id": "a", "role": "assistant", "toolCalls": [{}]},
    {"id": "a", "role": "assistant", "toolCalls": [1]},
    {"id": "a", "role": "assistant", "toolCalls": [{"id": 1, "function": "x"}]},
    {"id": "a", "role": "assistant", "toolCalls": [{"id": "c", "function": {"name": "n", "arguments": "{"}}]},
    {"id": "a", "role": "tool", "content": "x"},
    {"id": "a", "role": "tool", "toolCallId": {}, "content": "x"},
    {"id": "a", "role": "activity", "content": 1},
    {"id": "a" * 10_000, "role": "user", "content": "\x00", "name": {}},
]


@pytest.fixture(scope="module")
def own_server(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server for this module only, so that its log can be checked for unexpected errors at the end."""
    with running_server(project, tmp_path_factory.mktemp("bad-input") / "data") as running:
        yield running
        assert "request_failed" not in running.log()


@pytest.fixture
async def wire(own_server: RunningServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=own_server.url, timeout=30) as client:
        yield client


def body(**fields: Any) -> bytes:
    message = {"id": "u1", "role": "user", "content": "hello"}
    valid = {"threadId": str(uuid.uuid4()), "runId": "r", "messages": [message], "tools": [], "context": []}
    return json.dumps({**valid, **fields}).encode()


async def check_response(wire: httpx.AsyncClient, agui: AgUiChecker, url: str, content: bytes) -> None:
    response = await wire.post(url, content=content, headers={"content-type": "application/json"})
    assert response.status_code in (200, 400, 404, 409, 422), (content[:200], response.status_code, response.text[:300])
    if response.status_code != 200:
        error = response.json()
        assert error.get("detail") or (error["error"] and (error.get("message") or error.get("details"))), error
    elif response.headers["content-type"].startswith("text/event-stream"):
        modern = b'"protocolVersion": null' not in content and b'"protocolVersion"' in content
        agui.check(response.content, generations=["1.0"] if modern else ("1.0", "0.0.59"))


@pytest.mark.parametrize("graph", ["chat", "copilot"])
@pytest.mark.parametrize("url", WIRES.values(), ids=WIRES)
async def test_every_field_of_a_run_with_every_unusual_value(
    wire: httpx.AsyncClient, agui: AgUiChecker, url: str, graph: str
) -> None:
    for field in FIELDS:
        for value in UNUSUAL_VALUES:
            await check_response(wire, agui, url.format(graph), body(**{field: value}))


@pytest.mark.parametrize("url", WIRES.values(), ids=WIRES)
async def test_unusual_messages(wire: httpx.AsyncClient, agui: AgUiChecker, url: str) -> None:
    for value in UNUSUAL_MESSAGES:
        await check_response(wire, agui, url.format("chat"), body(messages=[value]))


@pytest.mark.parametrize("url", ["/ag-ui/chat/connect", "/copilotkit/agent/chat/connect"])
async def test_every_field_of_a_connect_with_every_unusual_value(
    wire: httpx.AsyncClient, agui: AgUiChecker, url: str
) -> None:
    for field in (*FIELDS, "lastSeenEventId"):
        for value in UNUSUAL_VALUES:
            await check_response(wire, agui, url, body(**{field: value}))


async def test_every_field_of_a_thread_with_every_unusual_value(wire: httpx.AsyncClient, agui: AgUiChecker) -> None:
    for field in ("agentId", "name", "archived"):
        for value in UNUSUAL_VALUES:
            content = json.dumps({"agentId": "chat", field: value}).encode()
            headers = {"content-type": "application/json"}
            response = await wire.patch("/copilotkit/threads/none", content=content, headers=headers)
            assert response.status_code in (400, 404), response.text


async def test_every_field_of_an_envelope_with_every_unusual_value(wire: httpx.AsyncClient, agui: AgUiChecker) -> None:
    envelope = {"method": "agent/run", "params": {"agentId": "chat"}, "body": json.loads(body())}
    for part in envelope:
        for value in UNUSUAL_VALUES:
            await check_response(wire, agui, "/copilotkit", json.dumps({**envelope, part: value}).encode())
    for part in ("path", "httpMethod"):
        for value in UNUSUAL_VALUES:
            params = {"path": "/threads", "httpMethod": "GET", part: value}
            response = await wire.post("/copilotkit", json={"method": "resource/request", "params": params})
            assert response.status_code in (200, 400, 404, 405), response.text


@pytest.mark.parametrize("path", ["%00", "%0A", "a%0Ab", "%F0%9F%92%A5", "a" * 3000, "..%2f..", "%2e%2e", "null", "%"])
async def test_unusual_paths(wire: httpx.AsyncClient, path: str) -> None:
    for method, url in (
        ("POST", f"/copilotkit/agent/{path}/run"),
        ("POST", f"/copilotkit/agent/chat/stop/{path}"),
        ("GET", f"/copilotkit/threads/{path}/messages"),
        ("DELETE", f"/copilotkit/threads/{path}"),
        ("GET", f"/copilotkit/{path}"),
    ):
        response = await wire.request(method, url, json={"agentId": "chat"} if method == "DELETE" else None)
        assert response.status_code in (200, 400, 404, 405), (method, url, response.text)
        assert response.status_code == 200 or "error" in response.json(), (method, url, response.text)


@pytest.mark.parametrize(
    ("method", "path", "status", "allowed"),
    [
        ("GET", "/ag-ui/", 404, None),
        ("GET", "/ag-ui/chat/nothing", 404, None),
        ("POST", "/ag-ui//connect", 404, None),
        ("POST", "/ag-ui", 405, "GET"),
        ("PUT", "/ag-ui/chat", 405, "GET, POST"),
        ("PROPFIND", "/ag-ui/chat/connect", 405, "POST"),
    ],
)
async def test_ag_ui_rejects_unknown_paths_and_methods_like_everything_else(
    wire: httpx.AsyncClient, method: str, path: str, status: int, allowed: str | None
) -> None:
    response = await wire.request(method, path)
    assert (response.status_code, set(response.json())) == (status, {"detail"})
    assert response.headers.get("allow") == allowed
