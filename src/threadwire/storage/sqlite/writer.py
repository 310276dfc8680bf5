"""Everything that changes the database is a `Work` in one queue, done in the order of the calls.

A work is *written* when its transaction is in the write-ahead log, which outlives the process, and *settled* when that
file is synced too, which outlives the machine. Only then is anybody told (2.4): entries become readable, waiters are
resolved, watchers are woken. SQLite's `synchronous=FULL` would do both in one; they are two here (`NORMAL`, and a sync
of our own before anything is acknowledged), because a graph between two steps need only wait for the first.

One thread does the writing and the syncing. While it does, the next batch gathers, so batches grow with the load. What
somebody waits for is settled at once, unless he is patient: whoever watches the run he starts is told nothing before
its first entries, and the shortest runs need one sync then and not two. Entries that nobody waits for are gathered:
for `GATHER` if the writer was idle, and up to `PACE` after the last sync began if it was not, because a sync costs as
much of the interpreter as fifty entries do.

Numbers are given here and not where the work comes in. Queue order is call order, so the result is the same (2.2),
and there is no counter in memory that a failed commit would leave ahead of the disk.

Two rules keep this fast and safe:

- Work that must be refused (`Fenced`, `NotFound`, …) says so *before* it changes anything. So a refusal costs no
  savepoint and harms no neighbour in the batch.
- Work that fails otherwise (a full disk, a bug) takes its whole batch back; then each work is tried alone, so that
  only what really cannot be done fails. What an attempt loses that way breaks its fence: nothing it does later may
  be kept either, or its log would have a hole in what it says though not in its numbers.

If the log cannot be synced, the writer dies: the system may have dropped what it could not write, so that trying again
would succeed and mean nothing. Whatever was not settled then fails, and stays hidden; what became of it, the next
start finds in the log, by SQLite's checksums.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias, TypeVar

import apsw
import structlog

from threadwire.core.entries import Fence
from threadwire.core.ids import RunId, ThreadId
from threadwire.errors import Fenced, StorageDied, StorageError, ThreadwireError
from threadwire.storage.sqlite.damage import refusal
from threadwire.storage.sqlite.keys import name_of
from threadwire.storage.sqlite.segments import Encoded
from threadwire.storage.sqlite.tails import Tails
from threadwire.storage.sqlite.transaction import Head, Transaction
from threadwire.storage.sqlite.waiting import Waiters, Watchers
from threadwire.storage.sqlite.works import LITTLE, WORK_COST, Appending, Operation, Work
from threadwire.storage.sqlite.write_ahead_log import WriteAheadLog

T = TypeVar("T")

Batch: TypeAlias = tuple[list[Work], list[Transaction]]
"""Works that were written together, and the transactions it took."""

_log = structlog.get_logger(__name__)

MAX_QUEUED = 1000
MAX_QUEUED_BYTES = 16 * 1024 * 1024
PACE = 0.010
GATHER = 0.002
_MAX_BATCH = 2000
_MAX_HEADS = 20_000


class Writer:
    def __init__(
        self,
        db: apsw.Connection,
        log: WriteAheadLog,
        tails: Tails,
        watchers: Watchers,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._db = db
        self._tails = tails
        self._loop = loop
        self._heads: dict[ThreadId, Head] = {}
        self._turn = threading.Lock()
        """Held while somebody is at the database."""
        self._write_ahead = log
        self._lock = threading.Lock()
        self._bell = threading.Lock()
        self._bell.acquire()
        # Everything below is changed under the lock.
        self._queue: deque[Work] = deque()
        self._queued = 0
        """Entries and other works in the queue."""
        self._load = 0
        self._asleep = False
        self._gathering = False
        self._urgent = False
        self._begun_at = 0.0
        self._rung_at = 0.0
        self._closed = False
        self.death: StorageDied | None = None
        self._taken = 0
        self.settled = 0
        """Works up to this position are synced, or have failed."""
        self.written = 0
        """Works up to this position are at least written."""
        self.entries = 0
        """How many entries have been published, and in how many commits."""
        self.commits = 0
        self._unsynced: list[Batch] = []
        self._hidden: dict[ThreadId, int] = {}
        """From which number on a thread's entries are written, but not yet to be shown."""
        self._waiters = Waiters(watchers, loop)
        self._held = _running(db)
        self._broken: set[Fence] = set()
        self._dead = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="threadwire-sqlite-writer", daemon=True)
        self._thread.start()

    # For callers, on any thread

    def take(self, work: Work, *, urgent: bool = False) -> None:
        """Put the work into the queue. Raises `Fenced` if it names a fence that does not hold the thread."""
        with self._lock:
            self._require(work.fence, work.thread_id)
            self._enqueue(work, urgent=urgent)

    def append(self, thread_id: ThreadId, entries: list[Encoded], fence: Fence | None) -> Appending:
        """`take` for entries. What an attempt says in one go becomes one work, however many calls it takes to say."""
        weight = WORK_COST
        for entry in entries:
            weight += len(entry[1])
        with self._lock:
            self._require(fence, thread_id)
            queue = self._queue
            if queue and type(last := queue[-1]) is Appending and last.takes_up(fence, weight):
                last.entries += entries
                last.weight += weight
                self._load += weight
                self._queued += len(entries)
                if self._gathering and self.crowded:
                    self._hurry()
                return last
            work = Appending(thread_id, entries, fence, weight)
            self._enqueue(work)
        return work

    def _require(self, fence: Fence | None, thread_id: ThreadId | None) -> None:
        if fence is not None:
            if self._held.get(fence) != thread_id:
                raise Fenced()
            if self._broken and fence in self._broken:
                raise StorageError("An earlier entry of this attempt could not be kept.")

    async def do(
        self,
        operation: Callable[[Transaction], T],
        *,
        then: Callable[[T], None] | None = None,
        patient: Callable[[T], bool] | None = None,
    ) -> T:
        """Do it in its turn, and return once it is settled: at once, or with what comes next if the caller is `patient`
        about that result. `then` is told the result as soon as it is written, on this loop, also if the caller is
        cancelled before."""
        work = Operation(operation)
        with self._lock:
            self._enqueue(work, quietly=True)
            self._urgent = self._urgent or patient is None
        self._write_now(work)
        is_written = self.written >= work.position
        if then is not None:
            if is_written:
                _tell_result(work, then)
            else:
                await asyncio.shield(asyncio.get_running_loop().create_task(_tell_when_settled(work, then)))
        patiently = is_written and patient is not None and work.error is None and patient(work.result)
        await work.kept(patiently=patiently)
        return work.result

    async def do_elsewhere(self, operation: Callable[[Transaction], T]) -> T:
        """`do` for what may take long: it counts as much work, so that only the writer's thread does it."""
        work = Operation(operation, weight=LITTLE)
        self.take(work, urgent=True)
        await work.kept()
        return work.result

    async def do_and_let_go(self, fence: Fence, operation: Callable[[Transaction, ThreadId], None]) -> bool:
        """The last thing an attempt does: from the call on it has let go of its thread. False if it did not hold it."""
        with self._lock:
            thread_id = self._held.get(fence)
            if thread_id is None:
                return False
            work = Operation(lambda transaction: operation(transaction, thread_id), thread_id=thread_id, fence=fence)
            work.gives_up = True
            self._enqueue(work, quietly=True)
            self._urgent = True
            del self._held[fence]
        self._write_now(work)
        await work.finished()
        if isinstance(work.error, Fenced):
            return False
        if work.error is not None:
            raise work.error
        return True

    def _write_now(self, work: Work) -> None:
        """Write it here if that can be done, or have the writer's thread do it at once."""
        self.write_through()
        if self.written < work.position:
            with self._lock:
                self._summon()

    def is_broken(self, fence: Fence) -> bool:
        return fence in self._broken

    @property
    def crowded(self) -> bool:
        return self._queued >= MAX_QUEUED or self._load >= MAX_QUEUED_BYTES

    async def room(self) -> None:
        while self.crowded:
            await self.until(self.settled + 1)

    def wait_for_room_here(self) -> None:
        while self.crowded:
            self.block_until(self.settled + 1)

    async def until(self, position: int, *, patiently: bool = False) -> None:
        future = asyncio.get_running_loop().create_future()
        with self._lock:
            if self.settled >= position or self.death is not None:
                return
            self._waiters.add(position, future, patient=patiently)
            if not patiently:
                self._hurry()
        await future

    async def told(self) -> None:
        """Return once everything that can be read by now is settled. For whoever has read something and is about to
        tell of it: a state must not be known before the entries that led to it, nor before it outlives the machine."""
        if self.settled < (position := self.written):
            await self.until(position)
        if self.death is not None:
            raise self._died()

    def told_here(self) -> None:
        """`told` for callers without an event loop: blocks the thread."""
        if self.settled < (position := self.written):
            self.block_until(position)
        if self.death is not None:
            raise self._died()

    def block_until(self, position: int) -> None:
        gate = threading.Lock()
        gate.acquire()
        with self._lock:
            if self.settled >= position or self.death is not None:
                return
            self._waiters.add(position, gate)
            self._hurry()
        gate.acquire()

    def write_through(self, patience: float = 0.0) -> None:
        """Write what is queued, here on the caller's thread; syncing it is left to the writer's.

        For a caller that could not go on before. Handing the work to another thread, and being woken by it, would take
        longer than to do it. Not when there is much to write, nor when somebody is at the database already, and stays
        there longer than the caller has patience.
        """
        if self._load > LITTLE or not self._turn.acquire(timeout=patience):
            return
        try:
            with self._lock:
                batch = self._dequeue()
            if batch:
                self._write_or_put_back(batch)
        finally:
            self._turn.release()

    def shown(self, thread_id: ThreadId) -> int | None:
        """The last number of the thread that may be shown, if there are some that may not."""
        with self._lock:
            first = self._hidden.get(thread_id)
        return None if first is None else first - 1

    async def lives(self) -> None:
        """Wait for the writer's death, which is raised."""
        await self._dead.wait()
        raise self._died()

    def close(self) -> None:
        """Refuse what comes from now on, and return when everything taken in is done. Raises what the writer dies of
        meanwhile."""
        lived = self.death is None
        with self._lock:
            self._closed = True
            self._summon()
        self._thread.join()
        if lived and self.death is not None:
            raise self._died()

    def _died(self) -> StorageDied:
        """Another one each time: whoever raises it adds to its traceback."""
        assert self.death is not None
        return StorageDied(self.death.message)

    def _enqueue(self, work: Work, *, urgent: bool = False, quietly: bool = False) -> None:
        if self._closed:
            raise StorageError("The storage is closed.") if self.death is None else self._died()
        work._writer = self
        self._taken += 1
        work.position = self._taken
        self._load += work.weight
        self._queued += work.size
        self._queue.append(work)
        if quietly:
            return
        if urgent:
            self._urgent = True
        if self._asleep:
            self._ring()
        elif self._gathering and (urgent or self.crowded):
            self._hurry()

    def _ring(self) -> None:
        """There is something to do."""
        if self._asleep:
            self._asleep = False
            self._rung_at = time.monotonic()
            self._bell.release()

    def _hurry(self) -> None:
        """And somebody waits for it."""
        if self._gathering:
            self._gathering = False
            self._bell.release()

    def _summon(self) -> None:
        """The writer's thread is to see to what is queued at once, whatever it is doing now."""
        self._urgent = True
        self._ring()
        self._hurry()

    # The writer's own thread

    def _run(self) -> None:
        try:
            while self._wait_for_work():
                self._settle_all()
            with self._turn:  # somebody may still be writing in its place
                pass
            if self._queue or self._unsynced:
                self._settle_all()
        except BaseException as error:
            self._die(error)

    def _wait_for_work(self) -> bool:
        """Sleep while there is nothing to do. False once closed."""
        while True:
            with self._lock:
                pause = self._pause()
                if self._queue or self._unsynced:
                    if pause <= 0:
                        return True
                    self._gathering = True
                elif self._closed:
                    return False
                elif pause > 0:  # what comes before that is over would have to wait for it anyway, and need not ring
                    self._gathering = True
                else:
                    pause = -1.0
                    self._asleep = True
            if not self._bell.acquire(timeout=pause):
                with self._lock:
                    if self._gathering:
                        self._gathering = False
                    else:  # somebody rang at the last moment
                        self._bell.acquire()

    def _settle_all(self) -> None:
        with self._turn:
            with self._lock:
                self._begun_at = time.monotonic()
                self._urgent = False
                batch = self._dequeue()
            if batch:
                try:
                    self._written(batch, self._commit(batch))
                except BaseException:
                    self._put_back(batch)
                    raise
        with self._lock:
            written = self._unsynced[:]
        self._write_ahead.sync()  # while others write on
        if written:
            self._settle(written)
        if self._write_ahead.is_long:
            with self._turn:
                self._write_ahead.empty()

    def _pause(self) -> float:
        if self._urgent or self._waiters.impatient or self._closed or self.crowded:
            return 0.0
        return max(self._begun_at + PACE, self._rung_at + GATHER) - time.monotonic()

    def _dequeue(self) -> list[Work]:
        if len(self._queue) > _MAX_BATCH:
            batch = [self._queue.popleft() for _ in range(_MAX_BATCH)]
            self._queued -= sum(work.size for work in batch)
            return batch
        batch = list(self._queue)
        self._queue.clear()
        self._queued = 0
        return batch

    # Whoever has the turn

    def _perform(self, batch: list[Work]) -> Transaction:
        if len(self._heads) > _MAX_HEADS:
            self._heads.clear()
        transaction = Transaction(self._db, self._heads)
        for work in batch:
            if work.fence in self._broken and not work.gives_up:
                work.error = StorageError("An earlier entry of this attempt could not be kept.")
                continue
            try:
                work.perform(transaction)
            except ThreadwireError as refusal:
                work.error = refusal
        transaction.write()
        return transaction

    def _write_or_put_back(self, batch: list[Work]) -> None:
        """If the database refuses something, the writer's thread is to find out what."""
        try:
            transaction = self._perform(batch)
            transaction.commit()
        except BaseException as error:
            self._put_back(batch)
            self._undo(batch)
            if not isinstance(error, Exception):  # somebody wants this thread to end, and the work is not his alone
                raise
        else:
            self._written(batch, [transaction])

    def _put_back(self, batch: list[Work]) -> None:
        with self._lock:
            self._queue.extendleft(reversed(batch))
            self._queued += sum(work.size for work in batch)
            self._summon()

    def _written(self, batch: list[Work], transactions: list[Transaction]) -> None:
        with self._lock:
            self.written = batch[-1].position
            self._unsynced.append((batch, transactions))
            for transaction in transactions:
                self._hide(transaction)
                for fence in transaction.dropped:
                    self._held.pop(fence, None)
                    self._broken.discard(fence)
                self._held.update(transaction.taken)
            self._ring()

    def _hide(self, transaction: Transaction) -> None:
        for segment in transaction.segments:
            self._hidden.setdefault(segment.thread_id, segment.first)

    def _undo(self, batch: list[Work]) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")
        self._heads.clear()
        for work in batch:
            work.error = None

    def _commit(self, batch: list[Work]) -> list[Transaction]:
        """Write a batch; what became of it. No work is lost without an error in it."""
        try:
            transaction = self._perform(batch)
            transaction.commit()
        except Exception as error:
            self._undo(batch)
            if len(batch) == 1:
                self._fail(batch[0], error)
                return []
            return [transaction for work in batch for transaction in self._commit([work])]
        return [transaction]

    def _fail(self, work: Work, error: Exception) -> None:
        work.error = refusal(error, self._db.filename)
        work.error.__cause__ = error
        if work.fence is not None and not work.gives_up:
            self._broken.add(work.fence)

    def _publish(self, written: list[Batch]) -> set[ThreadId]:
        """Show what has been synced; the threads that have grown, or are gone."""
        changed: set[ThreadId] = set()
        for transaction in (each for _, transactions in written for each in transactions):
            for thread_id in transaction.forgotten:
                self._tails.forget(thread_id)
            if transaction.segments:
                self._tails.add(transaction.segments)
                self.entries += sum(len(segment.entries) for segment in transaction.segments)
            self.commits += 1
            changed.update(transaction.forgotten, (segment.thread_id for segment in transaction.segments))
        return changed

    def _settle(self, written: list[Batch]) -> None:
        works = [work for batch, _ in written for work in batch]
        load = sum(work.weight for work in works)
        grown = self._publish(written)
        with self._lock:
            for work in works:
                if work.gives_up and work.error is not None and not isinstance(work.error, Fenced):
                    # It could not be ended after all, so it goes on holding its thread.
                    assert work.fence is not None
                    assert work.thread_id is not None
                    self._held[work.fence] = work.thread_id
            self.settled = works[-1].position
            self._load -= load
            del self._unsynced[: len(written)]
            self._hidden.clear()
            for _, transactions in self._unsynced:
                for transaction in transactions:
                    self._hide(transaction)
            ready = self._waiters.take(self.settled)
        self._waiters.tell(ready, grown)

    def _die(self, error: BaseException) -> None:
        """Nobody must wait for a writer that is gone, nor be shown what it has not synced; so that stays hidden."""
        foreseen = error if isinstance(error, StorageError) else None
        reason = foreseen.message if foreseen else repr(error)
        with self._turn, self._lock:  # somebody may be writing in its place
            self.death = StorageDied(f"The storage has died. {reason}. The server ends, and has to be started again.")
            self._closed = True
            self._write_ahead.leave()
            for work in [*(work for works, _ in self._unsynced for work in works), *self._queue]:
                work.error = self._died()
            self._unsynced.clear()
            self._queue.clear()
            self._queued = self._load = 0
            self.settled = self._taken
            waiting = self._waiters.take_all()
        self._waiters.tell(waiting)
        with suppress(RuntimeError):  # the loop is closed: nobody is left there to tell
            self._loop.call_soon_threadsafe(self._dead.set)
        _log.critical("The storage has died", reason=reason, exc_info=None if foreseen else error)


async def _tell_when_settled(work: Operation[T], then: Callable[[T], None]) -> None:
    await work.finished()
    _tell_result(work, then)


def _tell_result(work: Operation[T], then: Callable[[T], None]) -> None:
    if work.error is None:
        then(work.result)


def _running(db: apsw.Connection) -> dict[Fence, ThreadId]:
    """Who holds a thread when the storage is opened: the attempts of a process that died, until they are recovered."""
    rows = db.execute("SELECT run, attempt, thread FROM runs WHERE status = 'running'")
    return {Fence(RunId(name_of(run)), attempt): ThreadId(name_of(thread)) for run, attempt, thread in rows}
