"""Conformance tests for the thread log: sections 1 to 3 of spec/log.md."""

import asyncio
import threading
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from threadwire.core.entries import START, Draft, Entry, Fence, Kind
from threadwire.core.ids import Seq
from threadwire.core.records import Ending, Run
from threadwire.errors import Fenced, NotFound
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.samples import (
    LEASE,
    NOW,
    accept,
    new_thread_id,
    note,
    start,
    start_on_new_thread,
    store_thread,
    values,
    whole_log,
    write,
)

WAKEUP_TIMEOUT = 20.0
"""Seconds after which a wakeup counts as lost."""


class LogConformance:
    pytestmark = pytest.mark.anyio

    async def test_a_working_storage_reports_no_failure(self, storage: Storage) -> None:
        failure = asyncio.create_task(storage.wait_for_failure())
        run = await start_on_new_thread(storage)
        await write(storage, run, "a")
        assert values(await whole_log(storage, run.thread_id)) == ["a"]
        assert storage.fatal_error is None
        assert not failure.done()
        failure.cancel()
        with pytest.raises(asyncio.CancelledError):
            await failure

    # Entries

    async def test_an_entry_is_read_as_it_was_written(self, storage: Storage) -> None:
        """1.1, 1.5, 1.6"""
        run = await start_on_new_thread(storage)
        data: dict[str, Any] = {"value": [None, True, 1, 2.5, "ü\u0000\U0001f600", {"": {"nested": []}}]}
        draft = Draft(Kind.CUSTOM, data, ns=("outer:1", "inner|2"), at=NOW + 7)
        await storage.handle(run).append([draft]).wait()
        [_, entry] = await whole_log(storage, run.thread_id)
        assert entry == Entry(Seq(2), run.run_id, 1, NOW + 7, ("outer:1", "inner|2"), Kind.CUSTOM, data)

    async def test_sequence_numbers_are_dense_and_start_at_one_in_every_thread(self, storage: Storage) -> None:
        """1.2"""
        threads = [await store_thread(storage) for _ in range(2)]
        for size in (1, 3, 2):
            for thread_id in threads:
                await storage.log.append(thread_id, [note(size)] * size).wait()
        for thread_id in threads:
            entries = await whole_log(storage, thread_id)
            assert [entry.seq for entry in entries] == [1, 2, 3, 4, 5, 6]
            assert await storage.log.last(thread_id) == 6

    async def test_entries_and_commits_are_counted(self, storage: Storage) -> None:
        before = storage.log.counters()
        thread_id = await store_thread(storage)
        await storage.log.append(thread_id, [note("one"), note("two")]).wait()
        middle = storage.log.counters()
        assert middle.entries == before.entries + 2
        assert middle.commits > before.commits
        await storage.threads.delete(thread_id)
        assert storage.log.counters().entries == middle.entries, "it counts what was committed, not what is stored"

    async def test_mutating_shared_values_does_not_change_an_entry(self, storage: Storage) -> None:
        """1.3: neither the writer nor a reader can change it."""
        thread_id = await store_thread(storage)
        draft = note(["first"])
        commit = storage.log.append(thread_id, [draft])
        draft.data["value"].append("by the writer")
        await commit.wait()
        for _ in range(2):
            [entry] = await whole_log(storage, thread_id)
            assert entry.data == {"value": ["first"]}
            entry.data["value"].append("by a reader")

    async def test_an_entry_outside_a_run_has_neither_run_nor_attempt(self, storage: Storage) -> None:
        """1.4"""
        thread_id = await store_thread(storage)
        await storage.log.append(thread_id, [note("outside")]).wait()
        [entry] = await whole_log(storage, thread_id)
        assert (entry.run_id, entry.attempt) == (None, 0)

    async def test_every_kind_is_stored_inside_and_outside_a_run(self, storage: Storage) -> None:
        """6"""
        run = await start_on_new_thread(storage)
        drafts = [Draft(kind, {"n": number}, at=NOW) for number, kind in enumerate(Kind)]
        await storage.handle(run).append(drafts).wait()
        await storage.log.append(run.thread_id, drafts).wait()
        entries = await whole_log(storage, run.thread_id, after=run.queued_seq)
        assert [(entry.kind, entry.data) for entry in entries] == [(draft.kind, draft.data) for draft in drafts * 2]

    async def test_an_unknown_kind_is_stored(self, storage: Storage) -> None:
        """1.7: only readers ignore it."""
        thread_id = await store_thread(storage)
        await storage.log.append(thread_id, [Draft("from.the.future", {"x": 1}, at=NOW)]).wait()
        [entry] = await whole_log(storage, thread_id)
        assert (entry.kind, entry.data) == ("from.the.future", {"x": 1})

    # Appending

    async def test_the_drafts_of_one_append_stay_together(self, storage: Storage) -> None:
        """2.1, with two concurrent writers."""
        thread_id = await store_thread(storage)

        def append(writer: int) -> None:
            for turn in range(50):
                storage.log.append(thread_id, [note([writer, turn, part]) for part in range(3)])

        await _on_threads(*(partial(append, writer) for writer in range(2)))
        await storage.log.append(thread_id, [note("end")]).wait()
        written = values(await whole_log(storage, thread_id))[:-1]
        triples = [written[at : at + 3] for at in range(0, len(written), 3)]
        assert len(triples) == 100
        assert all([[*triple[0][:2], part] for part in range(3)] == triple for triple in triples)

    async def test_appends_of_each_concurrent_writer_keep_their_order(self, storage: Storage) -> None:
        """2.2, and 1.2 under contention."""
        thread_id = await store_thread(storage)

        def append(writer: int) -> None:
            for turn in range(100):
                storage.log.append(thread_id, [note([writer, turn])])

        await _on_threads(*(partial(append, writer) for writer in range(4)))
        await storage.log.append(thread_id, [note("end")]).wait()
        entries = await whole_log(storage, thread_id)
        assert [entry.seq for entry in entries] == list(range(1, 402))
        for writer in range(4):
            turns = [value[1] for value in values(entries)[:-1] if value[0] == writer]
            assert turns == list(range(100))

    async def test_a_committed_entry_can_be_read(self, storage: Storage) -> None:
        """2.3, 2.4"""
        thread_id = await store_thread(storage)
        for number in range(1, 20):
            await storage.log.append(thread_id, [note(number)]).wait()
            assert await storage.log.last(thread_id) == number
            assert len(await whole_log(storage, thread_id)) == number

    async def test_a_commit_can_be_awaited_twice_and_on_another_loop(self, storage: Storage) -> None:
        """2.3: graphs append from another event loop."""
        thread_id = await store_thread(storage)

        async def append_and_wait() -> None:
            commit = storage.log.append(thread_id, [note("elsewhere")])
            await commit.wait()
            await commit.wait()

        await asyncio.to_thread(lambda: asyncio.run(append_and_wait()))
        assert values(await whole_log(storage, thread_id)) == ["elsewhere"]

    async def test_a_commit_is_durable_only_after_all_earlier_ones(self, storage: Storage) -> None:
        """2.2, 2.4"""
        thread_id = await store_thread(storage)
        commits = [storage.log.append(thread_id, [note(number)]) for number in range(200)]
        await commits[-1].wait()
        assert values(await whole_log(storage, thread_id)) == list(range(200))
        for commit in commits:
            await commit.wait()

    async def test_appending_nothing_adds_nothing(self, storage: Storage) -> None:
        """2.1"""
        thread_id = await store_thread(storage)
        await storage.log.append(thread_id, []).wait()
        assert await storage.log.last(thread_id) == 0

    async def test_appending_to_an_unknown_thread_is_rejected(self, storage: Storage) -> None:
        thread_id = new_thread_id()
        with pytest.raises(NotFound):
            await storage.log.append(thread_id, [note("lost")]).wait()
        assert await whole_log(storage, thread_id) == []

    async def test_a_new_thread_can_be_appended_to_immediately(self, storage: Storage) -> None:
        thread_id = await store_thread(storage)
        await storage.log.append(thread_id, [note("immediately")]).wait()
        assert await storage.log.last(thread_id) == 1

    async def test_a_writer_that_waits_for_room_loses_nothing(self, storage: Storage) -> None:
        """2.7"""
        run = await start_on_new_thread(storage)
        handle = storage.handle(run)

        async def outrun_the_disk() -> None:
            for number in range(3000):
                handle.append([note(number)])
                if handle.queue_full:
                    await handle.wait_for_room()

        await asyncio.to_thread(lambda: asyncio.run(outrun_the_disk()))
        await write(storage, run, "end")
        assert values(await whole_log(storage, run.thread_id)) == [*range(3000), "end"]

    async def test_an_empty_queue_has_room(self, storage: Storage) -> None:
        """2.7"""
        handle = storage.handle(await start_on_new_thread(storage))
        assert not handle.queue_full
        await handle.wait_for_room()

    # The fence

    async def test_a_fenced_entry_carries_its_run_and_attempt(self, storage: Storage) -> None:
        """2.5"""
        run = await start_on_new_thread(storage)
        await write(storage, run, "mine")
        entry = (await whole_log(storage, run.thread_id))[-1]
        assert Fence(run.run_id, 1) == (entry.run_id, entry.attempt)

    async def test_a_run_that_was_never_claimed_is_fenced(self, storage: Storage) -> None:
        """2.6"""
        run = await accept(storage, await store_thread(storage))
        for attempt in (0, 1):
            await _is_fenced(storage, replace(run, attempt=attempt))

    async def test_another_attempt_is_fenced(self, storage: Storage) -> None:
        """2.5"""
        run = await start_on_new_thread(storage)
        for attempt in (0, 2, -1):
            await _is_fenced(storage, replace(run, attempt=attempt))

    async def test_an_attempt_holds_only_its_own_thread(self, storage: Storage) -> None:
        """2.5: neither another thread nor an unknown one."""
        run = await start_on_new_thread(storage)
        other = await start_on_new_thread(storage)
        await _is_fenced(storage, replace(run, thread_id=other.thread_id))
        await _is_fenced(storage, replace(run, thread_id=new_thread_id()))

    async def test_a_finished_attempt_is_fenced(self, storage: Storage) -> None:
        """2.6"""
        run = await start_on_new_thread(storage)
        assert await storage.handle(run).finish(Ending("success"), NOW)
        await _is_fenced(storage, run)

    async def test_a_rolled_back_attempt_is_fenced(self, storage: Storage) -> None:
        """2.6"""
        run = await start_on_new_thread(storage)
        assert await storage.handle(run).finish(Ending("interrupted", rollback=True), NOW)
        await _is_fenced(storage, run)

    async def test_a_released_attempt_stays_fenced_after_the_next_claim(self, storage: Storage) -> None:
        """2.6"""
        run = await start_on_new_thread(storage)
        assert await storage.handle(run).release(NOW)
        await _is_fenced(storage, run)
        [again] = await storage.runs.claim(1, LEASE, now=NOW)
        await _is_fenced(storage, run)
        await write(storage, again, "the next attempt writes")

    async def test_a_recovered_attempt_is_fenced(self, storage: Storage) -> None:
        """2.6"""
        run = await start_on_new_thread(storage)
        await storage.runs.reclaim(NOW)
        await _is_fenced(storage, run)

    async def test_an_attempt_whose_thread_was_deleted_is_fenced(self, storage: Storage) -> None:
        """2.6"""
        run = await start_on_new_thread(storage)
        await storage.threads.delete(run.thread_id)
        await _is_fenced(storage, run)
        assert not await storage.handle(run).finish(Ending("success"), NOW)

    async def test_a_cancelled_attempt_still_holds_its_thread(self, storage: Storage) -> None:
        """2.6: it has not yet written how it ended."""
        run = await start_on_new_thread(storage)
        await storage.runs.cancel(run.run_id, "interrupt", NOW)
        await write(storage, run, "still writing")
        assert values(await whole_log(storage, run.thread_id)) == ["still writing"]

    # Reading and following

    async def test_reading_returns_the_entries_after_a_position_up_to_the_limit(self, storage: Storage) -> None:
        """3.1"""
        thread_id = await store_thread(storage)
        await storage.log.append(thread_id, [note(number) for number in range(1, 11)]).wait()

        async def numbers(after: int, limit: int) -> list[int]:
            return [entry.seq for entry in await storage.log.read(thread_id, Seq(after), limit=limit)]

        assert await numbers(0, 3) == [1, 2, 3]
        assert await numbers(3, 4) == [4, 5, 6, 7]
        assert await numbers(8, 100) == [9, 10]
        assert await numbers(10, 100) == []
        assert await numbers(10**17, 100) == []

    async def test_reading_one_run_returns_only_its_entries(self, storage: Storage) -> None:
        """3.1: the limit counts returned entries, not skipped ones."""
        first = await start_on_new_thread(storage)
        await write(storage, first, "a", "b")
        await storage.log.append(first.thread_id, [note("outside")]).wait()
        await storage.handle(first).finish(Ending("success"), NOW)
        second = await start(storage, first.thread_id)
        await write(storage, second, "c", "d")
        read = partial(storage.log.read, first.thread_id, run_id=second.run_id)
        assert [entry.seq for entry in await read(START)] == [6, 7, 8]
        assert [entry.seq for entry in await read(START, limit=2)] == [6, 7]
        assert [entry.seq for entry in await read(Seq(7), limit=2)] == [8]
        assert await read(Seq(8)) == []
        of_first = await storage.log.read(first.thread_id, START, run_id=first.run_id)
        assert [entry.seq for entry in of_first] == [1, 2, 3, 5]

    async def test_a_thread_that_does_not_exist_reads_as_empty(self, storage: Storage) -> None:
        """3.1"""
        assert await storage.log.read(new_thread_id(), START) == []
        assert await storage.log.last(new_thread_id()) == 0

    async def test_threads_have_separate_logs(self, storage: Storage) -> None:
        """3.1"""
        one, other = await store_thread(storage), await store_thread(storage)
        await storage.log.append(one, [note("one")]).wait()
        await storage.log.append(other, [note("other")]).wait()
        assert values(await whole_log(storage, one)) == ["one"]
        assert values(await whole_log(storage, other)) == ["other"]

    async def test_watching_before_reading_misses_nothing(self, storage: Storage) -> None:
        """3.2, with a writer on another operating-system thread."""
        thread_id = await store_thread(storage)

        def append() -> None:
            for number in range(500):
                storage.log.append(thread_id, [note(number)])

        writer = threading.Thread(target=append)
        with storage.log.watch(thread_id) as wakeup:
            writer.start()
            entries: list[Entry] = []
            while len(entries) < 500:
                cursor = entries[-1].seq if entries else START
                page = await storage.log.read(thread_id, cursor, limit=50)
                entries += page
                if not page:
                    assert await wakeup.wait(WAKEUP_TIMEOUT), "an entry arrived without a wakeup"
        writer.join()
        assert values(entries) == list(range(500))

    async def test_every_watcher_is_woken_only_by_its_own_thread(self, storage: Storage) -> None:
        """3.2"""
        one, other = await store_thread(storage), await store_thread(storage)
        watch = storage.log.watch
        with watch(one) as first, watch(one) as second, watch(other) as foreign:
            await storage.log.append(one, [note("hello")]).wait()
            assert await first.wait(WAKEUP_TIMEOUT)
            assert await second.wait(WAKEUP_TIMEOUT)
            assert not await foreign.wait(0)

    async def test_a_watcher_is_still_woken_after_another_has_stopped(self, storage: Storage) -> None:
        """3.2"""
        thread_id = await store_thread(storage)
        with storage.log.watch(thread_id) as stays:
            with storage.log.watch(thread_id):
                pass
            await storage.log.append(thread_id, [note("hello")]).wait()
            assert await stays.wait(WAKEUP_TIMEOUT)

    async def test_accepting_and_ending_a_run_wakes_its_watchers(self, storage: Storage) -> None:
        """3.2: entries written together with a row are ordinary entries."""
        thread_id = await store_thread(storage)
        with storage.log.watch(thread_id) as wakeup:
            run = await accept(storage, thread_id)
            assert await wakeup.wait(WAKEUP_TIMEOUT)
        await storage.runs.claim(1, LEASE, now=NOW)
        with storage.log.watch(thread_id) as wakeup:
            await storage.handle(replace(run, attempt=1)).finish(Ending("success"), NOW)
            assert await wakeup.wait(WAKEUP_TIMEOUT)

    async def test_a_thread_can_be_watched_before_it_exists(self, storage: Storage) -> None:
        """3.2: `accept` may create it."""
        thread_id = new_thread_id()
        with storage.log.watch(thread_id) as wakeup:
            await accept(storage, thread_id, create_thread=True)
            assert await wakeup.wait(WAKEUP_TIMEOUT)

    async def test_wakeups_do_not_accumulate(self, storage: Storage) -> None:
        """3.3: there are at most as many as appends, and then none."""
        thread_id = await store_thread(storage)
        with storage.log.watch(thread_id) as wakeup:
            for number in range(20):
                await storage.log.append(thread_id, [note(number)]).wait()
            assert await wakeup.wait(WAKEUP_TIMEOUT)
            hints = 1
            while await wakeup.wait(0.01):
                hints += 1
        assert hints <= 20

    async def test_a_log_can_be_written_while_it_is_being_read(self, storage: Storage) -> None:
        """3.4"""
        thread_id = await store_thread(storage)
        await storage.log.append(thread_id, [note(1), note(2)]).wait()
        page = await storage.log.read(thread_id, START, limit=1)
        await storage.log.append(thread_id, [note(3)]).wait()
        page += await storage.log.read(thread_id, page[-1].seq)
        assert values(page) == [1, 2, 3]


async def _is_fenced(storage: Storage, run: Run) -> None:
    before = await whole_log(storage, run.thread_id)
    with pytest.raises(Fenced):
        await storage.handle(run).append([note("stale"), note("stale too")]).wait()
    assert await whole_log(storage, run.thread_id) == before


async def _on_threads(*targets: "partial[None]") -> None:
    await asyncio.gather(*(asyncio.to_thread(target) for target in targets))
