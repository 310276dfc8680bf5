"""Webhooks of runs: which addresses are allowed, and the POST itself.

Each delivery resolves the host name again, checks the addresses again, and connects to the address that was checked.
So an attacker gains nothing by changing what a name resolves to (DNS rebinding).
"""

import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
from anyio import to_thread

from threadwire.core.records import Delivery
from threadwire.core.webhooks import Target, WebhookRules, check_address, parse_target
from threadwire.engine.clock import Clock, system_clock
from threadwire.errors import DeliveryFailed, Invalid

RESOLVE_TIMEOUT = 5.0
RESPONSE_TIMEOUT = 15.0

Addresses = list[str]
Resolver = Callable[[str, int], Awaitable[Addresses]]

WebhookBody = Callable[[Delivery, int], bytes]
"""Returns what is sent to a run's webhook, given the time of sending."""


async def resolve(host: str, port: int) -> Addresses:
    """Resolve a host name. Raises `OSError`."""
    resolved = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for _, _, _, _, address in resolved]


class WebhookClient:
    def __init__(
        self,
        rules: WebhookRules,
        *,
        resolve: Resolver = resolve,
        make_tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        self.rules = rules
        self._resolve_host = resolve
        self._make_tls = make_tls
        self._client: httpx.AsyncClient | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator["WebhookClient"]:
        try:
            yield self
        finally:
            if self._client is not None:
                await self._client.aclose()

    async def check(self, url: str) -> None:
        """Raise `Invalid` unless a client may use this URL."""
        await self._resolve(url)

    async def post(self, url: str, body: bytes) -> None:
        """Deliver `body`. Raises `DeliveryFailed` unless the receiver responds with a 2xx status."""
        try:
            with anyio.fail_after(RESPONSE_TIMEOUT):
                target, addresses = await self._resolve(url)
                status = await self._post(target, addresses[0], body)
        except Invalid as error:
            raise DeliveryFailed(error.message) from None
        except TimeoutError:
            raise DeliveryFailed(f"no response within {RESPONSE_TIMEOUT:.0f} seconds") from None
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, OSError) as error:
            raise DeliveryFailed(f"{type(error).__name__}: {error}") from error
        if not 200 <= status < 300:
            raise DeliveryFailed(f"the receiver responded with status {status}")

    async def _resolve(self, url: str) -> tuple[Target, Addresses]:
        target = parse_target(url, self.rules)
        try:
            with anyio.fail_after(RESOLVE_TIMEOUT):
                addresses = await self._resolve_host(target.host, target.port)
        except (OSError, UnicodeError):  # `TimeoutError` is an `OSError`
            raise Invalid("Webhook host blocked: DNS resolution failed") from None
        for address in addresses:
            check_address(address, target, self.rules)
        return target, addresses

    async def _post(self, target: Target, address: str, body: bytes) -> int:
        client = await self._open_client()
        host = f"[{address}]" if ":" in address else address
        request = client.build_request(
            "POST",
            f"{target.scheme}://{host}:{target.port}{target.path}",
            content=body,
            headers={"content-type": "application/json", **self.rules.headers, "host": target.authority},
            extensions={"sni_hostname": target.host},  # the certificate must match the name
        )
        # The body of the response is not read, since it could be endless. Redirects are not followed.
        response = await client.send(request, auth=_auth(target), stream=True, follow_redirects=False)
        await response.aclose()
        return response.status_code

    async def _open_client(self) -> httpx.AsyncClient:
        if self._client is None:
            tls = await to_thread.run_sync(self._make_tls)  # blocks: it reads many certificates
            # No proxy from the environment: a proxy would resolve the name itself.
            self._client = httpx.AsyncClient(
                verify=tls,
                trust_env=False,
                timeout=httpx.Timeout(10.0),
                limits=httpx.Limits(max_keepalive_connections=0),
                headers={"user-agent": "threadwire"},
            )
        return self._client


class RunWebhooks:
    """The webhooks that runs name. With `disabled`, every URL is accepted and nothing is delivered."""

    def __init__(
        self, calls: WebhookClient, body: WebhookBody, *, disabled: bool = False, clock: Clock = system_clock
    ) -> None:
        self._calls = calls
        self._body = body
        self.disabled = disabled
        self._clock = clock

    def use(self, rules: WebhookRules, *, disabled: bool) -> None:
        """Replace the rules, after a reload."""
        self._calls.rules = rules
        self.disabled = disabled

    async def check(self, url: str) -> None:
        if not self.disabled:
            await self._calls.check(url)

    async def deliver(self, delivery: Delivery) -> None:
        assert delivery.run.webhook is not None, "only runs with a webhook have deliveries"
        if not self.disabled:  # also drops deliveries from before webhooks were disabled
            await self._calls.post(delivery.run.webhook, self._body(delivery, self._clock()))


def _auth(target: Target) -> Any:
    return None if target.credentials is None else httpx.BasicAuth(*target.credentials)
