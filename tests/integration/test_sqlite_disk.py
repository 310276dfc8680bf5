"""How the embedded driver has the disk keep things, and what it does when the disk fails it."""

import errno
import fcntl
import os
import resource
import runpy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import structlog.testing

from threadwire.core.records import Run
from threadwire.storage.abc import Storage
from threadwire.storage.sqlite import open_sqlite_storage, syncing
from threadwire.testing.conformance.samples import start_on_new_thread, values, whole_log, write

pytestmark = pytest.mark.anyio


# Syncing


def _sync_chosen_now() -> Callable[[int], None]:
    sync: Callable[[int], None] = runpy.run_path(syncing.__file__)["sync"]
    return sync


@pytest.mark.parametrize(
    ("offered", "used"),
    [(("fdatasync", "F_FULLFSYNC"), "fdatasync"), (("F_FULLFSYNC",), "F_FULLFSYNC"), ((), "fsync")],
)
def test_a_file_is_synced_with_what_the_system_offers(
    monkeypatch: pytest.MonkeyPatch, offered: tuple[str, ...], used: str
) -> None:
    """macOS has no `fdatasync`, and there an `fsync` is not enough."""
    calls: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda file: calls.append("fsync"))
    monkeypatch.setattr(os, "fdatasync", lambda file: calls.append("fdatasync"), raising=False)
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda file, what: calls.append({51: "F_FULLFSYNC"}[what]))
    for module, name in ((os, "fdatasync"), (fcntl, "F_FULLFSYNC")):
        if name not in offered:
            monkeypatch.delattr(module, name)
    _sync_chosen_now()(3)
    assert calls == [used]


def test_only_where_there_is_no_full_sync_a_lesser_one_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    failures = {3: errno.ENOTSUP, 4: errno.EIO}

    def full_sync(file: int, what: int) -> None:
        raise OSError(failures[file], "no")

    monkeypatch.delattr(os, "fdatasync", raising=False)
    monkeypatch.setattr(os, "fsync", synced.append)
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", full_sync)
    sync = _sync_chosen_now()
    sync(3)
    with pytest.raises(OSError, match="no"):
        sync(4)
    assert synced == [3]


# A disk that is full


@contextmanager
def _no_file_beyond(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def _write(storage: Storage, run: Run, size: int) -> None:
    """So many bytes that cannot be compressed."""
    await write(storage, run, os.urandom(size).hex())


async def test_a_log_that_cannot_be_emptied_for_a_while_loses_nothing(tmp_path: Path) -> None:
    """The database has no room for a second log full, though the log itself has room."""
    with structlog.testing.capture_logs() as logged:
        async with open_sqlite_storage(tmp_path) as storage:
            run = await start_on_new_thread(storage)
            with _no_file_beyond(13_000_000):
                for _ in range(19):
                    await _write(storage, run, 1_000_000)
            for _ in range(3):
                await _write(storage, run, 1_000_000)
    assert _size(tmp_path) > 22_000_000
    assert [line["event"] for line in logged] == [
        "The write-ahead log cannot be emptied, so it grows",
        "The write-ahead log could be emptied again",
    ]
    async with open_sqlite_storage(tmp_path) as storage:
        kept = [len(value) for value in values(await whole_log(storage, run.thread_id))]
    assert kept == [2_000_000] * 22


async def test_a_storage_whose_log_cannot_be_emptied_is_closed_all_the_same(tmp_path: Path) -> None:
    async with open_sqlite_storage(tmp_path) as storage:
        run = await start_on_new_thread(storage)
        await _write(storage, run, 4_000_000)
        limit = _no_file_beyond(1_000_000)
        limit.__enter__()
    limit.__exit__(None, None, None)
    assert _size(tmp_path) == 1_000_000
    async with open_sqlite_storage(tmp_path) as storage:
        assert len(values(await whole_log(storage, run.thread_id))) == 1


def _size(directory: Path) -> int:
    return (directory / "threadwire.db").stat().st_size
