import json
import re

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from structlog.testing import capture_logs

from threadwire.http.trusted_source import (
    LOOPBACK_HOSTS,
    LOOPBACK_ORIGIN,
    MAX_LOGGED_ORIGINS,
    TrustedSource,
    is_foreign,
    reject_foreign,
)

pytestmark = pytest.mark.anyio


async def status_for(hosts=LOOPBACK_HOSTS, origins=r"(?!)", method="POST", more_hosts=(), **headers):
    """The status of the response; 200 if the request reaches the application."""
    sent = []

    async def application(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    raw += [(b"host", value.encode()) for value in more_hosts]
    scope = {"type": "http", "method": method, "path": "/", "headers": raw}
    await TrustedSource(application, frozenset(hosts), re.compile(origins))(scope, receive, send)
    json.loads(sent[1]["body"])
    return sent[0]["status"]


@pytest.mark.parametrize("host", ["localhost", "localhost:2024", "LocalHost", "127.0.0.1:1", "[::1]", "[::1]:2024"])
async def test_every_loopback_name_is_accepted(host):
    assert await status_for(host=host) == 200


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "[::2]", "evil.example#localhost", "\xe9"],
)
async def test_unknown_host_is_rejected(host):
    assert await status_for(host=host) == 421


@pytest.mark.parametrize(
    "host",
    [
        "[::1].evil.example",
        "[::1]evil.example",
        "[::1]:1.evil.example",
        "[::1",
        "localhost:1@evil.example",
        "localhost:x",
    ],
)
async def test_host_with_more_than_a_name_and_a_port_is_rejected(host):
    assert await status_for(host=host) == 421


@pytest.mark.parametrize("hosts", [LOOPBACK_HOSTS, {"*"}])
async def test_second_host_header_is_rejected(hosts):
    for first, second in (("evil.example", "localhost"), ("localhost", "evil.example"), ("localhost", "localhost")):
        assert await status_for(hosts, host=first, more_hosts=[second]) == 400


async def test_missing_host_is_rejected():
    assert await status_for() == 421


async def test_configured_host_is_accepted_and_a_star_matches_any():
    assert await status_for(LOOPBACK_HOSTS | {"agents.example"}, host="agents.example:443") == 200
    assert await status_for({"*"}, host="anything.example") == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "", "http://localhost:3000", "file://"])
async def test_foreign_origin_may_only_read(origin):
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert await status_for(method=method, host="localhost:2024", origin=origin) == 403
    for method in ("GET", "HEAD", "OPTIONS"):
        assert await status_for(method=method, host="localhost:2024", origin=origin) == 200


async def request_with(**headers):
    """A GET request as a route behind the check receives it."""
    received = []

    async def application(scope, receive, send):
        received.append(Request(scope))

    raw = [
        (b"host", b"localhost"),
        *((name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()),
    ]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": raw}
    await TrustedSource(application, LOOPBACK_HOSTS, re.compile(re.escape("https://app.example")))(scope, None, None)
    return received[0]


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "https://evil.example", "sec_fetch_site": "same-origin"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
)
async def test_a_route_can_reject_a_read_that_a_foreign_page_may_have_caused(headers):
    request = await request_with(**headers)
    assert is_foreign(request)
    with pytest.raises(HTTPException) as error:
        reject_foreign(request)
    assert error.value.status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "https://app.example", "sec_fetch_site": "cross-site"},
        {"origin": "http://localhost"},
        {"sec_fetch_site": "same-origin"},
        {"sec_fetch_site": "none"},
    ],
)
async def test_a_read_by_other_clients_and_allowed_pages_is_not_foreign(headers):
    request = await request_with(**headers)
    assert not is_foreign(request)
    reject_foreign(request)


async def test_the_servers_own_origin_may_write():
    assert await status_for(host="localhost:2024", origin="http://localhost:2024") == 200
    assert await status_for(host="localhost:2024", origin="http://localhost:2025") == 403


async def test_allowed_origin_may_write():
    allowed = re.escape("https://app.example")
    assert await status_for(host="localhost", origin="https://app.example", origins=allowed) == 200
    assert await status_for(host="localhost", origin="https://app.example.evil", origins=allowed) == 403
    assert await status_for(host="localhost", origin="xhttps://app.example", origins=allowed) == 403


@pytest.mark.parametrize("origin", ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:5173"])
async def test_every_loopback_origin_may_write_in_development(origin):
    assert await status_for(host="localhost:2024", origin=origin, origins=LOOPBACK_ORIGIN) == 200


@pytest.mark.parametrize(
    "origin", ["http://localhost.evil.example", "http://localhost:3000.evil.example", "ftp://localhost"]
)
async def test_other_origins_may_not_write_in_development(origin):
    assert await status_for(host="localhost:2024", origin=origin, origins=LOOPBACK_ORIGIN) == 403


@pytest.mark.parametrize("method", ["POST", "GET", "OPTIONS"])
async def test_a_rejected_origin_is_logged_with_the_setting_that_allows_it(method):
    with capture_logs() as logged:
        await status_for(method=method, host="localhost:2024", origin="https://smith.langchain.com")
    (event,) = logged
    assert (event["event"], event["origin"]) == ("origin_rejected", "https://smith.langchain.com")
    assert "THREADWIRE_ALLOWED_ORIGINS" in event["hint"]


async def test_an_accepted_origin_is_not_logged():
    with capture_logs() as logged:
        await status_for(host="localhost:2024", origin="http://localhost:2024")
        await status_for(host="localhost:2024", origin="http://localhost:3000", origins=LOOPBACK_ORIGIN)
    assert logged == []


async def test_each_origin_is_logged_once_and_only_so_many():
    async def application(scope, receive, send):
        pass

    async def send(message):
        pass

    app = TrustedSource(application, LOOPBACK_HOSTS, re.compile(r"(?!)"))
    with capture_logs() as logged:
        for number in [0, 0, *range(200)]:
            headers = [(b"host", b"localhost"), (b"origin", f"https://{number}.example".encode())]
            await app({"type": "http", "method": "GET", "path": "/", "headers": headers}, None, send)
    assert len({event["origin"] for event in logged}) == len(logged) == MAX_LOGGED_ORIGINS
