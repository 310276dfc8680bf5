"""A disk that fills up and has room again, and a file that shrinks. The disk is a small file system of its own."""

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import anyio
import pytest

from small_disk import SmallDisk, small_disk
from threadwire.core.entries import Draft
from threadwire.core.records import Commit, Ending, Run
from threadwire.core.store_items import GetItem, Item, PutItem
from threadwire.errors import StorageFull, WriteTooLarge
from threadwire.storage.abc import Storage
from threadwire.storage.sqlite import open_sqlite_storage, upkeep
from threadwire.testing.conformance.samples import (
    NOW,
    a_thread,
    accept,
    claim_run,
    note,
    start_on_new_thread,
    store_thread,
    the_run,
    the_thread,
    values,
    whole_log,
    write,
)

pytestmark = pytest.mark.anyio

MEGABYTE = 1_000_000


@pytest.fixture(autouse=True)
def _frequent_upkeep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "FULL_INTERVAL", 0.02)
    monkeypatch.setattr(upkeep, "INTERVAL", 0.02)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as disk:
        yield disk


def large(size: int) -> Draft:
    """An entry that takes up about this many bytes when it is compressed."""
    return note(os.urandom(size).hex())


async def fill_up(storage: Storage, disk: SmallDisk, run: Run) -> int:
    """Fill the disk, then append until an entry is rejected. Returns the number of entries that were stored."""
    disk.fill(leave=2 * MEGABYTE)
    return await append_until_full(storage.handle(run).append)


async def append_until_full(append: Callable[[list[Draft]], Commit]) -> int:
    for number in range(100):
        try:
            await append([large(MEGABYTE // 2)]).wait()
        except StorageFull:
            return number
    raise AssertionError("the disk never became full")


async def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        await anyio.sleep(0.01)


def can_write(storage: Storage) -> Callable[[], bool]:
    return lambda: storage.write_error is None


async def test_on_a_full_disk_reads_are_served_and_writes_are_rejected_until_there_is_room(disk: SmallDisk) -> None:
    async with open_sqlite_storage(disk.path / "data") as storage:
        run = await start_on_new_thread(storage)
        await storage.items.abatch([PutItem(("a",), "k", {"n": 1}, ttl=1000)], NOW)
        await write(storage, run, "before")
        stored = await fill_up(storage, disk, run)
        assert isinstance(storage.write_error, StorageFull)
        with pytest.raises(StorageFull):
            await storage.threads.create(a_thread())
        with pytest.raises(StorageFull):
            await accept(storage, run.thread_id)
        with pytest.raises(StorageFull):
            storage.handle(run).append([note("rejected")])
        assert len(await whole_log(storage, run.thread_id)) == stored + 2
        assert (await the_thread(storage, run.thread_id)).status == "busy"
        [item] = await storage.items.abatch([GetItem(("a",), "k", refresh=True)], NOW)
        assert isinstance(item, Item)
        assert storage.fatal_error is None
        disk.free()
        await until(can_write(storage))
        await storage.threads.create(a_thread())
    async with open_sqlite_storage(disk.path / "data") as storage:
        assert values(await whole_log(storage, run.thread_id))[0] == "before"


async def test_an_attempt_that_lost_entries_is_released_and_resumes_when_there_is_room(disk: SmallDisk) -> None:
    async with open_sqlite_storage(disk.path / "data") as storage:
        run = await start_on_new_thread(storage)
        await fill_up(storage, disk, run)
        with pytest.raises(StorageFull):
            await storage.handle(run).finish(Ending(status="success"), NOW)
        assert await storage.handle(run).release(NOW)
        assert (await the_run(storage, run.run_id)).status == "pending"
        disk.free()
        await until(can_write(storage))
        again = await claim_run(storage, run.run_id)
        assert (again.attempt, again.crashes) == (run.attempt + 1, 0)
        await write(storage, again, "after")
        assert await storage.handle(again).finish(Ending(status="success"), NOW)
        assert values(await whole_log(storage, run.thread_id))[-1] == "after"


async def test_an_attempt_that_lost_nothing_can_end_on_a_full_disk(disk: SmallDisk) -> None:
    async with open_sqlite_storage(disk.path / "data") as storage:
        run, other = await start_on_new_thread(storage), await start_on_new_thread(storage)
        await write(storage, other, "all")
        await fill_up(storage, disk, run)
        assert await storage.handle(other).finish(Ending(status="success"), NOW)
        assert (await the_run(storage, other.run_id)).status == "success"


async def test_storage_opens_on_a_full_disk_and_recovers_runs(disk: SmallDisk) -> None:
    async with open_sqlite_storage(disk.path / "data") as storage:
        run = await start_on_new_thread(storage)
        await write(storage, run, "before")
    disk.fill()
    async with open_sqlite_storage(disk.path / "data") as storage:
        assert isinstance(storage.write_error, StorageFull)
        assert values(await whole_log(storage, run.thread_id)) == ["before"]
        assert [each.status for each in await storage.runs.reclaim(NOW)] == ["pending"]
    async with open_sqlite_storage(disk.path / "data") as storage:  # without the reserve that was dropped before
        assert isinstance(storage.write_error, StorageFull)
        assert (await the_run(storage, run.run_id)).status == "pending"
        disk.free()
        await until(can_write(storage))
        await write(storage, await claim_run(storage, run.run_id), "after")


async def test_deleting_makes_room_on_a_disk_that_the_database_has_filled(disk: SmallDisk) -> None:
    async with open_sqlite_storage(disk.path / "data") as storage:
        thread_id = await store_thread(storage)
        assert await append_until_full(partial(storage.log.append, thread_id)) > 50
        await storage.threads.delete(thread_id)
        await until(can_write(storage))
        await storage.threads.create(a_thread())


async def test_a_write_that_is_too_large_does_not_stop_smaller_ones(disk: SmallDisk) -> None:
    async with open_sqlite_storage(disk.path / "data") as storage:
        run = await start_on_new_thread(storage)
        thread_id = await store_thread(storage)
        with pytest.raises(WriteTooLarge):
            await storage.log.append(thread_id, [large(50 * MEGABYTE)]).wait()
        assert storage.write_error is None
        await write(storage, run, "small")


async def test_the_file_shrinks_when_data_is_deleted(tmp_path: Path) -> None:
    file = tmp_path / "threadwire.db"
    async with open_sqlite_storage(tmp_path) as storage:
        kept, deleted = await store_thread(storage), await store_thread(storage)
        for _ in range(30):
            for thread_id in (kept, deleted):
                await storage.log.append(thread_id, [large(MEGABYTE if thread_id == deleted else 1000)]).wait()
        assert file.stat().st_size > 20 * MEGABYTE
        await storage.threads.delete(deleted)
        await until(lambda: file.stat().st_size < 2 * MEGABYTE)
        assert len(await whole_log(storage, kept)) == 30


async def test_other_writes_do_not_wait_until_the_file_has_shrunk(tmp_path: Path) -> None:
    file = tmp_path / "threadwire.db"
    async with open_sqlite_storage(tmp_path) as storage:
        kept, deleted = await store_thread(storage), await store_thread(storage)
        for _ in range(30):
            await storage.log.append(deleted, [large(MEGABYTE)]).wait()
        await storage.threads.delete(deleted)
        before, slowest = file.stat().st_size, 0.0
        while file.stat().st_size > 2 * MEGABYTE:
            started = time.monotonic()
            await storage.log.append(kept, [note("meanwhile")]).wait()
            slowest = max(slowest, time.monotonic() - started)
            await anyio.sleep(0.001)
        assert before > 20 * MEGABYTE
        assert slowest < 1.0
