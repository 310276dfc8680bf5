"""Behaviour specific to the embedded driver: its file, its lock, its size, and recovery after a kill."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import zlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadwire.core.entries import START, Draft, Entry, Kind
from threadwire.core.ids import AssistantId, RunId, Seq, ThreadId, uuid7
from threadwire.core.records import (
    AssistantQuery,
    AssistantVersion,
    Ending,
    Lease,
    NewRun,
    Run,
    StateSummary,
    Thread,
    ThreadQuery,
    Ttl,
)
from threadwire.core.store_items import Item, PutItem, SearchItems
from threadwire.core.vectors import unit_vector
from threadwire.errors import DataDirectoryLocked, Fenced, StorageDamaged, StorageError
from threadwire.storage.abc import Storage
from threadwire.storage.compression import decompress
from threadwire.storage.segments import CODES, ZLIB, ZSTD, decode, encode, pack, unpack
from threadwire.storage.sqlite import open_sqlite_storage, schema, writer
from threadwire.storage.sqlite.id_keys import key_of
from threadwire.storage.sqlite.log import SqliteLog
from threadwire.storage.sqlite.schema import migrate, migrations
from threadwire.storage.sqlite.transaction import Transaction
from threadwire.storage.sqlite.waiters import Waiters
from threadwire.storage.sqlite.write_ahead_log import WriteAheadLog
from threadwire.storage.sqlite.write_jobs import Job
from threadwire.storage.sqlite.writer import Writer

pytestmark = pytest.mark.anyio

NOW = 1_700_000_000_000

LEASE = Lease("worker", 0)


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[Storage]:
    async with open_sqlite_storage(tmp_path) as storage:
        yield storage


async def test_a_new_data_directory_is_ignored_by_git(tmp_path: Path) -> None:
    existing = tmp_path / "existing"
    existing.mkdir()
    for directory in (tmp_path / "new", existing):
        async with open_sqlite_storage(directory):
            pass
    assert (tmp_path / "new" / ".gitignore").read_text() == "*\n"
    assert not (existing / ".gitignore").exists()


def token(text: str) -> Draft:
    return Draft(Kind.MESSAGES, [0, text], at=NOW)


def _new_run() -> NewRun:
    return NewRun(
        run_id=RunId(uuid7()),
        thread_id=ThreadId(uuid7()),
        assistant_id=AssistantId(uuid7()),
        graph_id="agent",
        created_at=NOW,
        due_at=NOW,
        create_thread=True,
    )


async def start(storage: Storage) -> Run:
    await storage.runs.accept(_new_run())
    [run] = await storage.runs.claim(1, LEASE, now=NOW)
    return run


# The file


async def test_new_directory_gets_the_latest_schema(tmp_path: Path) -> None:
    async with open_sqlite_storage(tmp_path / "does" / "not" / "exist"):
        pass
    assert _version(tmp_path / "does" / "not" / "exist") == len(migrations())


async def test_data_is_unchanged_after_reopening(tmp_path: Path) -> None:
    async with open_sqlite_storage(tmp_path) as storage:
        run = await start(storage)
        storage.handle(run).append([token("a"), token("b")])  # not awaited: closing waits for it
    for _ in range(2):
        async with open_sqlite_storage(tmp_path) as storage:
            entries = await storage.log.read(run.thread_id, START)
            assert [entry.kind for entry in entries] == [Kind.RUN_QUEUED, Kind.MESSAGES, Kind.MESSAGES]
            assert await storage.runs.get(run.run_id) == run
    assert _version(tmp_path) == len(migrations())


async def test_closing_leaves_one_file_per_database(tmp_path: Path) -> None:
    async with open_sqlite_storage(tmp_path) as storage:
        await start(storage)
    assert set(os.listdir(tmp_path)) == {"threadwire.db", "keys.db", "lock", "reserve"}


async def test_database_of_a_newer_version_is_rejected_and_unchanged(tmp_path: Path) -> None:
    async with open_sqlite_storage(tmp_path):
        pass
    newer = len(migrations()) + 1
    db = apsw.Connection(str(tmp_path / "threadwire.db"))
    db.execute(f"PRAGMA user_version = {newer}")
    db.close()
    with pytest.raises(StorageError, match="newer Threadwire"):
        async with open_sqlite_storage(tmp_path):
            pass
    assert _version(tmp_path) == newer


async def test_migrated_assistant_has_one_version(tmp_path: Path) -> None:
    db = apsw.Connection(str(tmp_path / "threadwire.db"))
    migrate(db, migrations()[:1])
    row = (b"0" * 16, "agent", "Mine", NOW, NOW + 5, 1, None, '{"tags": ["t"]}', '{"x": 1}', '{"m": 1}', None)
    db.execute("INSERT INTO assistants VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    db.close()
    async with open_sqlite_storage(tmp_path) as storage:
        [assistant] = await storage.assistants.search(AssistantQuery())
        versions = await storage.assistants.versions(assistant.assistant_id, metadata={})
        assert versions == [AssistantVersion.of(assistant, NOW)]
        changed = await storage.assistants.update(
            assistant.assistant_id, lambda assistant: replace(assistant, name="New"), NOW + 9
        )
        assert changed.version == 2


async def test_pending_runs_of_an_older_version_are_claimed_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older versions ordered all runs by due time, including those that were not delayed."""
    with monkeypatch.context() as patch:
        patch.setattr(schema, "migrations", lambda: migrations()[:7])
        db = schema.open_writer(tmp_path / "threadwire.db")
    thread = key_of(uuid7())
    added = """INSERT INTO runs (run, thread, assistant, graph_id, status, created_at, updated_at, due_at, queued_seq,
                                 multitask, metadata, kwargs, attempt, first)
               VALUES (?, ?, ?, 'agent', 'pending', ?, ?, ?, ?, 'enqueue', '{}', '{}', ?, ?)"""
    runs = [RunId(uuid7()) for _ in range(4)]
    times = [(NOW + 9, NOW + 9, 0, 0), (NOW, NOW + 5, 0, 0), (NOW, NOW, 0, 1), (NOW, NOW + 50, 1, 1)]
    for at, (run_id, (made, due, attempt, first)) in enumerate(zip(runs, times, strict=True), 1):
        place = thread if at < 4 else key_of(uuid7())
        db.execute(added, (key_of(run_id), place, key_of(uuid7()), made, made, due, at, attempt, first))
    db.close()
    async with open_sqlite_storage(tmp_path) as storage:
        claimed = await storage.runs.claim(10, LEASE, now=NOW)
        assert [run.run_id for run in claimed] == [runs[3], runs[0]]


async def test_file_that_is_not_a_database_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "threadwire.db").write_bytes(b"This is not a database, despite its name. " * 100)
    with pytest.raises(StorageDamaged, match="is damaged or not a SQLite database: file is not a database"):
        async with open_sqlite_storage(tmp_path):
            pass


@pytest.mark.parametrize("what", ["missing", "empty"])
async def test_write_ahead_log_without_its_database_is_not_deleted(tmp_path: Path, what: str) -> None:
    """SQLite would create a new database and delete the log."""
    database, log = tmp_path / "threadwire.db", tmp_path / "threadwire.db-wal"
    async with open_sqlite_storage(tmp_path) as storage:
        await start(storage)
        left = log.read_bytes()
    database.unlink()
    if what == "empty":
        database.touch()
    log.write_bytes(left)
    with pytest.raises(StorageDamaged, match=rf"threadwire.db is {what}, but threadwire.db-wal next to it contains"):
        async with open_sqlite_storage(tmp_path):
            pass
    assert log.read_bytes() == left
    log.unlink()
    async with open_sqlite_storage(tmp_path):
        pass


@pytest.mark.parametrize("how", ["overwritten", "truncated"])
async def test_damaged_file_is_rejected_and_unchanged(tmp_path: Path, how: str) -> None:
    async with open_sqlite_storage(tmp_path) as storage:
        for _ in range(50):
            run = await start(storage)
            await storage.handle(run).append([token(os.urandom(4000).hex())]).wait()
    with (tmp_path / "threadwire.db").open("r+b") as file:
        if how == "truncated":
            file.truncate(file.seek(0, os.SEEK_END) // 2 // 4096 * 4096)
        else:
            file.seek(_root_page(tmp_path, "threads"))
            file.write(b"\xff" * 4096)
    before = (tmp_path / "threadwire.db").read_bytes()
    with pytest.raises(StorageDamaged, match="is damaged or not a SQLite database: "):
        async with open_sqlite_storage(tmp_path):
            pass
    assert (tmp_path / "threadwire.db").read_bytes() == before


def _root_page(directory: Path, table: str) -> int:
    """The offset of a table's root page in the file."""
    db = apsw.Connection(str(directory / "threadwire.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return 4096 * (db.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).get - 1)
    finally:
        db.close()


@pytest.mark.parametrize("what", ["a page", "a text", "JSON"])
async def test_damage_found_while_running_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """SQLite detects an invalid page, but not changed content in a valid one."""
    monkeypatch.setattr(schema, "quick_check", lambda db: None)  # otherwise the writer would have cached all pages
    async with open_sqlite_storage(tmp_path) as storage:
        run = await start(storage)
        await storage.threads.update(run.thread_id, metadata={"note": "find me"}, now=NOW)
    root = _root_page(tmp_path, "threads")
    async with open_sqlite_storage(tmp_path) as storage:
        with (tmp_path / "threadwire.db").open("r+b") as file:
            content = file.read()
            note = content.rindex(b"{", 0, content.index(b'"note":"find me"'))
            place, damage = {"a page": (root, b"\xff" * 4096), "a text": (note, b"\xff"), "JSON": (note, b"!")}[what]
            file.seek(place)
            file.write(damage)
        for read in (storage.threads.get(run.thread_id), storage.threads.search(ThreadQuery())):
            with pytest.raises(StorageDamaged, match="database or its disk is damaged"):
                await read
        with pytest.raises(StorageDamaged, match="database or its disk is damaged"):
            await storage.threads.update(run.thread_id, metadata={"more": 1}, now=NOW)
        assert await storage.runs.get(run.run_id) == run, "undamaged data is still readable"


async def test_data_directory_cannot_be_opened_twice(tmp_path: Path) -> None:
    async with open_sqlite_storage(tmp_path):
        with pytest.raises(DataDirectoryLocked, match="in use by another"):
            async with open_sqlite_storage(tmp_path):
                pass
    async with open_sqlite_storage(tmp_path):
        pass


async def test_items_with_vectors_and_ttl_survive_reopening(tmp_path: Path) -> None:
    near = unit_vector([1, 0])
    async with open_sqlite_storage(tmp_path) as storage:
        storage.items.batch([PutItem(("a",), "k", {"n": 1}, ttl=1000, vectors=(near,), owner="ada")], 0)
    async with open_sqlite_storage(tmp_path) as storage:
        [found] = storage.items.batch([SearchItems(("a",), near=near, refresh=False)], 999)
        assert found == [Item(("a",), "k", {"n": 1}, 0, 0, owner="ada", score=1.0)]
        assert await storage.items.sweep(1000) == 1
    async with open_sqlite_storage(tmp_path) as storage:
        assert storage.items.batch([SearchItems()], 0) == [[]]


async def test_closed_storage_rejects_appends(tmp_path: Path) -> None:
    async with open_sqlite_storage(tmp_path) as storage:
        run = await start(storage)
    with pytest.raises(StorageError, match="closed"):
        storage.handle(run).append([token("late")])


async def test_attempt_holds_its_thread_in_the_next_process_until_recovery(tmp_path: Path) -> None:
    async with open_sqlite_storage(tmp_path) as storage:
        run = await start(storage)
    async with open_sqlite_storage(tmp_path) as storage:
        await storage.handle(run).append([token("still")]).wait()
        await storage.runs.reclaim(NOW)
        with pytest.raises(Fenced):
            storage.handle(run).append([token("no more")])


def _version(directory: Path) -> int:
    db = apsw.Connection(str(directory / "threadwire.db"), flags=apsw.SQLITE_OPEN_READONLY)
    version = int(db.pragma("user_version"))
    db.close()
    return version


# The log


async def test_streamed_token_costs_at_most_200_bytes(tmp_path: Path) -> None:
    """Even in the worst case, with one transaction per token."""
    async with open_sqlite_storage(tmp_path) as storage:
        run = await start(storage)
    before = _size(tmp_path)
    async with open_sqlite_storage(tmp_path) as storage:
        for number in range(2000):
            await storage.handle(run).append([token(f"tok{number % 7} ")]).wait()
    assert (_size(tmp_path) - before) / 2000 <= 200


async def test_tokens_faster_than_the_disk_share_rows(tmp_path: Path) -> None:
    async with open_sqlite_storage(tmp_path) as storage:
        run = await start(storage)
    before = _size(tmp_path)
    async with open_sqlite_storage(tmp_path) as storage:
        for number in range(5000):
            storage.handle(run).append([token(f"tok{number % 7} ")])
    assert (_size(tmp_path) - before) / 5000 <= 50


async def test_entries_are_the_same_from_cache_and_from_disk(storage: Storage) -> None:
    run = await start(storage)
    drafts = [Draft("unknown.kind", {"n": number, "text": "ü" * 50}, ("a:1",), NOW + number) for number in range(450)]
    drafts[7] = Draft(Kind.STATE, {"full": True, "set": {"big": "x" * 300_000}}, at=NOW)
    await storage.handle(run).append(drafts).wait()
    for after in (0, 1, 7, 8, 199, 200, 201, 300, 451):
        for limit in (1, 3, 1000):
            recent = await storage.log.read(run.thread_id, Seq(after), limit=limit)
            assert len(recent) == min(limit, 451 - after)
            _forget_recent(storage, run.thread_id)
            assert await storage.log.read(run.thread_id, Seq(after), limit=limit) == recent
            assert await storage.log.last(run.thread_id) == 451
            of_run = await storage.log.read(run.thread_id, Seq(after), limit=limit, run_id=run.run_id)
            assert of_run == recent


# Number of syncs


async def test_deferred_acceptance_and_the_first_entries_of_its_run_share_one_sync(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "FLUSH_INTERVAL", 1.0)
    await storage.runs.accept(_new_run())  # so that the writer is within `FLUSH_INTERVAL` of a flush
    syncs = _count_syncs(monkeypatch)

    accepted = await storage.runs.accept(_new_run(), claim=LEASE, defer_sync=True)
    assert accepted.started
    handle = storage.handle(accepted.run)
    handle.append([token("a"), token("b")])
    end = asyncio.ensure_future(handle.finish(Ending("success"), NOW))
    await accepted.commit.wait()
    kinds = [entry.kind for entry in await storage.log.read(accepted.run.thread_id, START, limit=10)]
    assert kinds == [Kind.RUN_QUEUED, Kind.MESSAGES, Kind.MESSAGES, Kind.RUN_ENDED]
    assert await end
    assert len(syncs) == 1


async def test_several_written_batches_are_published_by_one_sync(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "FLUSH_INTERVAL", 1.0)
    run = await start(storage)
    handle = storage.handle(run)
    saver = handle.saver()
    calls: list[int] = []
    original = Waiters.notify
    monkeypatch.setattr(Waiters, "notify", lambda self, *args: calls.append(1) or original(self, *args))
    for step in range(3):
        handle.append([token(str(step))])
        await saver.aput(*_checkpoint(run))
        await handle.flush()
    await handle.append([token("last")]).wait()
    assert len(calls) == 1
    assert len(await storage.log.read(run.thread_id, START, limit=10)) == 5


async def test_flush_of_a_few_entries_alone_is_followed_by_a_short_pause(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens reach their readers soon. After any other flush, the next entries wait for `FLUSH_INTERVAL`."""
    monkeypatch.setattr(writer, "FLUSH_INTERVAL", 60.0)
    run = await start(storage)
    assert isinstance(storage.log, SqliteLog)
    assert storage.log._writer._remaining_pause() > 30
    await storage.handle(run).append([token("first")]).wait()
    later = storage.handle(run).append([token("later")])
    assert isinstance(later, Job)
    with anyio.fail_after(10):
        await later.wait_finished(defer_sync=True)
    assert values_of(await storage.log.read(run.thread_id, START, limit=10)) == [[0, "first"], [0, "later"]]
    await storage.handle(run).append([token("many")] * 51).wait()
    assert storage.log._writer._remaining_pause() > 30


async def test_dropping_what_the_writer_has_cached_changes_nothing(storage: Storage) -> None:
    run = await start(storage)
    assert isinstance(storage.log, SqliteLog)
    tokens = [str(number) for number in range(20)]
    for text in tokens:
        await storage.handle(run).append([token(text)]).wait()
        storage.log._writer.drop_cached()
        storage.log._writer.drop_cached()  # now nothing was written in between
    entries = await storage.log.read(run.thread_id, START, limit=100)
    assert [entry.seq for entry in entries] == [*range(1, len(entries) + 1)]
    assert values_of(entries) == [[0, text] for text in tokens]
    with pytest.raises(Fenced):
        await storage.handle(replace(run, attempt=run.attempt + 1)).append([token("stale")]).wait()


async def test_close_waits_for_a_caller_in_write_through(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    run = await start(storage)
    assert isinstance(storage.log, SqliteLog)
    closing = storage.log._writer
    started, proceed, original = threading.Event(), threading.Event(), Writer._perform

    def slowly(self: Writer, batch: list[Job]) -> Transaction:
        started.set()
        assert proceed.wait(10)
        return original(self, batch)

    monkeypatch.setattr(writer, "FLUSH_INTERVAL", 60.0)  # keeps the writer thread from flushing
    monkeypatch.setattr(Writer, "_perform", slowly)
    commit = storage.handle(run).append([token("last")])
    writing = asyncio.create_task(asyncio.to_thread(closing.write_through))
    assert await asyncio.to_thread(started.wait, 10)
    closed = asyncio.create_task(asyncio.to_thread(closing.close))
    await asyncio.sleep(0.05)
    proceed.set()
    await asyncio.gather(writing, closed)
    assert commit.done
    assert values_of(await storage.log.read(run.thread_id, START, limit=10)) == [[0, "last"]]


def values_of(entries: list[Entry]) -> list[Any]:
    return [entry.data for entry in entries if entry.kind == Kind.MESSAGES]


def _count_syncs(monkeypatch: pytest.MonkeyPatch) -> list[WriteAheadLog]:
    syncs: list[WriteAheadLog] = []
    original = WriteAheadLog.sync
    monkeypatch.setattr(WriteAheadLog, "sync", lambda self: syncs.append(self) or original(self))
    return syncs


def _forget_recent(storage: Storage, thread_id: ThreadId) -> None:
    assert isinstance(storage.log, SqliteLog)
    storage.log._tails.forget(thread_id)


def _size(directory: Path) -> int:
    return (directory / "threadwire.db").stat().st_size


_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
_NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
_JSON = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=8,
)
_DRAFTS = st.builds(
    Draft,
    kind=st.sampled_from(list(Kind)) | st.text("abc.", min_size=1),
    data=_JSON,
    ns=st.lists(st.text("ab:|", min_size=1), max_size=2).map(tuple),
    at=st.integers(1, 2**45),
)


def test_every_kind_has_a_code() -> None:
    assert set(CODES) == set(Kind)


@given(drafts=st.lists(_DRAFTS, min_size=1, max_size=20), filler=st.integers(0, 30_000), first=st.integers(1, 2**40))
def test_unpack_reverses_pack(drafts: list[Draft], filler: int, first: int) -> None:
    drafts = [*drafts, Draft(Kind.CUSTOM, {"value": "f" * filler}, at=5)]
    run_id = RunId(uuid7())
    encoded = encode(drafts, lambda: NOW)
    entries = [
        entry
        for offset, _, at, packed, data in pack(encoded)
        for entry in unpack(first + offset, run_id, 3, at, packed, data)
    ]
    assert entries == decode(encoded, first, run_id, 3)
    assert [Draft(entry.kind, entry.data, entry.ns, entry.at) for entry in entries] == drafts
    assert [entry.seq for entry in entries] == list(range(first, first + len(drafts)))


def test_rows_compressed_with_zlib_are_still_readable() -> None:
    """The first version compressed large rows with zlib."""
    [(_, _, at, packed, data)] = pack(encode([Draft(Kind.CUSTOM, {"value": "f" * 3000}, at=5)], lambda: NOW))
    assert packed == ZSTD
    old = zlib.compress(decompress(data))
    assert unpack(7, None, 1, at, ZLIB, old) == unpack(7, None, 1, at, ZSTD, data)


# Failed writes


async def test_write_failed_by_a_full_disk_is_reported_and_breaks_the_attempt(storage: Storage, tmp_path: Path) -> None:
    """Later entries must not follow a lost one as if nothing had happened."""
    run, neighbour = await start(storage), await start(storage)
    await storage.handle(run).append([token("kept")]).wait()
    _limit_pages(storage, 1)
    big = Draft(Kind.CUSTOM, {"value": os.urandom(200_000).hex()}, at=NOW)
    lost = storage.handle(run).append([big])
    after = storage.handle(run).append([token("after")])
    for commit in (lost, after):
        with pytest.raises(StorageError):
            await commit.wait()
    _limit_pages(storage, 2**30)
    with pytest.raises(StorageError):
        storage.handle(run).append([token("later")])
    with pytest.raises(StorageError):
        await storage.handle(run).saver().aput(*_checkpoint(run))
    with pytest.raises(StorageError):
        await storage.handle(run).finish(Ending("success"), NOW)
    await storage.handle(neighbour).append([token("unharmed")]).wait()
    assert await storage.handle(run).finish(Ending("error", error={"message": "disk"}), NOW)
    entries = await storage.log.read(run.thread_id, START)
    assert [entry.seq for entry in entries] == [1, 2, 3]
    assert [entry.kind for entry in entries] == [Kind.RUN_QUEUED, Kind.MESSAGES, Kind.RUN_ENDED]


async def test_failed_job_does_not_affect_other_jobs_in_its_batch(storage: Storage) -> None:
    """They share a transaction. It is rolled back, and each job is retried on its own."""
    run = await start(storage)
    commits = [storage.handle(run).append([token(f"{n}")]) for n in range(20)]
    bad = Thread(ThreadId(uuid7()), created_at=2**70, updated_at=NOW)  # too large for an integer column
    with pytest.raises(StorageError):
        await storage.threads.create(bad)
    commits += [storage.handle(run).append([token(f"{n}")]) for n in range(20, 40)]
    for commit in commits:
        await commit.wait()
    entries = await storage.log.read(run.thread_id, Seq(1))
    assert [entry.data[1] for entry in entries] == [str(n) for n in range(40)]
    assert await storage.threads.get(bad.thread_id) is None


def _limit_pages(storage: Storage, pages: int) -> None:
    """Simulate a full disk: SQLite does not let the file grow beyond this limit."""
    assert isinstance(storage.log, SqliteLog)
    storage.log._writer._db.execute(f"PRAGMA max_page_count = {pages}").fetchall()


def _checkpoint(run: Run) -> Any:
    checkpoint = {
        "v": 4,
        "id": uuid7(),
        "ts": "2023-11-14T22:13:20+00:00",
        "channel_values": {"value": ["v"]},
        "channel_versions": {"value": "1"},
        "versions_seen": {},
        "updated_channels": None,
    }
    config = {"configurable": {"thread_id": run.thread_id, "checkpoint_ns": ""}}
    return config, checkpoint, {"source": "loop", "step": 0, "parents": {}, "run_id": run.run_id}, {"value": "1"}


# Long operations


async def test_large_deletions_run_on_the_writer_thread(storage: Storage) -> None:
    """Otherwise the event loop would be blocked while a hundred threads are deleted."""
    assert isinstance(storage.log, SqliteLog)
    deleting: list[tuple[str, threading.Thread]] = []

    def trace(cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
        if sql.startswith("DELETE"):
            deleting.append((sql.split()[2], threading.current_thread()))
        return True

    discarded = replace(_new_run(), temporary=True)
    accepted = await storage.runs.accept(discarded, claim=LEASE)
    await storage.handle(accepted.run).finish(Ending("success"), NOW)
    expiring, deleted = await start(storage), await start(storage)
    await storage.handle(expiring).finish(Ending("success"), NOW)
    await storage.threads.update(expiring.thread_id, metadata={}, ttl=Ttl(1, "delete"), now=NOW)
    storage.items.batch([PutItem(("a",), "k", {"n": 1}, ttl=1000)], 0)
    storage.log._writer._db.exec_trace = trace

    for removing, removed in (
        (storage.threads.sweep([discarded.thread_id]), "segments"),
        (storage.threads.expire(expiring.thread_id, NOW + 60_000), "segments"),
        (storage.threads.delete(deleted.thread_id), "segments"),
        (storage.items.sweep(1000), "items"),
    ):
        deleting.clear()
        await removing
        assert removed in [table for table, _ in deleting]
        assert {thread for _, thread in deleting} == {storage.log._writer._thread}


# Runs


async def test_run_whose_caller_was_cancelled_before_the_write_is_reclaimed(storage: Storage) -> None:
    assert isinstance(storage.log, SqliteLog)
    new = _new_run()
    await asyncio.to_thread(storage.log._writer._db_lock.acquire)  # another thread uses the database
    accepting = asyncio.create_task(storage.runs.accept(new, claim=LEASE))
    await asyncio.sleep(0)
    accepting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await accepting
    storage.log._writer._db_lock.release()
    later = await start(storage)  # queued after it
    assert {run.run_id for run in await storage.runs.reclaim(NOW)} == {new.run_id, later.run_id}


# Checkpoints


@pytest.mark.parametrize("capability", ["delete_for_runs", "copy_thread", "prune"])
async def test_saver_has_the_extended_capabilities_of_langgraph(storage: Storage, capability: str) -> None:
    from langgraph.checkpoint.conformance import checkpointer_test, validate

    async def saver() -> Any:
        yield storage.checkpoints.saver()

    report = await validate(checkpointer_test(name=capability)(saver), capabilities={capability})
    assert report.results[capability].failures == []
    assert report.results[capability].passed


async def test_rollback_removes_exactly_the_unused_blobs(storage: Storage, tmp_path: Path) -> None:
    saver = storage.checkpoints.saver()
    run = await start(storage)
    config, checkpoint, metadata, versions = _checkpoint(run)
    before = await saver.aput(config, checkpoint, {**metadata, "run_id": "another"}, versions)
    child = {
        **checkpoint,
        "id": uuid7(),
        "channel_values": {"value": ["v"], "own": ["o"]},
        "channel_versions": {"value": "1", "own": "1"},
    }
    await saver.aput(before, child, metadata, {"own": "1"})  # type: ignore[arg-type]
    assert await storage.handle(run).finish(Ending("interrupted", rollback=True), NOW)
    found = await saver.aget_tuple(config)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"value": ["v"]}
    db = apsw.Connection(str(tmp_path / "threadwire.db"))
    assert db.execute("SELECT channel FROM checkpoint_blobs").fetchall() == [("value",)]
    db.close()


async def test_types_that_are_not_allowed_are_not_deserialized(storage: Storage) -> None:
    """Strict by default, without an environment variable."""
    run = await start(storage)
    saver = storage.checkpoints.saver()
    config, checkpoint, metadata, versions = _checkpoint(run)
    checkpoint["channel_values"]["value"] = StateSummary("idle", {"a": 1})
    await saver.aput(config, checkpoint, metadata, versions)
    found = await saver.aget_tuple(config)
    assert found is not None
    assert not isinstance(found.checkpoint["channel_values"]["value"], StateSummary)
    allowed = await saver.with_allowlist([("threadwire.core.records", "StateSummary")]).aget_tuple(config)
    assert allowed is not None
    assert allowed.checkpoint["channel_values"]["value"] == StateSummary("idle", {"a": 1})


# Kills

_WRITE_UNTIL_KILLED = """
import asyncio, sys
from pathlib import Path
from threadwire.core.entries import Draft, Kind
from threadwire.storage.sqlite import open_sqlite_storage

async def main(directory, run_id):
    async with open_sqlite_storage(Path(directory)) as storage:
        handle = storage.handle(await storage.runs.get(run_id))
        number = 0
        while True:
            commits = []
            for _ in range(5):
                commits.append(handle.append([Draft(Kind.CUSTOM, {"value": number}, at=1)]))
                number += 1
            await commits[-1].wait()
            sys.stdout.write(f"{number}\\n")  # all below this number are acknowledged
            sys.stdout.flush()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_kill_loses_no_acknowledged_entry_and_leaves_no_gap(tmp_path: Path) -> None:
    """1.2, 1.3, 2.4"""
    for cycle in range(4):
        async with open_sqlite_storage(tmp_path) as storage:
            run = await start(storage)
        acknowledged = _write_and_kill(tmp_path, run.run_id, 30 + 17 * cycle)
        async with open_sqlite_storage(tmp_path) as storage:
            entries = await storage.log.read(run.thread_id, START, limit=1_000_000)
            assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
            assert [entry.data["value"] for entry in entries[1:]] == list(range(len(entries) - 1))
            assert len(entries) - 1 >= acknowledged
            assert [recovered.run_id for recovered in await storage.runs.reclaim(NOW)][:1] != []
            for left in await storage.runs.list(run.thread_id):
                await storage.runs.cancel(left.run_id, "interrupt", NOW)
    db = apsw.Connection(str(tmp_path / "threadwire.db"))
    assert db.execute("PRAGMA integrity_check").get == "ok"
    db.close()


def _write_and_kill(directory: Path, run_id: RunId, lines: int) -> int:
    """Kill a process that appends entries. Returns how many entries it had acknowledged."""
    arguments = [sys.executable, "-c", _WRITE_UNTIL_KILLED, str(directory), run_id]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(lines):
            acknowledged = process.stdout.readline()
            assert acknowledged, "the process ended before it was killed"
        process.send_signal(signal.SIGKILL)
        for line in process.stdout:
            if line.endswith("\n"):
                acknowledged = line
    return int(acknowledged)
