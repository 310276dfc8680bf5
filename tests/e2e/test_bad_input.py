"""Every input gets a documented status and an error text; never a 5xx, never a traceback.

The routes come from /openapi.json, so that a new one cannot be missed.
"""

import asyncio
import json
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from threadwire.testing.server import running_server

pytestmark = pytest.mark.anyio

MAX_BODY = 10 * 1024 * 1024
INVALID_JSON = "Invalid JSON in request body"
DOCUMENTED = {200, 202, 204, 400, 404, 409, 413, 422}

VALID: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/threads/prune"): {"thread_ids": []},
    ("POST", "/threads/{thread_id}/state/checkpoint"): {"checkpoint": {"checkpoint_ns": ""}},
    ("POST", "/assistants"): {"graph_id": "echo"},
    ("POST", "/assistants/{assistant_id}/latest"): {"version": 1},
    ("POST", "/ui/{graph_id}"): {"name": "weather"},
    ("POST", "/threads/{thread_id}/runs"): {"assistant_id": "echo"},
    ("POST", "/threads/{thread_id}/runs/stream"): {"assistant_id": "echo"},
    ("POST", "/threads/{thread_id}/runs/wait"): {"assistant_id": "echo"},
    ("PUT", "/store/items"): {"namespace": ["odd"], "key": "k", "value": {}},
    ("DELETE", "/store/items"): {"namespace": ["odd"], "key": "k"},
    ("POST", "/runs"): {"assistant_id": "echo"},
    ("POST", "/runs/stream"): {"assistant_id": "echo"},
    ("POST", "/runs/wait"): {"assistant_id": "echo"},
    ("POST", "/runs/batch"): {"assistant_id": "echo"},
    ("POST", "/runs/cancel"): {"status": "pending"},
    ("POST", "/runs/crons"): {"assistant_id": "echo", "schedule": "@yearly"},
    ("POST", "/threads/{thread_id}/runs/crons"): {"assistant_id": "echo", "schedule": "@yearly"},
    ("PATCH", "/runs/crons/{cron_id}"): {"enabled": True},
}
"""The smallest valid body, where it is not empty."""

REQUIRED = {
    "/ui/{graph_id}": "name",
    "/assistants": "graph_id",
    "/assistants/{assistant_id}/latest": "version",
    "/threads/prune": "thread_ids",
    "/threads/{thread_id}/state/checkpoint": "checkpoint",
    "/threads/{thread_id}/runs": "assistant_id",
    "/threads/{thread_id}/runs/stream": "assistant_id",
    "/threads/{thread_id}/runs/wait": "assistant_id",
    "/runs": "assistant_id",
    "/runs/stream": "assistant_id",
    "/runs/wait": "assistant_id",
}

UNUSUAL_VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    3.5,
    10**30,
    -(2**63),
    1e308,
    "",
    "x",
    "\x00",
    "a" * 10_000,
    "💥\u202e",
    [],
    [[]],
    ["\x00", 1, None, {}],
    {},
    {"a" * 10_000: 1},
    {"\x00": {"$ne": None}, "a.b": "' OR 1=1 --", "__proto__": {}},
    {"configurable": 3},
    {"configurable": {"thread_id": "x", "checkpoint_id": 7, "__pregel_send": 1}},
    {"checkpoint_id": 3, "checkpoint_ns": ["x"], "checkpoint_map": "x"},
    {"checkpoint_id": "x", "checkpoint_ns": "a|b:c", "checkpoint_map": {"": 3}},
    {"resume": None, "goto": 3, "update": 4},
    {"goto": [{"node": 3}], "resume": {"x": 1}},
    {"goto": "nowhere", "update": [["text", 1]]},
]


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    query: tuple[str, ...]
    fields: tuple[str, ...] | None
    """The keys of its body; None if it takes no body."""
    listed: bool = False
    """Whether the body is a list of such objects."""

    def url(self, **ids: str) -> str:
        return self.path.format(**ids)

    @property
    def params(self) -> list[str]:
        return [name for name in IDS if f"{{{name}}}" in self.path]

    def body(self, **fields: Any) -> Any:
        smallest = {**VALID.get((self.method, self.path), {}), **fields}
        return [smallest] if self.listed else smallest

    def matches(self, method: str, url: str) -> bool:
        pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(self.path))
        return method == self.method and re.fullmatch(pattern, url) is not None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


IDS = (
    "thread_id",
    "run_id",
    "cron_id",
    "assistant_id",
    "checkpoint_id",
    "namespace",
    "graph_id",
    "file",
    "interrupt_id",
)

ENDLESS = {"/threads/{thread_id}/stream", "/threads/{thread_id}/timeline/stream"}
"""Streams that do not end."""


OTHER_PROTOCOLS = ("/ag-ui", "/chatkit", "/copilotkit")
"""Protocols with their own ids and error shapes: see test_bad_input_ag_ui.py and test_chatkit_bad_input.py."""

THREAD_WIRE = ("/stream/events", "/commands")
"""Threads need not exist there, and commands have their own codes: see test_thread_wire.py."""


def routes_of(schema: dict[str, Any]) -> Iterator[Route]:
    for path, methods in schema["paths"].items():
        if path.startswith(OTHER_PROTOCOLS) or path.endswith(THREAD_WIRE):
            continue
        for method, operation in methods.items():
            query = tuple(each["name"] for each in operation.get("parameters", ()) if each["in"] == "query")
            fields, listed = None, False
            if "requestBody" in operation:
                body = operation["requestBody"]["content"]["application/json"]["schema"]
                listed = "items" in body
                reference = (body.get("anyOf") or [body.get("items", body)])[0]["$ref"]
                fields = tuple(schema["components"]["schemas"][reference.rpartition("/")[2]]["properties"])
            yield Route(method.upper(), path, query, fields, listed)


@pytest.fixture(scope="module")
def own_server(project, tmp_path_factory):
    """A server for this module only, so that its log can be checked for unexpected errors at the end."""
    with running_server(project, tmp_path_factory.mktemp("bad-input") / "data") as running:
        yield running
        log = running.log()
        assert "request_failed" not in log  # a request that fails unexpectedly; failed runs log their traceback too
        assert httpx.get(f"{running.url}/ok").json()["ok"] is True


@pytest.fixture
async def wire(own_server):
    async with httpx.AsyncClient(base_url=own_server.url, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def routes(own_server) -> list[Route]:
    found = list(routes_of(httpx.get(f"{own_server.url}/openapi.json").json()))
    assert len(found) > 20
    return found


@pytest.fixture
async def real(wire) -> dict[str, str]:
    """The ids of existing objects."""
    thread_id = (await wire.post("/threads", json={})).json()["thread_id"]
    run = await wire.post(f"/threads/{thread_id}/runs/wait", json={"assistant_id": "echo", "input": {"text": 1}})
    run_id = run.headers["content-location"].rpartition("/")[2]
    state = (await wire.get(f"/threads/{thread_id}/state")).json()
    assistants = (await wire.post("/assistants/search", json={"graph_id": "echo"})).json()
    cron = (await wire.post("/runs/crons", json={"assistant_id": "echo", "schedule": "@yearly"})).json()
    return {
        "thread_id": thread_id,
        "run_id": run_id,
        "cron_id": cron["cron_id"],
        "assistant_id": assistants[0]["assistant_id"],
        "checkpoint_id": state["checkpoint_id"],
        "namespace": "inner",
        "graph_id": "echo",
        "file": "entrypoint.js",
        "interrupt_id": "a" * 32,
    }


def unknown_ids() -> dict[str, str]:
    return {name: str(uuid.uuid4()) for name in IDS}


def assert_rejected(response: httpx.Response, status: int | set[int], route: object, detail: str | None = None) -> None:
    statuses = status if isinstance(status, set) else {status}
    assert response.status_code in statuses, f"{route}: {response.status_code} {response.text[:300]}"
    body = response.json()
    assert list(body) == ["detail"], f"{route}: {body}"
    assert isinstance(body["detail"], str), f"{route}: {body}"
    assert body["detail"], f"{route}: empty detail"
    assert "Traceback" not in body["detail"]
    if detail is not None:
        assert body["detail"] == detail, f"{route}: {body}"


def assert_documented(response: httpx.Response, subject: object) -> None:
    assert response.status_code in DOCUMENTED, f"{subject}: {response.status_code}"
    if response.status_code >= 400:
        assert_rejected(response, response.status_code, subject)


UUIDS = {"thread_id", "run_id", "cron_id", "assistant_id"}


def with_ids(routes: list[Route]) -> list[Route]:
    return [route for route in routes if set(route.params) & UUIDS]


def with_body(routes: list[Route]) -> list[Route]:
    return [route for route in routes if route.fields is not None]


async def test_unknown_ids_are_not_found(wire, routes):
    for route in with_ids(routes):
        body = route.body() if route.fields is not None else None
        assert_rejected(await wire.request(route.method, route.url(**unknown_ids()), json=body), 404, route)


FORMS = (str.upper, lambda text: text.replace("-", ""), "{{{}}}".format, "urn:uuid:{}".format)


@pytest.mark.parametrize("form", FORMS)
async def test_ids_are_accepted_in_every_uuid_form(wire, routes, real, form):
    """Existing objects are found and returned with their canonical id; unknown ones are not found."""
    unknown = {name: quote(form(id)) for name, id in unknown_ids().items()}
    others = {name: quote(form(id)) if name in UUIDS else id for name, id in real.items()}
    for route in with_ids(routes):
        body = route.body() if route.fields is not None else None
        assert_rejected(await wire.request(route.method, route.url(**unknown), json=body), 404, route)
        if route.method == "GET" and route.path not in ENDLESS:
            usual, other = await wire.get(route.url(**real)), await wire.get(route.url(**others))
            assert (other.status_code, other.text) == (usual.status_code, usual.text), route
            assert [other.headers.get(name) for name in ("location", "content-location")] == [
                usual.headers.get(name) for name in ("location", "content-location")
            ], route


@pytest.mark.parametrize("form", FORMS)
async def test_ids_in_bodies_are_accepted_in_every_uuid_form(wire, form):
    thread_id, assistant_id = str(uuid.uuid4()), str(uuid.uuid4())
    created = await wire.post("/threads", json={"thread_id": form(thread_id)})
    assert created.json()["thread_id"] == thread_id
    created = await wire.post("/assistants", json={"graph_id": "echo", "assistant_id": form(assistant_id)})
    assert created.json()["assistant_id"] == assistant_id
    (run,) = (
        await wire.post(
            "/runs/batch",
            json=[{"assistant_id": form(assistant_id), "thread_id": form(thread_id), "after_seconds": 1000}],
        )
    ).json()
    assert (run["thread_id"], run["assistant_id"]) == (thread_id, assistant_id)
    query = {"thread_id": form(thread_id), "run_ids": [form(run["run_id"])]}
    assert (await wire.post("/runs/cancel", json=query)).status_code == 204
    cron = {"assistant_id": form(assistant_id), "schedule": "@yearly"}
    assert (await wire.post(f"/threads/{thread_id}/runs/crons", json=cron)).json()["assistant_id"] == assistant_id
    query = {"assistant_id": form(assistant_id), "thread_id": form(thread_id)}
    assert (await wire.post("/runs/crons/count", json=query)).json() == 1
    assert (await wire.post("/threads/count", json={"ids": [form(thread_id)]})).json() == 1
    assert (await wire.post("/threads/prune", json={"thread_ids": [form(thread_id)]})).json() == {"pruned_count": 1}
    assert (await wire.get(f"/threads/{thread_id}")).status_code == 404


@pytest.mark.parametrize("malformed", ["abc", "0", "%00", "%F0%9F%92%A5", "a" * 3000, "..%2f..", "null", "{}"])
async def test_malformed_ids_are_rejected(wire, routes, malformed):
    for route in with_ids(routes):
        body = route.body() if route.fields is not None else None
        for name in set(route.params) - {"checkpoint_id", "namespace", "interrupt_id"}:
            url = route.url(**{**unknown_ids(), name: malformed})
            # An id that contains a slash is another path, so it matches another route or none.
            expected = {404, 405} if "2f" in malformed else {422}
            assert_rejected(
                await wire.request(route.method, url, json=body), expected, f"{route} {name}={malformed[:20]}"
            )


async def test_a_checkpoint_id_may_be_any_text(wire, real):
    for malformed in ("abc", "%00", "a" * 3000, "%F0%9F%92%A5"):
        response = await wire.get(f"/threads/{real['thread_id']}/state/{malformed}")
        assert_documented(response, malformed)


async def test_malformed_json_is_rejected(wire, routes, real):
    for content in (b"{nope", b"\xff\xfe", b'{"a":1}{"b":2}', b"NaN", b'{"a":NaN}', b'{"a":1,}', b"\x00", b"'a'"):
        for route in with_body(routes):
            headers = {"content-type": "application/json"}
            response = await wire.request(route.method, route.url(**real), content=content, headers=headers)
            assert_rejected(response, 422, f"{route} {content!r}", INVALID_JSON)


async def test_lone_surrogates_are_rejected(wire, routes, real):
    for content in (b'{"metadata":{"a":"\\ud800"}}', b'{"metadata":{"\\udc00":1}}', b'{"a":"\xed\xa0\x80"}'):
        for route in with_body(routes):
            headers = {"content-type": "application/json"}
            response = await wire.request(route.method, route.url(**real), content=content, headers=headers)
            assert_rejected(response, 422, f"{route} {content!r}", INVALID_JSON)


@pytest.mark.parametrize("body", [[], [{}], "text", 3, None, True], ids=repr)
async def test_a_body_that_is_not_an_object_is_rejected(wire, routes, real, body):
    for route in with_body(routes):
        content = json.dumps(body).encode()
        response = await wire.request(
            route.method, route.url(**real), content=content, headers={"content-type": "application/json"}
        )
        assert_rejected(response, 422, f"{route} {body!r}")


async def test_an_empty_body_is_rejected(wire, routes, real):
    for route in with_body(routes):
        for headers in ({}, {"content-type": "application/json"}):
            response = await wire.request(route.method, route.url(**real), content=b"", headers=headers)
            assert_rejected(response, 422, route, "A request body is required")


OTHER_CONTENT_TYPES = (
    {},
    {"content-type": ""},
    {"content-type": "application/x-www-form-urlencoded"},  # sent by curl -d
    {"content-type": "text/plain;charset=UTF-8"},  # sent by fetch
    {"content-type": "application/json; charset=utf-8"},
    {"content-type": "multipart/form-data; boundary=x"},
)


async def test_json_is_read_whatever_its_content_type(wire, routes, real):
    for route in with_body(routes):
        content = json.dumps(route.body()).encode()
        usual = await wire.request(
            route.method, route.url(**real), content=content, headers={"content-type": "application/json"}
        )
        assert usual.status_code in (200, 204, 404), f"{route}: {usual.text[:300]}"
        for headers in OTHER_CONTENT_TYPES:
            response = await wire.request(route.method, route.url(**real), content=content, headers=headers)
            assert response.status_code == usual.status_code, f"{route} {headers}: {response.text[:300]}"


async def test_malformed_json_is_rejected_whatever_its_content_type(wire, routes, real):
    for route in with_body(routes):
        for headers in OTHER_CONTENT_TYPES:
            response = await wire.request(route.method, route.url(**real), content=b"a=b&c=d", headers=headers)
            assert_rejected(response, 422, f"{route} {headers}", INVALID_JSON)


@pytest.mark.parametrize("origin", ["https://evil.example", "null"])
async def test_a_page_of_another_origin_cannot_start_a_run_with_a_form(wire, real, origin):
    """A browser lets any page send forms; the `Origin` header protects us."""
    url = f"/threads/{real['thread_id']}/runs"
    before = (await wire.get(url)).json()
    form = b'{"assistant_id":"echo","input":{"text":"="}}'
    for headers in OTHER_CONTENT_TYPES:
        response = await wire.post(url, content=form, headers={**headers, "origin": origin})
        assert_rejected(response, 403, headers)
    assert (await wire.get(url)).json() == before


async def test_a_missing_required_field_is_named(wire, routes, real):
    for route in with_body(routes):
        if route.path in REQUIRED and route.method == "POST":
            response = await wire.request(route.method, route.url(**real), json={})
            assert_rejected(response, 422, route, f'"{REQUIRED[route.path]}" is a required property')


async def test_a_body_declared_too_large_is_rejected_unread(own_server, routes, real):
    for route in with_body(routes):
        status, body = await _raw(
            own_server.url,
            f"{route.method} {route.url(**real)} HTTP/1.1\r\nHost: localhost\r\n"
            f"Content-Type: application/json\r\nContent-Length: {MAX_BODY + 1}\r\n\r\n".encode(),
        )
        assert status == 413, f"{route}: {status} {body}"
        assert body == {"detail": f"The request body is larger than {MAX_BODY} bytes"}


@pytest.mark.parametrize("start", ["GET /ok HTTP/1.1\r\nX-Long: ", "GET /ok?"], ids=["header", "address"])
async def test_an_endless_request_head_is_rejected(own_server, start):
    status, body = await _raw(own_server.url, start.encode() + b"x" * 70_000)
    assert (status, body) == (431, {"detail": "The request line and headers are larger than 64 kB."})


async def test_a_long_request_head_is_accepted(wire):
    assert (await wire.get("/ok", headers={"X-Long": "x" * 60_000})).status_code == 200


async def test_a_body_that_turns_out_too_large_is_rejected(wire, routes, real):
    piece = b" " * (1024 * 1024)

    async def pieces():
        for _ in range(12):
            yield piece

    for route in with_body(routes):
        headers = {"content-type": "application/json"}
        response = await wire.request(route.method, route.url(**real), content=pieces(), headers=headers)
        assert_rejected(response, 413, route, f"The request body is larger than {MAX_BODY} bytes")


async def test_a_body_just_within_the_limit_is_read(wire, real):
    text = "x" * (MAX_BODY - 200)
    response = await wire.post("/threads", json={"metadata": {"text": text}})
    assert response.status_code == 200


async def test_json_nested_too_deeply_is_rejected(wire, routes, real):
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        content = b'{"metadata":' + opening * 100 + b"1" + closing * 100 + b"}"
        for route in with_body(routes):
            headers = {"content-type": "application/json"}
            response = await wire.request(route.method, route.url(**real), content=content, headers=headers)
            assert_rejected(response, 422, route, "The request body is nested more than 100 levels deep")


async def test_json_nested_to_the_limit_is_accepted(wire, real):
    nested: Any = 1
    for _ in range(97):
        nested = [nested]
    response = await wire.post(
        f"/threads/{real['thread_id']}/runs/wait", json={"assistant_id": "echo", "input": {"text": nested}}
    )
    assert response.json()["echoed"] == nested


async def test_every_field_with_every_unusual_value_gets_a_documented_response(wire, routes, real):
    """Wrong types, huge integers, NULs, keys of ten kilobytes: accepted, or rejected with an error text."""
    undocumented = []
    for route in with_body(routes):
        for field in route.fields or ():
            for value in UNUSUAL_VALUES:
                body = json.dumps(route.body(**{field: value}))
                headers = {"content-type": "application/json"}
                response = await wire.request(route.method, route.url(**real), content=body, headers=headers)
                if response.status_code not in DOCUMENTED:
                    undocumented.append(
                        f"{route} {field}={str(value)[:80]}: {response.status_code} {response.text[:120]}"
                    )
                else:
                    assert_documented(response, f"{route} {field}={str(value)[:60]}")
    assert undocumented == []


async def test_every_query_parameter_with_every_unusual_value_gets_a_documented_response(wire, routes, real):
    for route in routes:
        for name in route.query:
            for value in ("", "abc", "-1", "0", "1.5", "9" * 30, "\x00", "[", '["a"', "[1]", "a" * 5000, "💥", "null"):
                if route.method == "POST" and route.path.endswith("/cancel") and value in ("", "0"):
                    continue
                body = route.body() if route.fields is not None else None
                async with wire.stream(route.method, route.url(**real), params={name: value}, json=body) as response:
                    if response.status_code >= 400:  # a thread's stream has no end once it has started
                        await response.aread()
                    assert_documented(response, f"{route} {name}={value[:20]!r}")


async def test_unusual_headers_get_a_documented_response(wire, real):
    at = f"/threads/{real['thread_id']}/runs/{real['run_id']}/stream"
    for value in ("", "abc", "-2", "9" * 400, "1;2", "\u00e9"):
        response = await wire.get(at, headers={"Last-Event-ID": value.encode("latin-1")})
        assert_rejected(response, 400, value)
    run = {"assistant_id": "echo"}
    too_long = await wire.post(f"/threads/{real['thread_id']}/runs", json=run, headers={"Idempotency-Key": "k" * 256})
    assert_rejected(too_long, 422, "Idempotency-Key")


async def test_an_integer_beyond_64_bits_is_rejected(wire, real):
    body = f'{{"assistant_id":"echo","input":{{"text":{10**30}}}}}'
    response = await wire.post(
        f"/threads/{real['thread_id']}/runs/wait", content=body, headers={"content-type": "application/json"}
    )
    detail = f"The integer {10**30} in the request body does not fit into 64 bits; send it as a string"
    assert_rejected(response, 422, "an integer", detail)


async def test_nul_and_long_keys_round_trip_unchanged(wire):
    metadata = {"\x00": "a\x00b", "k" * 10_000: "v", "": "empty", "💥\u202e": "x"}
    thread = (await wire.post("/threads", json={"metadata": metadata})).json()
    assert thread["metadata"] == metadata
    assert (await wire.get(f"/threads/{thread['thread_id']}")).json()["metadata"] == metadata
    found = (await wire.post("/threads/search", json={"metadata": metadata})).json()
    assert [each["thread_id"] for each in found] == [thread["thread_id"]]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.com", ""]
)
async def test_a_foreign_host_is_rejected_everywhere(wire, routes, real, host):
    for route in routes:
        body = route.body() if route.fields is not None else None
        response = await wire.request(route.method, route.url(**real), json=body, headers={"host": host})
        assert_rejected(response, 421, route, "This server does not serve that host name")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "LOCALHOST:99", "[::1]:2024"])
async def test_loopback_hosts_are_accepted(wire, host):
    assert (await wire.get("/ok", headers={"host": host})).status_code == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost.evil.example", "http://localhost:1"]
)
async def test_a_foreign_origin_may_change_nothing(wire, routes, real, origin):
    for route in routes:
        body = route.body() if route.fields is not None else None
        if route.method == "GET":
            continue
        response = await wire.request(route.method, route.url(**real), json=body, headers={"origin": origin})
        assert_rejected(response, 403, route, "This server does not accept requests from that origin")


@pytest.mark.parametrize("headers", [{"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}])
async def test_a_foreign_page_cannot_cancel_a_run_by_joining_it(wire, routes, real, headers):
    cancelling = [route for route in routes if "cancel_on_disconnect" in route.query]
    assert len(cancelling) == 4
    for route in cancelling:
        url = route.url(**real)
        rejected = await wire.get(url, params={"cancel_on_disconnect": "true"}, headers=headers)
        assert_rejected(rejected, 403, route, "This server does not accept requests from that origin")
        assert (await wire.get(url, params={"cancel_on_disconnect": "false"}, headers=headers)).status_code == 200
        assert (await wire.get(url, params={"cancel_on_disconnect": "true"})).status_code == 200


async def test_a_foreign_origin_cannot_read_responses(wire, real):
    response = await wire.get(f"/threads/{real['thread_id']}", headers={"origin": "https://evil.example"})
    assert "access-control-allow-origin" not in response.headers


async def test_the_servers_own_origin_is_accepted(wire, own_server):
    assert (await wire.post("/threads", json={}, headers={"origin": own_server.url})).status_code == 200


METHODS = {"GET", "PUT", "PATCH", "DELETE", "POST"}


async def test_unknown_paths_and_methods_are_rejected(wire, routes, real):
    assert_rejected(await wire.get("/nowhere"), 404, "/nowhere", "Not Found")
    assert_rejected(await wire.post("/threads/"), {404, 405}, "/threads/")
    allowed = {}
    for route in routes:
        allowed.setdefault(route.url(**real), set()).add(route.method)
    for url, methods in allowed.items():
        for method in METHODS - methods:
            # `/threads/search` is also a thread whose id is `search`.
            if not any(other.matches(method, url) for other in routes):
                response = await wire.request(method, url)
                assert_rejected(response, 405, f"{method} {url}", "Method Not Allowed")
                assert set(response.headers["allow"].split(", ")) == {
                    each for each in METHODS if any(other.matches(each, url) for other in routes)
                }


async def test_unknown_keys_are_ignored(wire, real):
    body = {"assistant_id": "echo", "assistantId": "echo", "nobody": {"knows": ["this"]}}
    assert (await wire.post(f"/threads/{real['thread_id']}/runs/wait", json=body)).status_code == 200


async def _raw(url: str, request: bytes) -> tuple[int, Any]:
    """Send exactly these bytes, and return the status and the JSON of the response."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    await writer.drain()
    try:
        async with asyncio.timeout(10):
            head = await reader.readuntil(b"\r\n\r\n")
            headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
            body = await reader.readexactly(int(headers[b"content-length"]))
    finally:
        writer.close()
        await writer.wait_closed()
    return int(head.split()[1]), json.loads(body)
