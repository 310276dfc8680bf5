"""Conformance tests for threads."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from threadwire.core.entries import START, Draft, Kind
from threadwire.core.ids import Seq, ThreadId
from threadwire.core.records import CheckpointPut, Ending, Put, StateSummary, ThreadQuery, Ttl, WritesPut
from threadwire.errors import Conflict, NotFound
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.hostile_metadata import INNOCENT, NEVER_STORED, with_every_hostile_key
from threadwire.testing.conformance.samples import (
    LEASE,
    NOW,
    a_thread,
    accept,
    new_thread_id,
    note,
    start,
    store_thread,
    the_run,
    the_thread,
    values,
    whole_log,
    write,
)
from threadwire.testing.conformance.saver_calls import a_step, config_of, id_of, save

SORTS = ("thread_id", "status", "created_at", "updated_at", "state_updated_at")
RESET = Draft(Kind.STATE_RESET, {"cause": "update"}, at=NOW)


class ThreadsConformance:
    pytestmark = pytest.mark.anyio

    # Rows

    async def test_a_thread_is_read_as_it_was_stored(self, storage: Storage) -> None:
        thread = a_thread(
            status="interrupted",
            state_updated_at=NOW + 3,
            metadata={"user": "ada", "tags": ["x", None], "deep": {"n": 1.5}},
            config={"configurable": {"model": "x"}},
            values={"messages": [{"content": "hi"}]},
            interrupts={"task": [{"value": 1, "id": "i"}]},
            error={"error": "E", "message": "m"},
            ttl=Ttl(1.5, "keep_latest"),
            owner="ada",
        )
        assert await storage.threads.create(thread) == thread
        assert await storage.threads.get(thread.thread_id) == thread

    async def test_an_unknown_thread_is_none(self, storage: Storage) -> None:
        assert await storage.threads.get(new_thread_id()) is None

    async def test_a_thread_without_state_has_everything_else(self, storage: Storage) -> None:
        thread = await storage.threads.create(
            a_thread(values={"n": 1}, interrupts={"t": []}, metadata={"a": 1}, status="error")
        )
        bare = await storage.threads.get(thread.thread_id, with_state=False)
        assert bare == replace(thread, values=None, interrupts={})
        assert await storage.threads.get(new_thread_id(), with_state=False) is None

    async def test_creating_a_thread_with_a_taken_id_is_a_conflict(self, storage: Storage) -> None:
        existing = await storage.threads.create(a_thread(metadata={"n": 1}))
        with pytest.raises(Conflict):
            await storage.threads.create(replace(existing, metadata={"n": 2}))
        assert await storage.threads.get(existing.thread_id) == existing

    async def test_do_nothing_returns_the_existing_thread(self, storage: Storage) -> None:
        existing = await storage.threads.create(a_thread(metadata={"n": 1}))
        again = replace(existing, metadata={"n": 2})
        assert await storage.threads.create(again, if_exists="do_nothing") == existing
        assert await storage.threads.get(existing.thread_id) == existing

    async def test_updating_merges_metadata_key_by_key(self, storage: Storage) -> None:
        thread_id = await store_thread(storage, metadata={"old": 1, "deep": {"a": 1}})
        updated = await storage.threads.update(thread_id, metadata={"deep": {"b": 2}, "new": None}, now=NOW + 5)
        assert updated.metadata == {"old": 1, "deep": {"b": 2}, "new": None}
        assert (updated.created_at, updated.updated_at) == (NOW, NOW + 5)
        assert await storage.threads.get(thread_id) == updated

    async def test_updating_replaces_the_ttl_only_if_one_is_given(self, storage: Storage) -> None:
        thread_id = await store_thread(storage)
        updated = await storage.threads.update(thread_id, metadata={}, ttl=Ttl(5), now=NOW + 1)
        assert (updated.ttl, updated.expires_at) == (Ttl(5, "delete"), NOW + 1 + 5 * 60_000)
        unchanged = await storage.threads.update(thread_id, metadata={"a": 1}, now=NOW + 2)
        assert (unchanged.ttl, unchanged.expires_at) == (Ttl(5), NOW + 2 + 5 * 60_000)
        replaced = await storage.threads.update(thread_id, metadata={}, ttl=Ttl(0.5, "keep_latest"), now=NOW + 3)
        assert replaced.ttl == Ttl(0.5, "keep_latest")
        assert await storage.threads.get(thread_id) == replaced
        removed = await storage.threads.update(thread_id, metadata={}, ttl=None, now=NOW + 4)
        assert (removed.ttl, removed.expires_at) == (None, None)
        assert await storage.threads.get(thread_id) == removed
        assert await storage.threads.due(NOW + 10**12, 10) == []

    async def test_search_finds_updated_metadata_and_not_what_it_replaced(self, storage: Storage) -> None:
        thread_id = await store_thread(storage, metadata={"user": "ada", "deep": {"a": 1, "b": 2}})
        await storage.threads.update(thread_id, metadata={"user": "bob", "deep": {"a": 3}}, now=NOW)
        for replaced in ({"user": "ada"}, {"deep": {"a": 1}}, {"deep": {"b": 2}}):
            assert await _found(storage, metadata=replaced) == set(), replaced
        assert await _found(storage, metadata={"user": "bob", "deep": {"a": 3}}) == {thread_id}

    async def test_a_new_thread_starts_with_the_given_entries(self, storage: Storage) -> None:
        """1.4: outside a run."""
        thread = await storage.threads.create(a_thread(values={"n": 1}), drafts=[RESET, note("x")])
        entries = await whole_log(storage, thread.thread_id)
        assert [(entry.seq, entry.kind, entry.run_id) for entry in entries] == [
            (1, Kind.STATE_RESET, None),
            (2, Kind.CUSTOM, None),
        ]
        run = await accept(storage, thread.thread_id)
        assert run.queued_seq == 3

    async def test_a_new_thread_takes_over_checkpoints_stored_before_it(self, storage: Storage) -> None:
        saver, source = storage.checkpoints.saver(durability="sync"), new_thread_id()
        first = await save(saver, source, None, value="first")
        stored = await save(saver, source, None, parent=first, value="second")
        await saver.aput_writes(stored, [("channel", 1)], "task")
        await save(saver, source, None, ns="child:1", value="inner")
        thread = await storage.threads.create(a_thread(), checkpoints_from=source)
        assert await storage.checkpoints.newest(source) is None
        assert await storage.checkpoints.newest(thread.thread_id) == (id_of(stored), None)
        found = await saver.aget_tuple(config_of(thread.thread_id))
        assert found is not None
        assert found.checkpoint["channel_values"] == {"value": "second"}
        assert found.pending_writes == [("task", "channel", 1)]
        assert found.parent_config is not None
        assert id_of(found.parent_config) == id_of(first)
        inner = await saver.aget_tuple(config_of(thread.thread_id, "child:1"))
        assert inner is not None
        assert inner.checkpoint["channel_values"] == {"value": "inner"}

    async def test_an_existing_thread_gets_neither_entries_nor_checkpoints(self, storage: Storage) -> None:
        existing = await storage.threads.create(a_thread())
        saver, source = storage.checkpoints.saver(durability="sync"), new_thread_id()
        stored = await save(saver, source, None)
        with pytest.raises(Conflict):
            await storage.threads.create(existing, drafts=[RESET], checkpoints_from=source)
        await storage.threads.create(existing, if_exists="do_nothing", drafts=[RESET], checkpoints_from=source)
        assert await storage.log.last(existing.thread_id) == 0
        assert await storage.checkpoints.newest(existing.thread_id) is None
        assert await storage.checkpoints.newest(source) == (id_of(stored), None)

    async def test_updating_an_unknown_thread_is_rejected(self, storage: Storage) -> None:
        with pytest.raises(NotFound):
            await storage.threads.update(new_thread_id(), metadata={}, now=NOW)

    async def test_mutating_shared_values_does_not_change_a_thread(self, storage: Storage) -> None:
        metadata: dict[str, Any] = {"tags": ["x"]}
        thread_id = await store_thread(storage, metadata=metadata)
        metadata["tags"].append("by the writer")
        for _ in range(2):
            thread = await the_thread(storage, thread_id)
            assert thread.metadata == {"tags": ["x"]}
            thread.metadata["tags"].append("by a reader")

    # Deletion

    async def test_deleting_removes_the_thread_its_runs_and_its_log(self, storage: Storage) -> None:
        thread_id = await store_thread(storage)
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
        assert not await storage.runs.claim(10, LEASE, now=NOW)
        assert await storage.threads.count(ThreadQuery()) == 0

    async def test_deleting_wakes_watchers(self, storage: Storage) -> None:
        thread_id = await store_thread(storage)
        with storage.log.watch(thread_id) as wakeup:
            await storage.threads.delete(thread_id)
            assert await wakeup.wait(20)

    async def test_a_deletion_is_remembered_until_the_thread_exists_again(self, storage: Storage) -> None:
        deleted, expired, other = [await store_thread(storage, ttl=Ttl(1)) for _ in range(3)]
        await storage.threads.delete(deleted)
        await storage.threads.expire(expired, NOW + 60_000)
        assert [await storage.threads.was_deleted(each) for each in (deleted, expired, other)] == [True, True, False]
        assert not await storage.threads.was_deleted(new_thread_id())
        await store_thread(storage, thread_id=deleted)
        assert not await storage.threads.was_deleted(deleted)
        await storage.threads.delete(deleted)
        assert await storage.threads.was_deleted(deleted)

    async def test_deleting_leaves_other_threads_alone(self, storage: Storage) -> None:
        deleted, other = await store_thread(storage), await store_thread(storage)
        run = await start(storage, other)
        await storage.threads.delete(deleted)
        await write(storage, run, "still here")
        assert await storage.log.last(other) == 2

    async def test_a_deleted_thread_can_be_neither_appended_to_nor_deleted(self, storage: Storage) -> None:
        thread_id = await store_thread(storage)
        await storage.threads.delete(thread_id)
        with pytest.raises(NotFound):
            await storage.threads.delete(thread_id)
        with pytest.raises(NotFound):
            await storage.log.append(thread_id, [note("late")]).wait()

    async def test_a_thread_created_again_starts_a_new_log(self, storage: Storage) -> None:
        thread_id = await store_thread(storage)
        await storage.log.append(thread_id, [note("old"), note("old")]).wait()
        await storage.threads.delete(thread_id)
        await store_thread(storage, thread_id=thread_id)
        await storage.log.append(thread_id, [note("new")]).wait()
        assert [(entry.seq, entry.data) for entry in await whole_log(storage, thread_id)] == [(1, {"value": "new"})]

    # Pruning and expiry

    async def test_pruning_keeps_the_newest_checkpoint_of_each_namespace(self, storage: Storage) -> None:
        thread_id = await store_thread(storage, values={"n": 1})
        newest = await _save_three(storage, thread_id)
        assert await storage.threads.prune(thread_id, NOW + 1)
        saver = storage.checkpoints.saver()
        for ns in ("", "child:1"):
            found = [each async for each in saver.alist(config_of(thread_id, ns))]
            assert [each.checkpoint["channel_values"] for each in found] == [{"value": "third"}]
        [entry] = await whole_log(storage, thread_id)
        assert (entry.kind, entry.run_id, entry.at) == (Kind.STATE_RESET, None, NOW + 1)
        assert entry.data == {"cause": "prune", "checkpoint_id": newest}
        thread = await the_thread(storage, thread_id)
        assert (thread.values, thread.updated_at) == ({"n": 1}, NOW)

    async def test_pruning_writes_no_entry_if_nothing_was_removed(self, storage: Storage) -> None:
        thread_id = await store_thread(storage)
        await save(storage.checkpoints.saver(durability="sync"), thread_id, None)
        assert await storage.threads.prune(thread_id, NOW)
        assert await storage.log.last(thread_id) == 0

    async def test_neither_a_thread_with_active_runs_nor_an_unknown_one_is_pruned(self, storage: Storage) -> None:
        thread_id = await store_thread(storage)
        await _save_three(storage, thread_id)
        run = await accept(storage, thread_id)
        assert not await storage.threads.prune(thread_id, NOW)
        assert not await storage.threads.prune(new_thread_id(), NOW)
        saver = storage.checkpoints.saver()
        assert len([each async for each in saver.alist(config_of(thread_id))]) == 3
        await storage.runs.cancel(run.run_id, "interrupt", NOW)
        assert await storage.threads.prune(thread_id, NOW)

    async def test_threads_are_due_once_their_ttl_has_elapsed(self, storage: Storage) -> None:
        await store_thread(storage)
        late = await store_thread(storage, ttl=Ttl(2))
        early = await store_thread(storage, ttl=Ttl(1))
        assert await storage.threads.due(NOW + 59_999, 10) == []
        assert await storage.threads.due(NOW + 60_000, 10) == [early]
        assert await storage.threads.due(NOW + 120_000, 10) == [early, late]
        assert await storage.threads.due(NOW + 120_000, 1) == [early]

    async def test_every_update_of_a_thread_postpones_its_expiry(self, storage: Storage) -> None:
        thread_id = await store_thread(storage, ttl=Ttl(1))
        expiry = NOW + 60_000
        await storage.threads.update(thread_id, metadata={}, now=NOW + 10)
        assert await storage.threads.due(expiry, 10) == []
        run = await accept(storage, thread_id, created_at=NOW + 20)
        await storage.runs.cancel(run.run_id, "interrupt", NOW + 30)
        assert await storage.threads.due(expiry + 29, 10) == []
        assert await _change_state(storage, thread_id, now=NOW + 40)
        assert await storage.threads.due(expiry + 39, 10) == []
        assert await storage.threads.due(expiry + 40, 10) == [thread_id]

    async def test_a_thread_with_active_runs_is_never_due(self, storage: Storage) -> None:
        thread_id = await store_thread(storage, ttl=Ttl(1))
        run = await accept(storage, thread_id)
        long_after = NOW + 10**9
        assert await storage.threads.due(long_after, 10) == []
        assert await storage.threads.expire(thread_id, long_after) is None
        await storage.runs.cancel(run.run_id, "interrupt", NOW)
        assert await storage.threads.due(long_after, 10) == [thread_id]

    async def test_an_expired_thread_is_deleted(self, storage: Storage) -> None:
        expired = await store_thread(storage, ttl=Ttl(1), metadata={"a": 1})
        other = await store_thread(storage, ttl=Ttl(2))
        await storage.log.append(expired, [note("x")]).wait()
        await _save_three(storage, expired)
        assert await storage.threads.expire(expired, NOW + 59_999) is None
        assert await storage.threads.expire(expired, NOW + 60_000) == "delete"
        assert await storage.threads.get(expired) is None
        assert await storage.log.last(expired) == 0
        assert await storage.checkpoints.newest(expired) is None
        assert await _found(storage, metadata={"a": 1}) == set()
        assert await storage.threads.expire(expired, NOW + 60_000) is None
        assert await _found(storage) == {other}

    async def test_a_thread_that_expired_with_keep_latest_is_due_again_only_after_an_update(
        self, storage: Storage
    ) -> None:
        thread_id = await store_thread(storage, ttl=Ttl(1, "keep_latest"))
        newest = await _save_three(storage, thread_id)
        assert await storage.threads.expire(thread_id, NOW + 60_000) == "keep_latest"
        assert await storage.checkpoints.newest(thread_id) == (newest, None)
        assert len([each async for each in storage.checkpoints.saver().alist(config_of(thread_id))]) == 1
        assert await storage.threads.due(NOW + 10**9, 10) == []
        assert await storage.threads.expire(thread_id, NOW + 10**9) is None
        await storage.threads.update(thread_id, metadata={}, now=NOW + 60_001)
        assert await storage.threads.due(NOW + 120_000, 10) == []
        assert await storage.threads.due(NOW + 120_001, 10) == [thread_id]

    # Status and state

    async def test_a_thread_is_busy_while_it_has_active_runs(self, storage: Storage) -> None:
        thread_id = await store_thread(storage)
        run = await accept(storage, thread_id)
        assert (await the_thread(storage, thread_id)).status == "busy"
        await storage.runs.claim(1, LEASE, now=NOW)
        assert (await the_thread(storage, thread_id)).status == "busy"
        waiting = await accept(storage, thread_id)
        await storage.handle(await the_run(storage, run.run_id)).finish(Ending("success"), NOW)
        assert (await the_thread(storage, thread_id)).status == "busy"
        await storage.runs.cancel(waiting.run_id, "rollback", NOW)
        assert (await the_thread(storage, thread_id)).status == "idle"

    async def test_a_busy_thread_is_found_only_as_busy(self, storage: Storage) -> None:
        busy, idle = await store_thread(storage), await store_thread(storage)
        await accept(storage, busy)
        assert await _found(storage, status="busy") == {busy}
        assert await _found(storage, status="idle") == {idle}
        assert await _found(storage, status="error") == set()

    async def test_a_state_change_updates_the_thread_and_appends_outside_a_run(self, storage: Storage) -> None:
        """1.4: in one transaction, so a reader that sees the entry sees the values."""
        thread_id = await store_thread(storage)
        summary = StateSummary("interrupted", {"n": 1}, {"task": [{"value": "ok?"}]}, {"message": "m"})
        assert await _change_state(storage, thread_id, summary, [RESET, note("x")], now=NOW + 9)
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

    async def test_a_state_change_stores_its_checkpoints_with_the_entry(self, storage: Storage) -> None:
        """7.6"""
        thread_id = await store_thread(storage)
        base = await save(storage.checkpoints.saver(), thread_id, None, value="base")
        step = a_step(thread_id, None, parent=base, value=["moved"])
        stored = {"configurable": {**step[0]["configurable"], "checkpoint_id": step[1]["id"]}}
        on_base, on_new = (WritesPut(at, [("value", n)], "task", "") for n, at in enumerate((base, stored)))
        assert await _change_state(storage, thread_id, puts=[on_base, CheckpointPut(*step), on_new])
        newest, before = [each async for each in storage.checkpoints.saver().alist(config_of(thread_id))]
        assert newest.checkpoint["channel_values"] == {"value": ["moved"]}
        assert (newest.parent_config, newest.pending_writes) == (before.config, [("task", "value", 1)])
        assert (before.checkpoint["channel_values"], before.pending_writes) == (
            {"value": "base"},
            [("task", "value", 0)],
        )
        assert await storage.checkpoints.newest(thread_id) == (step[1]["id"], None)

    async def test_a_state_change_is_rejected_if_the_thread_has_changed(self, storage: Storage) -> None:
        """7.6: all or nothing."""
        thread_id = await store_thread(storage, values={"n": 0})
        await storage.log.append(thread_id, [note("one")]).wait()
        since = await storage.log.last(thread_id)
        storage.log.append(thread_id, [note("another")])  # not awaited, but enqueued first
        put = CheckpointPut(*a_step(thread_id, None))
        assert not await _change_state(storage, thread_id, StateSummary("idle", {"n": 1}), puts=[put], since=since)
        assert values(await whole_log(storage, thread_id)) == ["one", "another"]
        assert (await the_thread(storage, thread_id)).values == {"n": 0}
        assert await storage.checkpoints.newest(thread_id) is None
        assert await _change_state(storage, thread_id, StateSummary("idle", {"n": 1}), puts=[put])

    async def test_a_state_change_is_rejected_while_the_thread_has_active_runs(self, storage: Storage) -> None:
        """7.6: even if `since` includes their entries."""
        thread_id = await store_thread(storage, values={"n": 0})
        run = await accept(storage, thread_id)
        assert not await _change_state(storage, thread_id)
        await storage.runs.claim(1, LEASE, now=NOW)
        assert not await _change_state(storage, thread_id)
        assert (await the_thread(storage, thread_id)).values == {"n": 0}
        await storage.handle(await the_run(storage, run.run_id)).finish(Ending("success"), NOW)
        assert await _change_state(storage, thread_id)

    async def test_only_one_of_many_concurrent_changes_of_the_same_state_is_applied(self, storage: Storage) -> None:
        """7.6"""
        thread_id = await store_thread(storage)
        changes = [_change_state(storage, thread_id, StateSummary("idle", {"n": n}), since=START) for n in range(8)]
        applied = await asyncio.gather(*changes)
        assert applied.count(True) == 1
        assert (await the_thread(storage, thread_id)).values == {"n": applied.index(True)}
        assert len(await whole_log(storage, thread_id)) == 1

    async def test_a_state_change_wakes_watchers(self, storage: Storage) -> None:
        """3.2"""
        thread_id = await store_thread(storage)
        with storage.log.watch(thread_id) as wakeup:
            assert await _change_state(storage, thread_id)
            assert await wakeup.wait(20)

    async def test_a_state_change_of_an_unknown_thread_is_rejected(self, storage: Storage) -> None:
        with pytest.raises(NotFound):
            await _change_state(storage, new_thread_id())

    async def test_a_state_need_not_be_an_object(self, storage: Storage) -> None:
        """6.8"""
        thread_id = await store_thread(storage)
        for state in (None, [1, 2], "text", 0, False):
            assert await _change_state(storage, thread_id, StateSummary("idle", state), [])
            assert (await the_thread(storage, thread_id)).values == state

    # Search

    async def test_an_empty_query_finds_threads_with_and_without_values(self, storage: Storage) -> None:
        bare = await store_thread(storage)
        full = await store_thread(storage, values={"n": 1})
        assert await _found(storage) == {bare, full}

    async def test_threads_are_found_by_metadata_and_values(self, storage: Storage) -> None:
        metadata = {"user": "ada", "tags": ["x", "y"], "deep": {"a": {"b": 1, "c": 2}}, "on": True, "n": 1}
        mine = await store_thread(storage, metadata=metadata, values={"topic": "maths", "n": 2})
        other = await store_thread(storage, metadata={"user": "bob"}, values={"topic": "maths"})
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

    async def test_a_missing_key_does_not_match_null(self, storage: Storage) -> None:
        null = await store_thread(storage, metadata={"a": None})
        await store_thread(storage, metadata={"b": 1})
        assert await _found(storage, metadata={"a": None}) == {null}

    async def test_threads_are_found_by_id(self, storage: Storage) -> None:
        one, two, _ = [await store_thread(storage) for _ in range(3)]
        assert await _found(storage, ids=(one, two, new_thread_id())) == {one, two}
        assert await _found(storage, ids=(new_thread_id(),)) == set()

    async def test_threads_with_many_metadata_keys_are_found_by_any_of_them(self, storage: Storage) -> None:
        small = await store_thread(storage, metadata={"user": "ada", "n": 1})
        large = await store_thread(storage, metadata={"user": "ada"} | {f"k{at}": at for at in range(500)})
        await store_thread(storage, metadata={"user": "bob"} | {f"k{at}": at for at in range(500)})
        assert await _found(storage, metadata={"user": "ada"}) == {small, large}
        assert await _found(storage, metadata={"user": "ada", "k499": 499}) == {large}
        assert await _found(storage, metadata={"user": "ada", "n": 1}) == {small}
        assert await _found(storage, metadata={"k7": 8}) == set()
        assert await _found(storage, metadata={"user": "ada"}, ids=(large,)) == {large}
        many = {f"k{at}": at for at in range(100)}
        assert await _found(storage, metadata={"user": "ada"} | many) == {large}
        assert await _found(storage, metadata=many | {"k99": 0}) == set()
        await storage.threads.update(large, metadata={"user": "eve"}, now=NOW)
        assert await _found(storage, metadata={"user": "ada"}) == {small}
        assert await _found(storage, metadata={"user": "eve"}) == {large}

    async def test_filters_combine_in_every_sort_order(self, storage: Storage) -> None:
        for at in range(12):
            metadata = {"even": at % 2 == 0, "third": at % 3, "same": True, "tags": [at % 2]}
            thread_id = await store_thread(storage, metadata=metadata, created_at=NOW + at, values={"at": at % 4})
            if at % 4 == 0:
                await accept(storage, thread_id, created_at=NOW + 100 + at)
        for sort_by in SORTS:
            for descending in (False, True):
                sort: dict[str, Any] = {"sort_by": sort_by, "descending": descending}
                assert len(await _found(storage, metadata={"same": True, "even": True, "third": 0}, **sort)) == 2
                assert len(await _found(storage, metadata={"same": True}, status="busy", **sort)) == 3
                assert len(await _found(storage, metadata={"third": 0}, status="busy", **sort)) == 1
                assert len(await _found(storage, metadata={"tags": [1]}, status="idle", **sort)) == 6
                assert len(await _found(storage, metadata={"even": True}, values={"at": 2}, **sort)) == 3

    async def test_searching_without_state_returns_everything_else(self, storage: Storage) -> None:
        thread_id = await store_thread(
            storage, values={"n": 1}, interrupts={"t": []}, metadata={"a": 1}, status="error"
        )
        [bare] = await storage.threads.search(ThreadQuery(values={"n": 1}, with_state=False))
        assert bare == replace(await the_thread(storage, thread_id), values=None, interrupts={})

    @with_every_hostile_key
    async def test_a_hostile_key_is_treated_as_plain_text(self, storage: Storage, key: str) -> None:
        for metadata in INNOCENT:
            await store_thread(storage, metadata=metadata, values=metadata)
        assert await _found(storage, metadata={key: 1}) == set()
        assert await _found(storage, values={key: 1}) == set()
        assert await _found(storage, metadata={"a": {key: 1}}) == set()
        mine = await store_thread(storage, metadata={key: 1, "n": {key: [key]}}, values={key: {key: 1}})
        assert await _found(storage, metadata={key: 1}) == {mine}
        assert await _found(storage, metadata={"n": {key: [key]}}) == {mine}
        assert await _found(storage, values={key: {key: 1}}) == {mine}

    async def test_a_query_that_no_row_can_match_finds_nothing(self, storage: Storage) -> None:
        for metadata in INNOCENT:
            await store_thread(storage, metadata=metadata, values=metadata)
        for query in NEVER_STORED:
            assert await _found(storage, metadata=query) == set()
            assert await _found(storage, values=query) == set()

    @pytest.mark.parametrize("sort_by", SORTS)
    @pytest.mark.parametrize("descending", [False, True])
    async def test_threads_are_sorted_by_any_column_in_both_directions(
        self, storage: Storage, sort_by: Any, descending: bool
    ) -> None:
        statuses = ("interrupted", "idle", "error", "idle")
        for at, status in enumerate(statuses):
            await store_thread(
                storage,
                status=status,
                created_at=NOW + at,
                updated_at=NOW + at * 3 % 5,
                state_updated_at=NOW + at * 2 % 5,
            )
        await accept(storage, await store_thread(storage, state_updated_at=NOW - 1), created_at=NOW + 50)
        found = await storage.threads.search(ThreadQuery(sort_by=sort_by, descending=descending))
        keys = [getattr(thread, sort_by) for thread in found]
        assert len(keys) == 5
        assert keys == sorted(keys, reverse=descending)

    async def test_threads_whose_state_never_changed_can_be_sorted_by_its_update_time(self, storage: Storage) -> None:
        threads = {await store_thread(storage, state_updated_at=at) for at in (None, NOW, None)}
        for descending in (False, True):
            assert await _found(storage, sort_by="state_updated_at", descending=descending) == threads

    async def test_pages_are_consecutive(self, storage: Storage) -> None:
        threads = [await store_thread(storage, created_at=NOW + at) for at in range(5)]
        pages = [await storage.threads.search(ThreadQuery(limit=2, offset=offset)) for offset in (0, 2, 4, 6)]
        found = [[thread.thread_id for thread in page] for page in pages]
        newest_first = threads[::-1]
        assert found == [newest_first[0:2], newest_first[2:4], newest_first[4:5], []]

    async def test_pages_of_tied_rows_neither_repeat_nor_skip(self, storage: Storage) -> None:
        threads = {await store_thread(storage) for _ in range(7)}
        for sort_by in ("created_at", "status"):
            seen = [
                thread.thread_id
                for offset in range(0, 7, 2)
                for thread in await storage.threads.search(ThreadQuery(limit=2, offset=offset, sort_by=sort_by))
            ]
            assert len(seen) == 7
            assert set(seen) == threads

    async def test_ties_are_broken_by_id(self, storage: Storage) -> None:
        threads = [await store_thread(storage, state_updated_at=NOW) for _ in range(5)]
        by_update = [await store_thread(storage, status="error", updated_at=NOW + at) for at in (2, 1, 3)]
        for descending in (False, True):
            for sort_by in ("thread_id", "created_at", "updated_at", "state_updated_at"):
                query = ThreadQuery(status="idle", sort_by=sort_by, descending=descending)
                found = [thread.thread_id for thread in await storage.threads.search(query)]
                assert found == sorted(threads, reverse=descending)
            query = ThreadQuery(status="error", sort_by="status", descending=descending)
            found = [thread.thread_id for thread in await storage.threads.search(query)]
            assert found == [by_update[1], by_update[0], by_update[2]][:: -1 if descending else 1]

    async def test_paging_applies_to_matching_rows(self, storage: Storage) -> None:
        for at in range(12):
            await store_thread(storage, created_at=NOW + at, metadata={"even": at % 2 == 0})
        query = ThreadQuery(metadata={"even": True}, limit=4, offset=4)
        offsets = [thread.created_at - NOW for thread in await storage.threads.search(query)]
        assert offsets == [2, 0]
        assert await storage.threads.count(query) == 6


async def _change_state(
    storage: Storage,
    thread_id: ThreadId,
    summary: StateSummary | None = None,
    drafts: Sequence[Draft] = (RESET,),
    *,
    puts: Sequence[Put] = (),
    since: Seq | None = None,
    now: int = NOW,
) -> bool:
    """Change the thread's state. By default, `since` is the last entry of its log."""
    since = await storage.log.last(thread_id) if since is None else since
    commit = storage.threads.commit_state(
        thread_id, summary or StateSummary("idle", {}), drafts, puts, since=since, now=now
    )
    return await commit.wait()


async def _save_three(storage: Storage, thread_id: ThreadId) -> str:
    """Save three checkpoints in each of two namespaces, and return the id of the newest root checkpoint."""
    saver = storage.checkpoints.saver(durability="sync")
    newest = ""
    for ns in ("child:1", ""):
        parent = None
        for value in ("first", "second", "third"):
            parent = await save(saver, thread_id, None, ns=ns, parent=parent, value=value)
            await saver.aput_writes(parent, [("channel", value)], "task")
            newest = id_of(parent)
    return newest


async def _found(storage: Storage, **query: Any) -> set[ThreadId]:
    """Return the ids a query finds, and check that `count` agrees."""
    wanted = ThreadQuery(**{"limit": 100} | query)
    threads = await storage.threads.search(wanted)
    assert await storage.threads.count(wanted) == len(threads)
    return {thread.thread_id for thread in threads}
