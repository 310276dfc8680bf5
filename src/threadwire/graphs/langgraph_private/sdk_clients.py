"""`get_client()` and `get_sync_client()` of the LangGraph SDK without a URL, in the server's own process.

**For:** the SDK has a hook for servers, `configure_loopback_transports`. It only reaches async clients that exist
already, and their transport returns a stream only when it is complete. So clients that are created later, and sync
ones, get a transport of ours.

**Changed SDK:** a name is missing. Then only what the hook reaches works without a URL.
"""

import os
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import httpx
from langgraph_sdk.client import SyncLangGraphClient

from threadwire.graphs.langgraph_private.process_patch import ProcessPatch


def sdk_clients(
    transport: Callable[[], httpx.AsyncBaseTransport], sync_transport: Callable[[], httpx.BaseTransport], base_url: str
) -> ProcessPatch:
    """The patch that gives clients without a URL these transports and this URL. Applied before the project is
    imported."""

    def replace_transport(original: Any) -> Any:
        # Otherwise the SDK would import the stock server if it is installed, and call that.
        os.environ["__LANGGRAPH_DEFER_LOOPBACK_TRANSPORT"] = "true"
        return lambda: _without_options(transport)

    def replace_client(original: Any) -> Any:
        return wraps(original)(partial(_get_sync_client, original, sync_transport, base_url))

    functions = ("langgraph_sdk._sync.client", "langgraph_sdk.client", "langgraph_sdk")
    return ProcessPatch(
        "SDK clients",
        "In nodes, `get_client()` and `get_sync_client()` need a URL.",
        {
            "langgraph_sdk._async.client:get_asgi_transport": replace_transport,
            **{f"{module}:get_sync_client": replace_client for module in functions},
        },
    )


def _without_options(transport: Callable[[], httpx.AsyncBaseTransport]) -> Callable[..., httpx.AsyncBaseTransport]:
    """Return the function that the SDK calls in place of its transport's class."""
    return lambda *args, **options: transport()


def _get_sync_client(
    original: Callable[..., SyncLangGraphClient],
    sync_transport: Callable[[], httpx.BaseTransport],
    base_url: str,
    *,
    url: str | None = None,
    **options: Any,
) -> SyncLangGraphClient:
    if url is not None:
        return original(url=url, **options)
    with original(url=base_url, **options) as configured:
        headers, timeout = configured.http.client.headers, configured.http.client.timeout
    return SyncLangGraphClient(
        httpx.Client(base_url=base_url, headers=headers, timeout=timeout, transport=sync_transport())
    )
