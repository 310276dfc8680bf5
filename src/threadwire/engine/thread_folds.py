"""Encoders that need a thread's log from its first entry on, such as the fold of a timeline.

There is one per thread. Each request for the current content and each subscriber feeds it what is new, so both cost
what has changed since. Folds are cached, and snapshots of them are stored; one that is not in the cache is restored
from its snapshot and fed the rest of the log.
"""

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from threadwire.core.encoding import Encoder, Framing
from threadwire.core.entries import START, Entry
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import FoldSnapshot
from threadwire.engine.entry_readers import PAGE, ThreadEntries
from threadwire.engine.projections import Projection, Reader
from threadwire.errors import StorageError
from threadwire.storage.abc import Storage

MAX_CACHED_BYTES = 64 * 1024 * 1024
"""Bytes of folds and their frames that are cached. The fold that was used last is cached whatever its size."""

SNAPSHOT_EVERY = 5000
"""Entries after which another snapshot of a fold is stored. So many are read again after a restart, at most."""


class Fold(Encoder, Protocol):
    """An encoder that is fed a whole thread and can be asked for what it adds up to."""

    @property
    def weight(self) -> int:
        """Roughly how many bytes it occupies."""

    def snapshot(self) -> bytes:
        """Return what has been fed, for `restore`."""

    def restore(self, snapshot: bytes) -> None:
        """Continue from a snapshot instead of the first entry. Raises `ValueError` if another version made it."""


F = TypeVar("F", bound=Fold)


class WholeThreadEntries(ThreadEntries):
    """The entries of a thread after a position. Everything up to there is fed to the fold first."""

    def __init__(self, storage: Storage, thread_id: ThreadId, name: str, fold: Fold, after: Seq) -> None:
        super().__init__(storage, thread_id, fold.feed, after)
        self._snapshots = storage.fold_snapshots
        self._name = name
        self._fold = fold
        self._first_position = after
        self._fed = START
        self.stored = START
        """The position of the snapshot that the fold was restored from."""

    async def read(self, limit: int) -> list[Entry]:
        if self._fed == START < self._first_position:
            await self._restore()
        while self._fed < self._first_position:
            await self._feed_page()
        return await super().read(limit)

    async def _restore(self) -> None:
        snapshot = await self._snapshots.get(self._thread_id, self._name)
        if snapshot is not None and snapshot.seq <= self._first_position:
            with suppress(ValueError):
                self._fold.restore(snapshot.data)
                self._fed = self.stored = snapshot.seq

    async def _feed_page(self) -> None:
        """Feed the fold and drop its messages. Safe to cancel; the next call resumes."""
        entries = await self._log.read(self._thread_id, self._fed, limit=PAGE)
        earlier = [entry for entry in entries if entry.seq <= self._first_position]
        for entry in earlier:
            self._fold.feed(entry)
        self._fed = earlier[-1].seq if len(earlier) == PAGE else self._first_position

    async def prime(self, run_id: RunId) -> None:
        """A run has nothing that the whole thread does not have."""


class SharedFold(Generic[F]):
    """A fold, and the projection that feeds it."""

    def __init__(self, fold: F, entries: WholeThreadEntries, framing: Framing) -> None:
        self.fold = fold
        self.projection = Projection(Reader(entries, fold, framing))
        self._entries = entries

    @property
    def weight(self) -> int:
        return self.fold.weight + self.projection.size

    async def catch_up(self, last: Seq) -> None:
        """Feed the fold up to the position `last` at least."""
        while self.projection.position < last and await self.projection.catch_up():
            pass

    def due_snapshot(self) -> FoldSnapshot | None:
        """A snapshot to store, if the log has grown enough since the last one."""
        position = self.projection.position
        if position - self._entries.stored < SNAPSHOT_EVERY:
            return None
        self._entries.stored = position
        return FoldSnapshot(position, self.fold.snapshot())


class _Key(NamedTuple):
    thread_id: ThreadId
    name: str
    framing: Framing


class ThreadFolds:
    """All folds of a process, with an LRU cache that is bounded in bytes."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._folds: OrderedDict[_Key, SharedFold[Any]] = OrderedDict()
        self._weights: dict[_Key, int] = {}
        self._cached_bytes = 0

    async def current(self, thread_id: ThreadId, name: str, make_fold: Callable[[], F], framing: Framing) -> F:
        """The fold of a thread, fed everything that is in the log now. Others feed it too: use it without awaiting."""
        last = await self._storage.log.last(thread_id)
        key = _Key(thread_id, name, framing)
        shared = self._shared(key, make_fold, last)
        # A reader at its first position has fed nothing yet, so read even if there is nothing after it.
        await shared.projection.catch_up()
        await shared.catch_up(last)
        self._weigh(key, shared)
        if (snapshot := shared.due_snapshot()) is not None:
            with suppress(StorageError):  # it can be computed again
                await self._storage.fold_snapshots.put(thread_id, name, snapshot)
        return shared.fold

    def projection(
        self, thread_id: ThreadId, name: str, make_fold: Callable[[], F], framing: Framing, after: Seq
    ) -> Projection:
        """The projection of the thread's fold. If there is none yet, its frames start after `after`."""
        return self._shared(_Key(thread_id, name, framing), make_fold, after).projection

    def forget_thread(self, thread_id: ThreadId) -> None:
        """Drop the folds of a deleted thread. Its followers finish."""
        for key in [key for key in self._folds if key.thread_id == thread_id]:
            self._drop(key).projection.deleted = True

    def _shared(self, key: _Key, make_fold: Callable[[], F], after: Seq) -> SharedFold[F]:
        shared = self._folds.get(key)
        if shared is None or shared.projection.ended:  # the thread was deleted and created again
            fold = make_fold()
            entries = WholeThreadEntries(self._storage, key.thread_id, key.name, fold, after)
            shared = self._folds[key] = SharedFold(fold, entries, key.framing)
        self._weigh(key, shared)
        return shared

    def _weigh(self, key: _Key, shared: SharedFold[Any]) -> None:
        """Note the size of a fold that was just used, and drop others until all fit."""
        if self._folds.get(key) is not shared:
            return  # it was dropped meanwhile
        self._folds.move_to_end(key)
        self._cached_bytes += shared.weight - self._weights.get(key, 0)
        self._weights[key] = shared.weight
        while self._cached_bytes > MAX_CACHED_BYTES and len(self._folds) > 1:
            self._drop(next(iter(self._folds)))

    def _drop(self, key: _Key) -> SharedFold[Any]:
        self._cached_bytes -= self._weights.pop(key, 0)
        return self._folds.pop(key)
