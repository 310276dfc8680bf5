"""Webhook requests go to the address that was checked, with the host name of the URL."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from threadwire.core.webhooks import WebhookRules
from threadwire.errors import DeliveryFailed, Invalid
from threadwire.http import webhooks
from threadwire.http.webhooks import WebhookClient

pytestmark = pytest.mark.anyio

CERTIFICATES = Path(__file__).parent / "certificates"
OPEN = WebhookRules(require_https=False, disable_loopback=False, headers={"X-Mine": "yes"})
OK = b"HTTP/1.1 204 No Content\r\n\r\n"


@dataclass
class Receiver:
    """A minimal HTTP server that records the POSTs it receives."""

    response: bytes = OK
    requests: list[tuple[list[str], bytes]] = field(default_factory=list)
    port: int = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        length = next(int(line.split(":")[1]) for line in head if line.lower().startswith("content-length"))
        self.requests.append((head, await reader.readexactly(length)))
        writer.write(self.response)
        await writer.drain()
        writer.close()

    def lines(self) -> list[str]:
        return [line.lower() for line in self.requests[0][0]]


@asynccontextmanager
async def receiving(response: bytes = OK, tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    receiver = Receiver(response)
    server = await asyncio.start_server(receiver, "127.0.0.1", 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()


def resolving_to(*results: list[str]) -> Callable[[str, int], "asyncio.Future[list[str]]"]:
    """A resolver that returns the next result each time; the last one repeats."""
    remaining = list(results)

    async def resolve(host: str, port: int) -> list[str]:
        return remaining.pop(0) if len(remaining) > 1 else remaining[0]

    return resolve  # type: ignore[return-value]


async def test_delivery_has_the_configured_headers() -> None:
    async with receiving() as receiver, WebhookClient(OPEN).open() as calls:
        await calls.post(f"http://us:pw@127.0.0.1:{receiver.port}/a/b?c=d", b'{"x":1}')
    assert receiver.requests[0][1] == b'{"x":1}'
    lines = receiver.lines()
    assert lines[0] == "post /a/b?c=d http/1.1"
    assert f"host: 127.0.0.1:{receiver.port}" in lines
    assert "content-type: application/json" in lines
    assert "x-mine: yes" in lines
    assert "authorization: basic dxm6chc=" in lines


async def test_request_goes_to_the_checked_address_with_the_host_name() -> None:
    async with receiving() as receiver:
        calls = WebhookClient(OPEN, resolve=resolving_to(["127.0.0.1"]))
        async with calls.open():
            await calls.post(f"http://hooks.example:{receiver.port}/", b"{}")
    assert f"host: hooks.example:{receiver.port}" in receiver.lines()


async def test_certificate_must_match_the_host_name() -> None:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(CERTIFICATES / "hooks.example.pem", CERTIFICATES / "hooks.example.key")
    names: list[str] = []
    serving.sni_callback = lambda _socket, name, _context: names.append(name)

    def trusting() -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(CERTIFICATES / "hooks.example.pem"))

    rules = WebhookRules(disable_loopback=False)
    calls = WebhookClient(rules, resolve=resolving_to(["127.0.0.1"]), make_tls=trusting)
    async with receiving(tls=serving) as receiver, calls.open():
        await calls.post(f"https://hooks.example:{receiver.port}/", b"{}")
        with pytest.raises(DeliveryFailed, match="certificate"):
            await calls.post(f"https://other.example:{receiver.port}/", b"{}")
    assert names == ["hooks.example", "other.example"]
    assert len(receiver.requests) == 1


async def test_name_that_resolves_to_another_address_later_is_checked_again() -> None:
    calls = WebhookClient(WebhookRules(), resolve=resolving_to(["8.8.8.8"], ["169.254.169.254"]))
    await calls.check("https://hooks.example/")
    with pytest.raises(DeliveryFailed, match="blocked IP range"):
        await calls.post("https://hooks.example/", b"{}")


async def test_one_blocked_address_blocks_the_name() -> None:
    calls = WebhookClient(WebhookRules(), resolve=resolving_to(["8.8.8.8", "10.0.0.1"]))
    with pytest.raises(Invalid, match="private IP range"):
        await calls.check("https://hooks.example/")


async def test_name_that_does_not_resolve_is_rejected() -> None:
    with pytest.raises(Invalid, match="DNS resolution failed"):
        await WebhookClient(WebhookRules()).check("https://nothing.invalid/")


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "127.1"])
async def test_alternative_spellings_of_an_address_are_recognized(host: str) -> None:
    with pytest.raises(Invalid, match="loopback IP range"):
        await WebhookClient(WebhookRules()).check(f"https://{host}/")


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n", "status 500"),
        (
            b"HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n",
            "status 302",
        ),
        (b"what?\r\n\r\n", "RemoteProtocolError"),
        (b"", "RemoteProtocolError"),
    ],
)
async def test_delivery_fails_unless_the_receiver_confirms_it(response: bytes, reason: str) -> None:
    async with receiving(response) as receiver, WebhookClient(OPEN).open() as calls:
        with pytest.raises(DeliveryFailed, match=reason):
            await calls.post(f"http://127.0.0.1:{receiver.port}/", b"{}")


async def test_response_body_is_not_read() -> None:
    endless = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n" + b"x" * 1000
    async with receiving(endless) as receiver, WebhookClient(OPEN).open() as calls:
        await calls.post(f"http://127.0.0.1:{receiver.port}/", b"{}")


async def test_refused_connection_is_a_failed_delivery() -> None:
    async with receiving() as receiver:
        port = receiver.port
    async with WebhookClient(OPEN).open() as calls:
        with pytest.raises(DeliveryFailed, match="Connect"):
            await calls.post(f"http://127.0.0.1:{port}/", b"{}")


async def test_receiver_that_does_not_respond_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "RESPONSE_TIMEOUT", 0.2)
    silent = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await silent.wait()
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with WebhookClient(OPEN).open() as calls:
        with pytest.raises(DeliveryFailed, match="no response within"):
            await calls.post(f"http://127.0.0.1:{port}/", b"{}")
    silent.set()
    server.close()


async def test_proxy_of_the_environment_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    async with receiving() as receiver, WebhookClient(OPEN).open() as calls:
        await calls.post(f"http://127.0.0.1:{receiver.port}/", b"{}")
    assert len(receiver.requests) == 1
