"""Renews the leases of this process's workers from the database thread.

A worker renews its leases itself. If its event loop is blocked, it cannot, although its process is alive. So the
database thread takes over, for as long as a loop may reasonably be blocked.
"""

import asyncio
import time

from threadwire.core.entries import Fence
from threadwire.core.records import CancelAction, Lease
from threadwire.errors import StorageUnavailable
from threadwire.storage.postgres.database import Database
from threadwire.storage.postgres.run_claims import renew_leases
from threadwire.storage.postgres.transaction import Transaction

RENEWAL_TIMEOUT = 2.5
"""Seconds after which a renewal counts as failed, so that a worker can give up its runs in time."""
MAX_UNATTENDED = 60.0
"""Seconds for which leases are renewed after the worker last did so itself."""
_CHECK_INTERVAL = 0.25


class _Worker:
    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.attended = self.renewed = time.monotonic()

    def is_late(self, now: float) -> bool:
        return now - self.renewed > self.lease.milliseconds / 3000 > 0


class Heartbeats:
    """Used on the database thread only, except for `attend` and `forget`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._workers: dict[str, _Worker] = {}

    def attend(self, lease: Lease) -> None:
        """The worker is alive. Called on any thread."""
        self._workers[lease.worker] = _Worker(lease)

    def forget(self, worker: str) -> None:
        """The worker is dead. Called on any thread."""
        self._workers.pop(worker, None)

    async def renew(self, lease: Lease) -> dict[Fence, CancelAction | None]:
        async def renew(transaction: Transaction) -> dict[Fence, CancelAction | None]:
            return await renew_leases(transaction.db, lease)

        try:
            async with asyncio.timeout(RENEWAL_TIMEOUT):
                return await self._database.write_here(renew)
        except TimeoutError as error:
            raise StorageUnavailable("The database did not renew the leases in time.") from error

    async def work(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_INTERVAL)
            now = time.monotonic()
            for name, worker in [*self._workers.items()]:
                if now - worker.attended > MAX_UNATTENDED:
                    self._workers.pop(name, None)
                elif worker.is_late(now):
                    await self._renew_late(worker)

    async def _renew_late(self, worker: _Worker) -> None:
        try:
            await self.renew(worker.lease)
        except StorageUnavailable:  # the next heartbeat may succeed
            return
        worker.renewed = time.monotonic()
