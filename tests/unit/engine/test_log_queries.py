"""Replaying a thread's entries into a consumer."""

import pytest

from threadwire.core.entries import Entry, Kind
from threadwire.core.ids import Seq, ThreadId
from threadwire.core.records import Ending
from threadwire.engine import log_queries
from threadwire.engine.log_queries import LogQueries
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.samples import NOW, note, start, store_thread, write

pytestmark = pytest.mark.anyio


class Counter:
    """Numbers the custom entries of each run."""

    def __init__(self) -> None:
        self.counts: dict[object, int] = {}

    def feed(self, entry: Entry) -> list[str]:
        if entry.kind != Kind.CUSTOM:
            return []
        self.counts[entry.run_id] = self.counts.get(entry.run_id, 0) + 1
        return [f"{entry.data['value']}#{self.counts[entry.run_id]}"]


async def replayed(storage: Storage, thread_id: ThreadId, after: int, upto: int) -> list[str]:
    shown: list[str] = []
    async for page in LogQueries(storage).replay(thread_id, Counter().feed, Seq(after), Seq(upto)):
        for each in page:
            shown.extend(each)
    return shown


async def test_entries_between_two_positions_are_replayed(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """4.5a: runs that started before are primed."""
    monkeypatch.setattr(log_queries, "SMALL_PAGE", 2)
    thread_id = await store_thread(storage)
    first = await start(storage, thread_id)
    await write(storage, first, *"abc")
    assert await storage.handle(first).finish(Ending("success"), NOW)
    second = await start(storage, thread_id)
    await write(storage, second, *"de")
    await storage.log.append(thread_id, [note("outside")]).wait()
    last = await storage.log.last(thread_id)

    assert await replayed(storage, thread_id, 0, last) == ["a#1", "b#2", "c#3", "d#1", "e#2", "outside#1"]
    assert await replayed(storage, thread_id, 2, 4) == ["b#2", "c#3"]
    assert await replayed(storage, thread_id, 7, last) == ["e#2", "outside#1"]


async def test_replaying_a_thread_that_is_deleted_meanwhile_ends(storage: Storage) -> None:
    thread_id = await store_thread(storage)
    await storage.log.append(thread_id, [note("a")]).wait()
    await storage.threads.delete(thread_id)
    assert await replayed(storage, thread_id, 0, 1) == []
