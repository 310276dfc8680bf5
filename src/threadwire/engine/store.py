"""The store as clients use it: long-term memory, independent of threads."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import structlog

from threadwire.core.items import MINUTE
from threadwire.engine.clock import Clock
from threadwire.errors import BadRequest, GraphFailed, StorageError, ThreadwireError
from threadwire.graphs.error_messages import ErrorMessages, new_error_id
from threadwire.graphs.store import StoreProvider
from threadwire.graphs.tracebacks import render_traceback
from threadwire.storage.abc import Items

T = TypeVar("T")

SWEEP_BATCH = 1000

logger = structlog.get_logger("threadwire.store")


class Store:
    def __init__(self, home: StoreProvider, messages: ErrorMessages | None = None) -> None:
        self._home = home
        self._messages = messages or ErrorMessages()

    async def put(
        self,
        namespace: list[str],
        key: str,
        value: dict[str, Any],
        *,
        owner: str | None = None,
        **options: Any,
    ) -> None:
        """`options` are `index`, and `ttl` in minutes: None never expires, and the store's default applies if it is
        omitted."""
        await self._call(lambda store: store.aput(tuple(namespace), key, value, **options), owner)

    async def get(self, namespace: list[str], key: str, *, refresh_ttl: bool | None = None) -> Any | None:
        return await self._call(lambda store: store.aget(tuple(namespace), key, refresh_ttl=refresh_ttl))

    async def delete(self, namespace: list[str], key: str) -> None:
        await self._call(lambda store: store.adelete(tuple(namespace), key))

    async def search(self, prefix: list[str], **options: Any) -> list[Any]:
        return await self._call(lambda store: store.asearch(tuple(prefix), **options))

    async def namespaces(self, **options: Any) -> list[tuple[str, ...]]:
        return await self._call(lambda store: store.alist_namespaces(**options))

    async def _call(self, operation: Callable[[Any], Coroutine[Any, Any, T]], owner: str | None = None) -> T:
        store = self._home.for_owner(owner)
        try:
            if self._home.loop is None:
                return await operation(store)
            return await self._home.loop.run(lambda: operation(store))
        except ThreadwireError:
            raise
        except (ValueError, NotImplementedError) as error:  # how a store rejects a request
            raise BadRequest(str(error)) from error
        except Exception as error:  # the project's store, or its embedding function
            error_id = new_error_id()
            logger.warning("store_call_failed", error_id=error_id, stack=render_traceback(error))
            raise GraphFailed("{error}: {message}".format(**self._messages.describe(error, error_id))) from error


async def sweep_forever(items: Items, every_minutes: float, clock: Clock) -> None:
    """Delete expired items, at startup and then periodically."""
    while True:
        try:
            while await items.sweep(clock(), SWEEP_BATCH) == SWEEP_BATCH:
                await anyio.lowlevel.checkpoint()  # let other writes in between batches
        except StorageError as error:  # expired items are hidden, so they can wait for the next sweep
            logger.warning("store_sweep_failed", error=error.message)
        await anyio.sleep(every_minutes * MINUTE / 1000)
