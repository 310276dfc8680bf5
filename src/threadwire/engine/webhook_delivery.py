"""Webhook delivery after a run ends: at least once, with retries that survive a crash.

A delivery stays in the outbox until it succeeds or is abandoned. A slow or dead receiver occupies delivery slots and
nothing else: no run waits for it.
"""

from contextlib import suppress
from typing import Protocol

import anyio
import structlog
from anyio.abc import TaskGroup

from threadwire.core.ids import uuid7
from threadwire.core.records import Delivery, Lease
from threadwire.core.webhooks import retry_at
from threadwire.engine.clock import Clock
from threadwire.errors import DeliveryFailed, Invalid, StorageError
from threadwire.storage.abc import Storage

logger = structlog.get_logger("threadwire.webhooks")

MAX_CONCURRENT = 32
POLL_INTERVAL = 0.5
CLAIM_MILLISECONDS = 60_000
"""How long a delivery is claimed: longer than an attempt takes. If a process dies, another one repeats its attempt."""


class Webhooks(Protocol):
    @property
    def disabled(self) -> bool:
        """Whether no webhook is called, even if a run names one."""

    async def check(self, url: str) -> None:
        """Raise `Invalid` if clients may not use this URL."""

    async def deliver(self, delivery: Delivery) -> None:
        """Call the run's webhook. Raises `DeliveryFailed`."""


class NoWebhooks:
    """For an engine without webhooks: rejects every URL."""

    disabled = False

    async def check(self, url: str) -> None:
        raise Invalid("Webhooks are not supported by this server")

    async def deliver(self, delivery: Delivery) -> None:
        raise DeliveryFailed("Webhooks are not supported by this server")


class Deliverer:
    def __init__(self, storage: Storage, webhooks: Webhooks, clock: Clock) -> None:
        self._storage = storage
        self._webhooks = webhooks
        self._clock = clock
        self.lease = Lease(f"deliverer {uuid7()}", CLAIM_MILLISECONDS)
        self._in_progress: set[int] = set()

    @property
    def active(self) -> int:
        """Number of deliveries in progress."""
        return len(self._in_progress)

    async def work(self) -> None:
        async with anyio.create_task_group() as tasks:
            while True:
                try:
                    await self._start_due(tasks)
                except StorageError as error:
                    logger.error("webhook_poll_failed", error=error.message)
                await anyio.sleep(POLL_INTERVAL)

    async def _start_due(self, tasks: TaskGroup) -> None:
        if self._storage.write_error is not None:  # a delivery that cannot be removed would be repeated
            return
        if (free := MAX_CONCURRENT - len(self._in_progress)) > 0:
            for delivery in await self._storage.deliveries.claim(free, self.lease, now=self._clock()):
                self._in_progress.add(delivery.delivery_id)
                tasks.start_soon(self._deliver, delivery)

    async def _deliver(self, delivery: Delivery) -> None:
        try:
            await self.deliver(delivery)
        except StorageError as error:  # the delivery stays in the outbox and is sent again
            logger.error("webhook_update_failed", run_id=delivery.run.run_id, error=error.message)
        finally:
            self._in_progress.discard(delivery.delivery_id)
            with anyio.CancelScope(shield=True), suppress(StorageError):  # the lease expires anyway
                await self._storage.deliveries.release(delivery.delivery_id, self.lease)

    async def deliver(self, delivery: Delivery) -> None:
        """Make one attempt and store its result."""
        fields = {"run_id": delivery.run.run_id, "attempt": delivery.tries + 1}
        try:
            await self._webhooks.deliver(delivery)
        except DeliveryFailed as failure:
            retry = retry_at(delivery.tries + 1, self._clock())
            if retry is not None:
                logger.info("webhook_failed", error=failure.message, **fields)
                return await self._storage.deliveries.postpone(delivery.delivery_id, retry, self.lease)
            logger.error("webhook_abandoned", error=failure.message, **fields)
        await self._storage.deliveries.remove(delivery.delivery_id)
