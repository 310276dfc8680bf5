"""Conformance tests for claiming, releasing and recovering runs: 5.6 to 5.8 of spec/log.md."""

from dataclasses import replace

import pytest

from threadwire.core.entries import Kind
from threadwire.core.ids import RunId
from threadwire.core.records import Ending, Run
from threadwire.core.run_state import MAX_ATTEMPTS_ERROR, user_interrupt_error
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.samples import (
    LEASE,
    NOW,
    a_run,
    accept,
    claim_run,
    kinds,
    run_log,
    start,
    start_on_new_thread,
    store_thread,
    the_run,
    the_thread,
    whole_log,
    write,
)


class ClaimsConformance:
    pytestmark = pytest.mark.anyio

    # Claiming

    async def test_a_claimed_run_is_running_its_next_attempt(self, storage: Storage) -> None:
        """2.6"""
        run = await accept(storage, await store_thread(storage))
        [claimed] = await storage.runs.claim(10, LEASE, now=NOW + 1)
        assert (claimed.run_id, claimed.status, claimed.attempt, claimed.crashes) == (
            run.run_id,
            "running",
            1,
            0,
        )
        assert claimed == await storage.runs.get(run.run_id)
        assert len(await whole_log(storage, run.thread_id)) == 1, "the worker writes `run.started`"

    async def test_pending_and_running_runs_are_counted(self, storage: Storage) -> None:
        assert await storage.runs.count_active() == {"pending": 0, "running": 0}
        run = await start_on_new_thread(storage)
        await accept(storage, run.thread_id)
        await accept(storage, run.thread_id, due_at=NOW + 60_000)
        assert await storage.runs.count_active() == {"pending": 2, "running": 1}
        await storage.handle(run).finish(Ending("success"), NOW)
        assert await storage.runs.count_active() == {"pending": 2, "running": 0}

    @pytest.mark.parametrize("defer_sync", [False, True])
    async def test_a_due_run_on_an_idle_thread_can_be_claimed_when_it_is_accepted(
        self, storage: Storage, defer_sync: bool
    ) -> None:
        """2.6, 5.8"""
        thread_id = await store_thread(storage)
        accepted = await storage.runs.accept(a_run(thread_id), claim=LEASE, defer_sync=defer_sync)
        assert (accepted.started, accepted.run.status, accepted.run.attempt) == (True, "running", 1)
        assert accepted.run == await storage.runs.get(accepted.run.run_id)
        await write(storage, accepted.run, "its attempt holds the thread")
        await accepted.commit.wait()
        assert not await storage.runs.claim(10, LEASE, now=NOW)
        second = await storage.runs.accept(a_run(thread_id), claim=LEASE, defer_sync=defer_sync)
        assert (second.started, second.run.status) == (False, "pending")
        await storage.handle(accepted.run).finish(Ending("success"), NOW)
        assert await _claim(storage, 10) == [second.run.run_id]

    async def test_a_delayed_run_is_not_claimed_when_it_is_accepted(self, storage: Storage) -> None:
        accepted = await storage.runs.accept(a_run(await store_thread(storage), due_at=NOW + 1), claim=LEASE)
        assert (accepted.started, accepted.run.status) == (False, "pending")

    async def test_nothing_is_claimed_if_nothing_is_due(self, storage: Storage) -> None:
        assert not await storage.runs.claim(10, LEASE, now=NOW)
        await start_on_new_thread(storage)
        assert not await storage.runs.claim(10, LEASE, now=NOW)

    async def test_claiming_takes_no_more_than_the_limit(self, storage: Storage) -> None:
        runs = [await accept(storage, await store_thread(storage)) for _ in range(3)]
        claimed = await _claim(storage, 2)
        assert claimed == [run.run_id for run in runs[:2]]
        assert not await storage.runs.claim(0, LEASE, now=NOW)
        assert await _claim(storage, 2) == [runs[2].run_id]

    async def test_runs_are_claimed_in_order_of_due_time_then_acceptance(self, storage: Storage) -> None:
        """5.8"""
        threads = [await store_thread(storage) for _ in range(4)]
        due = (NOW, NOW - 5, NOW, NOW - 5)
        runs = [await accept(storage, thread_id, due_at=due_at) for thread_id, due_at in zip(threads, due, strict=True)]
        assert await _claim(storage, 10) == [runs[at].run_id for at in (1, 3, 0, 2)]

    async def test_a_thread_has_at_most_one_running_run(self, storage: Storage) -> None:
        """5.8"""
        thread_id = await store_thread(storage)
        first, second = await accept(storage, thread_id), await accept(storage, thread_id)
        assert await _claim(storage, 10) == [first.run_id]
        assert await _claim(storage, 10) == []
        await storage.handle(replace(first, attempt=1)).finish(Ending("success"), NOW)
        assert await _claim(storage, 10) == [second.run_id]

    async def test_runs_of_a_thread_start_in_order_of_due_time_then_acceptance(self, storage: Storage) -> None:
        """5.8"""
        thread_id = await store_thread(storage)
        due = (NOW - 1, NOW - 9, NOW - 1, NOW - 9, NOW)
        runs = [await accept(storage, thread_id, created_at=NOW - 10, due_at=due_at) for due_at in due]
        runs += [await accept(storage, thread_id, created_at=at, due_at=at) for at in (NOW - 5, NOW - 5, NOW)]
        assert await _run_all(storage) == [runs[at].run_id for at in (1, 3, 5, 6, 0, 2, 4, 7)]

    # A clock that is set back

    async def test_a_run_that_is_not_delayed_is_due_whatever_the_clock_says(self, storage: Storage) -> None:
        """5.8"""
        runs = [await accept(storage, await store_thread(storage)) for _ in range(3)]
        delayed = await accept(storage, await store_thread(storage), due_at=NOW + 1)
        [first] = await storage.runs.claim(1, LEASE, now=NOW - 9)
        assert first.run_id == runs[0].run_id
        await storage.runs.reclaim(NOW - 8)
        claimed = await storage.runs.claim(10, LEASE, now=NOW - 7)
        assert [run.run_id for run in claimed] == [run.run_id for run in runs]
        [claimed_later] = await storage.runs.claim(10, LEASE, now=NOW + 1)
        assert claimed_later.run_id == delayed.run_id

    async def test_runs_of_a_thread_start_in_order_of_acceptance_whatever_the_clock_says(
        self, storage: Storage
    ) -> None:
        """5.8"""
        thread_id = await store_thread(storage)
        times = (NOW + 9, NOW, NOW + 3)
        runs = [await accept(storage, thread_id, created_at=at, due_at=at) for at in times]
        assert await _run_all(storage) == [run.run_id for run in runs]

    async def test_a_delayed_run_does_not_hold_up_other_runs_whatever_the_clock_says(self, storage: Storage) -> None:
        """5.8"""
        thread_id = await store_thread(storage)
        delayed = await accept(storage, thread_id, created_at=NOW, due_at=NOW + 1)
        prompt = await accept(storage, thread_id, created_at=NOW + 9, due_at=NOW + 9)
        assert await _claim(storage, 10) == [prompt.run_id]
        assert not await storage.runs.claim(10, LEASE, now=NOW + 9), "the delayed run has to wait for it"
        assert await storage.runs.next_due() is None
        await storage.handle(replace(prompt, attempt=1)).finish(Ending("success"), NOW)
        assert not await storage.runs.claim(10, LEASE, now=NOW)
        assert [run.run_id for run in await storage.runs.claim(10, LEASE, now=NOW + 1)] == [delayed.run_id]

    @pytest.mark.parametrize("crashes", [False, True])
    async def test_a_run_that_has_started_is_never_delayed_again(self, storage: Storage, crashes: bool) -> None:
        """5.8"""
        thread_id = await store_thread(storage)
        run = await accept(storage, thread_id, due_at=NOW + 5)
        later = await accept(storage, thread_id, due_at=NOW + 6)
        [started] = await storage.runs.claim(10, LEASE, now=NOW + 5)
        assert started == await the_run(storage, run.run_id)
        assert not started.delayed
        await (storage.runs.reclaim(NOW) if crashes else storage.handle(started).release(NOW))
        [again] = await storage.runs.claim(10, LEASE, now=NOW - 9)
        assert again.run_id == run.run_id
        await storage.handle(again).finish(Ending("success"), NOW)
        assert not await storage.runs.claim(10, LEASE, now=NOW + 5)
        assert [each.run_id for each in await storage.runs.claim(10, LEASE, now=NOW + 6)] == [later.run_id]

    # Delayed runs

    async def test_a_delayed_run_is_not_claimed_before_it_is_due(self, storage: Storage) -> None:
        run = await accept(storage, await store_thread(storage), due_at=NOW + 100)
        assert not await storage.runs.claim(10, LEASE, now=NOW + 99)
        [claimed] = await storage.runs.claim(10, LEASE, now=NOW + 100)
        assert claimed.run_id == run.run_id

    async def test_a_delayed_run_does_not_hold_up_a_run_accepted_after_it(self, storage: Storage) -> None:
        """5.8"""
        thread_id = await store_thread(storage)
        later = await accept(storage, thread_id, due_at=NOW + 100)
        now = await accept(storage, thread_id, due_at=NOW)
        assert await _claim(storage, 10) == [now.run_id]
        assert not await storage.runs.claim(10, LEASE, now=NOW + 200)
        await storage.handle(replace(now, attempt=1)).finish(Ending("success"), NOW)
        assert not await storage.runs.claim(10, LEASE, now=NOW + 99)
        [claimed] = await storage.runs.claim(10, LEASE, now=NOW + 100)
        assert claimed.run_id == later.run_id

    # The next due time

    async def test_there_is_no_next_due_time_without_pending_runs(self, storage: Storage) -> None:
        assert await storage.runs.next_due() is None
        run = await start_on_new_thread(storage)
        assert await storage.runs.next_due() is None
        await storage.handle(run).finish(Ending("success"), NOW)
        assert await storage.runs.next_due() is None

    async def test_the_next_due_time_is_that_of_the_earliest_pending_run(self, storage: Storage) -> None:
        threads = [await store_thread(storage) for _ in range(2)]
        await accept(storage, threads[0], due_at=NOW + 70)
        assert await storage.runs.next_due() == NOW + 70
        sooner = await accept(storage, threads[1], due_at=NOW + 50)
        assert await storage.runs.next_due() == NOW + 50
        await storage.runs.cancel(sooner.run_id, "interrupt", NOW)
        assert await storage.runs.next_due() == NOW + 70

    async def test_a_run_queued_behind_a_running_one_has_no_next_due_time(self, storage: Storage) -> None:
        """Otherwise a worker with nothing to claim would never sleep. The end of the running run wakes it."""
        run = await start_on_new_thread(storage)
        await accept(storage, run.thread_id)
        assert await storage.runs.next_due() is None
        await accept(storage, await store_thread(storage), due_at=NOW + 60)
        assert await storage.runs.next_due() == NOW + 60
        await storage.handle(run).finish(Ending("success"), NOW)
        assert await storage.runs.next_due() == NOW

    # Releasing

    async def test_a_released_run_is_pending_again_and_not_charged(self, storage: Storage) -> None:
        """5.6"""
        run = await start_on_new_thread(storage)
        await write(storage, run, "stays")
        assert await storage.handle(run).release(NOW + 1)
        released = await the_run(storage, run.run_id)
        assert (released.status, released.attempt, released.crashes) == ("pending", 1, 0)
        assert Kind.RUN_ENDED not in kinds(await run_log(storage, run))
        [again] = await storage.runs.claim(1, LEASE, now=NOW)
        assert (again.run_id, again.attempt, again.crashes) == (run.run_id, 2, 0)

    async def test_a_released_run_returns_to_its_position_in_the_queue(self, storage: Storage) -> None:
        """5.8"""
        run = await start_on_new_thread(storage)
        waiting = await accept(storage, run.thread_id)
        elsewhere = await accept(storage, await store_thread(storage))
        await storage.handle(run).release(NOW + 1)
        assert await _claim(storage, 10) == [run.run_id, elsewhere.run_id]
        await storage.handle(replace(run, attempt=2)).finish(Ending("success"), NOW)
        assert await _claim(storage, 10) == [waiting.run_id]

    async def test_a_released_run_stays_cancelled(self, storage: Storage) -> None:
        run = await start_on_new_thread(storage)
        await storage.runs.cancel(run.run_id, "rollback", NOW)
        await storage.handle(run).release(NOW)
        [again] = await storage.runs.claim(1, LEASE, now=NOW)
        assert again.cancel == "rollback"

    async def test_only_the_attempt_that_holds_the_thread_can_release(self, storage: Storage) -> None:
        """2.6"""
        run = await start_on_new_thread(storage)
        assert not await storage.handle(replace(run, attempt=2)).release(NOW)
        assert await storage.handle(run).release(NOW)
        assert not await storage.handle(run).release(NOW)
        again = await claim_run(storage, run.run_id)
        assert not await storage.handle(run).release(NOW)
        await storage.handle(again).finish(Ending("success"), NOW)
        assert not await storage.handle(again).release(NOW)
        assert (await the_run(storage, run.run_id)).status == "success"

    # Recovering

    async def test_a_recovered_run_is_charged_and_resumes_as_the_next_attempt(self, storage: Storage) -> None:
        """5.5, 5.6"""
        run = await start_on_new_thread(storage)
        await write(storage, run, "stays")
        [recovered] = await storage.runs.reclaim(NOW)
        assert recovered == await the_run(storage, run.run_id)
        assert (recovered.status, recovered.attempt, recovered.crashes) == ("pending", 1, 1)
        [again] = await storage.runs.claim(1, LEASE, now=NOW)
        assert (again.run_id, again.attempt, again.crashes) == (run.run_id, 2, 1)

    async def test_only_running_runs_are_recovered(self, storage: Storage) -> None:
        """5.6"""
        done = await start_on_new_thread(storage)
        await storage.handle(done).finish(Ending("success"), NOW)
        waiting = await accept(storage, done.thread_id)
        assert not await storage.runs.reclaim(NOW)
        assert await storage.runs.get(waiting.run_id) == waiting
        assert (await the_run(storage, done.run_id)).status == "success"

    async def test_the_third_charge_ends_a_run_in_error(self, storage: Storage) -> None:
        """5.6, 5.3"""
        run = await accept(storage, await store_thread(storage))
        for crashes in (1, 2):
            await claim_run(storage, run.run_id)
            [recovered] = await storage.runs.reclaim(NOW)
            assert (recovered.status, recovered.crashes) == ("pending", crashes)
        await claim_run(storage, run.run_id)
        [recovered] = await storage.runs.reclaim(NOW + 3)
        assert (recovered.status, recovered.crashes, recovered.error) == ("error", 3, MAX_ATTEMPTS_ERROR)
        assert recovered == await the_run(storage, run.run_id)
        ended = (await run_log(storage, run))[-1]
        assert (ended.kind, ended.seq, ended.attempt) == (Kind.RUN_ENDED, recovered.ended_seq, 3)
        assert ended.data == {"status": "error", "error": MAX_ATTEMPTS_ERROR}
        thread = await the_thread(storage, run.thread_id)
        assert (thread.status, thread.error) == ("error", MAX_ATTEMPTS_ERROR)
        assert not await storage.runs.claim(10, LEASE, now=NOW)

    async def test_a_cancelled_run_ends_when_it_is_recovered(self, storage: Storage) -> None:
        run = await start_on_new_thread(storage)
        await storage.runs.cancel(run.run_id, "interrupt", NOW)
        [recovered] = await storage.runs.reclaim(NOW)
        assert (recovered.status, recovered.error) == ("interrupted", user_interrupt_error("interrupt"))
        ended = (await run_log(storage, run))[-1]
        assert ended.data == {"status": "interrupted", "error": user_interrupt_error("interrupt")}
        assert (await the_thread(storage, run.thread_id)).status == "interrupted"

    async def test_a_run_due_for_rollback_is_removed_when_it_is_recovered(self, storage: Storage) -> None:
        """5.9"""
        run = await start_on_new_thread(storage)
        await storage.runs.cancel(run.run_id, "rollback", NOW)
        assert [removed.run_id for removed in await storage.runs.reclaim(NOW)] == [run.run_id]
        assert await storage.runs.get(run.run_id) is None
        entries = await run_log(storage, run)
        assert kinds(entries) == [Kind.RUN_QUEUED, Kind.STATE_RESET, Kind.RUN_ENDED]
        assert entries[-1].data["status"] == "rolled_back"
        assert (await the_thread(storage, run.thread_id)).status == "idle"

    # Suspects

    async def test_suspects_are_claimed_one_at_a_time(self, storage: Storage) -> None:
        """5.7"""
        suspects = await _suspects(storage, 3)
        ordinary = await accept(storage, await store_thread(storage))
        assert await _claim(storage, 10) == [suspects[0].run_id, ordinary.run_id]
        assert await _claim(storage, 10) == []
        await storage.handle(await the_run(storage, suspects[0].run_id)).finish(Ending("success"), NOW)
        assert await _claim(storage, 10) == [suspects[1].run_id]

    async def test_a_waiting_suspect_does_not_count_towards_the_limit(self, storage: Storage) -> None:
        """5.7"""
        suspects = await _suspects(storage, 2)
        ordinary = await accept(storage, await store_thread(storage))
        assert await _claim(storage, 1) == [suspects[0].run_id]
        assert await _claim(storage, 1) == [ordinary.run_id]

    async def test_a_waiting_suspect_keeps_its_position_on_its_thread(self, storage: Storage) -> None:
        """5.7, 5.8: runs queued behind it wait too."""
        first, second = await _suspects(storage, 2)
        await accept(storage, second.thread_id)
        assert await _claim(storage, 10) == [first.run_id]
        assert await storage.runs.next_due() is None, "nothing can be claimed until the suspect has ended"

    async def test_an_ordinary_run_does_not_hold_up_a_suspect(self, storage: Storage) -> None:
        """5.7"""
        [suspect] = await _suspects(storage, 1)
        ordinary = await start_on_new_thread(storage, due_at=NOW - 1)
        assert ordinary.crashes == 0
        assert await _claim(storage, 10) == [suspect.run_id]

    async def test_a_poison_run_does_not_end_its_neighbours(self, storage: Storage) -> None:
        """5.7: after two crashes in common, only the suspect that runs alone is charged again."""
        poison, neighbour = await _suspects(storage, 2)
        assert await _claim(storage, 10) == [poison.run_id]
        [recovered] = await storage.runs.reclaim(NOW)
        assert (recovered.run_id, recovered.status) == (poison.run_id, "error")
        assert await _claim(storage, 10) == [neighbour.run_id]
        assert (await the_run(storage, neighbour.run_id)).crashes == 2

    async def test_attempts_increase_across_releases_and_crashes(self, storage: Storage) -> None:
        """1.3, 5.4"""
        run = await start(storage, await store_thread(storage))
        await storage.handle(run).release(NOW)
        await storage.runs.reclaim(NOW)
        await claim_run(storage, run.run_id)
        await storage.runs.reclaim(NOW)
        [again] = await storage.runs.claim(1, LEASE, now=NOW)
        assert (again.attempt, again.crashes) == (3, 1)


async def _run_all(storage: Storage) -> list[RunId]:
    """Run everything that is due, one run after another, and return the order in which the runs started."""
    started: list[RunId] = []
    while claimed := await storage.runs.claim(1, LEASE, now=NOW):
        started.append(claimed[0].run_id)
        await storage.handle(claimed[0]).finish(Ending("success"), NOW)
    return started


async def _claim(storage: Storage, limit: int) -> list[RunId]:
    return [run.run_id for run in await storage.runs.claim(limit, LEASE, now=NOW)]


async def _suspects(storage: Storage, count: int) -> list[Run]:
    """Create runs on separate threads that were in flight together during two crashes."""
    runs = [await accept(storage, await store_thread(storage)) for _ in range(count)]
    for _ in range(2):
        assert await _claim(storage, count) == [run.run_id for run in runs]
        await storage.runs.reclaim(NOW)
    return runs
