"""How the embedded driver syncs to disk, and how it handles disks that are full or fail."""

import asyncio
import errno
import fcntl
import os
import resource
import runpy
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import apsw
import pytest
import structlog.testing

from threadwire.core.records import Run
from threadwire.errors import StorageFailed
from threadwire.storage.abc import Storage
from threadwire.storage.sqlite import open_sqlite_storage, syncing, write_ahead_log, writer
from threadwire.storage.sqlite.id_keys import key_of
from threadwire.storage.sqlite.log import SqliteLog
from threadwire.storage.sqlite.transaction import Transaction
from threadwire.testing.conformance.samples import NOW, note, start_on_new_thread, the_thread, values, whole_log, write

pytestmark = pytest.mark.anyio

_READ_ONLY = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI

# Syncing


def _chosen_sync() -> Callable[[int], None]:
    sync: Callable[[int], None] = runpy.run_path(syncing.__file__)["sync"]
    return sync


@pytest.mark.parametrize(
    ("offered", "used"),
    [(("fdatasync", "F_FULLFSYNC"), "fdatasync"), (("F_FULLFSYNC",), "F_FULLFSYNC"), ((), "fsync")],
)
def test_files_are_synced_with_the_strongest_call_available(
    monkeypatch: pytest.MonkeyPatch, offered: tuple[str, ...], used: str
) -> None:
    """macOS has no `fdatasync`, and its `fsync` is not enough."""
    calls: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda file: calls.append("fsync"))
    monkeypatch.setattr(os, "fdatasync", lambda file: calls.append("fdatasync"), raising=False)
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda file, what: calls.append({51: "F_FULLFSYNC"}[what]))
    for module, name in ((os, "fdatasync"), (fcntl, "F_FULLFSYNC")):
        if name not in offered:
            monkeypatch.delattr(module, name)
    _chosen_sync()(3)
    assert calls == [used]


def test_fsync_is_the_fallback_only_where_full_fsync_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    failures = {3: errno.ENOTSUP, 4: errno.EIO}

    def full_sync(file: int, what: int) -> None:
        raise OSError(failures[file], "no")

    monkeypatch.delattr(os, "fdatasync", raising=False)
    monkeypatch.setattr(os, "fsync", synced.append)
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", full_sync)
    sync = _chosen_sync()
    sync(3)
    with pytest.raises(OSError, match="no"):
        sync(4)
    assert synced == [3]


# A full disk


@contextmanager
def _limit_file_size(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def _write(storage: Storage, run: Run, size: int) -> None:
    """Append this many incompressible bytes."""
    await write(storage, run, os.urandom(size).hex())


async def test_failed_wal_checkpoints_lose_nothing(tmp_path: Path) -> None:
    """The database file reaches its size limit while the log can still grow."""
    with structlog.testing.capture_logs() as logged:
        async with open_sqlite_storage(tmp_path) as storage:
            run = await start_on_new_thread(storage)
            with _limit_file_size(13_000_000):
                for _ in range(19):
                    await _write(storage, run, 1_000_000)
            for _ in range(3):
                await _write(storage, run, 1_000_000)
    assert _size(tmp_path) > 22_000_000
    assert [line["event"] for line in logged] == [
        "wal_checkpoint_failed",
        "wal_checkpoint_recovered",
    ]
    async with open_sqlite_storage(tmp_path) as storage:
        stored = [len(value) for value in values(await whole_log(storage, run.thread_id))]
    assert stored == [2_000_000] * 22


async def test_storage_closes_although_its_wal_checkpoint_fails(tmp_path: Path) -> None:
    async with open_sqlite_storage(tmp_path) as storage:
        run = await start_on_new_thread(storage)
        await _write(storage, run, 4_000_000)
        limit = _limit_file_size(1_000_000)
        limit.__enter__()
    limit.__exit__(None, None, None)
    assert _size(tmp_path) == 1_000_000
    async with open_sqlite_storage(tmp_path) as storage:
        assert len(values(await whole_log(storage, run.thread_id))) == 1


# A failing disk


def _fail(file: int) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


async def test_writes_that_could_not_be_synced_are_neither_acknowledged_nor_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2.4: a second sync would succeed, because the operating system has dropped the pages it could not write."""
    failing = False

    def sync(file: int) -> None:
        if failing:
            _fail(file)
        syncing.sync(file)

    monkeypatch.setattr(write_ahead_log, "sync", sync)
    async with open_sqlite_storage(tmp_path) as storage:
        run = await start_on_new_thread(storage)
        before = await the_thread(storage, run.thread_id)
        await write(storage, run, "kept")
        fatal = asyncio.create_task(storage.wait_for_failure())
        failing = True
        lost = storage.handle(run).append([note("lost")])
        also_lost = asyncio.create_task(storage.threads.update(run.thread_id, metadata={"lost": True}, now=NOW + 1))
        for unsynced in (lost.wait(), also_lost, fatal):
            with pytest.raises(StorageFailed, match=r"could not be synced: .* Input/output error"):
                await unsynced
        failing = False
        assert isinstance(storage.fatal_error, StorageFailed)
        with pytest.raises(StorageFailed):
            storage.handle(run).append([note("later")])
        with pytest.raises(StorageFailed):
            await storage.threads.get(run.thread_id)
        await storage.handle(run).wait_for_room()
        assert values(await whole_log(storage, run.thread_id)) == ["kept"]
        assert await storage.log.last(run.thread_id) == 2
    async with open_sqlite_storage(tmp_path) as storage:
        assert values(await whole_log(storage, run.thread_id))[:1] == ["kept"]
        after = replace(before, metadata=before.metadata | {"lost": True}, updated_at=NOW + 1)
        assert await the_thread(storage, run.thread_id) in (before, after)


async def test_wal_that_could_not_be_synced_is_not_copied_into_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even on close: the operating system may return other content for pages that it has dropped."""
    async with open_sqlite_storage(tmp_path) as storage:
        run = await start_on_new_thread(storage)
    before = (tmp_path / "threadwire.db").read_bytes()
    async with open_sqlite_storage(tmp_path) as storage:
        moved = (tmp_path / "threadwire.db").read_bytes()
        monkeypatch.setattr(write_ahead_log, "sync", _fail)
        with pytest.raises(StorageFailed):
            await write(storage, run, "lost")
    assert (tmp_path / "threadwire.db").read_bytes() in (before, moved)


async def test_wal_of_a_crashed_process_is_made_durable_before_it_is_read(tmp_path: Path) -> None:
    """The next process cannot know whether the log was synced."""
    left = tmp_path / "left"
    left.mkdir()
    async with open_sqlite_storage(tmp_path) as storage:
        run = await start_on_new_thread(storage)
        for name in ("threadwire.db", "threadwire.db-wal"):
            shutil.copy(tmp_path / name, left / name)
    async with open_sqlite_storage(left):
        db = apsw.Connection(f"file:{left}/threadwire.db?immutable=1", flags=_READ_ONLY)  # without the log
        assert db.execute("SELECT run FROM runs").get == key_of(run.run_id)
        db.close()


async def test_close_raises_if_the_last_sync_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for delay in ("IDLE_DELAY", "SHORT_IDLE_DELAY", "FLUSH_INTERVAL", "SHORT_FLUSH_INTERVAL"):
        monkeypatch.setattr(writer, delay, 60)  # so that closing makes the sync
    async with AsyncExitStack() as stack:
        storage = await stack.enter_async_context(open_sqlite_storage(tmp_path))
        run = await start_on_new_thread(storage)
        monkeypatch.setattr(write_ahead_log, "sync", _fail)
        storage.handle(run).append([note("not awaited")])
        with pytest.raises(StorageFailed):
            await stack.aclose()


async def test_pending_jobs_fail_when_the_writer_thread_ends(tmp_path: Path) -> None:
    async with open_sqlite_storage(tmp_path) as storage:
        assert isinstance(storage.log, SqliteLog)
        run = await start_on_new_thread(storage)
        commit = storage.handle(run).append([note("lost")])
        with pytest.raises(StorageFailed, match="SystemExit"):
            await storage.log._writer.do_on_writer_thread(lambda transaction: sys.exit())
        with pytest.raises(StorageFailed):
            await commit.wait()


async def test_jobs_of_others_survive_an_interrupt_during_write_through(tmp_path: Path) -> None:
    async with open_sqlite_storage(tmp_path) as storage:
        assert isinstance(storage.log, SqliteLog)
        run = await start_on_new_thread(storage)
        caller = threading.current_thread()

        def interrupted(transaction: Transaction) -> None:
            if threading.current_thread() is caller:
                raise KeyboardInterrupt

        commit = storage.handle(run).append([note("kept")])
        try:
            await storage.log._writer.do(interrupted)
        except KeyboardInterrupt:
            await commit.wait()
        assert values(await whole_log(storage, run.thread_id)) == ["kept"]


def _size(directory: Path) -> int:
    return (directory / "threadwire.db").stat().st_size
