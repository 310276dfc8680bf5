"""CopilotKit's runtime over HTTP: the single-endpoint transport, whose requests name the operation in their body."""

import asyncio
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from agui_checker import AgUiChecker
from clients import TIMEOUT
from pages import COPILOTKIT, OpenCopilotKitPage, hello

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["", "/"])
async def envelope(http: httpx.AsyncClient, request: pytest.FixtureRequest) -> Callable[..., Any]:
    async def post(method: str, params: Any = None, body: Any = ...) -> httpx.Response:
        sent = {"method": method}
        sent |= {} if params is None else {"params": params}
        sent |= {} if body is ... else {"body": body}
        return await http.post(COPILOTKIT + request.param, json=sent)

    return post


async def test_an_envelope_supports_every_operation(
    http: httpx.AsyncClient, envelope: Callable[..., Any], agui: AgUiChecker, agent: str
) -> None:
    thread_id = f"in an envelope {uuid.uuid4()}"
    assert (await envelope("info")).json() == (await http.get(f"{COPILOTKIT}/info")).json()

    body = hello(thread_id)
    run = agui.check((await envelope("agent/run", {"agentId": agent}, body)).content, messages=body["messages"])
    assert run.messages[-1]["content"] == "You said: hello"
    connected = agui.check((await envelope("agent/connect", {"agentId": agent}, hello(thread_id))).content)
    assert connected.messages == run.messages
    suggested = agui.check((await envelope("agent/suggest", {"agentId": agent}, body)).content)
    assert suggested.events[-1]["type"] == "RUN_FINISHED"

    params = {"agentId": agent, "threadId": thread_id}
    assert (await envelope("agent/stop", params)).json()["stopped"] is False
    assert (await envelope("agent/stop", params, {"runId": "x"})).json()["stopped"] is False
    assert (await envelope("agent/stop", params, {"more": 1})).status_code == 400


async def test_an_envelope_reaches_the_thread_operations(
    http: httpx.AsyncClient, envelope: Callable[..., Any], agent: str
) -> None:
    thread_id = f"a/b & {uuid.uuid4()}"
    await envelope("agent/run", {"agentId": agent}, hello(thread_id))
    quoted = quote(thread_id, safe="")

    async def send(http_method: str, path: str, body: Any = ...) -> Any:
        return await envelope("resource/request", {"path": path, "httpMethod": http_method}, body)

    [found] = (await send("GET", f"/threads?agentId={agent}&limit=1")).json()["threads"]
    address = f"/threads/{quoted}"
    assert found["id"] == thread_id
    assert (await send("patch", address, {"agentId": agent, "name": "n"})).json()["name"] == "n"
    assert (await send("POST", f"{address}/archive", {"agentId": agent})).json()["archived"] is True
    assert len((await send("GET", f"{address}/messages")).json()["messages"]) == 2
    assert (await send("GET", f"{address}/state")).json() == {"state": {}}
    assert (await send("DELETE", address, {"agentId": agent})).json()["deleted"] is True
    assert (await send("GET", f"{address}/messages")).status_code == 404


async def test_an_envelope_reaches_nothing_else(envelope: Callable[..., Any]) -> None:
    for path in ("/info", "/agent/chat/run", "/threadsx", "/../threads", "/memories"):
        response = await envelope("resource/request", {"path": path, "httpMethod": "GET"})
        assert (response.status_code, response.json()) == (404, {"error": "Not found"}), path
    for path in ("threads", "//threads", "http://elsewhere/threads"):
        response = await envelope("resource/request", {"path": path, "httpMethod": "GET"})
        assert (response.status_code, response.json()["error"]) == (400, "invalid_request"), path


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"{", "Invalid JSON in request body"),
        (b"[]", "Missing method field"),
        (b"{}", "Missing method field"),
        (b'{"method": "x"}', "Unsupported method 'x'"),
        (b'{"method": "info", "params": 1}', "params: must be an object"),
        (b'{"method": "agent/run", "body": {}}', "Missing or invalid parameter 'agentId'"),
        (b'{"method": "agent/run", "params": {"agentId": "chat"}}', "Missing request body for JSON handler"),
        (b'{"method": "agent/stop", "params": {"agentId": "chat"}}', "Missing or invalid parameter 'threadId'"),
        (
            b'{"method": "resource/request", "params": {"path": "/threads"}}',
            "Missing or invalid parameter 'httpMethod'",
        ),
    ],
)
async def test_an_invalid_envelope_is_rejected(http: httpx.AsyncClient, sent: bytes, message: str) -> None:
    response = await http.post(COPILOTKIT, content=sent, headers={"content-type": "application/json"})
    assert (response.status_code, response.json()) == (400, {"error": "invalid_request", "message": message})


async def test_an_envelope_must_be_json(http: httpx.AsyncClient) -> None:
    response = await http.post(COPILOTKIT, content=b"hello", headers={"content-type": "text/plain"})
    assert (response.status_code, response.json()["error"]) == (415, "invalid_request")


async def test_an_envelope_is_rejected_like_the_request_in_it(envelope: Callable[..., Any]) -> None:
    unknown = await envelope("agent/run", {"agentId": "a/stop/b"}, hello())
    assert (unknown.status_code, unknown.json()["error"]) == (404, "Agent not found")
    malformed = await envelope("agent/run", {"agentId": "chat"}, {"threadId": 1})
    assert (malformed.status_code, malformed.json()["error"]) == (400, "Invalid request body")
    assert (await envelope("transcribe", body={})).status_code == 503
    for method in ("inspector/metadata", "inspector/learning"):
        assert (await envelope(method)).status_code == 404


async def test_a_run_continues_when_the_client_of_an_envelope_leaves(
    http: httpx.AsyncClient, copilotkit: OpenCopilotKitPage
) -> None:
    here = copilotkit("chat")
    text = "one two three four five six"
    body = hello(here.thread_id, messages=[{"id": "u1", "role": "user", "content": text}], state={"delay": 0.05})
    sent = {"method": "agent/run", "params": {"agentId": "chat"}, "body": body}
    async with http.stream("POST", COPILOTKIT, json=sent) as stream:
        async for chunk in stream.aiter_raw():
            if b"one" in chunk:
                break
    async with asyncio.timeout(TIMEOUT):
        await here.connect()
    assert here.texts[-1] == ("assistant", f"You said: {text}")
