"""Encoders that need a thread's log from its first entry on, such as the fold of a timeline.

Requests and subscribers with the same name and framing share one fold per thread, and feed it only the new entries.
Folds are cached, and snapshots of them are stored. A fold that is not in the cache is restored from its snapshot and
fed the rest of the log, both outside the thread of the event loop.

Most requests need only a small part of a fold. That part is stored too, as a *summary*, so that opening a long thread
after a restart does not need the fold at all.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from anyio import to_thread

from threadwire.core.encoder import Encoder, Framing
from threadwire.core.entries import START, Entry
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import FoldSnapshot
from threadwire.engine.entry_readers import PAGE, ThreadEntries
from threadwire.engine.projections import Projection, Reader
from threadwire.engine.shielding import run_to_completion
from threadwire.engine.sized_cache import SizedCache
from threadwire.errors import StorageError
from threadwire.storage.abc import Storage

MAX_CACHED_BYTES = 64 * 1024 * 1024
"""Bytes of folds and their frames that are cached. The most recently used fold is cached even if it is larger."""

SNAPSHOT_EVERY = 5000
"""The number of entries after which another snapshot of a fold is stored. After a restart, at most that many are read
again."""

SNAPSHOT_BYTES = 1024 * 1024
"""A fold that has grown by this many bytes is stored again, even after fewer entries. A large fold has to grow until a
quarter of it is new, so that storing it does not cost more than feeding it."""

SUMMARIZE_FROM_ENTRIES = 500
SUMMARIZE_FROM_BYTES = 64 * 1024
"""The size from which the summary of a fold is stored. A smaller fold is quickly fed again."""


class Fold(Encoder, Protocol):
    """An encoder that is fed a whole thread. Its current content can be read and stored as a snapshot."""

    @property
    def weight(self) -> int:
        """Roughly how many bytes it occupies."""

    def snapshot(self) -> bytes:
        """Return the current content, for `restore`. Called in another thread, while nothing is fed."""

    def restore(self, snapshot: bytes) -> None:
        """Start from a snapshot instead of the first entry. Called in another thread. Raises `ValueError` if another
        version of the code wrote it."""


@runtime_checkable
class Summarized(Protocol):
    """A fold with a part that most requests need, and that does not grow with the thread."""

    def summary(self) -> bytes | None:
        """Return that part, or None while it changes too often to be stored."""


F = TypeVar("F", bound=Fold)


def _summary_of(name: str) -> str:
    """The name under which the summary of a fold is stored."""
    return f"{name}.summary"


class WholeThreadEntries(ThreadEntries):
    """The entries of a thread after a position. Before the first of them is read, everything up to there is fed to the
    fold."""

    def __init__(self, storage: Storage, thread_id: ThreadId, name: str, fold: Fold, after: Seq) -> None:
        super().__init__(storage, thread_id, fold.feed, after)
        self._snapshots = storage.fold_snapshots
        self._name = name
        self._fold = fold
        self._first_position = after
        self._fed = START
        self._loading: asyncio.Task[None] | None = None
        self.stored = START
        """The position of the newest known snapshot."""
        self.stored_weight = 0
        """The weight of the fold at that position."""

    @property
    def loaded(self) -> bool:
        """Whether the fold has been fed everything up to the first position."""
        return self._fed >= self._first_position

    async def read(self, limit: int) -> list[Entry]:
        if not self.loaded and await self._log.last(self._thread_id) <= self.position:
            return []  # a subscriber that waits does not need the fold
        await self.load()
        return await super().read(limit)

    async def load(self) -> None:
        """Feed the fold everything up to the first position. Loading continues even if the caller is cancelled, because
        another thread is using the fold."""
        while not self.loaded:
            if self._loading is None:
                self._loading = asyncio.get_running_loop().create_task(self._load())
            loading = self._loading
            try:
                await asyncio.shield(loading)
            finally:
                if loading.done() and self._loading is loading:
                    self._loading = None

    async def _load(self) -> None:
        if self._fed == START:
            await self._restore()
        while not self.loaded:
            await self._feed_page()

    async def _restore(self) -> None:
        snapshot = await self._snapshots.get(self._thread_id, self._name)
        if snapshot is not None and snapshot.seq <= self._first_position:
            with suppress(ValueError):
                await to_thread.run_sync(self._fold.restore, snapshot.data)
                self._fed = self.stored = snapshot.seq
                self.stored_weight = self._fold.weight

    async def _feed_page(self) -> None:
        """Feed the fold and drop its messages."""
        entries = await self._log.read(self._thread_id, self._fed, limit=PAGE)
        earlier = [entry for entry in entries if entry.seq <= self._first_position]
        await to_thread.run_sync(self._feed, earlier)
        self._fed = earlier[-1].seq if len(earlier) == PAGE else self._first_position

    def _feed(self, entries: list[Entry]) -> None:
        for entry in entries:
            self._fold.feed(entry)

    async def prime(self, run_id: RunId) -> None:
        """Does nothing: the fold has already been fed every entry before the position."""


class SharedFold(Projection, Generic[F]):
    """A fold and its frames. Snapshots are stored when there is nothing left to encode."""

    def __init__(self, storage: Storage, key: "_Key", fold: F, after: Seq) -> None:
        self.fold = fold
        self._entries = WholeThreadEntries(storage, key.thread_id, key.name, fold, after)
        super().__init__(Reader(self._entries, fold, key.framing))
        self._snapshots = storage.fold_snapshots
        self._key = key
        self._summarized = START

    @property
    def weight(self) -> int:
        return self.fold.weight + self.size

    @property
    def loaded(self) -> bool:
        return self._entries.loaded

    async def load(self, last: Seq) -> None:
        """Feed the fold at least up to the position `last`."""
        async with self._reading:
            await self._entries.load()
        while self.position < last and await self.catch_up():
            pass
        await self._store()
        async with self._reading:  # another task may be feeding it, in another thread
            pass

    async def catch_up(self) -> bool:
        if await super().catch_up():
            return True
        await self._store()
        return False

    async def _store(self) -> None:
        """Store the summary and the snapshot, if they are due. Both can be computed again, so errors are ignored."""
        with suppress(StorageError):
            if self._summary_is_due:
                await self._store_summary()
            if self._snapshot_is_due:
                await run_to_completion(self._store_snapshot())

    async def _store_summary(self) -> None:
        self._summarized = position = self.position
        if isinstance(self.fold, Summarized) and (summary := self.fold.summary()) is not None:
            await self._snapshots.put(self._key.thread_id, _summary_of(self._key.name), FoldSnapshot(position, summary))

    async def _store_snapshot(self) -> None:
        async with self._reading:  # so that nothing is fed meanwhile
            if not self._snapshot_is_due:
                return
            self._entries.stored, self._entries.stored_weight = position, _ = self.position, self.fold.weight
            snapshot = FoldSnapshot(position, await to_thread.run_sync(self.fold.snapshot))
        await self._snapshots.put(self._key.thread_id, self._key.name, snapshot)

    @property
    def _summary_is_due(self) -> bool:
        large = self.position >= SUMMARIZE_FROM_ENTRIES or self.fold.weight >= SUMMARIZE_FROM_BYTES
        return large and self._entries.loaded and self.position > self._summarized

    @property
    def _snapshot_is_due(self) -> bool:
        weight, entries = self.fold.weight, self.position - self._entries.stored
        growth = weight - self._entries.stored_weight
        return self._entries.loaded and (entries >= SNAPSHOT_EVERY or growth >= max(SNAPSHOT_BYTES, weight // 4))


class _Key(NamedTuple):
    thread_id: ThreadId
    name: str
    framing: Framing


class ThreadFolds:
    """All folds of a process, with an LRU cache that is bounded in bytes."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._folds: SizedCache[_Key, SharedFold[Any]] = SizedCache(lambda: MAX_CACHED_BYTES)

    async def current(self, thread_id: ThreadId, name: str, make_fold: Callable[[], F], framing: Framing) -> F:
        """The fold of a thread, fed everything that is in the log now. Other tasks feed it too, so read it before the
        next `await`."""
        last = await self._storage.log.last(thread_id)
        key = _Key(thread_id, name, framing)
        shared = self._shared(key, make_fold, last)
        await shared.load(last)
        self._folds.resize(key, shared, shared.weight)
        return shared.fold

    async def summary(self, thread_id: ThreadId, name: str, framing: Framing) -> bytes | None:
        """The stored summary of a fold that is not loaded, if it is up to date."""
        shared = self._folds.get(_Key(thread_id, name, framing))
        if shared is not None and shared.loaded:
            return None
        last = await self._storage.log.last(thread_id)
        stored = await self._storage.fold_snapshots.get(thread_id, _summary_of(name))
        return stored.data if stored is not None and stored.seq == last else None

    def projection(
        self, thread_id: ThreadId, name: str, make_fold: Callable[[], F], framing: Framing, after: Seq
    ) -> Projection:
        """The projection of the thread's fold. If there is none yet, its frames start after `after`."""
        return self._shared(_Key(thread_id, name, framing), make_fold, after)

    def forget_thread(self, thread_id: ThreadId) -> None:
        """Drop the folds of a deleted thread. Its followers finish."""
        for key in self._folds.keys():
            if key.thread_id == thread_id and (shared := self._folds.drop(key)) is not None:
                shared.deleted = True

    def _shared(self, key: _Key, make_fold: Callable[[], F], after: Seq) -> SharedFold[F]:
        shared = self._folds.get(key)
        if shared is None or shared.ended:  # the thread was deleted and created again
            shared = SharedFold(self._storage, key, make_fold(), after)
        self._folds.put(key, shared, shared.weight)
        return shared
