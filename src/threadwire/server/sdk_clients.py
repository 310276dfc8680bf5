"""Connects `get_client()` and `get_sync_client()` of the LangGraph SDK, without a URL, to the server they run in.

The SDK has a hook for servers, `configure_loopback_transports`. It only reaches clients that exist already, and their
transport returns a stream only when it is complete. So clients that are created later get a transport of ours.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import httpx
import langgraph_sdk
from langgraph_sdk import client as sdk_client
from langgraph_sdk._async import client as async_client
from langgraph_sdk._sync import client as sync_client
from langgraph_sdk.client import SyncLangGraphClient

from threadwire.http.loopback import BASE_URL, Loopback, LoopbackTransport, SyncLoopbackTransport

_connected: list[Loopback] = []
_original_sync_client = sync_client.get_sync_client


@contextmanager
def connected_clients(loopback: Loopback) -> Iterator[None]:
    """Connect the clients of this process to the server for the length of the block."""
    _connected.append(loopback)
    sdk_client.configure_loopback_transports(loopback)
    try:
        yield
    finally:
        _connected.remove(loopback)


def prepare_clients() -> None:
    """Let clients without a URL wait for `connected_clients`. Called before the project is imported; idempotent."""
    # Otherwise the SDK would import the stock server if it is installed, and call that.
    os.environ["__LANGGRAPH_DEFER_LOOPBACK_TRANSPORT"] = "true"
    setattr(async_client, "get_asgi_transport", lambda: _transport)  # noqa: B010 - the SDK does not export it
    for module in (sync_client, sdk_client, langgraph_sdk):
        setattr(module, "get_sync_client", _get_sync_client)  # noqa: B010


def _current() -> Loopback:
    if not _connected:
        raise httpx.ConnectError("The server does not accept requests yet. Call it from a node, not on import.")
    return _connected[-1]


def _transport(**options: Any) -> LoopbackTransport:
    """Called by the SDK in place of the class of its transport."""
    return LoopbackTransport(_current)


@wraps(_original_sync_client)
def _get_sync_client(*, url: str | None = None, **options: Any) -> SyncLangGraphClient:
    if url is not None:
        return _original_sync_client(url=url, **options)
    with _original_sync_client(url=BASE_URL, **options) as configured:
        headers, timeout = configured.http.client.headers, configured.http.client.timeout
    transport = SyncLoopbackTransport(_current)
    return SyncLangGraphClient(httpx.Client(base_url=BASE_URL, headers=headers, timeout=timeout, transport=transport))
