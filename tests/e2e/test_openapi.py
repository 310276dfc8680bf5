"""/openapi.json is correct: requests generated from it, valid and invalid, never cause an unexpected error, nor a
response that it does not describe."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode

from threadwire.testing.server import RunningServer, running_server

EXAMPLES = 25
ROUTES = re.findall(
    r"^### `(GET|POST|PUT|PATCH|DELETE) (/\S*)`$",
    (Path(__file__).parents[2] / "docs" / "reference" / "http-api.md").read_text(),
    re.MULTILINE,
)
UNKNOWN_ID = "6f1d2c4e-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def server(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server for this module only: generated requests change what other tests rely on."""
    with running_server(project, tmp_path_factory.mktemp("openapi") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def schema(server: RunningServer) -> Any:
    return schemathesis.openapi.from_url(f"{server.url}/openapi.json")


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=20) as opened:
        yield opened


@pytest.fixture(scope="module")
def existing(client: httpx.Client) -> dict[str, str]:
    """The ids of existing objects, for paths that contain them."""
    thread = client.post("/threads", json={}).json()["thread_id"]
    run = client.post(f"/threads/{thread}/runs", json={"assistant_id": "echo", "input": {"text": "hi"}}).json()
    client.get(f"/threads/{thread}/runs/{run['run_id']}/join")
    state = client.get(f"/threads/{thread}/state").json()
    known = {"thread_id": thread, "run_id": run["run_id"], "checkpoint_id": state["checkpoint_id"]}
    return {**known, "assistant_id": run["assistant_id"], "agent": "echo"}


def test_every_list_in_a_body_has_a_maximum_length(schema: Any) -> None:
    """A new list needs a maximum length: a body has room for millions of items."""
    described = schema.raw_schema
    bodies = [
        operation["requestBody"]
        for methods in described["paths"].values()
        for operation in methods.values()
        if "requestBody" in operation
    ]
    lists = [part for body in bodies for part in within(described, body) if part.get("type") == "array"]
    assert len(lists) > 20
    assert [each for each in lists if each.get("maxItems", 10**9) > 10_000] == []


def within(described: Any, part: Any) -> Iterator[dict[str, Any]]:
    """Yield every part of a schema, recursively."""
    if isinstance(part, dict):
        yield part
        if "$ref" in part:
            yield from within(described, described["components"]["schemas"][part["$ref"].rpartition("/")[2]])
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from within(described, inner)


@pytest.mark.parametrize(("method", "path"), ROUTES, ids=[f"{method} {path}" for method, path in ROUTES])
def test_every_response_is_described(
    client: httpx.Client, schema: Any, existing: dict[str, str], method: str, path: str
) -> None:
    operation = schema[path][method]
    described = {int(status) for status in operation.definition.raw["responses"]}
    cases = st.one_of([operation.as_strategy(generation_mode=mode) for mode in GenerationMode])

    @settings(
        derandomize=True,
        database=None,
        max_examples=EXAMPLES,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases, ids=st.sampled_from([existing, dict.fromkeys(existing, UNKNOWN_ID), {}]))
    def check_response(case: Case, ids: dict[str, str]) -> None:
        with send(client, case, ids) as (status, body):
            assert status in described, (status, body, case.as_curl_command())
            if status >= 400:
                jsonschema.validate(json.loads(body), shape_of(schema, operation, status))

    check_response()


def shape_of(schema: Any, operation: Any, status: int) -> dict[str, Any]:
    described = operation.definition.raw["responses"][str(status)]["content"]["application/json"]["schema"]["$ref"]
    shape: dict[str, Any] = schema.raw_schema["components"]["schemas"][described.rpartition("/")[2]]
    assert shape["additionalProperties"] is False
    return shape


@contextmanager
def send(client: httpx.Client, case: Case, ids: dict[str, str]) -> Iterator[tuple[int, bytes]]:
    """Send a generated request with these ids in its path instead of the generated ones, and yield the response."""
    given = case.as_transport_kwargs(base_url=str(client.base_url))
    case.path_parameters = {**(case.path_parameters or {}), **_present(ids, case)}
    request = client.build_request(
        case.method,
        case.formatted_path,
        params=given.get("params"),
        json=_without_delay(given["json"]) if "json" in given else None,
        content=given.get("data"),
        headers={name: value for name, value in (given.get("headers") or {}).items() if value.isascii()},
    )
    response = client.send(request, stream=True)
    try:
        endless = response.headers.get("content-type", "").startswith("text/event-stream")
        yield response.status_code, b"" if endless else response.read()
    finally:
        response.close()


def _present(ids: dict[str, str], case: Case) -> dict[str, str]:
    return {name: value for name, value in ids.items() if name in (case.path_parameters or {})}


def _without_delay(body: Any) -> Any:
    """The same request, with an existing assistant and a run that starts now."""
    if not isinstance(body, dict):
        return body
    changed = {"assistant_id": "echo"} if isinstance(body.get("assistant_id"), str) else {}
    if isinstance(body.get("after_seconds"), (int, float)) and body["after_seconds"] > 0:
        changed["after_seconds"] = 0
    return {**body, **changed}
