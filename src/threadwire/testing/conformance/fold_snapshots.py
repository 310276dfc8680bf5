"""Conformance tests for snapshots of folds: the newest one of each name, for as long as its thread exists."""

import pytest

from threadwire.core.ids import Seq, ThreadId
from threadwire.core.records import Ending, FoldSnapshot
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.samples import NOW, a_thread, new_thread_id, note, start, store_thread

NAME = "sum"


def at(seq: int, data: bytes = b"data") -> FoldSnapshot:
    return FoldSnapshot(Seq(seq), data)


async def thread_of_three(storage: Storage) -> ThreadId:
    thread_id = await store_thread(storage)
    await storage.log.append(thread_id, [note(each) for each in range(3)]).wait()
    return thread_id


class FoldSnapshotsConformance:
    pytestmark = pytest.mark.anyio

    async def test_a_snapshot_is_returned_as_it_was_stored(self, storage: Storage) -> None:
        thread_id = await thread_of_three(storage)
        assert await storage.fold_snapshots.get(thread_id, NAME) is None
        for seq, data in enumerate((b"", bytes(range(256)), b"long " * 100_000), 1):
            await storage.fold_snapshots.put(thread_id, NAME, at(seq, data))
            assert await storage.fold_snapshots.get(thread_id, NAME) == at(seq, data)

    async def test_threads_and_names_are_separate(self, storage: Storage) -> None:
        one, other = await thread_of_three(storage), await thread_of_three(storage)
        await storage.fold_snapshots.put(one, NAME, at(1, b"one"))
        await storage.fold_snapshots.put(one, "other", at(2, b"other name"))
        await storage.fold_snapshots.put(other, NAME, at(3, b"other thread"))
        assert await storage.fold_snapshots.get(one, NAME) == at(1, b"one")
        assert await storage.fold_snapshots.get(one, "other") == at(2, b"other name")
        assert await storage.fold_snapshots.get(other, NAME) == at(3, b"other thread")

    async def test_an_older_snapshot_does_not_replace_a_newer_one(self, storage: Storage) -> None:
        thread_id = await thread_of_three(storage)
        for seq, data in ((2, b"first"), (1, b"older"), (2, b"as old")):
            await storage.fold_snapshots.put(thread_id, NAME, at(seq, data))
        assert await storage.fold_snapshots.get(thread_id, NAME) == at(2, b"first")

    async def test_a_snapshot_of_what_is_not_in_the_log_is_not_stored(self, storage: Storage) -> None:
        thread_id, unknown = await thread_of_three(storage), new_thread_id()
        await storage.fold_snapshots.put(thread_id, NAME, at(4))
        await storage.fold_snapshots.put(unknown, NAME, at(1))
        assert await storage.fold_snapshots.get(thread_id, NAME) is None
        assert await storage.fold_snapshots.get(unknown, NAME) is None

    async def test_a_thread_is_deleted_with_its_snapshots(self, storage: Storage) -> None:
        thread_id = await thread_of_three(storage)
        await storage.fold_snapshots.put(thread_id, NAME, at(3))
        await storage.threads.delete(thread_id)
        assert await storage.fold_snapshots.get(thread_id, NAME) is None
        await storage.threads.create(a_thread(thread_id=thread_id))
        assert await storage.fold_snapshots.get(thread_id, NAME) is None

    async def test_a_discarded_thread_is_swept_with_its_snapshots(self, storage: Storage) -> None:
        thread_id = await store_thread(storage)
        run = await start(storage, thread_id, temporary=True)
        await storage.fold_snapshots.put(thread_id, NAME, at(1))
        assert await storage.handle(run).finish(Ending("success"), NOW)
        await storage.fold_snapshots.put(thread_id, NAME, at(2))  # the thread no longer exists
        await storage.threads.sweep([thread_id])
        assert await storage.fold_snapshots.get(thread_id, NAME) is None
