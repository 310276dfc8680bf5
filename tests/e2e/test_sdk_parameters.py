"""Every parameter of every method of the Python SDK maps to something the server supports: no parameter, not even one
of a newer SDK, is accepted and ignored.

Each parameter is sent alone, without a server, and what it changes in the request must be in /openapi.json. The other
tests of this folder cover what the fields do, and tests/docs that they are documented.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from inspect import Parameter, isawaitable, signature
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient, SyncLangGraphClient
from test_bad_input import Route, routes_of
from tour import SDK, methods

from threadwire.testing.server import RunningServer

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:`checkpoint_during` is deprecated")]

ID = "6f1d2c4e-0000-4000-8000-000000000000"

SAMPLES: dict[str, Any] = {
    "action": "rollback",
    "after_seconds": 5,
    "as_node": "a",
    "assistant_id": ID,
    "before": ID,
    "cancel_on_disconnect": True,
    "checkpoint": {"checkpoint_id": ID},
    "checkpoint_during": False,
    "checkpoint_id": ID,
    "command": {"resume": 1},
    "config": {"tags": ["a"]},
    "context": {"a": 1},
    "cron_id": ID,
    "delete_threads": True,
    "description": "a",
    "durability": "sync",
    "enabled": False,
    "end_time": datetime(2030, 1, 1, tzinfo=UTC),
    "extract": {"a": "values.a"},
    "feedback_keys": ["a"],
    "filter": {"a": 1},
    "graph_id": "echo",
    "headers": {"x-mine": "1"},
    "ids": [ID],
    "if_exists": "do_nothing",
    "if_not_exists": "create",
    "include": ["ttl"],
    "index": False,
    "input": {"a": 1},
    "interrupt_after": ["a"],
    "interrupt_before": ["a"],
    "key": "k",
    "langsmith_tracing": {"project_name": "a"},
    "last_event_id": "5",
    "limit": 5,
    "max_depth": 5,
    "metadata": {"a": 1},
    "multitask_strategy": "reject",
    "name": "a",
    "namespace": "a",
    "namespace_prefix": ["a"],
    "offset": 5,
    "on_completion": "keep",
    "on_disconnect": "cancel",
    "on_run_completed": "keep",
    "on_run_created": lambda run: None,
    "params": {"mine": "1"},
    "payloads": [{"assistant_id": "echo"}],
    "prefix": ["a"],
    "query": "a",
    "raise_error": False,
    "recurse": True,
    "refresh_ttl": True,
    "response_format": "object",
    "return_minimal": True,
    "run_id": ID,
    "run_ids": [ID],
    "schedule": "@yearly",
    "select": ["metadata"],
    "sort_by": "created_at",
    "sort_order": "asc",
    "status": "pending",
    "strategy": "keep_latest",
    "stream_mode": "updates",
    "stream_resumable": True,
    "stream_subgraphs": True,
    "strict_resume": True,
    "subgraphs": True,
    "suffix": ["a"],
    "supersteps": [{"updates": [{"values": {}, "as_node": "a"}]}],
    "thread_id": ID,
    "thread_ids": [ID],
    "timezone": "UTC",
    "ttl": 5,
    "value": {"a": 1},
    "values": {"a": 1},
    "version": "v2",
    "wait": True,
    "webhook": "https://example.com/hook",
    "xray": True,
}
SAMPLES_OF: dict[tuple[str, str], Any] = {
    ("assistants.set_latest", "version"): 1,
    ("store.put_item", "namespace"): ["a"],
    ("store.get_item", "namespace"): ["a"],
    ("store.delete_item", "namespace"): ["a"],
}
"""Where a name has another meaning."""

CLIENT_ONLY = {
    "on_run_created": "called by the client",
    "raise_error": "whether the client raises the error it receives",
    "response_format": "the form in which the client returns results",
    "runs.stream version": "the form in which the client returns results",
}
"""Parameters that are not sent: by name, or by method and name."""

IGNORED = {
    "runs.create on_completion": "it is for stateless runs; the same on the stock server",
    "runs.stream on_completion": "the same",
    "runs.wait on_completion": "the same",
}
"""Parameters that the server ignores: see "What is ignored" in docs/reference/http-api.md."""

CUSTOM = {"headers", "params"}
"""Parameters with arbitrary content."""


@dataclass(frozen=True)
class Request:
    """The parts of a request that depend on the parameters of a method."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Any


@dataclass
class Wire:
    """Records requests and rejects all of them."""

    requests: list[Request] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        query: dict[str, list[str]] = {}
        for name, value in request.url.params.multi_items():
            query.setdefault(name, []).append(value)
        body = json.loads(request.content) if request.content else None
        headers = {name: value for name, value in request.headers.items() if not name.startswith("content-")}
        self.requests.append(Request(request.method, request.url.path, query, headers, body))
        return httpx.Response(500)


async def first_request(kind: str, method: str, arguments: dict[str, Any]) -> Request:
    """Return the first request that the client sends when its method is called with these arguments."""
    wire = Wire()
    transport, url = httpx.MockTransport(wire), "http://sdk"
    client: Any = (
        LangGraphClient(httpx.AsyncClient(transport=transport, base_url=url))
        if kind == "async"
        else SyncLangGraphClient(httpx.Client(transport=transport, base_url=url))
    )
    subject, name = method.split(".")
    function = getattr(getattr(client, subject), name)
    positional = [
        each.name for each in signature(function).parameters.values() if each.kind == Parameter.POSITIONAL_ONLY
    ]
    with suppress(httpx.HTTPError):
        result = function(
            *(arguments[each] for each in positional if each in arguments),
            **{each: value for each, value in arguments.items() if each not in positional},
        )
        if isawaitable(result):
            result = await result
        if hasattr(result, "__aiter__"):
            async for _ in result:
                pass
        elif hasattr(result, "__next__"):
            list(result)
    assert wire.requests, f"{method} sent nothing"
    return wire.requests[0]


def parameters(kind: str, method: str) -> dict[str, Parameter]:
    subject, name = method.split(".")
    function = getattr(getattr(SDK[kind](url="http://127.0.0.1:1"), subject), name)
    return dict(signature(function).parameters)


def sample(method: str, name: str) -> Any:
    assert name in SAMPLES, f"{method} has a new parameter: {name}. Does the server support it?"
    return SAMPLES_OF.get((method, name), SAMPLES[name])


def served_methods(kind: str) -> list[str]:
    """All methods except those of `http`, whose parameters are the request itself, and `threads.stream`, which sends
    nothing."""
    return sorted(each for each in methods(kind) if each != "threads.stream" and not each.startswith("http."))


@pytest.fixture(scope="module")
def described(server: RunningServer) -> dict[str, Any]:
    return httpx.get(f"{server.url}/openapi.json").json()


@pytest.mark.parametrize(("kind", "method"), [(kind, method) for kind in SDK for method in served_methods(kind)])
async def test_the_server_supports_every_parameter(kind: str, method: str, described: dict[str, Any]) -> None:
    existing = parameters(kind, method)
    required = {name: sample(method, name) for name, each in existing.items() if each.default is Parameter.empty}
    await _check_each_parameter(kind, method, required, described, IGNORED)


@pytest.mark.parametrize("kind", SDK)
@pytest.mark.parametrize("method", ["runs.create", "runs.stream", "runs.wait"])
async def test_the_server_supports_every_parameter_of_a_stateless_run(
    kind: str, method: str, described: dict[str, Any]
) -> None:
    await _check_each_parameter(kind, method, {"thread_id": None, "assistant_id": ID}, described, {})


async def _check_each_parameter(
    kind: str, method: str, required: dict[str, Any], described: dict[str, Any], ignored: dict[str, str]
) -> None:
    base = await first_request(kind, method, required)
    supported(base, described)
    for name in parameters(kind, method):
        value = sample(method, name)
        changed_request = await first_request(
            kind, method, {**required, name: another(value) if required.get(name) == value else value}
        )
        place = f"{method} {name}"
        changed = set(changes(base, changed_request))
        if name in CLIENT_ONLY or place in CLIENT_ONLY:
            assert not changed, place
        elif name not in CUSTOM:
            assert changed, f"{place} is not sent"
            unsupported = changed - supported(changed_request, described)
            assert not unsupported or place in ignored, f"{place}: {unsupported}"


def another(value: Any) -> Any:
    match value:
        case str():
            return f"another {value}"
        case int():
            return value + 1
        case list():
            return [*value, *value]
    return {"another": value}


def changes(before: Request, after: Request) -> Iterator[str]:
    """Yield the names that differ in the query, the headers and the body, and `path` if the path differs."""
    if (before.method, before.path) != (after.method, after.path):
        yield "path"
    yield from _differing(before.query, after.query)
    yield from _differing(before.headers, after.headers)
    if isinstance(after.body, list):
        yield from (() if before.body == after.body else ("body",))
    elif before.path == after.path:
        yield from _differing(before.body or {}, after.body or {})
    else:
        yield from after.body or {}


def _differing(one: dict[str, Any], other: dict[str, Any]) -> Iterator[str]:
    return (name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def supported(request: Request, described: dict[str, Any]) -> set[str]:
    """Return the names that the server reads from this request."""
    route = next((each for each in routes_of(described) if each.matches(request.method, request.path)), None)
    assert route is not None, f"{request.method} {request.path} has no route"
    return {"path", "body", *route.query, *(route.fields or ()), *_headers(route, described)}


def _headers(route: Route, described: dict[str, Any]) -> Iterator[str]:
    operation = described["paths"][route.path][route.method.lower()]
    return (each["name"].lower() for each in operation.get("parameters", ()) if each["in"] == "header")


def test_ignored_parameters_still_exist() -> None:
    existing = {
        f"{method} {name}" for kind in SDK for method in served_methods(kind) for name in parameters(kind, method)
    }
    assert existing >= IGNORED.keys()
    assert {name.split()[-1] for name in existing} >= {name.split()[-1] for name in CLIENT_ONLY}
