"""Connects `get_client()` and `get_sync_client()` of the LangGraph SDK, without a URL, to the server they run in."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from langgraph_sdk.client import configure_loopback_transports

from threadwire.graphs.langgraph_private.sdk_clients import sdk_clients
from threadwire.http.loopback import BASE_URL, Loopback, LoopbackTransport, SyncLoopbackTransport

_connected: list[Loopback] = []


@contextmanager
def connected_clients(loopback: Loopback) -> Iterator[None]:
    """Connect the clients of this process to the server for the length of the block."""
    _connected.append(loopback)
    configure_loopback_transports(loopback)
    try:
        yield
    finally:
        _connected.remove(loopback)


def _current() -> Loopback:
    if not _connected:
        raise httpx.ConnectError("The server does not accept requests yet. Call it from a node, not on import.")
    return _connected[-1]


SDK_CLIENTS = sdk_clients(
    lambda: LoopbackTransport(_current),
    lambda: SyncLoopbackTransport(_current),
    BASE_URL,
)
"""Lets clients without a URL find the server when they send a request, not when they are created."""
