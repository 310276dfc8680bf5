"""The thread wire accepts every input or rejects it with a documented code; never a 5xx, never a traceback."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from clients import eventually, fresh_id
from test_bad_input import INVALID_JSON, MAX_BODY, UNUSUAL_VALUES, assert_rejected
from wire import CHANNELS, WireThread, data_of, is_root_end

from threadwire.testing.server import RunningServer, running_server

pytestmark = pytest.mark.anyio

CODES = {
    "invalid_argument",
    "unknown_command",
    "no_such_interrupt",
    "no_such_run",
    "no_such_checkpoint",
    "no_such_namespace",
    "no_such_subscription",
    "not_supported",
    "unknown_error",
}
"""The codes of docs/reference/thread-wire.md."""

STATUSES = {"400", "404", "409", "422"}
"""What the message of an `unknown_error` may start with."""

PARAMS: dict[str, tuple[str, ...]] = {
    "run.start": ("assistant_id", "input", "config", "metadata", "multitaskStrategy", "langsmith_tracer"),
    "input.respond": (*("interrupt_id", "response", "namespace", "responses", "update", "goto", "config", "metadata"),),
    "input.inject": ("message", "namespace"),
    "state.get": ("namespace", "keys"),
    "state.listCheckpoints": ("namespace", "limit", "before"),
    "state.fork": ("checkpoint_id", "input", "config"),
    "agent.getTree": ("run_id",),
    "subscription.subscribe": ("channels", "namespaces", "depth"),
    "subscription.unsubscribe": ("subscription_id",),
    "subscription.reconnect": ("run_id", "subscriptions"),
}

NESTED = 97
"""With the levels of a command, within the limit of 100."""


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


VALUES = [*UNUSUAL_VALUES, nested(NESTED - 3), ["x"] * 10_000, [{"interrupt_id": "x", "response": {}, "namespace": 3}]]


@pytest.fixture(scope="module")
def own_server(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server for this module only, so that its log can be checked for unexpected errors at the end."""
    with running_server(project, tmp_path_factory.mktemp("bad-input") / "data") as running:
        yield running
        assert "request_failed" not in running.log()
        assert httpx.get(f"{running.url}/ok").json()["ok"] is True


@pytest.fixture
async def http(own_server: RunningServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=own_server.url, timeout=30) as client:
        yield client


async def send(http: httpx.AsyncClient, thread_id: str, method: Any, params: Any) -> Any:
    """Send a command, and return its response, which must be documented."""
    content = json.dumps({"id": 7, "method": method, "params": params})
    response = await http.post(
        f"/threads/{thread_id}/commands", content=content, headers={"content-type": "application/json"}
    )
    subject = f"{method} {content[:150]}: {response.status_code} {response.text[:200]}"
    if response.status_code != 200:
        assert_rejected(response, 422, subject)  # JSON that we do not accept
        return None
    reply = response.json()
    assert reply["id"] == 7, subject
    if reply["type"] == "success":
        assert set(reply) == {"type", "id", "result", "meta"}, subject
        return reply
    assert set(reply) == {"type", "id", "error", "message"}, subject
    assert reply["error"] in CODES, subject
    assert reply["message"], subject
    assert "Traceback" not in reply["message"], subject
    if reply["error"] == "unknown_error":
        assert reply["message"].partition(":")[0] in STATUSES, subject
    return reply


# -- states of a thread: each function prepares one, and returns valid parameters for it ---------------------------


async def no_thread(http: httpx.AsyncClient) -> tuple[str, dict[str, Any]]:
    return fresh_id(), {}


async def completed(http: httpx.AsyncClient) -> tuple[str, dict[str, Any]]:
    wire = WireThread(http)
    run_id = await wire.start("echo", {"text": "hello"})
    written = data_of(await wire.events(is_root_end), "checkpoints")
    return wire.thread_id, {"run_id": run_id, "checkpoint_id": written[0]["id"], "before": written[-1]["id"]}


async def interrupted(http: httpx.AsyncClient) -> tuple[str, dict[str, Any]]:
    wire = WireThread(http)
    await wire.start("approve", {"topic": "x"})
    (requested,) = data_of(await wire.events(is_root_end), "input.requested")
    return wire.thread_id, {"interrupt_id": requested["interrupt_id"]}


async def running(http: httpx.AsyncClient) -> tuple[str, dict[str, Any]]:
    wire = WireThread(http)
    run_id = await wire.start("slow", {"seconds": 3600})

    async def has_started() -> bool:
        return (await http.get(f"/threads/{wire.thread_id}/runs/{run_id}")).json()["status"] == "running"

    await eventually(has_started)
    return wire.thread_id, {"run_id": run_id, "multitaskStrategy": "reject"}


ALWAYS = {
    "run.start": {"assistant_id": "echo", "input": {"text": "x"}},
    "input.respond": {"interrupt_id": "f" * 32, "response": 1},
    "input.inject": {"message": {"role": "user", "content": "x"}},
    "state.fork": {"checkpoint_id": "1f0c0000-0000-6000-8000-000000000000"},
    "subscription.subscribe": {"channels": ["values"]},
    "subscription.unsubscribe": {"subscription_id": "x"},
    "subscription.reconnect": {"run_id": "1f0c0000-0000-6000-8000-000000000000"},
}
"""The smallest valid parameters."""


@pytest.mark.parametrize("moment", [no_thread, completed, interrupted, running])
async def test_every_parameter_with_every_unusual_value_gets_a_documented_response(
    http: httpx.AsyncClient, moment: Any
) -> None:
    for method, names in PARAMS.items():
        thread_id, known = await moment(http)
        valid = {**ALWAYS.get(method, {}), **{name: value for name, value in known.items() if name in names}}
        await send(http, thread_id, method, valid)
        for name in names:
            for value in VALUES:
                await send(http, thread_id, method, {**valid, name: value})


@pytest.mark.parametrize("name", ["response", "update", "goto", "config", "metadata", "namespace"])
async def test_an_answer_with_unusual_values_gets_a_documented_response(http: httpx.AsyncClient, name: str) -> None:
    """Each on a thread of its own, because the first answer wins."""
    for value in VALUES:
        thread_id, known = await interrupted(http)
        await send(http, thread_id, "input.respond", {"response": {"ok": True}, **known, name: value})


@pytest.mark.parametrize("method", ["", "x", "run.start ", "RUN.START", "\x00", "a" * 10_000, "__class__"])
async def test_an_unknown_method_is_an_unknown_command(http: httpx.AsyncClient, method: str) -> None:
    reply = await send(http, fresh_id(), method, {})
    assert reply["error"] == "unknown_command"
    assert len(reply["message"]) < 200


@pytest.mark.parametrize("params", [value for value in VALUES if value is not None and value != 10**30], ids=repr)
async def test_unusual_params_get_a_documented_response(http: httpx.AsyncClient, params: Any) -> None:
    for method in PARAMS:
        await send(http, fresh_id(), method, params)


async def test_every_key_of_a_subscription_with_every_unusual_value_gets_a_documented_response(
    http: httpx.AsyncClient,
) -> None:
    known, _ = await completed(http)
    for thread_id in (known, fresh_id()):
        for name in ("channels", "namespaces", "depth", "since"):
            for value in (*VALUES, [["x"] * 10_000], [["\x00", ""]], CHANNELS * 50):
                content = json.dumps({"channels": ["values"], name: value})
                headers = {"content-type": "application/json"}
                path = f"/threads/{thread_id}/stream/events"
                async with http.stream("POST", path, content=content, headers=headers) as response:
                    if response.status_code != 200:  # a stream has no end
                        await response.aread()
                        assert_rejected(response, {400, 422}, f"{name}={str(value)[:60]}")


@pytest.mark.parametrize("path", ["commands", "stream/events"])
async def test_bodies_that_are_not_json_too_deep_or_too_large_are_rejected(http: httpx.AsyncClient, path: str) -> None:
    url, headers = f"/threads/{fresh_id()}/{path}", {"content-type": "application/json"}
    for content in (b"{nope", b"\xff\xfe", b'{"id":NaN}', b'{"id":1}{"id":2}', b'{"params":"\\ud800"}', b"\x00"):
        assert_rejected(await http.post(url, content=content, headers=headers), 422, content, INVALID_JSON)
    assert_rejected(await http.post(url, content=b"", headers=headers), 422, path, "A request body is required")
    deep = b'{"id":1,"method":"state.get","channels":["values"],"params":' + b"[" * 100 + b"]" * 100 + b"}"
    detail = "The request body is nested more than 100 levels deep"
    assert_rejected(await http.post(url, content=deep, headers=headers), 422, path, detail)
    detail = f"The request body is larger than {MAX_BODY} bytes"
    large = b'{"params":"' + b"x" * MAX_BODY + b'"}'
    assert_rejected(await http.post(url, content=large, headers=headers), 413, path, detail)


@pytest.mark.parametrize("thread_id", ["abc", "0", "%00", "%F0%9F%92%A5", "a" * 3000, "null", "{}"])
async def test_malformed_thread_ids_are_rejected(http: httpx.AsyncClient, thread_id: str) -> None:
    for path, body in [("commands", {"id": 1, "method": "state.get"}), ("stream/events", {"channels": ["values"]})]:
        assert_rejected(await http.post(f"/threads/{thread_id}/{path}", json=body), 422, path)


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", ""])
async def test_a_foreign_host_is_rejected(http: httpx.AsyncClient, host: str) -> None:
    for path, body in [("commands", {"id": 1, "method": "state.get"}), ("stream/events", {"channels": ["values"]})]:
        response = await http.post(f"/threads/{fresh_id()}/{path}", json=body, headers={"host": host})
        assert_rejected(response, 421, path, "This server does not serve that host name")
