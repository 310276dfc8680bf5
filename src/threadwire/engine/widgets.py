"""Frozen widgets: what the widget of an interrupt showed when the interrupt was answered."""

from contextlib import AbstractAsyncContextManager
from weakref import WeakValueDictionary

import anyio

from threadwire.core.entries import Draft, Json, Kind
from threadwire.core.ids import ThreadId
from threadwire.engine.clock import Clock
from threadwire.storage.abc import Storage


class Widgets:
    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._locks: WeakValueDictionary[ThreadId, anyio.Lock] = WeakValueDictionary()

    def one_at_a_time(self, thread_id: ThreadId) -> AbstractAsyncContextManager[object]:
        """Hold this while deciding about the widgets of a thread, so that of two different answers only one wins."""
        return self._locks.setdefault(thread_id, anyio.Lock())

    async def freeze(self, thread_id: ThreadId, interrupt_id: str, frozen_value: tuple[Json] | None) -> None:
        """Append a `widget.frozen` entry outside a run, durable on return. Raises `NotFound`."""
        data = {"interrupt_id": interrupt_id, **({} if frozen_value is None else {"frozen_value": frozen_value[0]})}
        draft = Draft(Kind.WIDGET_FROZEN, data, (), self._clock())
        await self._storage.log.append(thread_id, [draft]).wait()
