"""The deliverer: each delivery is told until somebody has got it, and none holds up the others."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from threadwire.core.records import Delivery, Ending
from threadwire.core.webhooks import RETRY_AFTER
from threadwire.engine import deliveries
from threadwire.engine.deliveries import Deliverer
from threadwire.errors import NotDelivered, StorageError
from threadwire.storage.abc import Storage
from threadwire.storage.memory import open_memory_storage
from threadwire.testing.conformance.samples import NOW, start_on_new_thread

pytestmark = pytest.mark.anyio

SOON = 10.0


class Receiver:
    """A webhook that fails as often as it is told to, and may keep its callers waiting."""

    muted = False

    def __init__(self, *, failures: int = 0) -> None:
        self.failures = failures
        self.told: list[str] = []
        self.dead: set[str] = set()
        self._grew = anyio.Event()

    async def check(self, url: str) -> None: ...

    async def tell(self, delivery: Delivery) -> None:
        url = delivery.run.webhook or ""
        self.told.append(url)
        self._grew.set()
        if url in self.dead:
            await anyio.sleep_forever()
        if self.failures:
            self.failures -= 1
            raise NotDelivered("not now")

    async def is_told(self, times: int) -> None:
        with anyio.fail_after(SOON):
            while len(self.told) < times:
                self._grew = anyio.Event()
                await self._grew.wait()


@pytest.fixture
async def storage() -> AsyncIterator[Storage]:
    async with open_memory_storage() as storage:
        yield storage


async def leave(storage: Storage, url: str) -> None:
    run = await start_on_new_thread(storage, webhook=url)
    await storage.runs.finish(run.fence, Ending("success"), NOW)


async def the_delivery(storage: Storage) -> Delivery:
    [delivery] = await storage.deliveries.due(2**53, limit=10)
    return delivery


async def is_empty(storage: Storage) -> None:
    with anyio.fail_after(SOON):
        while await storage.deliveries.due(2**53, limit=1):  # noqa: ASYNC110 - the storage has no event for it
            await anyio.sleep(0.01)


@asynccontextmanager
async def working(deliverer: Deliverer) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(deliverer.work)
        yield
        tasks.cancel_scope.cancel()


async def test_what_was_told_is_gone(storage: Storage) -> None:
    await leave(storage, "https://a.example/")
    receiver = Receiver()
    async with working(Deliverer(storage, receiver, lambda: NOW)):
        await is_empty(storage)
    assert receiver.told == ["https://a.example/"]


async def test_a_failure_is_tried_again_later_each_time(storage: Storage) -> None:
    await leave(storage, "https://a.example/")
    now = NOW
    deliverer = Deliverer(storage, Receiver(failures=100), lambda: now)
    for tries, seconds in enumerate(RETRY_AFTER, 1):
        await deliverer.deliver(await the_delivery(storage))
        waiting = await the_delivery(storage)
        assert (waiting.tries, waiting.due_at) == (tries, now + seconds * 1000)
        now = waiting.due_at
    await deliverer.deliver(await the_delivery(storage))
    assert await storage.deliveries.due(2**53, limit=1) == [], "in the end it is given up"


async def test_a_receiver_that_recovers_is_told(storage: Storage) -> None:
    await leave(storage, "https://a.example/")
    now = NOW
    receiver = Receiver(failures=2)
    deliverer = Deliverer(storage, receiver, lambda: now)
    for _ in range(3):
        delivery = await the_delivery(storage)
        now = delivery.due_at
        await deliverer.deliver(delivery)
    assert len(receiver.told) == 3
    assert await storage.deliveries.due(2**53, limit=1) == []


async def test_a_dead_receiver_holds_up_no_other(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "LOOK_EVERY", 0.01)
    receiver = Receiver()
    receiver.dead = {"https://dead.example/"}
    for _ in range(3):
        await leave(storage, "https://dead.example/")
    async with working(Deliverer(storage, receiver, lambda: NOW)):
        await receiver.is_told(3)
        await leave(storage, "https://alive.example/")
        await receiver.is_told(4)
    assert receiver.told == ["https://dead.example/"] * 3 + ["https://alive.example/"]
    assert len(await storage.deliveries.due(2**53, limit=10)) == 3, "what was not told is told another time"


async def test_no_more_are_under_way_than_there_are_places(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "PLACES", 2)
    monkeypatch.setattr(deliveries, "LOOK_EVERY", 0.01)
    receiver = Receiver()
    receiver.dead = {"https://dead.example/"}
    for _ in range(5):
        await leave(storage, "https://dead.example/")
    async with working(Deliverer(storage, receiver, lambda: NOW)):
        await receiver.is_told(2)
        for _ in range(5):
            await anyio.sleep(0.01)
    assert len(receiver.told) == 2


async def test_a_database_that_refuses_does_not_end_the_deliverer(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "LOOK_EVERY", 0.01)
    await leave(storage, "https://a.example/")
    remove, refusals = storage.deliveries.remove, [StorageError("full"), StorageError("full")]

    async def refusing(delivery_id: int) -> None:
        if refusals:
            raise refusals.pop()
        await remove(delivery_id)

    monkeypatch.setattr(storage.deliveries, "remove", refusing)
    receiver = Receiver()
    async with working(Deliverer(storage, receiver, lambda: NOW)):
        await is_empty(storage)
    assert len(receiver.told) == 3, "at least once"
