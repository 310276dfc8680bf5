"""The storage contract: the protocols that a database driver implements.

A driver is a folder (or file) that offers an `open_*` function returning an async context manager of `Storage`, and
that passes `threadwire.testing.conformance`. Drivers share no base class. Numbers in parentheses refer to the rules of
spec/log.md.

Event loops and threads: a storage is opened on one event loop, and every `async` method is called on that loop unless
its docstring says otherwise. `Log.append`, `Threads.commit_state`, checkpoint savers and `Items` may be called from any
thread and any loop, because graphs run on their own loops.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from threadwire.core.entries import Draft, Entry, Fence
from threadwire.core.ids import AssistantId, CronId, RunId, Seq, ThreadId
from threadwire.core.items import ItemOperation, ItemResult
from threadwire.core.records import (
    Accepted,
    Assistant,
    AssistantQuery,
    AssistantVersion,
    CancelAction,
    Cancelled,
    CheckpointSizes,
    Cron,
    CronQuery,
    Delivery,
    Durability,
    Ending,
    ExpiryStrategy,
    Fired,
    FoldSnapshot,
    LogCounters,
    NewRun,
    Put,
    RequestedTtl,
    Run,
    RunSelection,
    RunStatus,
    StateSummary,
    Thread,
    ThreadQuery,
)
from threadwire.errors import StorageFailed

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver


class Commit(Protocol):
    """Work that has been enqueued and will be durable soon."""

    async def wait(self) -> None:
        """Return once the work is durable. Raise `StorageError` if it never will be. Usable on any event loop."""


class StateCommit(Protocol):
    """A state change, made outside a run, that has been enqueued."""

    async def wait(self) -> bool:
        """Return True once the change is durable, or False if it was not applied. Usable on any event loop.

        Raises `NotFound` if the thread does not exist, and `StorageError` if the change could not be stored.
        """


class Wakeup(Protocol):
    """A hint that a thread may have grown (3.3)."""

    async def wait(self, timeout: float) -> bool:
        """Wait for a hint. Return True if one has arrived since the last call, or False after `timeout` seconds.

        Hints are not counted: several that arrive between two calls may be reported as one.
        """


class Log(Protocol):
    def append(self, thread_id: ThreadId, drafts: Sequence[Draft], fence: Fence | None = None) -> Commit:
        """Enqueue `drafts`, all or none (2.1), without waiting for the disk (2.3).

        With a fence, the entries carry its run and attempt; raises `Fenced` unless that attempt holds the thread (2.5).
        Without a fence, the entries are changes outside a run; raises `NotFound` if the thread does not exist.
        Thread-safe. The entries of one thread are numbered in the order of the calls (2.2).
        """

    @property
    def queue_full(self) -> bool:
        """Whether the queue has reached its limit (2.7). Must be cheap: it is checked after every append."""

    async def wait_for_room(self) -> None:
        """Return once the queue is below its limit. Usable on any event loop."""

    async def read(
        self, thread_id: ThreadId, after: Seq, *, limit: int = 1000, run_id: RunId | None = None
    ) -> list[Entry]:
        """Return the committed entries with `seq > after`, in order, at most `limit` of them (3.1).

        With `run_id`, return only the entries of that run; `limit` then counts only those. An empty list means that
        there are no such entries yet. A thread that does not exist reads as empty. A discarded thread can be read until
        it is swept (5.10).
        """

    async def last(self, thread_id: ThreadId) -> Seq:
        """Return the highest committed sequence number, or 0 if the thread has no entries."""

    def watch(self, thread_id: ThreadId) -> AbstractContextManager[Wakeup]:
        """Receive a wakeup whenever the thread grows. Watch first, then read (3.2)."""

    def counters(self) -> LogCounters:
        """Return how many entries, on all threads, have become readable since the storage was opened, and in how many
        commits.

        One commit may hold several entries, or changes that add no entry. Neither counter ever decreases.
        """


class Threads(Protocol):
    async def create(
        self,
        thread: Thread,
        *,
        if_exists: str = "raise",
        drafts: Sequence[Draft] = (),
        checkpoints_from: ThreadId | None = None,
    ) -> Thread:
        """Store a new thread and return it.

        If the id is taken, raise `Conflict`, or return the existing thread with `if_exists="do_nothing"`.

        The same transaction appends `drafts` as the thread's first entries, outside a run, and moves the checkpoints
        stored under the id `checkpoints_from` to the new thread. If the id is taken, neither happens.
        """

    async def get(self, thread_id: ThreadId) -> Thread | None: ...

    async def update(
        self, thread_id: ThreadId, *, metadata: dict[str, Any], ttl: RequestedTtl = "usual", now: int
    ) -> Thread:
        """Merge `metadata` into the thread's metadata, key by key, and return the updated thread.

        The TTL is replaced by `ttl`, or removed if that is None; `"usual"` leaves it unchanged. Raises `NotFound`.
        """

    async def delete(self, thread_id: ThreadId) -> None:
        """Delete the thread with its log, runs, checkpoints and crons.

        An attempt that held the thread is fenced, and watchers are woken. Raises `NotFound`.
        """

    async def prune(self, thread_id: ThreadId, now: int) -> bool:
        """Remove all checkpoints except the newest of each namespace and those it depends on.

        If any were removed, append a `state.reset` entry with cause `prune` and the id of the newest root checkpoint.
        `updated_at` does not change. Returns False, and changes nothing, if the thread has active runs or does not
        exist.
        """

    async def due(self, now: int, limit: int) -> list[ThreadId]:
        """Return up to `limit` threads with `expires_at <= now` and no active runs, earliest `expires_at` first.

        A thread that was pruned since its last update is not due until it has been updated again.
        """

    async def expire(self, thread_id: ThreadId, now: int) -> ExpiryStrategy | None:
        """Apply the TTL strategy of a thread that is `due`, as `delete` or `prune` would, and return the strategy.

        Returns None, and changes nothing, if the thread is not due (or no longer due).
        """

    async def search(self, query: ThreadQuery) -> list[Thread]:
        """Return one page of the threads whose metadata and values contain those of the query (see `contains`).

        Ties are broken by id; when sorting by status, first by `updated_at`. Tie-breakers follow the direction of the
        sort. None sorts below every other value. Without `with_state`, the returned threads have neither values nor
        interrupts, whatever is stored.
        """

    async def count(self, query: ThreadQuery) -> int:
        """Return how many threads `search` would find without a limit."""

    def commit_state(
        self,
        thread_id: ThreadId,
        summary: StateSummary,
        drafts: Sequence[Draft],
        puts: Sequence[Put] = (),
        *,
        since: Seq,
        now: int,
    ) -> StateCommit:
        """Enqueue a state change made outside a run: in one transaction, put its checkpoints as an unfenced saver
        would, store `summary` on the thread's row, and append `drafts` (7.6).

        Nothing changes if the thread has active runs, or if its log has entries after `since`: the change was then
        computed from a state that is no longer current. Thread-safe. `puts` are serialised during this call, on the
        caller's thread.
        """

    async def discarded(
        self, *, before: int, exclude: frozenset[ThreadId] = frozenset(), limit: int = 100
    ) -> Sequence[ThreadId]:
        """Return up to `limit` threads that were discarded before the time `before` and have not been swept (5.10),
        oldest first, without those in `exclude`."""

    async def sweep(self, thread_ids: Sequence[ThreadId]) -> None:
        """Delete what is left of discarded threads: their logs, runs and checkpoints.

        A thread that was created again since is left alone and no longer counts as discarded. An id that was never
        discarded is ignored.
        """


class Runs(Protocol):
    async def accept(
        self, new: NewRun, *, start: Callable[[Run], None] | None = None, defer_sync: bool = False
    ) -> Accepted:
        """Accept a run: store its row and its `run.queued` entry, durable on return (5.1), or nothing at all.

        `new` supplies their contents: `row`, `queued`, and `thread` if the thread has to be created.

        - The thread must exist unless `create_thread` is set; otherwise raises `NotFound`. `thread_metadata` and
          `thread_config` are merged into an existing thread key by key. A created thread gets them, and `thread_ttl`.
          A thread without `graph_id` and `assistant_id` in its metadata gets those of the run (5.11).
        - If the owner has used the `idempotency_key` before, return the run created with it, as `repeated`. That run
          carries the `request_digest` it was created with. Nothing else in `new` is checked, and nothing changes.
        - While the thread has active runs, `reject` raises `ThreadBusy`; `enqueue` makes the run wait its turn;
          `interrupt` and `rollback` cancel every active run with that action, as `cancel` would, and then make the run
          wait its turn.
        - A run that would be pending beyond one of its `limits` raises `QueueFull`. The limit per thread does not apply
          to `interrupt` and `rollback`, which end all pending runs of the thread.
        - A run with `due_at <= created_at` is not delayed: it is due immediately, whatever the clock says later.
          Timestamps are only compared; they need not increase from call to call.
        - With `start`, a run that is not delayed, on a thread without active runs, is claimed in the same transaction,
          as `claim` would, and returned as `started`. `start` is called with it exactly once, in a task on the
          storage's event loop, as soon as the run would survive a crash of the process and before this method returns.
          If the caller is cancelled in the meantime, either `start` is still called or nothing is stored.
        - With `defer_sync`, the fsync of a run that was started may be deferred until its first entries are fsynced.
          This method still returns only after that fsync.
        """

    async def get(self, run_id: RunId) -> Run | None: ...

    async def list(
        self, thread_id: ThreadId, *, status: RunStatus | None = None, limit: int = 10, offset: int = 0
    ) -> list[Run]:
        """Return one page of the thread's runs, newest first."""

    async def claim(self, limit: int, *, now: int, exclude: frozenset[ThreadId] = frozenset()) -> Sequence[Run]:
        """Claim up to `limit` due runs, ordered by due time, then by acceptance. Durable on return.

        Each claimed run becomes `running` with the next attempt number, and is no longer delayed: if its `due_at` is
        later than its `created_at`, it is set to `created_at`. Its first attempt sets `graph_id` and `assistant_id` in
        the metadata of its thread (5.11). Returns an empty sequence if no run can be claimed.

        - A thread offers only its next run (5.8): the earliest accepted of its runs that are not delayed, or the
          earliest due of its delayed runs. If both are due, the one with the earlier due time is next. No delayed run
          is next while a run that has started before is pending.
        - Threads that have a running run or are in `exclude` are skipped.
        - At most one suspect (5.7) is claimed, and none while another suspect is running.
        """

    async def next_due(self, *, exclude: frozenset[ThreadId] = frozenset()) -> int | None:
        """Return the `due_at` of the earliest pending run that `claim`, with the same `exclude`, would claim at that
        time if nothing else changed, or None. A worker may sleep until then."""

    async def count_active(self) -> dict[RunStatus, int]:
        """Return how many runs are `pending` and how many are `running`; both keys are always present.

        The cost must not grow with the number of finished runs.
        """

    async def cancel(self, run_id: RunId, action: CancelAction, now: int) -> Cancelled | None:
        """Cancel a run.

        A pending run ends immediately, as `finish` would end it, with `cancelled_ending` of `core.run_state`. If it has
        never started, the thread's status and error stay as they were (5.3a). For a running run, `cancel` is set on its
        row for the worker to act on; the first action wins. Returns None if the run has ended or is unknown.
        """

    async def cancel_many(self, wanted: RunSelection, action: CancelAction, now: int) -> Sequence[Cancelled]:
        """Cancel every active run that `wanted` selects, each as `cancel` would. It is one transaction, so none of them
        can be claimed in between.

        Returns the runs that were cancelled or asked to stop. Runs that have ended or are unknown are ignored.
        """

    async def finish(self, fence: Fence, ending: Ending, now: int, *, force: bool = False) -> bool:
        """End a run in one transaction: append its `run.ended` entry (`ending.entry`), and update its row and its
        thread's state (5.3).

        Takes effect after everything the attempt has appended. Returns False, and changes nothing, if the attempt does
        not hold the thread.

        - With `ending.rollback`, a `state.reset` entry precedes `run.ended`, and the run's checkpoints and row are
          deleted. The thread keeps the values it had before the run. `graph_id` and `assistant_id` in its metadata are
          restored if they are still those of the run. If another active run has set its own since, they remain that
          run's, and are restored when it is rolled back too.
        - A run with a `webhook` leaves a delivery, due immediately, whatever its ending. So does a run that is ended by
          `cancel` or `recover`.
        - A `temporary` run discards its thread (5.10), whatever its ending, unless the thread has other active runs.
        - If the run was cancelled with `rollback`, any other ending raises `RollbackDue` and changes nothing: the run
          may have been about to end when the rollback was requested. `force` overrides this for a run that cannot
          be rolled back.
        """

    async def release(self, fence: Fence, now: int) -> bool:
        """Return a running run to pending without charging it (5.6). It keeps its turn before every run accepted after
        it. Returns False if the attempt does not hold the thread."""

    async def recover(self, now: int) -> Sequence[Run]:
        """Recover the `running` runs at startup, when no worker can be alive, and return all of them as they are
        afterwards.

        Each run is charged a crash. A run that had been cancelled ends `interrupted` or is rolled back; a run charged
        for the third time ends in `error`; any other run becomes pending again (5.6).
        """

    async def delete(self, run_id: RunId) -> None:
        """Delete a finished run's row; its entries stay. Raises `NotFound` if the run is unknown, and `Conflict` while
        it is active."""


class Assistants(Protocol):
    """An assistant's row holds its current version. `versions` lists every version since the assistant was created."""

    async def create(self, assistant: Assistant, *, if_exists: str = "raise") -> Assistant:
        """Store a new assistant, and its first version under the number it carries.

        If the id is taken, raise `Conflict`, or return the existing assistant, unchanged, with
        `if_exists="do_nothing"`.
        """

    async def get(self, assistant_id: AssistantId) -> Assistant | None: ...

    async def update(self, assistant_id: AssistantId, change: Callable[[Assistant], Assistant], now: int) -> Assistant:
        """Store `change(current row)` as a new version, numbered one above the highest, and make it current. The id,
        owner and `created_at` do not change. Raises `NotFound`.

        `change` must be a pure function: it may be called on any thread and more than once. A `ThreadwireError` that
        it raises is propagated, and nothing changes.
        """

    async def set_latest(self, assistant_id: AssistantId, version: int, now: int) -> Assistant:
        """Make an earlier version current again: the row takes over its contents and its number. No version is created.
        Raises `NotFound` if the assistant or the version does not exist."""

    async def versions(
        self, assistant_id: AssistantId, *, metadata: dict[str, Any], limit: int = 10, offset: int = 0
    ) -> list[AssistantVersion]:
        """Return one page of the versions whose metadata contain `metadata`, highest number first. Empty if the
        assistant is unknown."""

    async def delete(self, assistant_id: AssistantId) -> None:
        """Delete the assistant with its versions and its crons. Its threads and runs stay. Raises `NotFound`."""

    async def search(self, query: AssistantQuery) -> list[Assistant]:
        """Return one page of the assistants of the query's graph whose name contains the query's (see `name_contains`)
        and whose metadata contain the query's (see `contains`)."""

    async def count(self, query: AssistantQuery) -> int:
        """Return how many assistants `search` would find without a limit."""


class Crons(Protocol):
    """Scheduled runs. A cron's slot is the time its next run is scheduled for, `next_run_at`."""

    async def create(self, cron: Cron) -> None:
        """Store a new cron. Raises `NotFound` if it names a thread that does not exist.

        A cron is deleted with its thread and with its assistant.
        """

    async def get(self, cron_id: CronId) -> Cron | None: ...

    async def update(self, cron_id: CronId, change: Callable[[Cron], Cron]) -> Cron:
        """Replace a cron by `change(cron)` in one transaction, and return the result. Raises `NotFound`.

        `change` must be a quick, pure function: it may be called on any thread and more than once. An exception that it
        raises is propagated, and nothing changes.
        """

    async def delete(self, cron_id: CronId) -> None:
        """Delete a cron. The runs it started stay. Raises `NotFound`."""

    async def search(self, query: CronQuery) -> list[Cron]: ...

    async def count(self, query: CronQuery) -> int: ...

    async def due(self, now: int, *, limit: int) -> list[Cron]:
        """Return up to `limit` enabled crons whose slot is not after `now`, earliest slot first."""

    async def next_due(self) -> int | None:
        """Return the earliest slot of any enabled cron, or None."""

    async def fire(
        self,
        cron: Cron,
        new: NewRun | None,
        next_run_at: int | None,
        *,
        start: Callable[[Run], None] | None = None,
    ) -> Fired | None:
        """Claim a cron's slot: in one transaction, accept its run as `Runs.accept` would, set `last_run_at` to the
        slot, and set the next slot to `next_run_at`. So a slot creates one run, despite crashes and competing callers.

        Returns None, and changes nothing, unless the stored cron equals `cron`: another caller claimed the slot, or the
        cron was changed or deleted. Without `new`, or if the run is rejected, the slot passes without a run.
        """


class Deliveries(Protocol):
    """The webhook outbox. The transaction that ends a run adds to it."""

    async def due(self, now: int, *, limit: int, exclude: frozenset[int] = frozenset()) -> list[Delivery]:
        """Return up to `limit` due deliveries that are not in `exclude`, ordered by due time."""

    async def postpone(self, delivery_id: int, until: int) -> None:
        """Count a failed attempt, and make the delivery due again at `until`. A no-op if it no longer exists."""

    async def remove(self, delivery_id: int) -> None:
        """Remove a delivery that succeeded or was abandoned. A no-op if it no longer exists."""


class Checkpoints(Protocol):
    def saver(
        self, fence: Fence | None = None, durability: Durability = "async", *, empty_thread: ThreadId | None = None
    ) -> "BaseCheckpointSaver[str]":
        """Return a LangGraph checkpoint saver backed by this storage.

        - Its writes go through the same queue as `Log.append`, in order (7.1). With a fence, a put raises `Fenced`
          unless the attempt holds the thread (7.2). Its reads see its own writes.
        - With `sync` durability a put returns after its commit, otherwise immediately (7.3).
        - `empty_thread` names a thread that is known to have no checkpoints, so the saver need not query for any before
          its first put.
        - `async def wait_until_written()` returns once everything put through the saver so far would survive a crash of
          the process. It need not be fsynced: a power failure may still lose it, but it has not been published either.
        - After `get_tuple`, for any checkpoint, the ids that LangGraph generates sort after the newest checkpoint of
          that namespace, whatever the clock says (`advance_id_clock`).
        - It has LangGraph's extended capabilities `copy_thread`, `prune` and `delete_for_runs`, each in one transaction
          and never fenced.
        - Without a fence it also accepts ids that belong to no thread, so that checkpoints can be stored before their
          thread is created (`Threads.create`).
        """

    async def newest(self, thread_id: ThreadId) -> tuple[str, RunId | None] | None:
        """Return the id of the thread's newest root checkpoint, and the run that created it (from its metadata)."""

    async def has(self, thread_id: ThreadId, checkpoint_id: str, ns: str = "") -> bool:
        """Whether the thread has a checkpoint with that id in that namespace. Any string is a valid id. Must be
        cheap."""

    async def sizes(self, thread_id: ThreadId) -> CheckpointSizes:
        """Return how many bytes the thread's checkpoints occupy as stored."""


class Items(Protocol):
    """The store: values by namespace and key, independent of threads. Usable from any thread and any event loop."""

    def batch(self, operations: Sequence[ItemOperation], now: int) -> list[ItemResult]:
        """Execute the operations and return one result for each, None for a write. Blocks the calling thread.

        - Reads see the items as they were before the batch. Writes take effect together, in order, durable on return.
        - An item expires when its TTL has elapsed; from then on it is treated as absent.
        - A read with `refresh` restarts the TTL of every item it returns that has one. This may take effect shortly
          after the read returns.
        - Any string is a valid label or key, including the empty string. Keys of a filter are compared, never
          interpreted. Filters have passed `check_filter`.
        """

    async def abatch(self, operations: Sequence[ItemOperation], now: int) -> list[ItemResult]:
        """Like `batch`, without blocking."""

    async def sweep(self, now: int, limit: int = 1000) -> int:
        """Delete up to `limit` expired items, durable on return, and return how many were deleted."""


class FoldSnapshots(Protocol):
    """Snapshots of what threads' logs add up to, so that a long log need not be read from its start.

    A fold can always be computed from the log again, so a driver may delete any snapshot at any time.
    """

    async def put(self, thread_id: ThreadId, name: str, snapshot: FoldSnapshot) -> None:
        """Store the snapshot of the fold `name`, in place of an earlier one.

        Nothing changes if the thread does not exist, if its log ends before the snapshot, or if the stored snapshot is
        at the same position or a later one. The snapshots of a thread are deleted with its log.
        """

    async def get(self, thread_id: ThreadId, name: str) -> FoldSnapshot | None: ...


class Storage(Protocol):
    @property
    def log(self) -> Log: ...
    @property
    def threads(self) -> Threads: ...
    @property
    def runs(self) -> Runs: ...
    @property
    def assistants(self) -> Assistants: ...
    @property
    def crons(self) -> Crons: ...
    @property
    def deliveries(self) -> Deliveries: ...
    @property
    def checkpoints(self) -> Checkpoints: ...
    @property
    def items(self) -> Items: ...
    @property
    def fold_snapshots(self) -> FoldSnapshots: ...

    @property
    def fatal_error(self) -> StorageFailed | None:
        """The error that made the storage unusable, or None.

        Once set, every write raises it, and only reopening the storage can help. Work that was enqueued but not
        acknowledged before the failure is never acknowledged or published.
        """

    async def wait_for_failure(self) -> None:
        """Wait until the storage fails, then raise its fatal error. Never returns, not even when the storage is
        closed."""


def contains(whole: Any, part: Any) -> bool:
    """Whether `whole` contains `part`: objects key by key, lists element by element in any order, other values by
    equality.

    These are the semantics of PostgreSQL's `@>`, defined once so that every driver filters alike. Keys are compared,
    never interpreted.
    """
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and contains(whole[key], item) for key, item in part.items()
        )
    if isinstance(part, list):
        return isinstance(whole, list) and all(any(contains(other, item) for other in whole) for item in part)
    return (type(whole) is type(part) and bool(whole == part)) or (_number(whole) and _number(part) and whole == part)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def name_contains(name: str, part: str) -> bool:
    """Whether `name` contains `part`, ignoring case. `part` is literal text, not a pattern."""
    return part.lower() in name.lower()
