import json
import re

import pytest

from threadwire.http.limits import LOOPBACK_HOSTS, LOOPBACK_ORIGIN, TrustedSource

pytestmark = pytest.mark.anyio


async def answered(hosts=LOOPBACK_HOSTS, origins=r"(?!)", method="POST", **headers):
    """The status a request gets; 200 if it reaches the application."""
    sent = []

    async def application(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": "/", "headers": raw}
    await TrustedSource(application, frozenset(hosts), re.compile(origins))(scope, receive, send)
    json.loads(sent[1]["body"])
    return sent[0]["status"]


@pytest.mark.parametrize("host", ["localhost", "localhost:2024", "LocalHost", "127.0.0.1:1", "[::1]", "[::1]:2024"])
async def test_loopback_is_answered_by_every_name(host):
    assert await answered(host=host) == 200


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "[::2]", "evil.example#localhost", "\xe9"],
)
async def test_another_host_is_misdirected(host):
    assert await answered(host=host) == 421


async def test_no_host_is_misdirected():
    assert await answered() == 421


async def test_a_configured_host_is_answered_and_a_star_is_any():
    assert await answered(LOOPBACK_HOSTS | {"agents.example"}, host="agents.example:443") == 200
    assert await answered({"*"}, host="anything.example") == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "", "http://localhost:3000", "file://"])
async def test_another_origin_may_not_change_anything(origin):
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert await answered(method=method, host="localhost:2024", origin=origin) == 403
    for method in ("GET", "HEAD", "OPTIONS"):
        assert await answered(method=method, host="localhost:2024", origin=origin) == 200


async def test_the_servers_own_pages_may():
    assert await answered(host="localhost:2024", origin="http://localhost:2024") == 200
    assert await answered(host="localhost:2024", origin="http://localhost:2025") == 403


async def test_pages_that_were_allowed_may():
    allowed = re.escape("https://app.example")
    assert await answered(host="localhost", origin="https://app.example", origins=allowed) == 200
    assert await answered(host="localhost", origin="https://app.example.evil", origins=allowed) == 403
    assert await answered(host="localhost", origin="xhttps://app.example", origins=allowed) == 403


@pytest.mark.parametrize("origin", ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:5173"])
async def test_in_development_every_page_on_loopback_may(origin):
    assert await answered(host="localhost:2024", origin=origin, origins=LOOPBACK_ORIGIN) == 200


@pytest.mark.parametrize(
    "origin", ["http://localhost.evil.example", "http://localhost:3000.evil.example", "ftp://localhost"]
)
async def test_in_development_other_pages_may_not(origin):
    assert await answered(host="localhost:2024", origin=origin, origins=LOOPBACK_ORIGIN) == 403
