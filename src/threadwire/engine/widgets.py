"""Frozen widgets: what the widget of an interrupt showed when the interrupt was answered."""

from contextlib import AbstractAsyncContextManager
from weakref import WeakValueDictionary

import anyio

from threadwire.core.entries import Draft, Json, Kind
from threadwire.core.ids import ThreadId
from threadwire.engine.access import require_changeable
from threadwire.engine.clock import Clock
from threadwire.storage.abc import Storage


class Widgets:
    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._locks: WeakValueDictionary[ThreadId, anyio.Lock] = WeakValueDictionary()

    def one_at_a_time(self, thread_id: ThreadId) -> AbstractAsyncContextManager[object]:
        """Hold this lock while handling the submission of a widget, so that only one of two different answers wins."""
        return self._locks.setdefault(thread_id, anyio.Lock())

    def frozen(self, interrupt_id: str, frozen_value: tuple[Json] | None) -> Draft:
        """The entry that freezes a widget."""
        data = {"interrupt_id": interrupt_id, **({} if frozen_value is None else {"frozen_value": frozen_value[0]})}
        return Draft(Kind.WIDGET_FROZEN, data, (), self._clock())

    async def freeze(self, thread_id: ThreadId, frozen: Draft) -> None:
        """Append a `widget.frozen` entry outside a run, durable on return. Raises `NotFound`."""
        await require_changeable(self._storage, thread_id)
        await self._storage.log.append(thread_id, [frozen]).wait()
