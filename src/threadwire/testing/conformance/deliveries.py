"""Conformance tests for the webhook outbox: a run with a webhook leaves a delivery in the transaction that ends it, and
the delivery stays until it is removed."""

from dataclasses import replace

import pytest

from threadwire.core.records import Delivery, Ending, Run, RunSelection, StateSummary
from threadwire.core.run_state import user_interrupt_error
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.samples import (
    LEASE,
    NOW,
    a_run,
    accept,
    claim_run,
    new_thread_id,
    start_on_new_thread,
    store_thread,
    the_run,
)

HOOK = "https://hooks.example/done"
LATER = NOW + 1000
SUCCESS = Ending("success", summary=StateSummary("idle", {"answer": [1]}))


async def outbox(storage: Storage, now: int = LATER, limit: int = 100) -> list[Delivery]:
    """The due deliveries that are not claimed."""
    return await storage.deliveries.claim(limit, LEASE, now=now)


async def finish_run(storage: Storage, ending: Ending = SUCCESS, now: int = NOW) -> Run:
    run = await start_on_new_thread(storage, webhook=HOOK)
    assert await storage.handle(run).finish(ending, now)
    return run


class DeliveriesConformance:
    pytestmark = pytest.mark.anyio

    # Creation

    async def test_a_run_records_its_webhook_and_start_time(self, storage: Storage) -> None:
        run = await start_on_new_thread(storage, webhook=HOOK)
        assert (run.webhook, run.started_at) == (HOOK, NOW)
        assert await the_run(storage, run.run_id) == run
        waiting = await accept(storage, run.thread_id)
        assert (waiting.webhook, waiting.started_at) == (None, None)

    async def test_an_ended_run_leaves_a_delivery_with_its_row_and_values(self, storage: Storage) -> None:
        run = await finish_run(storage, now=LATER)
        [delivery] = await outbox(storage)
        assert delivery.run == await the_run(storage, run.run_id)
        assert (delivery.run.status, delivery.run.updated_at, delivery.run.started_at) == ("success", LATER, NOW)
        assert (delivery.values, delivery.due_at, delivery.tries) == ({"answer": [1]}, LATER, 0)

    async def test_a_run_without_a_webhook_leaves_no_delivery(self, storage: Storage) -> None:
        run = await start_on_new_thread(storage)
        await storage.handle(run).finish(SUCCESS, NOW)
        assert await outbox(storage) == []

    async def test_a_run_that_has_not_ended_leaves_no_delivery(self, storage: Storage) -> None:
        run = await start_on_new_thread(storage, webhook=HOOK)
        await storage.handle(run).release(NOW)
        await claim_run(storage, run.run_id)
        await storage.runs.reclaim(NOW)
        assert await outbox(storage) == []

    async def test_a_failed_run_leaves_its_error_and_the_previous_values(self, storage: Storage) -> None:
        thread_id = (await finish_run(storage)).thread_id
        new = a_run(thread_id, webhook=HOOK)
        await storage.runs.accept(new)
        run = await claim_run(storage, new.run_id)
        error = {"error": "ValueError", "message": "boom"}
        await storage.handle(run).finish(Ending("error", error=error), NOW)
        failed = (await outbox(storage))[-1]
        assert (failed.run.status, failed.run.error, failed.values) == ("error", error, {"answer": [1]})

    async def test_a_rolled_back_run_leaves_a_delivery_without_values(self, storage: Storage) -> None:
        run = await finish_run(storage, Ending("interrupted", rollback=True))
        assert await storage.runs.get(run.run_id) is None
        [delivery] = await outbox(storage)
        assert (delivery.run.run_id, delivery.run.status, delivery.values) == (run.run_id, "interrupted", None)
        assert delivery.run.error == user_interrupt_error("rollback")

    async def test_a_run_cancelled_before_it_starts_leaves_a_delivery(self, storage: Storage) -> None:
        run = await accept(storage, await store_thread(storage), webhook=HOOK)
        await storage.runs.cancel_many(RunSelection(), "interrupt", NOW)
        [delivery] = await outbox(storage)
        assert (delivery.run.run_id, delivery.run.status, delivery.run.started_at) == (run.run_id, "interrupted", None)

    async def test_a_run_that_crashed_too_often_leaves_a_delivery(self, storage: Storage) -> None:
        run = await start_on_new_thread(storage, webhook=HOOK)
        for _ in range(2):
            await storage.runs.reclaim(NOW)
            await claim_run(storage, run.run_id)
        await storage.runs.reclaim(NOW)
        [delivery] = await outbox(storage)
        assert (delivery.run.status, delivery.run.crashes) == ("error", 3)

    async def test_a_delivery_outlives_its_run_and_thread(self, storage: Storage) -> None:
        run = await finish_run(storage)
        await storage.runs.delete(run.run_id)
        await storage.threads.delete(run.thread_id)
        assert [each.values for each in await outbox(storage)] == [{"answer": [1]}]

    async def test_a_temporary_run_leaves_a_delivery_with_its_values(self, storage: Storage) -> None:
        new = a_run(new_thread_id(), create_thread=True, temporary=True, webhook=HOOK)
        await storage.runs.accept(new)
        run = await claim_run(storage, new.run_id)
        await storage.handle(run).finish(SUCCESS, NOW)
        await storage.threads.sweep([run.thread_id])
        assert [each.values for each in await outbox(storage)] == [{"answer": [1]}]

    # Delivery

    async def test_due_deliveries_are_ordered_and_limited(self, storage: Storage) -> None:
        runs = [await finish_run(storage, now=NOW + number) for number in range(3)]
        due = await outbox(storage)
        assert [each.run.run_id for each in due] == [run.run_id for run in runs]
        assert await outbox(storage, limit=2) == due[:2]
        assert await outbox(storage, now=NOW + 1) == due[:2]

    async def test_a_postponed_delivery_is_due_later(self, storage: Storage) -> None:
        await finish_run(storage)
        [delivery] = await outbox(storage)
        await storage.deliveries.postpone(delivery.delivery_id, LATER + 1, LEASE)
        assert await outbox(storage) == []
        assert await outbox(storage, now=LATER + 1) == [replace(delivery, due_at=LATER + 1, tries=1)]

    async def test_a_removed_delivery_is_no_longer_due(self, storage: Storage) -> None:
        await finish_run(storage)
        [delivery] = await outbox(storage)
        await storage.deliveries.remove(delivery.delivery_id)
        assert await outbox(storage) == []
        await storage.deliveries.remove(delivery.delivery_id)
        await storage.deliveries.postpone(delivery.delivery_id, LATER, LEASE)
        assert await outbox(storage) == []
        await finish_run(storage)
        [other] = await outbox(storage)
        assert other.delivery_id != delivery.delivery_id
