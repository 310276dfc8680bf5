"""Conformance tests for accepting and ending runs: section 5 of spec/log.md. `claims` tests which run starts when."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from threadwire.core.entries import Kind
from threadwire.core.ids import AssistantId, RunId, ThreadId, uuid7
from threadwire.core.records import Ending, NewRun, QueueLimits, Run, StateSummary, ThreadQuery, Ttl
from threadwire.core.run_state import user_interrupt_error
from threadwire.errors import Conflict, NotFound, QueueFull, RollbackDue, ThreadBusy
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.samples import (
    ASSIGNED,
    LEASE,
    NOW,
    a_run,
    accept,
    claim_run,
    kinds,
    new_thread_id,
    note,
    run_log,
    start,
    start_on_new_thread,
    store_thread,
    the_run,
    the_thread,
    values,
    whole_log,
    write,
)

ENDED = [Kind.RUN_QUEUED, Kind.RUN_ENDED]
ROLLED_BACK = [Kind.RUN_QUEUED, Kind.STATE_RESET, Kind.RUN_ENDED]


class RunsConformance:
    pytestmark = pytest.mark.anyio

    # Accepting

    async def test_an_accepted_run_is_stored_as_requested(self, storage: Storage) -> None:
        new = a_run(
            await store_thread(storage),
            due_at=NOW + 5,
            multitask_strategy="reject",
            metadata={"m": [1]},
            kwargs={"input": {"messages": []}, "config": None},
            idempotency_key="k",
            request_digest="d",
            owner="ada",
            via="langgraph",
        )
        accepted = await storage.runs.accept(new)
        assert (accepted.repeated, accepted.stopping) == (False, ())
        assert accepted.run == Run(
            run_id=new.run_id,
            thread_id=new.thread_id,
            assistant_id=new.assistant_id,
            graph_id="agent",
            status="pending",
            created_at=NOW,
            updated_at=NOW,
            due_at=NOW + 5,
            queued_seq=accepted.run.queued_seq,
            multitask_strategy="reject",
            metadata={"m": [1]},
            kwargs={"input": {"messages": []}, "config": None},
            idempotency_key="k",
            request_digest="d",
            owner="ada",
            via="langgraph",
        )
        assert await storage.runs.get(new.run_id) == accepted.run

    async def test_accepting_a_run_writes_its_first_entry(self, storage: Storage) -> None:
        """5.1"""
        run = await accept(storage, await store_thread(storage))
        [entry] = await whole_log(storage, run.thread_id)
        assert (entry.seq, entry.kind, entry.run_id, entry.attempt) == (
            run.queued_seq,
            Kind.RUN_QUEUED,
            run.run_id,
            0,
        )
        assert entry.at == NOW
        assert entry.data.items() >= {"assistant_id": run.assistant_id, "graph_id": "agent"}.items()

    @pytest.mark.parametrize("starts", [True, False])
    async def test_preceding_entries_are_written_with_the_run(self, storage: Storage, starts: bool) -> None:
        thread_id = await store_thread(storage)
        new = a_run(thread_id, preceding=(note(1), note(2)), idempotency_key="k")
        for _ in range(2):  # the second time, nothing is written
            accepted = await storage.runs.accept(new, claim=LEASE if starts else None)
        assert kinds(await whole_log(storage, thread_id)) == [Kind.CUSTOM, Kind.CUSTOM, Kind.RUN_QUEUED]
        assert [entry.run_id for entry in await whole_log(storage, thread_id)] == [None, None, new.run_id]
        assert accepted.run.queued_seq == 3
        assert kinds(await run_log(storage, accepted.run)) == [Kind.RUN_QUEUED]

    async def test_preceding_entries_of_a_rejected_run_are_not_written(self, storage: Storage) -> None:
        running = await start_on_new_thread(storage)
        before = await whole_log(storage, running.thread_id)
        with pytest.raises(ThreadBusy):
            await storage.runs.accept(a_run(running.thread_id, multitask_strategy="reject", preceding=(note(1),)))
        limits = QueueLimits(per_thread=0, total=0)
        with pytest.raises(QueueFull):
            await storage.runs.accept(a_run(running.thread_id, limits=limits, preceding=(note(1),)))
        assert await whole_log(storage, running.thread_id) == before

    async def test_a_run_whose_caller_is_cancelled_during_accept_is_claimed_until_its_lease_expires(
        self, storage: Storage
    ) -> None:
        """Or it is not stored at all."""
        busy = await start_on_new_thread(storage)
        storage.handle(busy).append([note("x" * 1_000_000)])  # so that accepting has to wait
        new = a_run(new_thread_id(), create_thread=True)
        accepting = asyncio.create_task(storage.runs.accept(new, claim=LEASE))
        await asyncio.sleep(0)
        accepting.cancel()
        await asyncio.wait([accepting])
        await write(storage, busy, "after it")
        stored = await storage.runs.list(new.thread_id)
        assert [run.status for run in stored] in (["running"], [])
        reclaimed = {run.run_id for run in await storage.runs.reclaim(NOW)}
        assert reclaimed == {busy.run_id, *(run.run_id for run in stored)}

    async def test_a_run_for_an_unknown_thread_is_rejected(self, storage: Storage) -> None:
        """5.1: and nothing is stored."""
        new = a_run(new_thread_id())
        with pytest.raises(NotFound):
            await storage.runs.accept(new)
        assert await storage.runs.get(new.run_id) is None
        assert await storage.threads.get(new.thread_id) is None

    async def test_a_run_can_create_its_thread(self, storage: Storage) -> None:
        new = a_run(
            new_thread_id(),
            create_thread=True,
            thread_metadata={"user": "ada"},
            thread_config={"tags": ["x"]},
            thread_ttl=Ttl(5, "keep_latest"),
            owner="ada",
        )
        await storage.runs.accept(new)
        thread = await the_thread(storage, new.thread_id)
        assert (thread.metadata, thread.status, thread.owner) == ({"user": "ada", **ASSIGNED}, "busy", "ada")
        assert (thread.config, thread.ttl) == ({"tags": ["x"]}, Ttl(5, "keep_latest"))
        assert await storage.threads.count(ThreadQuery(metadata={"user": "ada"})) == 1
        assert (thread.created_at, thread.values) == (NOW, None)

    async def test_the_metadata_and_config_of_a_run_are_merged_into_an_existing_thread(self, storage: Storage) -> None:
        for create_thread in (False, True):
            thread_id = await store_thread(storage, metadata={"a": 1, "b": 1}, config={"tags": ["x"], "n": 1})
            config = {"tags": ["y"], "configurable": {}}
            metadata = {"b": 2, "c": 2 + create_thread}
            for now in (NOW + 1, NOW + 2):  # the second time nothing is left to merge
                await accept(
                    storage,
                    thread_id,
                    created_at=now,
                    create_thread=create_thread,
                    thread_metadata=metadata,
                    thread_config=config,
                    thread_ttl=Ttl(1),
                )
                thread = await the_thread(storage, thread_id)
                assert thread.metadata == {"a": 1, **metadata, **ASSIGNED}
                assert (thread.config, thread.ttl) == ({"tags": ["y"], "n": 1, "configurable": {}}, None)
                assert thread.updated_at == now
            found = await storage.threads.search(ThreadQuery(metadata=metadata))
            assert [each.thread_id for each in found] == [thread_id]

    async def test_a_run_id_can_be_used_only_once(self, storage: Storage) -> None:
        run = await accept(storage, await store_thread(storage))
        with pytest.raises(Conflict):
            await accept(storage, await store_thread(storage), run_id=run.run_id)
        assert await storage.runs.get(run.run_id) == run

    # Idempotency

    async def test_a_repeated_key_returns_the_run_created_with_it(self, storage: Storage) -> None:
        """The rest of the request is not compared: the caller does that, using the digest."""
        first = a_run(
            await store_thread(storage),
            idempotency_key="k",
            request_digest="d",
            owner="ada",
            multitask_strategy="reject",
        )
        original = (await storage.runs.accept(first)).run
        again = await storage.runs.accept(replace(first, run_id=RunId(uuid7()), request_digest="e"))
        assert (again.run, again.repeated) == (original, True)
        assert len(await whole_log(storage, first.thread_id)) == 1

    async def test_a_repeated_key_returns_its_run_even_after_the_run_has_ended(self, storage: Storage) -> None:
        run = await start_on_new_thread(storage, idempotency_key="k")
        await storage.handle(run).finish(Ending("success"), NOW)
        again = await storage.runs.accept(a_run(run.thread_id, idempotency_key="k"))
        assert (again.run.run_id, again.run.status, again.repeated) == (run.run_id, "success", True)

    async def test_different_owners_can_use_the_same_key(self, storage: Storage) -> None:
        thread_id = await store_thread(storage)
        runs = {
            (await accept(storage, thread_id, idempotency_key="k", owner=owner)).run_id
            for owner in (None, "ada", "bob", "", None, "ada")
        }
        assert len(runs) == 4

    async def test_runs_without_a_key_are_never_repeats(self, storage: Storage) -> None:
        thread_id = await store_thread(storage)
        accepted = [await storage.runs.accept(a_run(thread_id, owner="ada")) for _ in range(2)]
        assert [each.repeated for each in accepted] == [False, False]

    async def test_concurrent_requests_with_one_key_create_one_run(self, storage: Storage) -> None:
        thread_id = await store_thread(storage)
        accepted = await asyncio.gather(*(storage.runs.accept(a_run(thread_id, idempotency_key="k")) for _ in range(8)))
        assert len({each.run.run_id for each in accepted}) == 1
        assert [each.repeated for each in accepted].count(False) == 1

    # Multitasking

    async def test_a_run_rejected_because_another_is_active_changes_nothing(self, storage: Storage) -> None:
        thread_id = await store_thread(storage)
        await accept(storage, thread_id, multitask_strategy="reject")
        rejected = a_run(thread_id, multitask_strategy="reject", thread_metadata={"x": 1})
        for _ in range(2):  # while the first is pending, then while it is running
            with pytest.raises(ThreadBusy):
                await storage.runs.accept(rejected)
            await storage.runs.claim(1, LEASE, now=NOW)
        assert await storage.runs.get(rejected.run_id) is None
        assert (await the_thread(storage, thread_id)).metadata == ASSIGNED
        assert len(await whole_log(storage, thread_id)) == 1

    async def test_only_one_of_many_concurrent_reject_runs_is_accepted(self, storage: Storage) -> None:
        thread_id = await store_thread(storage)
        runs = [a_run(thread_id, multitask_strategy="reject") for _ in range(8)]
        results = await asyncio.gather(*map(storage.runs.accept, runs), return_exceptions=True)
        assert sum(isinstance(result, ThreadBusy) for result in results) == 7
        assert len(await storage.runs.list(thread_id)) == 1

    async def test_a_run_beyond_the_limit_of_its_thread_changes_nothing(self, storage: Storage) -> None:
        running = await start_on_new_thread(storage)
        limits = QueueLimits(per_thread=2, total=100)
        for _ in range(2):
            await accept(storage, running.thread_id, limits=limits)
        before = await whole_log(storage, running.thread_id)
        rejected = a_run(running.thread_id, limits=limits, thread_metadata={"x": 1})
        with pytest.raises(QueueFull, match="already has 2 pending runs"):
            await storage.runs.accept(rejected)
        assert await storage.runs.get(rejected.run_id) is None
        assert (await the_thread(storage, running.thread_id)).metadata == ASSIGNED
        assert await whole_log(storage, running.thread_id) == before
        await accept(storage, await store_thread(storage), limits=limits)  # other threads have room

    async def test_a_run_beyond_the_limit_of_the_server_is_rejected_until_one_starts(self, storage: Storage) -> None:
        limits = QueueLimits(per_thread=100, total=2)
        for _ in range(2):
            await accept(storage, await store_thread(storage), limits=limits)
        thread_id = await store_thread(storage)
        with pytest.raises(QueueFull, match="more than 2 pending runs"):
            await storage.runs.accept(a_run(thread_id, limits=limits))
        await storage.runs.claim(1, LEASE, now=NOW)
        await accept(storage, thread_id, limits=limits)

    async def test_a_run_that_starts_immediately_needs_no_room_in_the_queue(self, storage: Storage) -> None:
        limits = QueueLimits(per_thread=1, total=1)
        await accept(storage, await store_thread(storage), limits=limits)
        accepted = await storage.runs.accept(a_run(await store_thread(storage), limits=limits), claim=LEASE)
        assert accepted.started

    async def test_a_run_that_ends_the_others_is_not_subject_to_the_limit_of_its_thread(self, storage: Storage) -> None:
        running = await start_on_new_thread(storage)
        limits = QueueLimits(per_thread=1, total=100)
        waiting = await accept(storage, running.thread_id, limits=limits)
        await accept(storage, running.thread_id, limits=limits, multitask_strategy="interrupt")
        assert (await the_run(storage, waiting.run_id)).status == "interrupted"

    async def test_a_repeated_request_is_recognized_while_the_queue_is_full(self, storage: Storage) -> None:
        limits = QueueLimits(per_thread=1, total=1)
        thread_id = await store_thread(storage)
        run = await accept(storage, thread_id, limits=limits, idempotency_key="k")
        repeated = await storage.runs.accept(a_run(thread_id, limits=limits, idempotency_key="k"))
        assert (repeated.repeated, repeated.run.run_id) == (True, run.run_id)

    async def test_enqueue_leaves_other_runs_alone(self, storage: Storage) -> None:
        running = await start_on_new_thread(storage)
        waiting = await accept(storage, running.thread_id)
        accepted = await storage.runs.accept(a_run(running.thread_id))
        assert accepted.stopping == ()
        assert await storage.runs.get(running.run_id) == running
        assert await storage.runs.get(waiting.run_id) == waiting
        assert accepted.run.status == "pending"

    async def test_interrupt_ends_pending_runs_and_asks_the_running_one_to_stop(self, storage: Storage) -> None:
        running = await start_on_new_thread(storage)
        waiting = await accept(storage, running.thread_id)
        accepted = await storage.runs.accept(a_run(running.thread_id, multitask_strategy="interrupt"))
        assert accepted.stopping == (running.run_id,)
        assert (await the_run(storage, running.run_id)).cancel == "interrupt"
        assert (await the_run(storage, running.run_id)).status == "running"
        assert (await the_run(storage, waiting.run_id)).status == "interrupted"
        entries = await whole_log(storage, running.thread_id)
        assert kinds(entries)[-2:] == [Kind.RUN_ENDED, Kind.RUN_QUEUED]
        assert [entry.run_id for entry in entries[-2:]] == [waiting.run_id, accepted.run.run_id]
        assert not await storage.runs.claim(10, LEASE, now=NOW)

    async def test_rollback_removes_pending_runs_and_asks_the_running_one_to_roll_back(self, storage: Storage) -> None:
        """5.9"""
        running = await start_on_new_thread(storage)
        waiting = await accept(storage, running.thread_id)
        accepted = await storage.runs.accept(a_run(running.thread_id, multitask_strategy="rollback"))
        assert accepted.stopping == (running.run_id,)
        assert (await the_run(storage, running.run_id)).cancel == "rollback"
        assert await storage.runs.get(waiting.run_id) is None
        assert kinds(await run_log(storage, waiting)) == ROLLED_BACK

    async def test_strategies_make_no_difference_on_an_idle_thread(self, storage: Storage) -> None:
        for strategy in ("interrupt", "rollback", "reject"):
            new: NewRun = a_run(await store_thread(storage), multitask_strategy=strategy)
            accepted = await storage.runs.accept(new)
            assert (accepted.stopping, accepted.run.status) == ((), "pending")

    # Rows

    async def test_an_unknown_run_is_none(self, storage: Storage) -> None:
        assert await storage.runs.get(RunId(uuid7())) is None

    async def test_runs_are_listed_newest_first_by_status_and_page(self, storage: Storage) -> None:
        thread_id = await store_thread(storage)
        await accept(storage, await store_thread(storage), created_at=NOW + 9, due_at=NOW + 9)
        runs = [await accept(storage, thread_id, created_at=NOW + at) for at in range(4)]
        await storage.runs.claim(1, LEASE, now=NOW)
        newest_first = [run.run_id for run in runs][::-1]

        async def listed(**query: Any) -> list[RunId]:
            return [run.run_id for run in await storage.runs.list(thread_id, **query)]

        assert await listed() == newest_first
        assert await listed(limit=2) == newest_first[:2]
        assert await listed(limit=2, offset=3) == newest_first[3:]
        assert await listed(status="running") == newest_first[3:]
        assert await listed(status="pending", limit=1, offset=1) == newest_first[1:2]
        assert await listed(status="error") == []
        assert await storage.runs.list(new_thread_id()) == []

    async def test_mutating_shared_values_does_not_change_a_run(self, storage: Storage) -> None:
        new = a_run(await store_thread(storage), kwargs={"input": [1]})
        await storage.runs.accept(new)
        new.kwargs["input"].append("by the writer")
        for _ in range(2):
            run = await the_run(storage, new.run_id)
            assert run.kwargs == {"input": [1]}
            run.kwargs["input"].append("by a reader")

    async def test_deleting_a_finished_run_keeps_its_entries(self, storage: Storage) -> None:
        run = await start_on_new_thread(storage)
        await storage.handle(run).finish(Ending("success"), NOW)
        await storage.runs.delete(run.run_id)
        assert await storage.runs.get(run.run_id) is None
        assert kinds(await run_log(storage, run)) == ENDED
        with pytest.raises(NotFound):
            await storage.runs.delete(run.run_id)

    async def test_an_active_run_cannot_be_deleted(self, storage: Storage) -> None:
        run = await accept(storage, await store_thread(storage))
        for _ in range(2):  # pending, then running
            with pytest.raises(Conflict):
                await storage.runs.delete(run.run_id)
            await storage.runs.claim(1, LEASE, now=NOW)
        assert (await the_run(storage, run.run_id)).status == "running"

    # Cancelling

    async def test_cancelling_a_pending_run_ends_it_immediately(self, storage: Storage) -> None:
        """5.3"""
        run = await accept(storage, await store_thread(storage))
        cancelled = await storage.runs.cancel(run.run_id, "interrupt", NOW + 4)
        assert cancelled is not None
        assert cancelled.ended
        assert cancelled.run == await storage.runs.get(run.run_id)
        assert (cancelled.run.status, cancelled.run.error) == ("interrupted", user_interrupt_error("interrupt"))
        entries = await run_log(storage, run)
        assert kinds(entries) == ENDED
        assert (entries[-1].seq, entries[-1].at) == (cancelled.run.ended_seq, NOW + 4)
        assert entries[-1].data == {"status": "interrupted", "error": user_interrupt_error("interrupt")}

    @pytest.mark.parametrize("status", ["idle", "interrupted", "error"])
    async def test_cancelling_a_run_that_never_started_leaves_the_thread_as_it_was(
        self, storage: Storage, status: Any
    ) -> None:
        """5.3a"""
        error = {"e": 1} if status == "error" else None
        thread_id = await store_thread(storage, status=status, values={"n": 1}, error=error, metadata=ASSIGNED)
        before = await the_thread(storage, thread_id)
        run = await accept(storage, thread_id)
        await storage.runs.cancel(run.run_id, "interrupt", NOW + 4)
        assert await the_thread(storage, thread_id) == replace(before, updated_at=NOW + 4)

    async def test_cancelling_a_released_run_interrupts_the_thread(self, storage: Storage) -> None:
        """It may have changed the state."""
        run = await start_on_new_thread(storage)
        await storage.handle(run).release(NOW)
        await storage.runs.cancel(run.run_id, "interrupt", NOW)
        thread = await the_thread(storage, run.thread_id)
        assert (thread.status, thread.error) == ("interrupted", user_interrupt_error("interrupt"))

    async def test_rolling_back_a_pending_run_leaves_only_its_entries(self, storage: Storage) -> None:
        """5.9"""
        run = await accept(storage, await store_thread(storage, status="error", error={"e": 1}))
        cancelled = await storage.runs.cancel(run.run_id, "rollback", NOW)
        assert cancelled is not None
        assert (cancelled.ended, cancelled.run.run_id) == (True, run.run_id)
        assert await storage.runs.get(run.run_id) is None
        entries = await run_log(storage, run)
        assert kinds(entries) == ROLLED_BACK
        assert [entry.data for entry in entries[1:]] == [{"cause": "rollback"}, {"status": "rolled_back"}]
        thread = await the_thread(storage, run.thread_id)
        assert (thread.status, thread.error) == ("error", {"e": 1})

    async def test_cancelling_a_running_run_is_recorded_and_the_first_action_wins(self, storage: Storage) -> None:
        for first, second in (("interrupt", "rollback"), ("rollback", "interrupt")):
            run = await start_on_new_thread(storage)
            for action in (first, second):
                cancelled = await storage.runs.cancel(run.run_id, action, NOW)  # type: ignore[arg-type]
                assert cancelled is not None
                assert (cancelled.ended, cancelled.run.cancel) == (False, first)
                assert cancelled.run.status == "running"
            assert (await the_run(storage, run.run_id)).cancel == first
            assert kinds(await run_log(storage, run)) == [Kind.RUN_QUEUED]

    async def test_cancelling_an_ended_or_unknown_run_does_nothing(self, storage: Storage) -> None:
        run = await start_on_new_thread(storage)
        await storage.handle(run).finish(Ending("success"), NOW)
        before = await the_run(storage, run.run_id)
        assert await storage.runs.cancel(run.run_id, "rollback", NOW) is None
        assert await storage.runs.cancel(RunId(uuid7()), "interrupt", NOW) is None
        assert await storage.runs.get(run.run_id) == before
        assert kinds(await run_log(storage, run)) == ENDED

    # Finishing

    async def test_finishing_updates_log_row_and_thread_together(self, storage: Storage) -> None:
        """5.3"""
        run = await start_on_new_thread(storage)
        summary = StateSummary("interrupted", {"n": 2}, {"t": [{"value": "?"}]})
        ending = Ending("success", interrupts=[{"id": "i", "value": "?"}], summary=summary)
        assert await storage.handle(run).finish(ending, NOW + 8)
        ended = (await whole_log(storage, run.thread_id))[-1]
        assert (ended.kind, ended.run_id, ended.attempt, ended.at) == (
            Kind.RUN_ENDED,
            run.run_id,
            1,
            NOW + 8,
        )
        assert ended.data == {"status": "success", "interrupts": [{"id": "i", "value": "?"}]}
        row = await the_run(storage, run.run_id)
        assert (row.status, row.ended_seq, row.updated_at, row.error) == ("success", ended.seq, NOW + 8, None)
        thread = await the_thread(storage, run.thread_id)
        assert (thread.status, thread.values, thread.interrupts, thread.error) == (
            "interrupted",
            {"n": 2},
            {"t": [{"value": "?"}]},
            None,
        )
        assert thread.state_updated_at == NOW + 8

    async def test_finishing_takes_effect_after_everything_the_attempt_appended(self, storage: Storage) -> None:
        """5.3: `run.ended` is the last entry, even though the other appends were not awaited."""
        run = await start_on_new_thread(storage)
        for number in range(200):
            storage.handle(run).append([note(number)])
        await storage.handle(run).finish(Ending("success"), NOW)
        entries = await run_log(storage, run)
        assert values(entries) == list(range(200))
        assert entries[-1].kind == Kind.RUN_ENDED

    @pytest.mark.parametrize(
        ("status", "thread_status"),
        [("success", "idle"), ("error", "error"), ("timeout", "error"), ("interrupted", "interrupted")],
    )
    async def test_ending_without_a_state_changes_only_status_and_error(
        self, storage: Storage, status: Any, thread_status: str
    ) -> None:
        before = {"values": {"n": 1}, "interrupts": {"t": []}, "state_updated_at": NOW - 1}
        run = await start(storage, await store_thread(storage, error={"old": 1}, **before))
        error = None if status == "success" else {"error": "E", "message": status}
        assert await storage.handle(run).finish(Ending(status, error=error), NOW)
        thread = await the_thread(storage, run.thread_id)
        assert (thread.status, thread.error) == (thread_status, error)
        assert {name: getattr(thread, name) for name in before} == before
        row = await the_run(storage, run.run_id)
        assert (row.status, row.error) == (status, error)
        data = (await whole_log(storage, run.thread_id))[-1].data
        assert data == ({"status": status} if error is None else {"status": status, "error": error})

    @pytest.mark.parametrize("ending", [Ending("success"), Ending("error"), Ending("interrupted")])
    async def test_a_run_due_for_rollback_cannot_end_in_any_other_way(self, storage: Storage, ending: Ending) -> None:
        """5.9: it may have been about to end when the rollback was requested."""
        run = await start_on_new_thread(storage)
        await storage.runs.cancel(run.run_id, "rollback", NOW)
        with pytest.raises(RollbackDue):
            await storage.handle(run).finish(ending, NOW)
        assert (await the_run(storage, run.run_id)).status == "running"
        await write(storage, run, "it still holds its thread")
        assert await storage.handle(run).finish(Ending("interrupted", rollback=True), NOW)
        assert kinds(await run_log(storage, run))[-3:] == [Kind.CUSTOM, Kind.STATE_RESET, Kind.RUN_ENDED]

    async def test_a_run_that_cannot_be_rolled_back_can_be_forced_to_end(self, storage: Storage) -> None:
        run = await start_on_new_thread(storage)
        await storage.runs.cancel(run.run_id, "rollback", NOW)
        assert await storage.handle(run).finish(Ending("error"), NOW, force=True)
        assert (await the_run(storage, run.run_id)).status == "error"

    async def test_a_rolled_back_run_leaves_only_its_entries(self, storage: Storage) -> None:
        """5.9"""
        thread_id = await store_thread(storage, status="interrupted", values={"n": 1}, error={"e": 1})
        run = await start(storage, thread_id)
        await write(storage, run, "stays")
        ending = Ending("interrupted", summary=StateSummary("idle", {"n": 99}), rollback=True)
        assert await storage.handle(run).finish(ending, NOW)
        assert await storage.runs.get(run.run_id) is None
        assert await storage.runs.list(thread_id) == []
        entries = await run_log(storage, run)
        assert kinds(entries) == [Kind.RUN_QUEUED, Kind.CUSTOM, Kind.STATE_RESET, Kind.RUN_ENDED]
        assert [entry.data for entry in entries[2:]] == [{"cause": "rollback"}, {"status": "rolled_back"}]
        thread = await the_thread(storage, thread_id)
        assert (thread.status, thread.values, thread.error) == ("interrupted", {"n": 1}, {"e": 1})

    # The graph of a thread

    async def test_a_queued_run_leaves_the_thread_to_the_graph_of_the_running_one(self, storage: Storage) -> None:
        """5.11: the state of the thread is still that of the running run."""
        thread_id = await store_thread(storage)
        running = await claim_run(storage, (await _run_of(storage, thread_id, "first")).run_id)
        queued = await _run_of(storage, thread_id, "second", thread_metadata={"user": "ada"})
        assert (await the_thread(storage, thread_id)).metadata == {"user": "ada", **_graph_metadata("first")}
        await storage.handle(running).finish(Ending("success"), NOW)
        assert (await the_thread(storage, thread_id)).metadata == {"user": "ada", **_graph_metadata("first")}
        await claim_run(storage, queued.run_id)
        assert (await the_thread(storage, thread_id)).metadata == {"user": "ada", **_graph_metadata("second")}
        assert await storage.threads.count(ThreadQuery(metadata={"graph_id": "second"})) == 1
        assert await storage.threads.count(ThreadQuery(metadata={"graph_id": "first"})) == 0

    @pytest.mark.parametrize("action", ["interrupt", "rollback"])
    async def test_a_run_that_never_starts_does_not_change_the_graph(self, storage: Storage, action: Any) -> None:
        """5.11"""
        thread_id = await store_thread(storage, metadata=_graph_metadata("first"))
        run = await _run_of(storage, thread_id, "second")
        assert (await the_thread(storage, thread_id)).metadata == _graph_metadata("first")
        await storage.runs.cancel(run.run_id, action, NOW)
        assert (await the_thread(storage, thread_id)).metadata == _graph_metadata("first")

    async def test_a_run_that_starts_when_it_is_accepted_assigns_its_graph(self, storage: Storage) -> None:
        """5.11"""
        thread_id = await store_thread(storage, metadata=_graph_metadata("first"))
        accepted = await storage.runs.accept(a_run(thread_id), claim=LEASE)
        assert accepted.started
        assert (await the_thread(storage, thread_id)).metadata == ASSIGNED
        await storage.handle(accepted.run).finish(Ending("interrupted", rollback=True), NOW)
        assert (await the_thread(storage, thread_id)).metadata == _graph_metadata("first")

    async def test_a_thread_without_a_graph_gets_that_of_the_first_accepted_run(self, storage: Storage) -> None:
        """5.11"""
        thread_id = await store_thread(storage, metadata={"user": "ada"})
        await _run_of(storage, thread_id, "first")
        await _run_of(storage, thread_id, "second")
        assert (await the_thread(storage, thread_id)).metadata == {"user": "ada", **_graph_metadata("first")}

    async def test_a_further_attempt_does_not_assign_its_graph_again(self, storage: Storage) -> None:
        """5.11"""
        thread_id = await store_thread(storage, metadata=_graph_metadata("first"))
        run = await claim_run(storage, (await _run_of(storage, thread_id, "second")).run_id)
        await storage.handle(run).release(NOW)
        await storage.threads.update(thread_id, metadata=_graph_metadata("third"), now=NOW)
        await claim_run(storage, run.run_id)
        assert (await the_thread(storage, thread_id)).metadata == _graph_metadata("third")

    @pytest.mark.parametrize("before", [{"graph_id": "first", "assistant_id": "one", "user": "ada"}, {"user": "ada"}])
    @pytest.mark.parametrize("how", ["finished", "cancelled", "recovered"])
    async def test_rolling_back_a_run_restores_the_graph_of_its_thread(
        self, storage: Storage, before: dict[str, Any], how: str
    ) -> None:
        """5.9"""
        thread_id = await store_thread(storage, metadata=before)
        started = await claim_run(storage, (await _run_of(storage, thread_id, "second")).run_id)
        assert (await the_thread(storage, thread_id)).metadata == {**before, **_graph_metadata("second")}
        if how == "finished":
            await storage.handle(started).finish(Ending("interrupted", rollback=True), NOW)
        elif how == "cancelled":
            await storage.handle(started).release(NOW)
            await storage.runs.cancel(started.run_id, "rollback", NOW)
        else:
            await storage.runs.cancel(started.run_id, "rollback", NOW)
            await storage.runs.reclaim(NOW)
        assert (await the_thread(storage, thread_id)).metadata == before
        assert await storage.threads.count(ThreadQuery(metadata={"graph_id": "second"})) == 0
        assert await storage.threads.count(ThreadQuery(metadata=before)) == 1

    @pytest.mark.parametrize("strategy", ["enqueue", "rollback"])
    async def test_rolling_back_one_of_several_runs_restores_the_graph_before_it(
        self, storage: Storage, strategy: str
    ) -> None:
        """5.9"""
        before = _graph_metadata("first")
        thread_id = await store_thread(storage, metadata=before)
        running = await claim_run(storage, (await _run_of(storage, thread_id, "second")).run_id)
        await _run_of(storage, thread_id, "waits")
        last = await _run_of(storage, thread_id, "third", multitask_strategy=strategy)
        assert (await the_thread(storage, thread_id)).metadata == _graph_metadata("second")
        await storage.handle(running).finish(Ending("interrupted", rollback=True), NOW)
        assert (await the_thread(storage, thread_id)).metadata == before
        for run in await storage.runs.list(thread_id, status="pending"):
            if run.run_id != last.run_id:
                await storage.runs.cancel(run.run_id, "rollback", NOW)
        started = await claim_run(storage, last.run_id)
        assert (await the_thread(storage, thread_id)).metadata == _graph_metadata("third")
        await storage.handle(started).finish(Ending("interrupted", rollback=True), NOW)
        assert (await the_thread(storage, thread_id)).metadata == before

    async def test_rolling_back_every_run_of_a_thread_that_had_no_graph_removes_it(self, storage: Storage) -> None:
        """5.9: even if a run that was accepted later started first."""
        thread_id = await store_thread(storage, metadata={"user": "ada"})
        delayed = await _run_of(storage, thread_id, "first", due_at=NOW + 1000)
        started = await claim_run(storage, (await _run_of(storage, thread_id, "second")).run_id)
        await storage.runs.cancel(delayed.run_id, "rollback", NOW)
        assert (await the_thread(storage, thread_id)).metadata == {"user": "ada", **_graph_metadata("second")}
        await storage.handle(started).finish(Ending("interrupted", rollback=True), NOW)
        assert (await the_thread(storage, thread_id)).metadata == {"user": "ada"}

    async def test_replacing_a_pending_run_does_not_lose_the_graph_to_restore(self, storage: Storage) -> None:
        thread_id = await store_thread(storage, metadata={"user": "ada"})
        await _run_of(storage, thread_id, "second")
        last = await _run_of(storage, thread_id, "third", multitask_strategy="rollback")
        assert (await the_thread(storage, thread_id)).metadata == {"user": "ada", **_graph_metadata("third")}
        await storage.runs.cancel(last.run_id, "rollback", NOW)
        assert (await the_thread(storage, thread_id)).metadata == {"user": "ada"}

    async def test_metadata_updated_after_a_run_started_is_not_rolled_back(self, storage: Storage) -> None:
        thread_id = await store_thread(storage, metadata=_graph_metadata("first"))
        run = await claim_run(storage, (await _run_of(storage, thread_id, "second")).run_id)
        await storage.threads.update(thread_id, metadata={"graph_id": "third"}, now=NOW)
        await storage.handle(run).finish(Ending("interrupted", rollback=True), NOW)
        assert (await the_thread(storage, thread_id)).metadata == {**_graph_metadata("second"), "graph_id": "third"}

    async def test_a_finished_run_keeps_its_graph_on_the_thread(self, storage: Storage) -> None:
        thread_id = await store_thread(storage, metadata=_graph_metadata("first"))
        run = await claim_run(storage, (await _run_of(storage, thread_id, "second")).run_id)
        await storage.handle(run).finish(Ending("success"), NOW)
        later = await _run_of(storage, thread_id, "third")
        await storage.runs.cancel(later.run_id, "rollback", NOW)
        assert (await the_thread(storage, thread_id)).metadata == _graph_metadata("second")

    async def test_a_run_ends_once(self, storage: Storage) -> None:
        """5.3"""
        run = await start_on_new_thread(storage)
        endings = [Ending("success"), Ending("error", error={"e": 1}), Ending("interrupted", rollback=True)]
        done = [await storage.handle(run).finish(ending, NOW) for ending in endings]
        assert done == [True, False, False]
        assert (await the_run(storage, run.run_id)).status == "success"
        assert kinds(await run_log(storage, run)) == ENDED

    async def test_only_the_attempt_that_holds_the_thread_can_finish(self, storage: Storage) -> None:
        """2.5, 2.6"""
        run = await accept(storage, await store_thread(storage))
        for stale in (run, replace(run, attempt=1), replace(run, run_id=RunId(uuid7()), attempt=1)):
            assert not await storage.handle(stale).finish(Ending("success"), NOW)
        claimed = await claim_run(storage, run.run_id)
        assert not await storage.handle(replace(run, attempt=2)).finish(Ending("success"), NOW)
        assert not await storage.handle(replace(run, attempt=0)).finish(Ending("success"), NOW)
        assert await storage.runs.get(run.run_id) == claimed
        assert len(await whole_log(storage, run.thread_id)) == 1


def _graph_metadata(graph_id: str) -> dict[str, Any]:
    return {"graph_id": graph_id, "assistant_id": f"of {graph_id}"}


async def _run_of(storage: Storage, thread_id: ThreadId, graph_id: str, **fields: Any) -> Run:
    assistant_id = AssistantId(f"of {graph_id}")
    return await accept(storage, thread_id, graph_id=graph_id, assistant_id=assistant_id, **fields)
