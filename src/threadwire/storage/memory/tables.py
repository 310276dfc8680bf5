"""The data of a memory storage, and the operations that several protocols share.

One lock makes every method of the protocols a transaction: callers of `Tables` methods must hold it. The lock is
re-entrant because the checkpoint saver acquires it too, even from within a rollback.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from threadwire.core.access_filter import EVERYTHING, AccessFilter
from threadwire.core.entries import Draft, Entry, Fence, Json
from threadwire.core.ids import AssistantId, CronId, RunId, Seq, ThreadId
from threadwire.core.json import dumps, loads, native
from threadwire.core.records import (
    Assistant,
    AssistantVersion,
    Cron,
    Delivery,
    FoldSnapshot,
    QueueHint,
    Run,
    StateSummary,
    Thread,
)
from threadwire.core.store_items import Item, Labels
from threadwire.errors import NotFound
from threadwire.storage.local_leases import LocalHolds, LocalLeases
from threadwire.storage.memory.wakeups import Watchers
from threadwire.storage.queue_hints import QueueHints

Record = TypeVar("Record", Assistant, AssistantVersion, Thread, Run, Cron)

ItemName = tuple[Labels, str]

_JSON_FIELDS = frozenset({"metadata", "config", "context", "kwargs", "payload", "values", "interrupts", "error"})


@dataclass(frozen=True, slots=True)
class StoredItem:
    item: Item
    ttl: int | None
    expires_at: int | None
    vectors: tuple[bytes, ...]

    def expired(self, now: int) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    def shown(self, score: float | None = None) -> Item:
        return replace(self.item, value=native(self.item.value), score=score)


class Tables:
    def __init__(self, serializer: SerializerProtocol | None = None) -> None:
        self.lock = threading.RLock()
        self.writes_by_run: dict[RunId, set[tuple[Any, Any]]] = {}
        """Which checkpoint writes an active run made, to its own and earlier checkpoints, in case it is rolled back."""
        self.assistants: dict[AssistantId, Assistant] = {}
        self.versions: dict[AssistantId, dict[int, AssistantVersion]] = {}
        # A row holds the thread's status without active runs. `shown` returns the status clients see.
        self.threads: dict[ThreadId, Thread] = {}
        self.pruned_at: dict[ThreadId, int] = {}
        # In the order of deletion.
        self.deleted: dict[ThreadId, None] = {}
        # In the order of acceptance: replacing a row keeps its position.
        self.runs: dict[RunId, Run] = {}
        self.previous_metadata: dict[RunId, dict[str, Any]] = {}
        """The graph and assistant in the thread's metadata before an active run changed them."""
        self.deliveries: dict[int, Delivery] = {}
        self.deliveries_made = 0
        self.crons: dict[CronId, Cron] = {}
        # Entry `seq` is at index `seq - 1`. Its data is JSON text, which is immutable (1.3).
        self.logs: dict[ThreadId, list[Entry]] = {}
        self.fold_snapshots: dict[ThreadId, dict[str, FoldSnapshot]] = {}
        # When each thread that is no longer in `threads`, but has not been swept, was discarded.
        self.discarded: dict[ThreadId, int] = {}
        self.discarded_metadata: dict[ThreadId, dict[str, Any]] = {}
        # In the order of their last put.
        self.items: dict[ItemName, StoredItem] = {}
        self.checkpoints = InMemorySaver(serde=serializer or JsonPlusSerializer(pickle_fallback=False))
        self.watchers = Watchers()
        self.leases: LocalLeases[Fence] = LocalLeases()
        self.holds = LocalHolds()
        self.queue_hints = QueueHints()
        self.entries = 0
        """How many entries were ever written."""
        self.writes = 0

    def holder(self, fence: Fence) -> Run | None:
        """Return the run of this attempt if the attempt holds its thread (2.6)."""
        run = self.runs.get(fence.run_id)
        return run if run is not None and run.status == "running" and run.fence == fence else None

    def find_thread(self, thread_id: ThreadId, access: AccessFilter = EVERYTHING) -> Thread | None:
        thread = self.threads.get(thread_id)
        return thread if thread is not None and access.matches(thread.metadata) else None

    def thread(self, thread_id: ThreadId, access: AccessFilter = EVERYTHING) -> Thread:
        if (thread := self.find_thread(thread_id, access)) is None:
            raise NotFound(f"Thread {thread_id} not found")
        return thread

    def find_run(self, run_id: RunId, access: AccessFilter = EVERYTHING) -> Run | None:
        run = self.runs.get(run_id)
        return run if run is not None and self.may_access(run, access) else None

    def may_access(self, run: Run, access: AccessFilter) -> bool:
        thread = self.threads.get(run.thread_id)
        metadata = self.discarded_metadata.get(run.thread_id) if thread is None else thread.metadata
        return not access or (metadata is not None and access.matches(metadata))

    def active(self, thread_id: ThreadId) -> list[Run]:
        return [run for run in self.runs.values() if run.thread_id == thread_id and run.active]

    def shown(self, thread: Thread) -> Thread:
        busy = bool(self.active(thread.thread_id))
        return stored_copy(replace(thread, status="busy") if busy else thread)

    def store_run(self, run: Run) -> Run:
        self.runs[run.run_id] = stored_copy(run)
        return stored_copy(run)

    def store_thread(self, thread: Thread) -> None:
        self.threads[thread.thread_id] = stored_copy(thread)

    def remove_thread(self, thread_id: ThreadId) -> None:
        """Remove the thread and everything that belongs to it."""
        self.threads.pop(thread_id, None)
        self.pruned_at.pop(thread_id, None)
        self.discarded_metadata.pop(thread_id, None)
        self.logs.pop(thread_id, None)
        self.fold_snapshots.pop(thread_id, None)
        self.checkpoints.delete_thread(thread_id)
        for run in [run for run in self.runs.values() if run.thread_id == thread_id]:
            del self.runs[run.run_id]
            if run.status == "running":
                self.queue_hints.hint(QueueHint.STOPS)
            self.writes_by_run.pop(run.run_id, None)
            self.previous_metadata.pop(run.run_id, None)
        self.remove_crons(lambda cron: cron.thread_id == thread_id)
        # So that followers notice the deletion before their next poll.
        self.watchers.wake(thread_id)

    def remove_crons(self, which: Callable[[Cron], bool]) -> None:
        for cron in [cron for cron in self.crons.values() if which(cron)]:
            del self.crons[cron.cron_id]

    def enqueue_delivery(self, run: Run, *, values: Json, now: int) -> None:
        """Enqueue a webhook delivery for a run that has ended."""
        self.deliveries_made += 1
        number = self.deliveries_made
        self.deliveries[number] = Delivery(number, stored_copy(run), native(values), due_at=now)

    def store_state(self, thread_id: ThreadId, summary: StateSummary, now: int) -> None:
        self.store_thread(
            replace(
                self.thread(thread_id),
                status=summary.status,
                values=summary.values,
                interrupts=summary.interrupts,
                error=summary.error,
                updated_at=now,
                state_updated_at=now,
            )
        )

    def last(self, thread_id: ThreadId) -> Seq:
        return Seq(len(self.logs.get(thread_id, ())))

    def write(self, thread_id: ThreadId, drafts: Sequence[Draft], author: Fence | None = None) -> Seq:
        """Number and store the drafts, wake watchers, and return the last number."""
        log = self.logs.setdefault(thread_id, [])
        run_id, attempt = author or (None, 0)
        for draft in drafts:
            data = dumps(draft.data)
            log.append(Entry(Seq(len(log) + 1), run_id, attempt, draft.at, draft.ns, draft.kind, data))
        self.entries += len(drafts)
        self.writes += 1
        self.watchers.wake(thread_id)
        return Seq(len(log))


def read_back(entries: Iterable[Entry]) -> list[Entry]:
    return [entry._replace(data=loads(entry.data)) for entry in entries]


def stored_copy(record: Record) -> Record:
    """Return a copy that shares nothing with the original and holds what a database would return: plain JSON."""
    copies: dict[str, Any] = {
        field.name: native(getattr(record, field.name)) for field in fields(record) if field.name in _JSON_FIELDS
    }
    return replace(record, **copies)
