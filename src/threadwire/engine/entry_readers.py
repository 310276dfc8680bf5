"""Reading the entries of one run, or of a thread across its runs, page by page from a position on."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from operator import attrgetter

from threadwire.core.access_filter import EVERYTHING, AccessFilter
from threadwire.core.entries import START, Entry, Kind
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import Run
from threadwire.storage.abc import Log, Storage, Threads

PAGE = 1000
SMALL_PAGE = 100

# A page consists almost entirely of tokens, so the work per entry has to be cheap: no call, no enum lookup.
_RUN_ENDED = Kind.RUN_ENDED
_BOUNDARIES = frozenset({Kind.RUN_QUEUED, Kind.RUN_ENDED})
_RUN_ID = attrgetter("run_id")


class EntryReader(ABC):
    def __init__(self, log: Log, thread_id: ThreadId, after: Seq) -> None:
        self._log = log
        self._thread_id = thread_id
        self.position = after
        self.ended = False
        """Whether the run or thread has no further entries."""

    @abstractmethod
    async def read(self, limit: int) -> list[Entry]:
        """Return the next entries, at most `limit`; none if there are no more yet. A cancelled call reads nothing."""

    async def thread_was_deleted(self) -> bool:
        """Whether the log is now shorter than what was read from it. Only deleting the thread shortens its log."""
        return await self._log.last(self._thread_id) < self.position


class RunEntries(EntryReader):
    """The entries of one run, from its first to its last."""

    def __init__(self, log: Log, run: Run) -> None:
        super().__init__(log, run.thread_id, Seq(run.queued_seq - 1))
        self._run_id = run.run_id

    async def read(self, limit: int) -> list[Entry]:
        entries = await self._log.read(self._thread_id, self.position, limit=limit, run_id=self._run_id)
        if entries:
            self.position = entries[-1].seq
            self.ended = entries[-1].kind == Kind.RUN_ENDED
        return entries


class ThreadEntries(EntryReader):
    """The entries of a thread after a position, across all its runs: indefinitely, or up to the end of the run `until`,
    or up to the position `upto`.

    Before it returns the first entry of a run that started earlier, it passes that run's earlier entries to `prime`
    (4.5a). It reads no other entries before the position, so following a long thread costs no more than following a
    short one.

    With `exists=False`, the thread need not exist yet: it has no entries until it is created. A thread that is foreign
    to `access` does not exist.
    """

    def __init__(
        self,
        storage: Storage,
        thread_id: ThreadId,
        prime: Callable[[Entry], object],
        after: Seq,
        *,
        until: RunId | None = None,
        upto: Seq | None = None,
        exists: bool = True,
        access: AccessFilter = EVERYTHING,
    ) -> None:
        super().__init__(storage.log, thread_id, after)
        self._threads: Threads = storage.threads
        self._prime = prime
        self._until = until
        self._upto = upto
        self._existed = exists
        self._access = access
        self._may_read = exists or not access
        self._primed: set[RunId] = set()
        self._priming: dict[RunId, Seq] = {}

    async def read(self, limit: int) -> list[Entry]:
        if not self._may_read and not await self._exists():
            return []
        self._may_read = True
        entries, is_end = self._up_to_the_end(await self._log.read(self._thread_id, self.position, limit=limit))
        boundaries = [entry for entry in entries if entry.kind in _BOUNDARIES]
        self._primed.update(entry.run_id for entry in boundaries if entry.run_id and entry.kind == Kind.RUN_QUEUED)
        for run_id in dict.fromkeys(map(_RUN_ID, entries)):
            if run_id is not None:
                await self.prime(run_id)
        ended = {entry.run_id for entry in boundaries if entry.kind == Kind.RUN_ENDED}
        self.ended = is_end or (bool(ended) and await self._was_discarded())
        if entries:
            self.position = entries[-1].seq
        self._primed -= ended
        return entries

    async def prime(self, run_id: RunId) -> None:
        """Prime with the run's entries up to the position, once. Safe to cancel; the next call resumes."""
        while run_id not in self._primed:
            fed = self._priming.get(run_id, START)
            entries = await self._log.read(self._thread_id, fed, limit=PAGE, run_id=run_id)
            earlier = [entry for entry in entries if entry.seq <= self.position]
            for entry in earlier:
                self._prime(entry)
            if len(earlier) < len(entries) or not entries:
                self._priming.pop(run_id, None)
                self._primed.add(run_id)
            else:
                self._priming[run_id] = earlier[-1].seq

    def _up_to_the_end(self, entries: list[Entry]) -> tuple[list[Entry], bool]:
        if self._until is None and self._upto is None:
            return entries, False
        for index, entry in enumerate(entries):
            ends_run = entry.kind == _RUN_ENDED and entry.run_id == self._until
            if ends_run or (self._upto is not None and entry.seq >= self._upto):
                return entries[: index + 1], True
        return entries, False

    async def _was_discarded(self) -> bool:
        """Whether the thread was discarded by the end of its temporary run. The log can still be read (5.10)."""
        return await self._threads.get(self._thread_id, with_state=False) is None

    async def _exists(self) -> bool:
        return await self._threads.get(self._thread_id, with_state=False, access=self._access) is not None

    async def thread_was_deleted(self) -> bool:
        if self.position == START:  # if nothing was read yet, the length of the log proves nothing
            exists = await self._exists()
            self._existed = self._existed or exists
            return self._existed and not exists
        return await super().thread_was_deleted()
