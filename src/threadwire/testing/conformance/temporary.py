"""Conformance tests for temporary runs (5.10 of spec/log.md) and for cancelling several runs."""

from typing import Any

import pytest

from threadwire.core.entries import START, Kind
from threadwire.core.ids import ThreadId
from threadwire.core.records import Ending, Run, RunSelection, StateSummary, ThreadQuery
from threadwire.errors import NotFound
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.samples import (
    LEASE,
    NOW,
    a_run,
    a_thread,
    accept,
    claim_run,
    kinds,
    new_thread_id,
    run_log,
    start,
    start_on_new_thread,
    store_thread,
    the_run,
    the_thread,
    values,
    write,
)

LATER = NOW + 1000


async def start_temporary(storage: Storage) -> Run:
    new = a_run(new_thread_id(), create_thread=True, temporary=True, metadata={"temporary": True})
    await storage.runs.accept(new)
    return await claim_run(storage, new.run_id)


async def discard(storage: Storage, *, at: int = NOW) -> Run:
    run = await start_temporary(storage)
    await write(storage, run, "text")
    assert await storage.handle(run).finish(Ending("success", summary=StateSummary("idle", {"a": 1})), at)
    return run


async def sweep(storage: Storage, *, before: int = LATER, **options: Any) -> int:
    """Sweep what was discarded before `before`, and return the number of threads."""
    old = await storage.threads.discarded(before=before, **options)
    await storage.threads.sweep(old)
    return len(old)


async def does_not_exist(storage: Storage, thread_id: ThreadId) -> bool:
    return await storage.threads.get(thread_id) is None


class TemporaryRunsConformance:
    pytestmark = pytest.mark.anyio

    # Discarding

    async def test_a_run_is_marked_as_temporary(self, storage: Storage) -> None:
        run = await start_temporary(storage)
        assert run.temporary
        assert (await the_run(storage, run.run_id)).temporary
        assert not (await start_on_new_thread(storage)).temporary

    async def test_the_thread_exists_while_the_run_is_active(self, storage: Storage) -> None:
        run = await start_temporary(storage)
        assert (await the_thread(storage, run.thread_id)).status == "busy"

    @pytest.mark.parametrize(
        "ending",
        [
            Ending("success", summary=StateSummary("idle", {"a": 1})),
            Ending("error", error={"error": "E", "message": "m"}),
            Ending("interrupted", rollback=True),
        ],
        ids=lambda ending: "rollback" if ending.rollback else ending.status,
    )
    async def test_the_thread_is_discarded_when_the_run_ends(self, storage: Storage, ending: Ending) -> None:
        run = await start_temporary(storage)
        assert await storage.handle(run).finish(ending, NOW)
        assert await does_not_exist(storage, run.thread_id)
        assert await storage.threads.search(ThreadQuery()) == []
        assert await storage.threads.count(ThreadQuery()) == 0
        with pytest.raises(NotFound):
            await storage.threads.update(run.thread_id, metadata={}, now=NOW)
        with pytest.raises(NotFound):
            await storage.threads.delete(run.thread_id)
        with pytest.raises(NotFound):
            await storage.runs.accept(a_run(run.thread_id))

    async def test_a_temporary_run_cancelled_before_it_starts_discards_its_thread(self, storage: Storage) -> None:
        new = a_run(new_thread_id(), create_thread=True, temporary=True)
        await storage.runs.accept(new)
        await storage.runs.cancel(new.run_id, "interrupt", NOW)
        assert await does_not_exist(storage, new.thread_id)

    async def test_a_temporary_run_that_crashed_too_often_discards_its_thread(self, storage: Storage) -> None:
        run = await start_temporary(storage)
        for _ in range(2):
            await storage.runs.reclaim(NOW)
            await claim_run(storage, run.run_id)
        [ended] = await storage.runs.reclaim(NOW)
        assert ended.status == "error"
        assert await does_not_exist(storage, run.thread_id)

    async def test_a_released_or_recovered_run_keeps_its_thread(self, storage: Storage) -> None:
        run = await start_temporary(storage)
        assert await storage.handle(run).release(NOW)
        assert not await does_not_exist(storage, run.thread_id)
        await claim_run(storage, run.run_id)
        await storage.runs.reclaim(NOW)
        assert not await does_not_exist(storage, run.thread_id)

    async def test_a_thread_with_other_active_runs_is_not_discarded(self, storage: Storage) -> None:
        run = await start_temporary(storage)
        other = await accept(storage, run.thread_id)
        assert await storage.handle(run).finish(Ending("success"), NOW)
        assert (await the_thread(storage, run.thread_id)).status == "busy"
        await claim_run(storage, other.run_id)

    @pytest.mark.parametrize("strategy", ["interrupt", "rollback"])
    async def test_a_temporary_run_replaced_by_another_does_not_discard_the_thread(
        self, storage: Storage, strategy: str
    ) -> None:
        temporary = a_run(new_thread_id(), create_thread=True, temporary=True)
        await storage.runs.accept(temporary)
        other = await accept(storage, temporary.thread_id, multitask_strategy=strategy)
        assert (await the_thread(storage, temporary.thread_id)).status == "busy"
        await claim_run(storage, other.run_id)
        assert await sweep(storage) == 0

    async def test_the_log_and_the_run_of_a_discarded_thread_can_be_read(self, storage: Storage) -> None:
        run = await discard(storage)
        log = await run_log(storage, run)
        assert kinds(log) == [Kind.RUN_QUEUED, Kind.CUSTOM, Kind.RUN_ENDED]
        assert values(log) == ["text"]
        assert await storage.log.last(run.thread_id) == 3
        assert (await the_run(storage, run.run_id)).status == "success"

    # Sweeping

    async def test_sweeping_removes_threads_that_are_old_enough(self, storage: Storage) -> None:
        old, young = await discard(storage, at=NOW), await discard(storage, at=LATER)
        assert await sweep(storage) == 1
        assert await storage.runs.get(old.run_id) is None
        assert await storage.log.read(old.thread_id, START) == []
        assert await storage.log.last(old.thread_id) == 0
        assert values(await run_log(storage, young)) == ["text"]
        assert await sweep(storage) == 0

    async def test_sweeping_skips_excluded_threads(self, storage: Storage) -> None:
        excluded, swept = await discard(storage), await discard(storage)
        assert await sweep(storage, exclude=frozenset({excluded.thread_id})) == 1
        assert values(await run_log(storage, excluded)) == ["text"]
        assert await run_log(storage, swept) == []
        assert await sweep(storage) == 1
        assert await run_log(storage, excluded) == []

    async def test_only_discarded_threads_are_swept(self, storage: Storage) -> None:
        run = await start_on_new_thread(storage)
        await storage.threads.sweep([run.thread_id, new_thread_id()])
        assert (await the_thread(storage, run.thread_id)).status == "busy"

    async def test_the_oldest_threads_are_swept_first(self, storage: Storage) -> None:
        runs = [await discard(storage, at=NOW + age) for age in (2, 0, 1)]
        oldest = [runs[1].thread_id, runs[2].thread_id]
        assert list(await storage.threads.discarded(before=LATER, limit=2)) == oldest
        assert [await sweep(storage, limit=2) for _ in range(3)] == [2, 1, 0]

    async def test_sweeping_leaves_other_threads_alone(self, storage: Storage) -> None:
        run = await start_on_new_thread(storage)
        assert await storage.handle(run).finish(Ending("success"), NOW)
        assert await sweep(storage) == 0
        assert not await does_not_exist(storage, run.thread_id)

    async def test_a_discarded_thread_that_is_created_again_is_not_swept(self, storage: Storage) -> None:
        run = await discard(storage)
        await storage.threads.create(a_thread(thread_id=run.thread_id))
        again = await start(storage, run.thread_id)
        await sweep(storage)
        assert (await the_thread(storage, run.thread_id)).status == "busy"
        assert again.queued_seq > 3
        assert (await the_run(storage, again.run_id)).status == "running"

    # Cancelling several runs

    async def test_all_active_runs_are_cancelled_together(self, storage: Storage) -> None:
        running = await start_on_new_thread(storage)
        waiting = await accept(storage, running.thread_id)
        elsewhere = await accept(storage, await store_thread(storage), due_at=LATER)
        ended = await start_on_new_thread(storage)
        await storage.handle(ended).finish(Ending("success"), NOW)
        cancelled = await storage.runs.cancel_many(RunSelection(), "interrupt", NOW)
        assert {each.run.run_id: each.ended for each in cancelled} == {
            running.run_id: False,
            waiting.run_id: True,
            elsewhere.run_id: True,
        }
        assert (await the_run(storage, running.run_id)).cancel == "interrupt"
        assert (await the_run(storage, waiting.run_id)).status == "interrupted"
        assert (await the_run(storage, ended.run_id)).status == "success"
        assert await storage.runs.claim(10, LEASE, now=LATER) == []

    @pytest.mark.parametrize("status", ["pending", "running"])
    async def test_runs_are_cancelled_by_status(self, storage: Storage, status: str) -> None:
        running = await start_on_new_thread(storage)
        waiting = [await accept(storage, running.thread_id) for _ in range(2)]
        wanted = RunSelection(status=status)  # type: ignore[arg-type]
        cancelled = await storage.runs.cancel_many(wanted, "rollback", NOW)
        expected = [running] if status == "running" else waiting
        assert {each.run.run_id for each in cancelled} == {run.run_id for run in expected}
        assert (await storage.runs.get(waiting[0].run_id) is None) == (status == "pending")

    async def test_runs_are_cancelled_by_thread_and_id(self, storage: Storage) -> None:
        thread_id = await store_thread(storage)
        first, second, third = [await accept(storage, thread_id) for _ in range(3)]
        elsewhere = await accept(storage, await store_thread(storage))
        wanted = RunSelection(thread_id=thread_id, run_ids=(first.run_id, third.run_id, elsewhere.run_id))
        cancelled = await storage.runs.cancel_many(wanted, "interrupt", NOW)
        assert {each.run.run_id for each in cancelled} == {first.run_id, third.run_id}
        assert [run.run_id for run in await storage.runs.claim(10, LEASE, now=NOW)] == [second.run_id, elsewhere.run_id]

    async def test_an_empty_selection_cancels_nothing(self, storage: Storage) -> None:
        run = await start_on_new_thread(storage)
        assert await storage.runs.cancel_many(RunSelection(status="pending"), "interrupt", NOW) == []
        assert await storage.runs.cancel_many(RunSelection(run_ids=()), "interrupt", NOW) == []
        assert (await the_run(storage, run.run_id)).cancel is None
