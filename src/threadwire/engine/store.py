"""The store as clients use it: memories apart from any thread."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import structlog

from threadwire.core.items import MINUTE
from threadwire.engine.clock import Clock
from threadwire.errors import BadRequest, GraphFailed, StorageError, ThreadwireError
from threadwire.graphs.store import StoreHome
from threadwire.storage.abc import Items

T = TypeVar("T")

SWEEP_AT_ONCE = 1000

logger = structlog.get_logger("threadwire.store")


class Store:
    def __init__(self, home: StoreHome) -> None:
        self._home = home

    async def put(
        self,
        namespace: list[str],
        key: str,
        value: dict[str, Any],
        *,
        owner: str | None = None,
        **how: Any,
    ) -> None:
        """`how` is `index`, and `ttl` in minutes: without it the store's own is given, None is for ever."""
        await self._ask(lambda store: store.aput(tuple(namespace), key, value, **how), owner)

    async def get(self, namespace: list[str], key: str, *, refresh_ttl: bool | None = None) -> Any | None:
        return await self._ask(lambda store: store.aget(tuple(namespace), key, refresh_ttl=refresh_ttl))

    async def delete(self, namespace: list[str], key: str) -> None:
        await self._ask(lambda store: store.adelete(tuple(namespace), key))

    async def search(self, prefix: list[str], **how: Any) -> list[Any]:
        return await self._ask(lambda store: store.asearch(tuple(prefix), **how))

    async def namespaces(self, **how: Any) -> list[tuple[str, ...]]:
        return await self._ask(lambda store: store.alist_namespaces(**how))

    async def _ask(self, ask: Callable[[Any], Coroutine[Any, Any, T]], owner: str | None = None) -> T:
        store = self._home.of(owner)
        try:
            if self._home.loop is None:
                return await ask(store)
            return await self._home.loop.run(lambda: ask(store))
        except ThreadwireError:
            raise
        except (ValueError, NotImplementedError) as error:  # what a store says to a request that it does not take
            raise BadRequest(str(error)) from error
        except Exception as error:  # the project's store, or its embedding function
            raise GraphFailed(f"{type(error).__name__}: {error}") from error


async def sweep_forever(items: Items, every_minutes: float, clock: Clock) -> None:
    """Remove what has expired, at the start and then in turn."""
    while True:
        try:
            while await items.sweep(clock(), SWEEP_AT_ONCE) == SWEEP_AT_ONCE:
                await anyio.lowlevel.checkpoint()  # others may write between
        except StorageError as error:  # nobody sees what has expired, so it can stay until the next time
            logger.warning("sweep_failed", error=error.message)
        await anyio.sleep(every_minutes * MINUTE / 1000)
