"""Queries over a thread for clients that join or resume: its active run, which run wrote an entry, and what comes
next."""

from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from anyio.lowlevel import checkpoint

from threadwire.core.access_filter import EVERYTHING, AccessFilter
from threadwire.core.encoder import Encoder
from threadwire.core.entries import START, Entry, Kind
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import Run
from threadwire.core.run_state import startable_runs
from threadwire.engine.entry_readers import PAGE, SMALL_PAGE, ThreadEntries
from threadwire.storage.abc import Storage

T = TypeVar("T")


async def active_run(storage: Storage, thread_id: ThreadId, now: int, access: AccessFilter = EVERYTHING) -> Run | None:
    """The run that is running on a thread, or else the next one to run."""
    # Pending runs first: a run that starts between the two reads must not be missing from both.
    pending = await storage.runs.list(thread_id, status="pending", limit=1000, access=access)
    for run in await storage.runs.list(thread_id, status="running", limit=1, access=access):
        return run
    candidates = startable_runs(pending[::-1])
    return next((run for run in candidates if run.is_due(now)), candidates[0] if candidates else None)


class LogQueries:
    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def last(self, thread_id: ThreadId) -> Seq:
        return await self._storage.log.last(thread_id)

    async def run_at(self, thread_id: ThreadId, position: Seq) -> RunId | None:
        """The run that wrote the entry at `position`; None if that entry is the run's last."""
        for entry in await self._storage.log.read(thread_id, Seq(position - 1), limit=1):
            return None if entry.kind == Kind.RUN_ENDED else entry.run_id
        return None

    async def newest_checkpoint(self, thread_id: ThreadId, upto: Seq) -> str | None:
        """The newest root checkpoint that the log records up to a position. Usually in one of the last few entries."""
        window = SMALL_PAGE
        while upto > START:
            after = Seq(max(START, upto - window))
            entries = await self._storage.log.read(thread_id, after, limit=upto - after)
            for entry in reversed(entries):
                if not entry.ns and _names_newest_checkpoint(entry):
                    checkpoint_id: str | None = entry.data.get(
                        "id" if entry.kind == Kind.CHECKPOINT else "checkpoint_id"
                    )
                    return checkpoint_id
            upto, window = after, PAGE
        return None

    async def next_of_run(self, thread_id: ThreadId, run_id: RunId, position: Seq) -> Entry | None:
        """The first entry of a run after `position`."""
        entries = await self._storage.log.read(thread_id, position, limit=1, run_id=run_id)
        return entries[0] if entries else None

    async def next_effective(self, thread_id: ThreadId, position: Seq, upto: Seq | None = None) -> Entry | None:
        """The first entry after `position`, and not after `upto`, that has an effect: an entry of a run that has
        started, or a change of the state outside a run."""
        while entries := await self._storage.log.read(thread_id, position, limit=SMALL_PAGE):
            for entry in entries:
                if upto is not None and entry.seq > upto:
                    return None
                if entry.attempt > 0 or (entry.kind == Kind.STATE_RESET and "values" in entry.data):
                    return entry
            position = entries[-1].seq
        return None

    async def running_at(self, thread_id: ThreadId, position: Seq) -> RunId | None:
        """The run that writes next after `position`, or else the one that is running."""
        # The running run first: if it ends between the two reads, the log already has what it wrote.
        running = await self._storage.runs.list(thread_id, status="running", limit=1)
        following = await self.next_effective(thread_id, position)
        if following is not None:
            return following.run_id
        return running[0].run_id if running else None

    async def prime(self, run: Run, encoder: Encoder, upto: Seq) -> bool:
        """Feed an encoder the entries of a run up to `upto` without sending its output (spec 4.5). Return whether the
        run had ended by then."""
        cursor = Seq(run.queued_seq - 1)
        while cursor < upto:
            entries = await self._storage.log.read(run.thread_id, cursor, limit=PAGE, run_id=run.run_id)
            for entry in entries:
                if entry.seq > upto:
                    return False
                encoder.feed(entry)
                if entry.kind == Kind.RUN_ENDED:
                    return True
            if not entries:
                return False
            cursor = entries[-1].seq
        return False

    async def replay(
        self, thread_id: ThreadId, feed: Callable[[Entry], T], after: Seq, upto: Seq
    ) -> AsyncIterator[list[T]]:
        """Feed the entries after `after`, up to `upto`, and yield the results page by page. Runs that started before
        `after` are primed (4.5a)."""
        entries = ThreadEntries(self._storage, thread_id, feed, after, upto=upto)
        while not entries.ended and (page := await entries.read(SMALL_PAGE)):
            yield [feed(entry) for entry in page]
            await checkpoint()  # a long thread must not block other clients


def _names_newest_checkpoint(entry: Entry) -> bool:
    """Whether the entry names the newest checkpoint. A fork names the older one that its run starts from."""
    return entry.kind == Kind.CHECKPOINT or (entry.kind == Kind.STATE_RESET and entry.data["cause"] != "fork")
