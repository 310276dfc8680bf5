"""Conformance tests for checkpoints: section 7 of spec/log.md, and LangGraph's own suite."""

import asyncio
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES

from threadwire.core.ids import ThreadId
from threadwire.core.records import CheckpointSizes, Durability, Ending, Run, Size
from threadwire.errors import Fenced
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.samples import (
    LEASE,
    NOW,
    a_run,
    accept,
    new_thread_id,
    start,
    start_on_new_thread,
    store_thread,
    values,
    whole_log,
    write,
)
from threadwire.testing.conformance.saver_calls import Saver, a_step, config_of, future_checkpoint_id, id_of, save


class CheckpointsConformance:
    pytestmark = pytest.mark.anyio

    @pytest.mark.parametrize("capability", sorted(each.value for each in ALL_CAPABILITIES))
    async def test_the_saver_passes_langgraphs_own_suite(self, storage: Storage, capability: str) -> None:
        """That suite relies on an unfenced saver accepting threads that have no row."""

        async def saver() -> Any:
            yield storage.checkpoints.saver()

        report = await validate(checkpointer_test(name=capability)(saver), capabilities={capability})
        result = report.results[capability]
        assert result.failures == []
        assert result.passed

    async def test_has_finds_a_checkpoint_only_by_its_thread_namespace_and_id(self, storage: Storage) -> None:
        thread_id, other = await store_thread(storage), await store_thread(storage)
        saver = storage.checkpoints.saver(durability="sync")
        root = id_of(await save(saver, thread_id, None))
        inner = id_of(await save(saver, thread_id, None, ns="child:1"))
        assert await storage.checkpoints.has(thread_id, root)
        assert await storage.checkpoints.has(thread_id, inner, "child:1")
        assert not await storage.checkpoints.has(thread_id, inner)
        assert not await storage.checkpoints.has(thread_id, root, "child:1")
        assert not await storage.checkpoints.has(other, root)
        assert not await storage.checkpoints.has(new_thread_id(), root)
        for text in ("", "nope", "\x00", "' OR 1"):
            assert not await storage.checkpoints.has(thread_id, text)
        await save(saver, thread_id, None)
        await storage.threads.prune(thread_id, NOW)
        assert not await storage.checkpoints.has(thread_id, root)

    @pytest.mark.parametrize("ns", ["", "child:1"])
    @pytest.mark.parametrize("forks", [False, True])
    async def test_a_checkpoint_saved_after_a_read_becomes_the_newest(
        self, storage: Storage, ns: str, forks: bool
    ) -> None:
        """Even if the clock was set back after the previous newest one was created."""
        thread_id = await store_thread(storage)
        saver = storage.checkpoints.saver(durability="sync")
        before = await save(saver, thread_id, None, ns=ns)
        await save(saver, thread_id, None, ns=ns, checkpoint_id=future_checkpoint_id())
        await storage.checkpoints.saver().aget_tuple(before if forks else config_of(thread_id, ns))
        after = await save(saver, thread_id, None, ns=ns, parent=before)
        found = await saver.aget_tuple(config_of(thread_id, ns))
        assert found is not None
        assert found.checkpoint["id"] == id_of(after)

    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_the_attempt_that_holds_the_thread_can_save(self, storage: Storage, durability: Durability) -> None:
        """7.2, 7.3: its reads see its own writes."""
        run = await start_on_new_thread(storage)
        saver = storage.handle(run).saver(durability)
        stored = await save(saver, run.thread_id, run.run_id, value="v1")
        await saver.aput_writes(stored, [("channel", {"n": 1})], "task")
        found = await saver.aget_tuple(config_of(run.thread_id))
        assert found is not None
        assert found.checkpoint["channel_values"] == {"value": "v1"}
        assert found.pending_writes == [("task", "channel", {"n": 1})]

    async def test_a_saver_for_an_empty_thread_sees_its_own_writes(self, storage: Storage) -> None:
        other, thread_id = await store_thread(storage), await store_thread(storage)
        run = (await storage.runs.accept(a_run(thread_id), claim=LEASE)).run
        assert run.is_first_on_thread
        await save(storage.checkpoints.saver(durability="sync"), other, None)
        saver = storage.handle(run).saver()
        assert await saver.aget_tuple(config_of(run.thread_id)) is None
        assert await saver.aget_tuple(config_of(other)) is not None
        await save(saver, run.thread_id, run.run_id, value="v1")
        found = await saver.aget_tuple(config_of(run.thread_id))
        assert found is not None
        assert found.checkpoint["channel_values"] == {"value": "v1"}
        assert await saver.aget_tuple(config_of(run.thread_id, "child:1")) is None

    async def test_a_saver_works_on_any_thread_and_event_loop(self, storage: Storage) -> None:
        """7.1: graphs run on other loops, and sync nodes call the saver without a loop."""
        run = await start_on_new_thread(storage)
        saver = storage.handle(run).saver("sync")

        async def on_another_loop() -> None:
            stored = await save(saver, run.thread_id, run.run_id, value="async")
            await saver.aput_writes(stored, [("channel", 1)], "task")
            assert await saver.aget_tuple(config_of(run.thread_id)) is not None
            assert len([found async for found in saver.alist(config_of(run.thread_id))]) == 1

        def without_a_loop() -> None:
            stored = saver.put(*a_step(run.thread_id, run.run_id, value="sync"))
            saver.put_writes(stored, [("channel", 2)], "task")
            found = saver.get_tuple(config_of(run.thread_id))
            assert found is not None
            assert found.checkpoint["channel_values"] == {"value": "sync"}
            assert len(list(saver.list(config_of(run.thread_id)))) == 2

        await asyncio.to_thread(lambda: asyncio.run(on_another_loop()))
        await asyncio.to_thread(without_a_loop)

    async def test_all_savers_of_a_storage_see_the_same_checkpoints(self, storage: Storage) -> None:
        run = await start_on_new_thread(storage)
        await save(storage.handle(run).saver("sync"), run.thread_id, run.run_id, value="shared")
        found = await storage.checkpoints.saver().aget_tuple(config_of(run.thread_id))
        assert found is not None
        assert found.checkpoint["channel_values"] == {"value": "shared"}

    async def test_checkpoints_and_entries_share_one_queue(self, storage: Storage) -> None:
        """7.1: once a later entry is committed, so is the checkpoint before it."""
        run = await start_on_new_thread(storage)
        saver = storage.handle(run).saver()
        for step in range(30):
            checkpoint_id = id_of(await save(saver, run.thread_id, run.run_id))
            await write(storage, run, step)
            assert await storage.checkpoints.newest(run.thread_id) == (checkpoint_id, run.run_id)
        assert values(await whole_log(storage, run.thread_id)) == list(range(30))

    # The fence

    async def test_a_finished_attempt_cannot_save(self, storage: Storage) -> None:
        """7.2"""
        run = await start_on_new_thread(storage)
        stored = await save(storage.handle(run).saver("sync"), run.thread_id, run.run_id)
        await storage.handle(run).finish(Ending("success"), NOW)
        await _cannot_save(storage, run, stored)

    async def test_a_released_attempt_cannot_save(self, storage: Storage) -> None:
        """7.2: not even after the next attempt has started."""
        run = await start_on_new_thread(storage)
        stored = await save(storage.handle(run).saver("sync"), run.thread_id, run.run_id)
        await storage.handle(run).release(NOW)
        await _cannot_save(storage, run, stored)
        await storage.runs.claim(1, LEASE, now=NOW)
        await _cannot_save(storage, run, stored)

    async def test_a_recovered_attempt_cannot_save(self, storage: Storage) -> None:
        """7.2"""
        run = await start_on_new_thread(storage)
        stored = await save(storage.handle(run).saver("sync"), run.thread_id, run.run_id)
        await storage.runs.reclaim(NOW)
        await _cannot_save(storage, run, stored)

    async def test_an_attempt_cannot_save_on_another_thread(self, storage: Storage) -> None:
        """7.2"""
        run, other = await start_on_new_thread(storage), await start_on_new_thread(storage)
        with pytest.raises(Fenced):
            await save(storage.handle(run).saver("sync"), other.thread_id, run.run_id)
        assert await storage.checkpoints.newest(other.thread_id) is None

    async def test_an_attempt_whose_thread_was_deleted_cannot_save(self, storage: Storage) -> None:
        """7.2"""
        run = await start_on_new_thread(storage)
        saver = storage.handle(run).saver("sync")
        await storage.threads.delete(run.thread_id)
        with pytest.raises(Fenced):
            await save(saver, run.thread_id, run.run_id)
        assert await storage.checkpoints.newest(run.thread_id) is None

    # The newest checkpoint

    async def test_the_newest_root_checkpoint_names_the_run_that_created_it(self, storage: Storage) -> None:
        """5.5"""
        run = await start_on_new_thread(storage)
        saver = storage.handle(run).saver("sync")
        await save(saver, run.thread_id, run.run_id)
        newest = await save(saver, run.thread_id, run.run_id)
        await save(saver, run.thread_id, run.run_id, ns="child:1")
        expected = (id_of(newest), run.run_id)
        assert await storage.checkpoints.newest(run.thread_id) == expected

    async def test_a_checkpoint_created_outside_a_run_names_no_run(self, storage: Storage) -> None:
        thread_id = await store_thread(storage)
        stored = await save(storage.checkpoints.saver(durability="sync"), thread_id, None)
        assert await storage.checkpoints.newest(thread_id) == (id_of(stored), None)

    async def test_a_thread_without_checkpoints_has_no_newest(self, storage: Storage) -> None:
        assert await storage.checkpoints.newest(await store_thread(storage)) is None
        assert await storage.checkpoints.newest(new_thread_id()) is None

    async def test_the_run_in_the_config_is_the_one_that_created_the_checkpoint(self, storage: Storage) -> None:
        """LangGraph merges the metadata of the config into the checkpoint's when it is put."""
        run = await start_on_new_thread(storage)
        config, checkpoint, metadata, versions = a_step(run.thread_id, None)
        config["metadata"] = {"run_id": run.run_id}
        saver = storage.handle(run).saver("sync")
        await saver.aput(config, checkpoint, metadata, versions)
        assert await storage.checkpoints.newest(run.thread_id) == (checkpoint["id"], run.run_id)

    async def test_sizes_report_what_the_checkpoints_of_a_thread_occupy(self, storage: Storage) -> None:
        thread_id, other = await store_thread(storage), await store_thread(storage)
        nothing = CheckpointSizes(Size(0, 0), {}, Size(0, 0))
        assert await storage.checkpoints.sizes(thread_id) == nothing
        saver = storage.checkpoints.saver(durability="sync")
        large = "x" * 10_000
        stored = await save(saver, thread_id, None, value=large)
        stored = await save(saver, thread_id, None, parent=stored, value=large)
        await saver.aput_writes(stored, [("channel", large), ("channel", large)], "task")
        sizes = await storage.checkpoints.sizes(thread_id)
        assert sizes.checkpoints.count == 2
        assert 0 < sizes.checkpoints.bytes < 10_000
        assert sizes.channels["value"].count == 2
        assert 20_000 <= sizes.channels["value"].bytes < 21_000
        assert sizes.writes.count == 2
        assert 20_000 <= sizes.writes.bytes < 21_000
        assert await storage.checkpoints.sizes(other) == nothing

    # Removal

    async def test_deleting_a_thread_deletes_its_checkpoints(self, storage: Storage) -> None:
        deleted, other = await store_thread(storage), await store_thread(storage)
        saver = storage.checkpoints.saver(durability="sync")
        for thread_id in (deleted, other):
            stored = await save(saver, thread_id, None)
            await saver.aput_writes(stored, [("channel", 1)], "task")
            await save(saver, thread_id, None, ns="child:1")
        await storage.threads.delete(deleted)
        assert await _ids(saver, deleted) == []
        assert len(await _ids(saver, other)) == 2

    async def test_rolling_back_removes_the_checkpoints_of_the_run_in_every_namespace(self, storage: Storage) -> None:
        """5.9"""
        first = await start_on_new_thread(storage)
        kept = await save(storage.handle(first).saver("sync"), first.thread_id, first.run_id)
        await storage.handle(first).finish(Ending("success"), NOW)
        run = await start(storage, first.thread_id)
        saver = storage.handle(run).saver()
        stored = await save(saver, run.thread_id, run.run_id, parent=kept, value="removed")
        await saver.aput_writes(stored, [("channel", 1)], "task")
        await save(saver, run.thread_id, run.run_id, ns="child:1")
        assert await storage.handle(run).finish(Ending("interrupted", rollback=True), NOW)
        kept_id = id_of(kept)
        reader = storage.checkpoints.saver()
        assert await _ids(reader, run.thread_id) == [kept_id]
        assert await reader.aget_tuple(stored) is None
        assert await storage.checkpoints.newest(run.thread_id) == (kept_id, first.run_id)
        found = await reader.aget_tuple(config_of(run.thread_id))
        assert found is not None
        assert found.checkpoint["channel_values"] == {"value": "v"}

    async def test_rolling_back_removes_the_answer_from_the_interrupted_checkpoint(self, storage: Storage) -> None:
        """5.9: a resumed run writes to the checkpoint of the interrupted run."""
        interrupted = await start_on_new_thread(storage)
        saver = storage.handle(interrupted).saver("sync")
        stored = await save(saver, interrupted.thread_id, interrupted.run_id)
        await saver.aput_writes(stored, [("__interrupt__", "ok?")], "task")
        await storage.handle(interrupted).finish(Ending("success"), NOW)
        resumed = await start(storage, interrupted.thread_id)
        await storage.handle(resumed).saver().aput_writes(stored, [("__resume__", "yes")], "task")
        assert await storage.handle(resumed).finish(Ending("interrupted", rollback=True), NOW)
        found = await storage.checkpoints.saver().aget_tuple(stored)
        assert found is not None
        assert found.pending_writes == [("task", "__interrupt__", "ok?")]

    async def test_recovering_a_run_due_for_rollback_removes_its_checkpoints(self, storage: Storage) -> None:
        """5.9"""
        run = await start_on_new_thread(storage)
        await save(storage.handle(run).saver("sync"), run.thread_id, run.run_id)
        await storage.runs.cancel(run.run_id, "rollback", NOW)
        await storage.runs.reclaim(NOW)
        assert await storage.checkpoints.newest(run.thread_id) is None

    async def test_rolling_back_a_released_run_removes_its_checkpoints(self, storage: Storage) -> None:
        """5.9: the run is pending, but has started before."""
        run = await start_on_new_thread(storage)
        await save(storage.handle(run).saver("sync"), run.thread_id, run.run_id)
        await storage.handle(run).release(NOW)
        await accept(storage, run.thread_id, multitask_strategy="rollback")
        assert await storage.checkpoints.newest(run.thread_id) is None

    async def test_other_endings_keep_the_checkpoints(self, storage: Storage) -> None:
        run = await start_on_new_thread(storage)
        stored = await save(storage.handle(run).saver("sync"), run.thread_id, run.run_id)
        await storage.handle(run).finish(Ending("error", error={"e": 1}), NOW)
        await storage.runs.delete(run.run_id)
        newest = await storage.checkpoints.newest(run.thread_id)
        assert newest == (id_of(stored), run.run_id)


async def _ids(saver: Saver, thread_id: ThreadId) -> list[str]:
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    return [found.checkpoint["id"] async for found in saver.alist(config)]


async def _cannot_save(storage: Storage, run: Run, stored: RunnableConfig) -> None:
    saver = storage.handle(run).saver("sync")
    before = [found async for found in saver.alist(config_of(run.thread_id))]
    with pytest.raises(Fenced):
        await save(saver, run.thread_id, run.run_id)
    with pytest.raises(Fenced):
        await saver.aput_writes(stored, [("channel", "stale")], "late")
    with pytest.raises(Fenced):
        await asyncio.to_thread(saver.put, *a_step(run.thread_id, run.run_id))
    assert [found async for found in saver.alist(config_of(run.thread_id))] == before
