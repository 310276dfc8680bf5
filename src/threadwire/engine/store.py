"""The store as clients use it: long-term memory, independent of threads."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import structlog

from threadwire.core.access_filter import AccessFilter
from threadwire.core.store_items import MINUTE
from threadwire.engine.access import allowed, current_owner
from threadwire.engine.clock import Clock
from threadwire.errors import BadRequest, GraphFailed, InvalidAccessFilter, StorageError, ThreadwireError
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
        """`options` are `index`, and `ttl` in minutes. With a `ttl` of None the item never expires; without `ttl`, the
        store's default applies."""
        described = {"namespace": tuple(namespace), "key": key, "value": value, "index": None, "ttl": None, **options}
        await allowed("store", "put", described)
        options = {name: described[name] for name in options}
        named, key, value = tuple(described["namespace"]), described["key"], described["value"]
        await self._call(
            lambda store: store.aput(named, key, value, **options), self._home.for_owner(owner or current_owner())
        )

    async def get(self, namespace: list[str], key: str, *, refresh_ttl: bool | None = None) -> Any | None:
        described: dict[str, Any] = {"namespace": tuple(namespace), "key": key, "refresh_ttl": refresh_ttl}
        await allowed("store", "get", described)
        named, refresh = tuple(described["namespace"]), described["refresh_ttl"]
        return await self._call(lambda store: store.aget(named, described["key"], refresh_ttl=refresh))

    async def delete(self, namespace: list[str], key: str) -> None:
        described: dict[str, Any] = {"namespace": tuple(namespace), "key": key}
        await allowed("store", "delete", described)
        await self._call(lambda store: store.adelete(tuple(described["namespace"]), described["key"]))

    async def search(self, prefix: list[str], **options: Any) -> list[Any]:
        described: dict[str, Any] = {"namespace": tuple(prefix), **options}
        access = await allowed("store", "search", described)
        options = {name: described[name] for name in options}
        store = self._restricted(access) if access else None
        return await self._call(lambda store: store.asearch(tuple(described["namespace"]), **options), store)

    def _restricted(self, access: AccessFilter) -> Any:
        if self._home.restricted is None:
            raise InvalidAccessFilter(
                "A filter cannot be applied to the project's own store. Change the namespace of the search instead."
            )
        return self._home.restricted(access)

    async def namespaces(self, **options: Any) -> list[tuple[str, ...]]:
        described: dict[str, Any] = {"namespace": tuple(options.get("prefix") or ()) or None, **options}
        described.pop("prefix", None)
        described["suffix"] = described.get("suffix") or None
        await allowed("store", "list_namespaces", described)
        described["prefix"] = tuple(described["namespace"] or ())
        described["suffix"] = tuple(described["suffix"] or ())
        options = {name: described[name] for name in ("prefix", *options)}
        return await self._call(lambda store: store.alist_namespaces(**options))

    async def _call(self, operation: Callable[[Any], Coroutine[Any, Any, T]], store: Any = None) -> T:
        store = self._home.for_owner(None) if store is None else store
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
                await anyio.lowlevel.checkpoint()  # let other writes run between two batches
        except StorageError as error:  # expired items are hidden, so they can wait for the next sweep
            logger.warning("store_sweep_failed", error=error.message)
        await anyio.sleep(every_minutes * MINUTE / 1000)
