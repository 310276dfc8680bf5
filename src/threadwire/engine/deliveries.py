"""Telling webhooks that runs have ended: at least once each, however long that takes and whoever dies meanwhile.

What is to be told lies in the outbox until it was told or given up. A receiver that is slow or dead takes up places
here, and nothing else: no run waits for one.
"""

from typing import Protocol

import anyio
import structlog
from anyio.abc import TaskGroup

from threadwire.core.records import Delivery
from threadwire.core.webhooks import retry_at
from threadwire.engine.clock import Clock
from threadwire.errors import Invalid, NotDelivered, StorageError
from threadwire.storage.abc import Storage

logger = structlog.get_logger("threadwire.webhooks")

PLACES = 32
LOOK_EVERY = 0.5


class Webhooks(Protocol):
    @property
    def muted(self) -> bool:
        """Whether none is told, whatever runs name."""

    async def check(self, url: str) -> None:
        """Whether a client may name this address. Raises `Invalid`."""

    async def tell(self, delivery: Delivery) -> None:
        """Tell the run's webhook. Raises `NotDelivered`."""


class NoWebhooks:
    """For an engine that nobody gave any."""

    muted = False

    async def check(self, url: str) -> None:
        raise Invalid("Webhooks are not offered here")

    async def tell(self, delivery: Delivery) -> None:
        raise NotDelivered("Webhooks are not offered here")


class Deliverer:
    def __init__(self, storage: Storage, webhooks: Webhooks, clock: Clock) -> None:
        self._storage = storage
        self._webhooks = webhooks
        self._clock = clock
        self._under_way: set[int] = set()

    async def work(self) -> None:
        async with anyio.create_task_group() as tasks:
            while True:
                try:
                    await self._begin_due(tasks)
                except StorageError as error:
                    logger.error("webhooks_not_looked_at", error=error.message)
                await anyio.sleep(LOOK_EVERY)

    async def _begin_due(self, tasks: TaskGroup) -> None:
        if (free := PLACES - len(self._under_way)) > 0:
            under_way = frozenset(self._under_way)
            for delivery in await self._storage.deliveries.due(self._clock(), limit=free, but_not=under_way):
                self._under_way.add(delivery.delivery_id)
                tasks.start_soon(self._deliver, delivery)

    async def _deliver(self, delivery: Delivery) -> None:
        try:
            await self.deliver(delivery)
        except StorageError as error:  # it stays in the outbox and will be told again
            logger.error("webhook_not_noted", run_id=delivery.run.run_id, error=error.message)
        finally:
            self._under_way.discard(delivery.delivery_id)

    async def deliver(self, delivery: Delivery) -> None:
        """Try once, and note what came of it."""
        facts = {"run_id": delivery.run.run_id, "tries": delivery.tries + 1}
        try:
            await self._webhooks.tell(delivery)
        except NotDelivered as failure:
            again = retry_at(delivery.tries + 1, self._clock())
            if again is not None:
                logger.info("webhook_failed", reason=failure.message, **facts)
                return await self._storage.deliveries.postpone(delivery.delivery_id, again)
            logger.error("webhook_given_up", reason=failure.message, **facts)
        await self._storage.deliveries.remove(delivery.delivery_id)
