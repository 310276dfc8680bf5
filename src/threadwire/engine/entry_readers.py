"""Reading the entries of one run, or of a thread across its runs, page by page from a position on."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from threadwire.core.entries import START, Entry, Kind
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import Run
from threadwire.storage.abc import Log, Storage, Threads

PAGE = 1000
SMALL_PAGE = 100


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
        """A log shorter than what was read from it belongs to a thread that was deleted."""
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
    (4.5a). No other run is read, so following a long thread costs no more than following a short one.

    A thread that does not exist yet (`exists`) can be read as well: it has no entries until it is created.
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
    ) -> None:
        super().__init__(storage.log, thread_id, after)
        self._threads: Threads = storage.threads
        self._prime = prime
        self._until = until
        self._upto = upto
        self._existed = exists
        self._primed: set[RunId] = set()
        self._priming: dict[RunId, Seq] = {}

    async def read(self, limit: int) -> list[Entry]:
        entries = await self._log.read(self._thread_id, self.position, limit=limit)
        entries, is_end = self._up_to_the_end(entries)
        for entry in entries:
            if entry.run_id is not None:
                if entry.kind == Kind.RUN_QUEUED:
                    self._primed.add(entry.run_id)
                await self.prime(entry.run_id)
        self.ended = is_end or await self._was_discarded(entries)
        if entries:
            self.position = entries[-1].seq
        self._primed -= {entry.run_id for entry in entries if entry.run_id and entry.kind == Kind.RUN_ENDED}
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
        for index, entry in enumerate(entries):
            ends_run = entry.kind == Kind.RUN_ENDED and entry.run_id == self._until
            if ends_run or (self._upto is not None and entry.seq >= self._upto):
                return entries[: index + 1], True
        return entries, False

    async def _was_discarded(self, entries: list[Entry]) -> bool:
        """When a temporary run ends, its thread is discarded, although the log can still be read (5.10)."""
        ended = any(entry.kind == Kind.RUN_ENDED for entry in entries)
        return ended and await self._threads.get(self._thread_id) is None

    async def thread_was_deleted(self) -> bool:
        if self.position == START:  # the log's length shows nothing if none of it was read
            exists = await self._threads.get(self._thread_id) is not None
            self._existed = self._existed or exists
            return self._existed and not exists
        return await super().thread_was_deleted()
