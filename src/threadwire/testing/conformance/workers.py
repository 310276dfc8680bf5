"""Conformance tests for several workers on one database: section 8 of spec/log.md.

The fixture `other` is a second handle on the database of `storage`, like that of another process. A driver whose
database only one process can open serves all workers through one storage, so by default both are the same. Such a
driver must nevertheless keep the workers apart.
"""

import asyncio
from collections.abc import Sequence

import pytest

from threadwire.core.entries import Kind
from threadwire.core.ids import RunId
from threadwire.core.records import Ending, Lease, QueueHint, Run
from threadwire.errors import Fenced
from threadwire.storage.abc import QueueWakeup, Storage
from threadwire.testing.conformance.samples import (
    LEASE,
    NOW,
    a_run,
    accept,
    claim_run,
    kinds,
    note,
    run_log,
    start_on_new_thread,
    store_thread,
    the_run,
    values,
    whole_log,
    write,
)
from threadwire.testing.conformance.saver_calls import save

HOUR = 3_600_000
ONE = Lease("one", HOUR)
TWO = Lease("two", HOUR)
HINT_TIMEOUT = 20.0
"""Seconds after which a hint counts as lost."""


class WorkersConformance:
    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def other(self, storage: Storage) -> Storage:
        return storage

    # Claiming

    async def test_two_competing_workers_claim_each_run_once(self, storage: Storage, other: Storage) -> None:
        """8.1"""
        runs = [await accept(storage, await store_thread(storage)) for _ in range(20)]
        claims = [(storage, ONE), (other, TWO)] * 5
        claimed = await asyncio.gather(*(handle.runs.claim(3, lease, now=NOW) for handle, lease in claims))
        ids = [run.run_id for each in claimed for run in each]
        assert sorted(ids) == sorted(run.run_id for run in runs)
        by_one = {run.fence for each in claimed[::2] for run in each}
        by_two = {run.fence for each in claimed[1::2] for run in each}
        assert (await storage.runs.renew(ONE)).keys() == by_one
        assert (await other.runs.renew(TWO)).keys() == by_two

    async def test_only_one_of_two_workers_claims_a_run_on_a_thread(self, storage: Storage, other: Storage) -> None:
        """5.8, 8.1"""
        thread_id = await store_thread(storage)
        for _ in range(3):
            await accept(storage, thread_id)
        claimed = await asyncio.gather(storage.runs.claim(3, ONE, now=NOW), other.runs.claim(3, TWO, now=NOW))
        assert sorted(map(len, claimed)) == [0, 1]

    async def test_only_one_of_two_runs_accepted_on_a_thread_starts(self, storage: Storage, other: Storage) -> None:
        """5.8, 8.1"""
        thread_id = await store_thread(storage)
        accepted = await asyncio.gather(
            storage.runs.accept(a_run(thread_id), claim=ONE), other.runs.accept(a_run(thread_id), claim=TWO)
        )
        assert sorted(each.started for each in accepted) == [False, True]

    async def test_two_workers_together_claim_one_suspect(self, storage: Storage, other: Storage) -> None:
        """5.7"""
        for _ in range(3):
            await accept(storage, await store_thread(storage))
        for _ in range(2):
            await storage.runs.claim(3, LEASE, now=NOW)
            await storage.runs.reclaim(NOW)
        claimed = await asyncio.gather(storage.runs.claim(3, ONE, now=NOW), other.runs.claim(3, TWO, now=NOW))
        assert sorted(map(len, claimed)) == [0, 1]

    async def test_a_worker_can_leave_suspects_to_others(self, storage: Storage, other: Storage) -> None:
        """5.7"""
        await _suspects(storage, 1)
        assert not await other.runs.claim(3, TWO, now=NOW, suspects="none")
        assert await other.runs.next_due(suspects="none") is None
        run = await accept(storage, await store_thread(storage))
        assert await other.runs.next_due(suspects="none") == run.due_at
        assert [each.run_id for each in await other.runs.claim(3, TWO, now=NOW, suspects="none")] == [run.run_id]

    async def test_suspects_can_be_claimed_side_by_side_for_processes_of_their_own(
        self, storage: Storage, other: Storage
    ) -> None:
        """5.7"""
        suspects = await _suspects(storage, 3)
        await accept(storage, await store_thread(storage))
        [first] = await storage.runs.claim(1, ONE, now=NOW, suspects="only")
        assert await other.runs.next_due(suspects="only") is not None
        rest = await other.runs.claim(5, TWO, now=NOW, suspects="only")
        assert {first.run_id, *(run.run_id for run in rest)} == suspects
        assert await other.runs.next_due(suspects="only") is None

    # Leases

    async def test_the_leases_of_a_dead_worker_can_be_expired(self, storage: Storage, other: Storage) -> None:
        """8.2a"""
        lost, kept = await _claimed(storage, ONE), await _claimed(other, TWO)
        waiting = await accept(storage, await store_thread(storage))
        await storage.threads.hold(waiting.thread_id, ONE)
        await other.runs.expire_leases(ONE.worker)
        assert [(run.run_id, run.crashes) for run in await other.runs.reclaim(NOW)] == [(lost.run_id, 1)]
        claimed = await other.runs.claim(3, TWO, now=NOW)
        assert {run.run_id for run in claimed} == {lost.run_id, waiting.run_id}
        assert kept.fence in await other.runs.renew(TWO)
        await _cannot_write(zombie_of=storage, run=lost)

    async def test_an_expired_lease_of_a_dead_worker_cannot_be_renewed(self, storage: Storage, other: Storage) -> None:
        """8.2a: its process may still be ending."""
        lost = await _claimed(storage, ONE)
        waiting = await accept(storage, await store_thread(storage))
        await storage.threads.hold(waiting.thread_id, ONE)
        await other.runs.expire_leases(ONE.worker)
        assert not await storage.runs.renew(ONE)
        assert [run.run_id for run in await other.runs.reclaim(NOW)] == [lost.run_id]
        claimed = await other.runs.claim(3, TWO, now=NOW)
        assert {run.run_id for run in claimed} == {lost.run_id, waiting.run_id}

    async def test_a_run_with_a_live_lease_is_not_reclaimed(self, storage: Storage, other: Storage) -> None:
        """8.2"""
        run = await _claimed(storage, ONE)
        assert not await other.runs.reclaim(NOW)
        await write(storage, run, "still held")
        assert await the_run(other, run.run_id) == run

    async def test_the_time_of_the_caller_expires_no_lease(self, storage: Storage, other: Storage) -> None:
        """8.2: only the database's clock decides."""
        run = await _claimed(storage, ONE)
        assert not await other.runs.reclaim(NOW + 1000 * HOUR)
        assert await the_run(other, run.run_id) == run

    async def test_a_run_with_an_expired_lease_is_reclaimed_and_charged(self, storage: Storage, other: Storage) -> None:
        """8.2, 5.6"""
        lost, kept = await _claimed(storage, LEASE), await _claimed(storage, ONE)
        assert [run.run_id for run in await other.runs.reclaim(NOW)] == [lost.run_id]
        [again] = await other.runs.claim(3, TWO, now=NOW)
        assert (again.run_id, again.attempt, again.crashes) == (lost.run_id, 2, 1)
        assert (await the_run(other, kept.run_id)).crashes == 0

    async def test_a_run_accepted_with_a_claim_has_a_lease(self, storage: Storage, other: Storage) -> None:
        """8.2"""
        kept = await storage.runs.accept(a_run(await store_thread(storage)), claim=ONE)
        lost = await storage.runs.accept(a_run(await store_thread(storage)), claim=LEASE)
        assert kept.started
        assert [run.run_id for run in await other.runs.reclaim(NOW)] == [lost.run.run_id]

    async def test_an_expired_lease_that_is_renewed_in_time_is_kept(self, storage: Storage, other: Storage) -> None:
        """8.2"""
        run = await _claimed(storage, Lease("one", 0))
        assert await storage.runs.renew(ONE) == {run.fence: None}
        assert not await other.runs.reclaim(NOW)
        await write(storage, run, "still held")

    async def test_a_renewal_is_for_the_runs_of_its_worker_alone(self, storage: Storage, other: Storage) -> None:
        """8.2"""
        mine, theirs = await _claimed(storage, Lease("one", 0)), await _claimed(other, Lease("two", 0))
        assert await storage.runs.renew(ONE) == {mine.fence: None}
        assert [run.run_id for run in await storage.runs.reclaim(NOW)] == [theirs.run_id]
        assert await storage.runs.renew(ONE) == {mine.fence: None}
        assert await other.runs.renew(TWO) == {}

    @pytest.mark.parametrize("how", ["finished", "released", "deleted", "reclaimed"])
    async def test_an_attempt_that_no_longer_holds_its_thread_is_not_renewed(
        self, storage: Storage, other: Storage, how: str
    ) -> None:
        """8.3"""
        run = await _claimed(storage, LEASE if how == "reclaimed" else ONE)
        if how == "finished":
            await storage.handle(run).finish(Ending("success"), NOW)
        elif how == "released":
            await storage.handle(run).release(NOW)
        elif how == "deleted":
            await other.threads.delete(run.thread_id)
        else:
            await other.runs.reclaim(NOW)
        assert await storage.runs.renew(ONE) == {}
        assert await storage.runs.renew(LEASE) == {}

    async def test_a_run_that_another_worker_has_claimed_since_is_not_renewed(
        self, storage: Storage, other: Storage
    ) -> None:
        """8.3"""
        run = await _claimed(storage, Lease("one", 0))
        await other.runs.reclaim(NOW)
        [again] = await other.runs.claim(1, TWO, now=NOW)
        assert again.run_id == run.run_id
        assert await storage.runs.renew(ONE) == {}
        assert await other.runs.renew(TWO) == {again.fence: None}

    # A worker that was stopped, and continues after its run was reclaimed

    async def test_a_zombie_writes_nothing(self, storage: Storage, other: Storage) -> None:
        """2.5, 7.2, 8.2"""
        run = await _claimed(storage, LEASE)
        zombie = storage.handle(run)
        await zombie.append([note("before")]).wait()
        await other.runs.reclaim(NOW)
        [again] = await other.runs.claim(1, TWO, now=NOW)
        await _cannot_write(zombie_of=storage, run=run)
        await write(other, again, "after")
        await _cannot_write(zombie_of=storage, run=run)
        assert await other.handle(again).finish(Ending("success"), NOW)
        await _cannot_write(zombie_of=storage, run=run)
        assert values(await whole_log(other, run.thread_id)) == ["before", "after"]
        assert kinds(await run_log(other, run)).count(Kind.RUN_ENDED) == 1
        assert await storage.checkpoints.newest(run.thread_id) is None

    async def test_entries_that_a_zombie_enqueued_before_the_reclaim_precede_the_next_attempt(
        self, storage: Storage, other: Storage
    ) -> None:
        """5.4: an append that was not awaited either comes before the next attempt or is rejected."""
        run = await _claimed(storage, LEASE)
        appends = [storage.handle(run).append([note(number)]) for number in range(50)]
        again = await _taken_over(other)
        await write(other, again, "next")
        stored = 0
        for append in appends:
            try:
                await append.wait()
            except Fenced:
                break
            stored += 1
        assert values(await whole_log(other, run.thread_id)) == [*range(stored), "next"]

    # Cancellations and hints

    @pytest.mark.parametrize("action", ["interrupt", "rollback"])
    async def test_a_renewal_returns_the_cancellation_by_another_process(
        self, storage: Storage, other: Storage, action: str
    ) -> None:
        """8.3"""
        run, running = await _claimed(storage, ONE), await _claimed(storage, ONE)
        await other.runs.cancel(run.run_id, "interrupt" if action == "interrupt" else "rollback", NOW)
        assert await storage.runs.renew(ONE) == {run.fence: action, running.fence: None}

    async def test_a_worker_is_woken_when_another_process_cancels_its_run(
        self, storage: Storage, other: Storage
    ) -> None:
        """8.4"""
        run = await _claimed(storage, ONE)
        with storage.runs.watch() as wakeup:
            await other.runs.cancel(run.run_id, "interrupt", NOW)
            assert await _hint(wakeup, QueueHint.STOPS)

    async def test_a_worker_is_woken_when_its_run_is_lost(self, storage: Storage, other: Storage) -> None:
        """8.4"""
        run, deleted = await _claimed(storage, LEASE), await _claimed(storage, ONE)
        with storage.runs.watch() as wakeup:
            assert [lost.run_id for lost in await other.runs.reclaim(NOW)] == [run.run_id]
            assert await _hint(wakeup, QueueHint.STOPS)
            await other.threads.delete(deleted.thread_id)
            assert await _hint(wakeup, QueueHint.STOPS)

    async def test_a_worker_is_woken_when_a_run_can_be_claimed(self, storage: Storage, other: Storage) -> None:
        """8.4: because it was accepted or released, or because the run before it ended."""
        with storage.runs.watch() as wakeup:
            run = await accept(other, await store_thread(other))
            assert await _hint(wakeup, QueueHint.WORK)
            run = await claim_run(other, run.run_id)
            assert await other.handle(run).release(NOW)
            assert await _hint(wakeup, QueueHint.WORK)
            run = await claim_run(other, run.run_id)
            await accept(other, run.thread_id)
            assert await _hint(wakeup, QueueHint.WORK)
            assert await other.handle(run).finish(Ending("success"), NOW)
            assert await _hint(wakeup, QueueHint.WORK)

    async def test_waiting_for_a_hint_ends_after_the_timeout(self, storage: Storage) -> None:
        with storage.runs.watch() as wakeup:
            assert await wakeup.wait(0.01) == QueueHint.NOTHING

    # Holds

    async def test_no_worker_claims_runs_of_a_held_thread(self, storage: Storage, other: Storage) -> None:
        """8.6"""
        threads = [await store_thread(storage) for _ in range(3)]
        runs = [await accept(storage, thread_id) for thread_id in threads]
        await storage.threads.hold(threads[0], ONE)
        await other.threads.hold(threads[1], TWO)
        assert [run.run_id for run in await other.runs.claim(1, TWO, now=NOW)] == [runs[2].run_id], (
            "held ones do not count"
        )
        assert await storage.runs.claim(10, ONE, now=NOW) == []
        await storage.threads.end_hold(threads[0], ONE.worker)
        assert [run.run_id for run in await other.runs.claim(10, TWO, now=NOW)] == [runs[0].run_id]
        await other.threads.end_hold(threads[1], TWO.worker)
        assert [run.run_id for run in await storage.runs.claim(10, ONE, now=NOW)] == [runs[1].run_id]

    async def test_a_run_accepted_on_a_held_thread_does_not_start(self, storage: Storage, other: Storage) -> None:
        """8.6"""
        thread_id = await store_thread(storage)
        await storage.threads.hold(thread_id, ONE)
        accepted = await other.runs.accept(a_run(thread_id), claim=TWO)
        assert (accepted.started, accepted.run.status) == (False, "pending")

    async def test_a_run_of_a_held_thread_has_no_next_due_time(self, storage: Storage, other: Storage) -> None:
        """Otherwise a worker that must not claim it would poll continuously."""
        one, two = [await store_thread(storage) for _ in range(2)]
        await accept(storage, one)
        await accept(storage, two, due_at=NOW + 60)
        assert await other.runs.next_due() == NOW
        await storage.threads.hold(one, ONE)
        assert await other.runs.next_due() == NOW + 60
        await storage.threads.hold(two, ONE)
        assert await other.runs.next_due() is None
        await storage.threads.end_hold(one, ONE.worker)
        assert await other.runs.next_due() == NOW

    async def test_a_thread_is_held_until_every_worker_has_ended_its_hold(
        self, storage: Storage, other: Storage
    ) -> None:
        """8.6"""
        run = await accept(storage, await store_thread(storage))
        for handle, lease in ((storage, ONE), (storage, ONE), (other, TWO)):
            await handle.threads.hold(run.thread_id, lease)
        await storage.threads.end_hold(run.thread_id, ONE.worker)
        await storage.threads.end_hold(run.thread_id, ONE.worker)
        assert await storage.runs.claim(1, ONE, now=NOW) == []
        await other.threads.end_hold(run.thread_id, TWO.worker)
        assert len(await storage.runs.claim(1, ONE, now=NOW)) == 1

    async def test_a_hold_ends_with_its_lease_unless_it_is_renewed(self, storage: Storage, other: Storage) -> None:
        """8.6"""
        run, free = [await accept(storage, await store_thread(storage)) for _ in range(2)]
        await storage.threads.hold(run.thread_id, Lease("one", 0))
        await storage.runs.renew(ONE)
        assert [each.run_id for each in await other.runs.claim(10, TWO, now=NOW)] == [free.run_id]
        await storage.runs.renew(Lease("one", 0))
        assert [each.run_id for each in await other.runs.claim(10, TWO, now=NOW)] == [run.run_id]

    async def test_a_hold_does_not_affect_the_run_that_is_running(self, storage: Storage, other: Storage) -> None:
        """8.6"""
        run = await _claimed(storage, ONE)
        await other.threads.hold(run.thread_id, TWO)
        await write(storage, run, "still writing")
        assert await storage.runs.renew(ONE) == {run.fence: None}
        assert await storage.handle(run).finish(Ending("success"), NOW)

    async def test_a_worker_is_woken_when_a_hold_ends(self, storage: Storage, other: Storage) -> None:
        """8.4"""
        run = await accept(storage, await store_thread(storage))
        await other.threads.hold(run.thread_id, TWO)
        with storage.runs.watch() as wakeup:
            await other.threads.end_hold(run.thread_id, TWO.worker)
            assert await _hint(wakeup, QueueHint.WORK)

    # Deliveries

    async def test_two_competing_workers_claim_each_delivery_once(self, storage: Storage, other: Storage) -> None:
        """8.5"""
        for _ in range(10):
            run = await start_on_new_thread(storage, webhook="https://hooks.example/done")
            await storage.handle(run).finish(Ending("success"), NOW)
        claims = [(storage, ONE), (other, TWO)] * 3
        claimed = await asyncio.gather(*(handle.deliveries.claim(2, lease, now=NOW) for handle, lease in claims))
        ids = [delivery.delivery_id for each in claimed for delivery in each]
        assert len(ids) == len(set(ids)) == 10

    async def test_a_delivery_can_be_claimed_again_once_its_claim_has_ended(
        self, storage: Storage, other: Storage
    ) -> None:
        """8.5: because its lease has expired, or it was released or postponed."""
        run = await start_on_new_thread(storage, webhook="https://hooks.example/done")
        await storage.handle(run).finish(Ending("success"), NOW)
        [delivery] = await storage.deliveries.claim(1, Lease("one", 0), now=NOW)
        assert await other.deliveries.claim(1, TWO, now=NOW) == [delivery]
        assert await storage.deliveries.claim(1, ONE, now=NOW) == []
        await storage.deliveries.release(delivery.delivery_id, ONE)
        await storage.deliveries.postpone(delivery.delivery_id, NOW - 1, ONE)
        assert await storage.deliveries.claim(1, ONE, now=NOW) == [], "the claim of another worker stays"
        await other.deliveries.release(delivery.delivery_id, TWO)
        assert await storage.deliveries.claim(1, ONE, now=NOW) == [delivery]
        await storage.deliveries.postpone(delivery.delivery_id, NOW + 5, ONE)
        [postponed] = await other.deliveries.claim(1, TWO, now=NOW + 5)
        assert (postponed.tries, postponed.due_at) == (1, NOW + 5)
        await other.deliveries.remove(delivery.delivery_id)
        assert await storage.deliveries.claim(1, ONE, now=NOW + 5) == []

    # Following

    async def test_a_reader_is_woken_by_the_entries_of_another_process(self, storage: Storage, other: Storage) -> None:
        """3.2, 3.3"""
        run = await start_on_new_thread(other)
        with storage.log.watch(run.thread_id) as wakeup:
            await write(other, run, "from elsewhere")
            assert await wakeup.wait(HINT_TIMEOUT)
        assert values(await whole_log(storage, run.thread_id)) == ["from elsewhere"]


async def _claimed(storage: Storage, lease: Lease) -> Run:
    """Accept a run on a new thread and claim it."""
    run = await accept(storage, await store_thread(storage))
    [claimed] = await storage.runs.claim(1, lease, now=NOW)
    assert claimed.run_id == run.run_id
    return claimed


async def _taken_over(storage: Storage) -> Run:
    """Reclaim and claim the only run, which its worker may be writing to at this moment."""
    async with asyncio.timeout(10):
        while True:
            await storage.runs.reclaim(NOW)
            for run in await storage.runs.claim(1, TWO, now=NOW):
                return run


async def _suspects(storage: Storage, count: int) -> set[RunId]:
    """Accept runs on new threads, and let their worker die twice."""
    runs = [await accept(storage, await store_thread(storage)) for _ in range(count)]
    for _ in range(2):
        await storage.runs.claim(count, LEASE, now=NOW)
        await storage.runs.reclaim(NOW)
    return {run.run_id for run in runs}


async def _cannot_write(*, zombie_of: Storage, run: Run) -> None:
    handle = zombie_of.handle(run)
    with pytest.raises(Fenced):
        await handle.append([note("stale")]).wait()
    with pytest.raises(Fenced):
        await save(handle.saver("sync"), run.thread_id, run.run_id)
    endings: Sequence[Ending] = (Ending("success"), Ending("error"), Ending("interrupted", rollback=True))
    for ending in endings:
        assert not await handle.finish(ending, NOW)
    assert not await handle.release(NOW)


async def _hint(wakeup: QueueWakeup, wanted: QueueHint) -> bool:
    """Wait until the hint arrives. Others may arrive as well (8.4)."""
    async with asyncio.timeout(HINT_TIMEOUT):
        while wanted not in await wakeup.wait(HINT_TIMEOUT):
            pass
    return True
