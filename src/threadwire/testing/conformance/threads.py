"""What keeping threads must mean."""

from dataclasses import replace
from typing import Any

import pytest

from threadwire.core.entries import START, Draft, Kind
from threadwire.core.ids import ThreadId
from threadwire.core.records import Ending, Settled, ThreadQuery
from threadwire.errors import Conflict, NotFound
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.hostile import INNOCENT, NEVER_STORED, with_every_hostile_key
from threadwire.testing.conformance.samples import (
    NOW,
    a_thread,
    accept,
    keep_thread,
    new_thread_id,
    note,
    start,
    the_run,
    the_thread,
    whole_log,
    write,
)

SORTS = ("thread_id", "status", "created_at", "updated_at", "state_updated_at")
RESET = Draft(Kind.STATE_RESET, {"cause": "update"}, at=NOW)


class ThreadsConformance:
    pytestmark = pytest.mark.anyio

    # Rows

    async def test_a_thread_comes_back_as_it_was_kept(self, storage: Storage) -> None:
        thread = a_thread(
            status="interrupted",
            state_updated_at=NOW + 3,
            metadata={"user": "ada", "tags": ["x", None], "deep": {"n": 1.5}},
            config={"configurable": {"model": "x"}},
            values={"messages": [{"content": "hi"}]},
            interrupts={"task": [{"value": 1, "id": "i"}]},
            error={"error": "E", "message": "m"},
            owner="ada",
        )
        assert await storage.threads.create(thread) == thread
        assert await storage.threads.get(thread.thread_id) == thread

    async def test_an_unknown_thread_is_none(self, storage: Storage) -> None:
        assert await storage.threads.get(new_thread_id()) is None

    async def test_an_id_can_be_taken_once(self, storage: Storage) -> None:
        kept = await storage.threads.create(a_thread(metadata={"n": 1}))
        with pytest.raises(Conflict):
            await storage.threads.create(replace(kept, metadata={"n": 2}))
        assert await storage.threads.get(kept.thread_id) == kept

    async def test_doing_nothing_about_a_taken_id_returns_what_is_there(self, storage: Storage) -> None:
        kept = await storage.threads.create(a_thread(metadata={"n": 1}))
        again = replace(kept, metadata={"n": 2})
        assert await storage.threads.create(again, if_exists="do_nothing") == kept
        assert await storage.threads.get(kept.thread_id) == kept

    async def test_updating_merges_metadata_key_by_key(self, storage: Storage) -> None:
        thread_id = await keep_thread(storage, metadata={"kept": 1, "deep": {"a": 1}})
        updated = await storage.threads.update(thread_id, metadata={"deep": {"b": 2}, "new": None}, now=NOW + 5)
        assert updated.metadata == {"kept": 1, "deep": {"b": 2}, "new": None}
        assert (updated.created_at, updated.updated_at) == (NOW, NOW + 5)
        assert await storage.threads.get(thread_id) == updated

    async def test_updating_an_unknown_thread_is_refused(self, storage: Storage) -> None:
        with pytest.raises(NotFound):
            await storage.threads.update(new_thread_id(), metadata={}, now=NOW)

    async def test_what_a_thread_holds_cannot_be_changed_through_shared_values(self, storage: Storage) -> None:
        metadata: dict[str, Any] = {"tags": ["x"]}
        thread_id = await keep_thread(storage, metadata=metadata)
        metadata["tags"].append("by the writer")
        for _ in range(2):
            thread = await the_thread(storage, thread_id)
            assert thread.metadata == {"tags": ["x"]}
            thread.metadata["tags"].append("by a reader")

    # Deletion

    async def test_deleting_removes_the_thread_its_runs_and_its_log(self, storage: Storage) -> None:
        thread_id = await keep_thread(storage)
        run = await start(storage, thread_id)
        waiting = await accept(storage, thread_id)
        await write(storage, run, "a")
        await storage.threads.delete(thread_id)
        assert await storage.threads.get(thread_id) is None
        assert await storage.log.read(thread_id, START) == []
        assert await storage.log.last(thread_id) == 0
        assert await storage.runs.get(run.run_id) is None
        assert await storage.runs.get(waiting.run_id) is None
        assert await storage.runs.list(thread_id) == []
        assert not await storage.runs.claim(10, now=NOW)
        assert await storage.threads.count(ThreadQuery()) == 0

    async def test_deleting_leaves_other_threads_alone(self, storage: Storage) -> None:
        gone, stays = await keep_thread(storage), await keep_thread(storage)
        run = await start(storage, stays)
        await storage.threads.delete(gone)
        await write(storage, run, "still here")
        assert await storage.log.last(stays) == 2

    async def test_a_deleted_thread_takes_no_entries_and_no_second_deletion(self, storage: Storage) -> None:
        thread_id = await keep_thread(storage)
        await storage.threads.delete(thread_id)
        with pytest.raises(NotFound):
            await storage.threads.delete(thread_id)
        with pytest.raises(NotFound):
            storage.log.append(thread_id, [note("late")])

    async def test_an_id_taken_again_starts_a_log_of_its_own(self, storage: Storage) -> None:
        thread_id = await keep_thread(storage)
        await storage.log.append(thread_id, [note("old"), note("old")]).wait()
        await storage.threads.delete(thread_id)
        await keep_thread(storage, thread_id=thread_id)
        await storage.log.append(thread_id, [note("new")]).wait()
        assert [(entry.seq, entry.data) for entry in await whole_log(storage, thread_id)] == [(1, {"value": "new"})]

    # Status and state

    async def test_a_thread_is_busy_while_it_has_active_runs(self, storage: Storage) -> None:
        thread_id = await keep_thread(storage)
        run = await accept(storage, thread_id)
        assert (await the_thread(storage, thread_id)).status == "busy"
        await storage.runs.claim(1, now=NOW)
        assert (await the_thread(storage, thread_id)).status == "busy"
        waiting = await accept(storage, thread_id)
        await storage.runs.finish((await the_run(storage, run.run_id)).fence, Ending("success"), NOW)
        assert (await the_thread(storage, thread_id)).status == "busy"
        await storage.runs.cancel(waiting.run_id, "rollback", NOW)
        assert (await the_thread(storage, thread_id)).status == "idle"

    async def test_a_busy_thread_is_found_as_busy_and_as_nothing_else(self, storage: Storage) -> None:
        busy, idle = await keep_thread(storage), await keep_thread(storage)
        await accept(storage, busy)
        assert await _found(storage, status="busy") == {busy}
        assert await _found(storage, status="idle") == {idle}
        assert await _found(storage, status="error") == set()

    async def test_settling_notes_the_state_and_appends_outside_a_run(self, storage: Storage) -> None:
        """1.4: one transaction, so who sees the entry sees the values."""
        thread_id = await keep_thread(storage)
        settled = Settled("interrupted", {"n": 1}, {"task": [{"value": "ok?"}]}, {"message": "m"})
        await storage.threads.settle(thread_id, settled, [RESET, note("x")], NOW + 9).wait()
        thread = await the_thread(storage, thread_id)
        assert (thread.status, thread.values, thread.interrupts, thread.error) == (
            "interrupted",
            {"n": 1},
            {"task": [{"value": "ok?"}]},
            {"message": "m"},
        )
        assert (thread.state_updated_at, thread.updated_at) == (NOW + 9, NOW + 9)
        entries = await whole_log(storage, thread_id)
        assert [(entry.seq, entry.kind, entry.run_id) for entry in entries] == [
            (1, Kind.STATE_RESET, None),
            (2, Kind.CUSTOM, None),
        ]

    async def test_settling_keeps_its_place_among_appends(self, storage: Storage) -> None:
        """2.2"""
        thread_id = await keep_thread(storage)
        storage.log.append(thread_id, [note("before")])
        storage.threads.settle(thread_id, Settled("idle", {}), [RESET], NOW)
        await storage.log.append(thread_id, [note("after")]).wait()
        kinds = [entry.kind for entry in await whole_log(storage, thread_id)]
        assert kinds == [Kind.CUSTOM, Kind.STATE_RESET, Kind.CUSTOM]

    async def test_settling_wakes_who_watches(self, storage: Storage) -> None:
        """3.2"""
        thread_id = await keep_thread(storage)
        with storage.log.watch(thread_id) as wakeup:
            await storage.threads.settle(thread_id, Settled("idle", {}), [RESET], NOW).wait()
            assert await wakeup.wait(20)

    async def test_settling_an_unknown_thread_is_refused(self, storage: Storage) -> None:
        with pytest.raises(NotFound):
            storage.threads.settle(new_thread_id(), Settled("idle", {}), [RESET], NOW)

    async def test_a_state_that_is_not_an_object_can_be_held(self, storage: Storage) -> None:
        """6.8"""
        thread_id = await keep_thread(storage)
        for state in (None, [1, 2], "text", 0, False):
            await storage.threads.settle(thread_id, Settled("idle", state), [], NOW).wait()
            assert (await the_thread(storage, thread_id)).values == state

    # Search

    async def test_an_empty_query_finds_threads_with_and_without_values(self, storage: Storage) -> None:
        bare = await keep_thread(storage)
        full = await keep_thread(storage, values={"n": 1})
        assert await _found(storage) == {bare, full}

    async def test_threads_are_found_by_what_they_contain(self, storage: Storage) -> None:
        metadata = {"user": "ada", "tags": ["x", "y"], "deep": {"a": {"b": 1, "c": 2}}, "on": True, "n": 1}
        mine = await keep_thread(storage, metadata=metadata, values={"topic": "maths", "n": 2})
        other = await keep_thread(storage, metadata={"user": "bob"}, values={"topic": "maths"})
        found: list[dict[str, Any]] = [
            {"user": "ada"},
            {"tags": ["y"]},
            {"tags": []},
            {"deep": {"a": {"b": 1}}},
            {"on": True, "n": 1},
            {"n": 1.0},
        ]
        for part in found:
            assert await _found(storage, metadata=part) == {mine}, part
        not_found: list[dict[str, Any]] = [
            {"user": "Ada"},
            {"user": None},
            {"tags": ["z"]},
            {"tags": "x"},
            {"deep": {"b": 1}},
            {"on": 1},
            {"n": True},
            {"n": "1"},
        ]
        for part in not_found:
            assert await _found(storage, metadata=part) == set(), part
        assert await _found(storage, values={"topic": "maths"}) == {mine, other}
        assert await _found(storage, values={"topic": "maths"}, metadata={"user": "bob"}) == {other}
        assert await _found(storage, values={"n": 2}) == {mine}

    async def test_a_missing_key_is_not_a_null(self, storage: Storage) -> None:
        null = await keep_thread(storage, metadata={"a": None})
        await keep_thread(storage, metadata={"b": 1})
        assert await _found(storage, metadata={"a": None}) == {null}

    async def test_threads_are_found_by_id(self, storage: Storage) -> None:
        one, two, _ = [await keep_thread(storage) for _ in range(3)]
        assert await _found(storage, ids=(one, two, new_thread_id())) == {one, two}
        assert await _found(storage, ids=(new_thread_id(),)) == set()

    @with_every_hostile_key
    async def test_a_hostile_key_is_only_a_key(self, storage: Storage, key: str) -> None:
        for metadata in INNOCENT:
            await keep_thread(storage, metadata=metadata, values=metadata)
        assert await _found(storage, metadata={key: 1}) == set()
        assert await _found(storage, values={key: 1}) == set()
        assert await _found(storage, metadata={"a": {key: 1}}) == set()
        mine = await keep_thread(storage, metadata={key: 1, "n": {key: [key]}}, values={key: {key: 1}})
        assert await _found(storage, metadata={key: 1}) == {mine}
        assert await _found(storage, metadata={"n": {key: [key]}}) == {mine}
        assert await _found(storage, values={key: {key: 1}}) == {mine}

    async def test_a_query_no_row_could_match_finds_nothing(self, storage: Storage) -> None:
        for metadata in INNOCENT:
            await keep_thread(storage, metadata=metadata, values=metadata)
        for query in NEVER_STORED:
            assert await _found(storage, metadata=query) == set()
            assert await _found(storage, values=query) == set()

    @pytest.mark.parametrize("sort_by", SORTS)
    @pytest.mark.parametrize("descending", [False, True])
    async def test_threads_are_sorted_by_any_column_both_ways(
        self, storage: Storage, sort_by: Any, descending: bool
    ) -> None:
        statuses = ("interrupted", "idle", "error", "idle")
        for at, status in enumerate(statuses):
            await keep_thread(
                storage,
                status=status,
                created_at=NOW + at,
                updated_at=NOW + at * 3 % 5,
                state_updated_at=NOW + at * 2 % 5,
            )
        await accept(storage, await keep_thread(storage, state_updated_at=NOW - 1), created_at=NOW + 50)
        found = await storage.threads.search(ThreadQuery(sort_by=sort_by, descending=descending))
        keys = [getattr(thread, sort_by) for thread in found]
        assert len(keys) == 5
        assert keys == sorted(keys, reverse=descending)

    async def test_threads_whose_state_never_moved_can_be_sorted_by_when_it_did(self, storage: Storage) -> None:
        threads = {await keep_thread(storage, state_updated_at=moment) for moment in (None, NOW, None)}
        for descending in (False, True):
            assert await _found(storage, sort_by="state_updated_at", descending=descending) == threads

    async def test_pages_follow_one_another(self, storage: Storage) -> None:
        threads = [await keep_thread(storage, created_at=NOW + at) for at in range(5)]
        pages = [await storage.threads.search(ThreadQuery(limit=2, offset=offset)) for offset in (0, 2, 4, 6)]
        found = [[thread.thread_id for thread in page] for page in pages]
        newest_first = threads[::-1]
        assert found == [newest_first[0:2], newest_first[2:4], newest_first[4:5], []]

    async def test_pages_of_rows_that_sort_alike_neither_repeat_nor_skip(self, storage: Storage) -> None:
        threads = {await keep_thread(storage) for _ in range(7)}
        for sort_by in ("created_at", "status"):
            seen = [
                thread.thread_id
                for offset in range(0, 7, 2)
                for thread in await storage.threads.search(ThreadQuery(limit=2, offset=offset, sort_by=sort_by))
            ]
            assert len(seen) == 7
            assert set(seen) == threads

    async def test_a_page_is_cut_from_what_matches(self, storage: Storage) -> None:
        for at in range(12):
            await keep_thread(storage, created_at=NOW + at, metadata={"even": at % 2 == 0})
        query = ThreadQuery(metadata={"even": True}, limit=4, offset=4)
        moments = [thread.created_at - NOW for thread in await storage.threads.search(query)]
        assert moments == [2, 0]
        assert await storage.threads.count(query) == 6


async def _found(storage: Storage, **query: Any) -> set[ThreadId]:
    """The ids a query gives, having checked that counting agrees."""
    wanted = ThreadQuery(**{"limit": 100} | query)
    threads = await storage.threads.search(wanted)
    assert await storage.threads.count(wanted) == len(threads)
    return {thread.thread_id for thread in threads}
