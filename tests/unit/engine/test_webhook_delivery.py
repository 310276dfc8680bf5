"""The deliverer: each delivery is retried until it succeeds, and none delays the others."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from threadwire.core.records import Delivery, Ending
from threadwire.core.webhooks import RETRY_AFTER
from threadwire.engine import webhook_delivery
from threadwire.engine.webhook_delivery import Deliverer
from threadwire.errors import DeliveryFailed, StorageError
from threadwire.storage.abc import Storage
from threadwire.storage.memory import open_memory_storage
from threadwire.testing.conformance.samples import LEASE, NOW, start_on_new_thread

pytestmark = pytest.mark.anyio

TIMEOUT = 10.0


class Receiver:
    """A webhook that fails a given number of times, and never responds at dead URLs."""

    disabled = False

    def __init__(self, *, failures: int = 0) -> None:
        self.failures = failures
        self.received: list[str] = []
        self.dead: set[str] = set()
        self._changed = anyio.Event()

    async def check(self, url: str) -> None: ...

    async def deliver(self, delivery: Delivery) -> None:
        url = delivery.run.webhook or ""
        self.received.append(url)
        self._changed.set()
        if url in self.dead:
            await anyio.sleep_forever()
        if self.failures:
            self.failures -= 1
            raise DeliveryFailed("unavailable")

    async def wait_for_calls(self, count: int) -> None:
        with anyio.fail_after(TIMEOUT):
            while len(self.received) < count:
                self._changed = anyio.Event()
                await self._changed.wait()


@pytest.fixture
async def storage() -> AsyncIterator[Storage]:
    async with open_memory_storage() as storage:
        yield storage


async def enqueue(storage: Storage, url: str) -> None:
    run = await start_on_new_thread(storage, webhook=url)
    await storage.handle(run).finish(Ending("success"), NOW)


async def outbox(storage: Storage) -> list[Delivery]:
    """The deliveries that are not claimed."""
    return await storage.deliveries.claim(10, LEASE, now=2**53)


async def the_delivery(storage: Storage, deliverer: Deliverer) -> Delivery:
    """Claim the only delivery for the deliverer."""
    [delivery] = await storage.deliveries.claim(10, deliverer.lease, now=2**53)
    return delivery


async def wait_until_idle(deliverer: Deliverer) -> None:
    with anyio.fail_after(TIMEOUT):
        while deliverer.active:  # noqa: ASYNC110 - it has no event to wait on
            await anyio.sleep(0.01)


@asynccontextmanager
async def running(deliverer: Deliverer) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(deliverer.work)
        yield
        tasks.cancel_scope.cancel()


async def test_a_successful_delivery_is_removed(storage: Storage) -> None:
    await enqueue(storage, "https://a.example/")
    receiver = Receiver()
    deliverer = Deliverer(storage, receiver, lambda: NOW)
    async with running(deliverer):
        await receiver.wait_for_calls(1)
        await wait_until_idle(deliverer)
    assert receiver.received == ["https://a.example/"]
    assert await outbox(storage) == []


async def test_a_failed_delivery_is_retried_with_a_growing_delay(storage: Storage) -> None:
    await enqueue(storage, "https://a.example/")
    now = NOW
    deliverer = Deliverer(storage, Receiver(failures=100), lambda: now)
    for tries, seconds in enumerate(RETRY_AFTER, 1):
        await deliverer.deliver(await the_delivery(storage, deliverer))
        [postponed] = await outbox(storage)
        assert (postponed.tries, postponed.due_at) == (tries, now + seconds * 1000)
        now = postponed.due_at
    await deliverer.deliver(await the_delivery(storage, deliverer))
    assert await outbox(storage) == [], "it is abandoned in the end"


async def test_a_receiver_that_recovers_gets_the_delivery(storage: Storage) -> None:
    await enqueue(storage, "https://a.example/")
    now = NOW
    receiver = Receiver(failures=2)
    deliverer = Deliverer(storage, receiver, lambda: now)
    for _ in range(3):
        delivery = await the_delivery(storage, deliverer)
        now = delivery.due_at
        await deliverer.deliver(delivery)
    assert len(receiver.received) == 3
    assert await outbox(storage) == []


async def test_a_dead_receiver_does_not_delay_others(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_delivery, "POLL_INTERVAL", 0.01)
    receiver = Receiver()
    receiver.dead = {"https://dead.example/"}
    for _ in range(3):
        await enqueue(storage, "https://dead.example/")
    async with running(Deliverer(storage, receiver, lambda: NOW)):
        await receiver.wait_for_calls(3)
        await enqueue(storage, "https://alive.example/")
        await receiver.wait_for_calls(4)
    assert receiver.received == ["https://dead.example/"] * 3 + ["https://alive.example/"]
    assert len(await outbox(storage)) == 3, "undelivered ones stay in the outbox"


async def test_concurrent_deliveries_are_limited(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_delivery, "MAX_CONCURRENT", 2)
    monkeypatch.setattr(webhook_delivery, "POLL_INTERVAL", 0.01)
    receiver = Receiver()
    receiver.dead = {"https://dead.example/"}
    for _ in range(5):
        await enqueue(storage, "https://dead.example/")
    async with running(Deliverer(storage, receiver, lambda: NOW)):
        await receiver.wait_for_calls(2)
        for _ in range(5):
            await anyio.sleep(0.01)
    assert len(receiver.received) == 2


async def test_a_storage_error_does_not_stop_the_deliverer(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_delivery, "POLL_INTERVAL", 0.01)
    await enqueue(storage, "https://a.example/")
    remove, errors = storage.deliveries.remove, [StorageError("full"), StorageError("full")]

    async def failing(delivery_id: int) -> None:
        if errors:
            raise errors.pop()
        await remove(delivery_id)

    monkeypatch.setattr(storage.deliveries, "remove", failing)
    receiver = Receiver()
    deliverer = Deliverer(storage, receiver, lambda: NOW)
    async with running(deliverer):
        await receiver.wait_for_calls(3)
        await wait_until_idle(deliverer)
    assert len(receiver.received) == 3, "at least once"
    assert await outbox(storage) == []


async def test_two_deliverers_send_a_webhook_once(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_delivery, "POLL_INTERVAL", 0.01)
    receivers = [Receiver(), Receiver()]
    deliverers = [Deliverer(storage, receiver, lambda: NOW) for receiver in receivers]
    urls = [f"https://{number}.example/" for number in range(20)]
    async with running(deliverers[0]), running(deliverers[1]):
        for url in urls:
            await enqueue(storage, url)
        with anyio.fail_after(TIMEOUT):
            while len(receivers[0].received + receivers[1].received) < len(urls):  # noqa: ASYNC110 - no event for both
                await anyio.sleep(0.01)
        for deliverer in deliverers:
            await wait_until_idle(deliverer)
    assert sorted(receivers[0].received + receivers[1].received) == sorted(urls)
    assert await outbox(storage) == []
