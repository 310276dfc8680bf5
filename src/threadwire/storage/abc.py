"""The storage contract: the protocols that a database driver implements.

A driver is a module or package with an `open_*` function that returns an async context manager of `Storage`. It passes
`threadwire.testing.conformance`. Drivers share no base class. Numbers in parentheses refer to the rules of spec/log.md.

Event loops and threads: a storage is opened on one event loop, and every `async` method is called on that loop unless
its docstring says otherwise. `append`, `Threads.commit_state`, checkpoint savers and `Items` may be called from any
thread and any loop, because graphs run on user loops.

Access: every method that acts on behalf of a caller takes an access filter. A row that the filter does not match is
foreign: it is treated as if it did not exist (spec/access.md). The default, `EVERYTHING`, is for the server itself.
Logs, checkpoints and snapshots take no filter: the caller has already checked that it may access the thread.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from threadwire.core.access_filter import EVERYTHING, AccessFilter
from threadwire.core.api_keys import ApiKey
from threadwire.core.entries import Draft, Entry, Fence
from threadwire.core.ids import AssistantId, CronId, RunId, Seq, ThreadId
from threadwire.core.records import (
    Accepted,
    Assistant,
    AssistantQuery,
    AssistantVersion,
    CancelAction,
    Cancelled,
    CheckpointSizes,
    Commit,
    Cron,
    CronQuery,
    Delivery,
    Durability,
    Ending,
    ExpiryStrategy,
    Fired,
    FoldSnapshot,
    Lease,
    LogCounters,
    NewRun,
    Put,
    QueueHint,
    RequestedTtl,
    Run,
    RunSelection,
    RunStatus,
    StateSummary,
    Suspects,
    Thread,
    ThreadQuery,
)
from threadwire.core.store_items import ItemOperation, ItemResult
from threadwire.errors import StorageFailed, StorageUnavailable

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

REMEMBERED_DELETIONS = 1_000_000
"""The minimum number of deleted threads that a storage remembers; 40 bytes each in SQLite."""


class StateCommit(Protocol):
    """A state change, made outside a run, that has been enqueued."""

    async def wait(self) -> bool:
        """Return True once the change is durable, or False if it was not applied. Usable on any event loop.

        Raises `NotFound` if the thread does not exist, and `StorageError` if the change could not be stored.
        """


class Wakeup(Protocol):
    """Receives hints that a thread may have grown (3.3)."""

    async def wait(self, timeout: float) -> bool:
        """Wait for a hint. Return True if one has arrived since the last call, or False after `timeout` seconds.

        Hints are not counted: several that arrive between two calls may be reported as one.
        """


class RunHandle(Protocol):
    """The object through which a worker writes for one attempt of a run. It is valid from the claim that created the
    attempt until the attempt ends, is released or is lost.

    Every write of an attempt goes through its handle. A handle is *lost* when its attempt no longer holds the thread
    (2.6), for instance because the thread was deleted. Then no write has any effect (2.5). The writes of one handle
    take effect in the order of the calls. `append`, `saver` and `flush` may be called from any thread and any loop.
    """

    @property
    def run(self) -> Run:
        """The run as it was claimed."""

    def append(self, drafts: Sequence[Draft]) -> Commit:
        """Enqueue `drafts`, all or none (2.1), without waiting for the disk (2.3). The entries carry the run and the
        attempt.

        If the handle is lost, either this method or the commit's `wait` raises `Fenced`: a driver may notice the loss
        only when it commits.
        """

    @property
    def queue_full(self) -> bool:
        """Whether the queue has reached its limit (2.7). Must be cheap: it is checked after every append."""

    async def wait_for_room(self) -> None:
        """Return once the queue is below its limit. Usable on any event loop."""

    def saver(self, durability: Durability = "async") -> "BaseCheckpointSaver[str]":
        """Return a saver as `Checkpoints.saver` does, for the thread of the run.

        Its writes go through the same queue as `append`, in order (7.1). A put raises `Fenced` if the handle is lost
        (7.2). With `sync` durability a put returns after its commit, otherwise immediately (7.3).
        """

    async def flush(self) -> None:
        """Return once everything appended and put so far would survive a crash of the process. Usable on any event
        loop.

        What is not fsynced yet may be lost in a power failure, but none of it has been published.
        """

    async def finish(self, ending: Ending, now: int, *, force: bool = False) -> bool:
        """End the run in one transaction: append its `run.ended` entry (`ending.entry`), and update its row and its
        thread's state (5.3).

        Takes effect after everything the attempt has appended. Returns False, and changes nothing, if the handle is
        lost.

        - With `ending.rollback`, a `state.reset` entry precedes `run.ended`, and the run's checkpoints and row are
          deleted. The thread keeps the values it had before the run. `graph_id` and `assistant_id` in its metadata are
          restored if they are still those of the run. If another active run has replaced them since, they are restored
          only when that run is rolled back too.
        - If the run has a `webhook`, every ending adds a delivery that is due immediately. So do the endings by
          `Runs.cancel` and `Runs.reclaim`.
        - Every ending of a `temporary` run discards its thread (5.10), unless the thread has other active runs.
        - If the run was cancelled with `rollback`, any other ending raises `RollbackDue` and changes nothing. This
          happens if the run was about to end when the rollback was requested. `force` overrides this for a run that
          cannot be rolled back.
        """

    async def release(self, now: int) -> bool:
        """Return the run to pending without charging it (5.6). It stays ahead of every run accepted after it.
        Returns False if the handle is lost."""


class QueueWakeup(Protocol):
    """Receives hints about the queue. They may be lost, late or repeated, so a worker polls as well."""

    async def wait(self, timeout: float) -> QueueHint:
        """Wait for a hint, and return all that have arrived since the last call, or `NOTHING` after `timeout`
        seconds."""


class LogReader(Protocol):
    """The part of `Log` that workers need."""

    async def read(
        self, thread_id: ThreadId, after: Seq, *, limit: int = 1000, run_id: RunId | None = None
    ) -> list[Entry]:
        """Return the committed entries with `seq > after`, in order, at most `limit` of them (3.1).

        With `run_id`, return only the entries of that run; `limit` then counts only those. An empty list means that
        there are no such entries yet. A thread that does not exist reads as empty. A discarded thread can be read until
        it is swept (5.10).
        """


class Log(LogReader, Protocol):
    def append(self, thread_id: ThreadId, drafts: Sequence[Draft]) -> Commit:
        """Enqueue changes outside a run, all or none (2.1), without waiting for the disk (2.3).

        If the thread does not exist, either this method or the commit's `wait` raises `NotFound`. Thread-safe. The
        entries of one thread are numbered in the order of the calls (2.2).
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


class HeldThreads(Protocol):
    """The part of `Threads` that workers need."""

    def commit_state(
        self,
        thread_id: ThreadId,
        summary: StateSummary,
        drafts: Sequence[Draft],
        puts: Sequence[Put] = (),
        *,
        since: Seq,
        now: int,
        access: AccessFilter = EVERYTHING,
    ) -> StateCommit:
        """Enqueue a state change made outside a run: in one transaction, put its checkpoints as an unfenced saver
        would, store `summary` on the thread's row, and append `drafts` (7.6).

        Nothing changes if the thread has active runs, or if its log has entries after `since`: the change was then
        computed from a state that is no longer current. Thread-safe. `puts` are serialized during this call, on the
        caller's thread.
        """

    async def hold(self, thread_id: ThreadId, lease: Lease) -> None:
        """Keep every worker, in any process, from claiming a run of this thread until the hold ends (8.6). Durable on
        return.

        A run that is running is not affected. The hold of a worker ends with `end_hold`, or when its lease expires;
        `Runs.renew` extends it. Each worker has at most one hold on a thread. The thread need not exist.
        """

    async def end_hold(self, thread_id: ThreadId, worker: str) -> None:
        """End the worker's hold on the thread. A no-op if there is none."""


class Threads(HeldThreads, Protocol):
    async def create(
        self,
        thread: Thread,
        *,
        if_exists: str = "raise",
        new_id: bool = False,
        drafts: Sequence[Draft] = (),
        checkpoints_from: ThreadId | None = None,
        access: AccessFilter = EVERYTHING,
    ) -> Thread:
        """Store a new thread and return it.

        If the id is taken, raise `Conflict`. With `if_exists="do_nothing"`, return the existing thread instead, unless
        it is foreign. `new_id` means that the id was just generated, so a driver need not check whether it is taken.

        The same transaction appends `drafts` as the thread's first entries, outside a run, and moves the checkpoints
        stored under the id `checkpoints_from` to the new thread. If the id is taken, neither happens.
        """

    async def get(
        self, thread_id: ThreadId, *, with_state: bool = True, access: AccessFilter = EVERYTHING
    ) -> Thread | None:
        """Return the thread. Without `with_state` it has neither values nor interrupts, which may be large."""

    async def update(
        self,
        thread_id: ThreadId,
        *,
        metadata: dict[str, Any],
        ttl: RequestedTtl = "usual",
        now: int,
        access: AccessFilter = EVERYTHING,
    ) -> Thread:
        """Merge `metadata` into the thread's metadata, key by key, and return the updated thread.

        The TTL is replaced by `ttl`, or removed if that is None; `"usual"` leaves it unchanged. Raises `NotFound`.
        """

    async def delete(self, thread_id: ThreadId, *, access: AccessFilter = EVERYTHING) -> None:
        """Delete the thread with its log, runs, checkpoints and crons.

        An attempt that held the thread is fenced, and the watchers of its log get a wakeup. Raises `NotFound`.
        """

    async def was_deleted(self, thread_id: ThreadId, *, access: AccessFilter = EVERYTHING) -> bool:
        """Return whether the thread was deleted or expired and does not exist now. At least the last
        `REMEMBERED_DELETIONS` deletions are remembered. A temporary thread that was discarded does not count. Always
        False if `access` restricts the caller, because the metadata of deleted threads is not remembered."""

    async def prune(self, thread_id: ThreadId, now: int, *, access: AccessFilter = EVERYTHING) -> bool:
        """Remove all checkpoints except the newest of each namespace and those it depends on.

        If any were removed, append a `state.reset` entry with cause `prune` and the id of the newest root checkpoint.
        `updated_at` does not change. Returns False, and changes nothing, if the thread has active runs or does not
        exist.
        """

    async def due(self, now: int, limit: int) -> list[ThreadId]:
        """Return up to `limit` threads with `expires_at <= now` and no active runs, earliest `expires_at` first.

        A thread that has been pruned since its last update is not due until it has been updated again.
        """

    async def expire(self, thread_id: ThreadId, now: int) -> ExpiryStrategy | None:
        """Apply the TTL strategy of a thread that is `due`, as `delete` or `prune` would, and return the strategy.

        Returns None, and changes nothing, if the thread is not due (or no longer due).
        """

    async def search(self, query: ThreadQuery, *, access: AccessFilter = EVERYTHING) -> list[Thread]:
        """Return one page of the threads whose metadata and values contain those of the query (see `contains`).

        Ties are broken by id; when sorting by status, first by `updated_at`. Tie-breakers follow the direction of the
        sort. None sorts below every other value. Without `with_state`, the returned threads have neither values nor
        interrupts, even if some are stored.
        """

    async def count(self, query: ThreadQuery, *, access: AccessFilter = EVERYTHING) -> int:
        """Return how many threads `search` would find without a limit."""

    async def discarded(
        self, *, before: int, exclude: frozenset[ThreadId] = frozenset(), limit: int = 100
    ) -> Sequence[ThreadId]:
        """Return up to `limit` threads that were discarded before the time `before` and have not been swept (5.10),
        oldest first, without those in `exclude`."""

    async def sweep(self, thread_ids: Sequence[ThreadId]) -> None:
        """Delete what is left of discarded threads: their logs, runs and checkpoints.

        A thread that has been created again since is not deleted, and no longer counts as discarded. An id that was
        never discarded is ignored.
        """


class RunQueue(Protocol):
    """The part of `Runs` that workers need."""

    async def claim(self, limit: int, lease: Lease, *, now: int, suspects: Suspects = "one") -> Sequence[Run]:
        """Claim up to `limit` due runs for a worker, ordered by due time, then by acceptance. Durable on return.

        If several callers, in any process, compete for a run, exactly one of them gets it.

        Each claimed run becomes `running` with the next attempt number, and is no longer delayed: a `due_at` that is
        later than its `created_at` is set to `created_at`. Its first attempt sets `graph_id` and `assistant_id` in
        the metadata of its thread (5.11). Returns an empty sequence if no run can be claimed. A run of a thread that
        another process is writing to at this moment may be left to a later call.

        - Only the next run of a thread can be claimed (5.8). The candidates are the earliest accepted run that is not
          delayed, and the delayed run with the earliest due time. If both are due, the one with the earlier due time is
          next. A delayed run is never next while the thread has a pending run that has already started once.
        - Threads that have a running run or are held (`Threads.hold`) are skipped.
        - At most one suspect (5.7) is claimed, and none while another suspect is running. With `suspects="none"`, no
          suspect is claimed. With `suspects="only"`, only suspects are claimed, even while other suspects are
          running: the caller executes each one in a separate process.
        """

    async def next_due(self, *, suspects: Suspects = "one") -> int | None:
        """Return the earliest time at which `claim` would claim a pending run if nothing else changed: the `due_at` of
        that run. None if there is no such run. A worker may sleep until then."""

    async def count_active(self) -> dict[RunStatus, int]:
        """Return how many runs of all owners are `pending` and how many are `running`; both keys are always present.

        The cost must not grow with the number of finished runs.
        """

    async def renew(self, lease: Lease) -> Mapping[Fence, CancelAction | None]:
        """Extend the leases of all runs that the worker holds, and of its holds on threads. The new leases start now,
        by the database's clock. Return the attempts that the worker holds, each with the cancellation that was
        requested for it, or None.

        An attempt that the worker is executing but that is missing from the result is lost. A lease that has expired
        can be renewed as long as the run has not been reclaimed, except after `expire_leases`.
        """

    def watch(self) -> AbstractContextManager[QueueWakeup]:
        """Receive hints, from every process that uses the database, when there may be runs to claim or when running
        runs were cancelled or lost."""

    async def expire_leases(self, worker: str) -> None:
        """Immediately expire all leases, on runs and on threads, of a worker that is known to be dead. They cannot be
        renewed (8.2a)."""

    async def reclaim(self, now: int) -> Sequence[Run]:
        """Recover the `running` runs whose leases have expired, and return all of them as they are afterwards.

        Only the database's clock decides whether a lease has expired; `now` is the time to record. If only one process
        can open the database, the leases of an earlier process count as expired.

        Each run is charged with a crash. A run that had been cancelled ends `interrupted` or is rolled back; a run
        charged for the third time ends in `error`; any other run becomes pending again (5.6). A run that its worker is
        writing to at this moment may be left to a later call.
        """


class Runs(RunQueue, Protocol):
    """Access filters apply to the metadata of the run's thread, even after a temporary thread was discarded."""

    async def accept(self, new: NewRun, *, claim: Lease | None = None, defer_sync: bool = False) -> Accepted:
        """Accept a run: store its row and its `run.queued` entry, durable on return (5.1), or nothing at all.

        `new` supplies their contents: `row`, `queued`, and `thread` if the thread has to be created. The entries
        `new.preceding`, which belong to no run, are appended before `run.queued` in the same transaction.

        - Raises `NotFound` if the thread does not exist and `create_thread` is not set, and always if the thread is
          foreign to `new.access`. `thread_metadata` and `thread_config` are merged into an existing thread key by key.
          A new thread gets them too, with `created_metadata` and `thread_ttl`. A thread without `graph_id` and
          `assistant_id` in its metadata gets those of the run (5.11).
        - If the owner has used the `idempotency_key` before, return the run created with it, as `repeated`. That run
          carries the `request_digest` it was created with. Nothing else in `new` is checked, and nothing changes.
        - While the thread has active runs, `reject` raises `ThreadBusy`; `enqueue` makes the run wait its turn;
          `interrupt` and `rollback` cancel every active run with that action, as `cancel` would, and then make the run
          wait its turn.
        - Raises `QueueFull` if the run would be pending and would exceed one of its `limits`. The limit per thread does
          not apply to `interrupt` and `rollback`, which end all pending runs of the thread.
        - A run with `due_at <= created_at` is not delayed: it is due immediately, even if the clock is set back later.
          Timestamps are only compared; they need not increase from call to call.
        - With `claim`, a run that is not delayed, on a thread without active runs or holds, is claimed in the same
          transaction, as `claim` would, and returned as `started`. It is returned as soon as it would survive a crash
          of the process, so that its execution can start; it is durable once `commit.wait()` returns. Shield this call:
          a caller that is cancelled does not receive the run, which stays claimed until the lease expires.
        - With `defer_sync`, the fsync of a run that was started may be deferred until its first entries are fsynced.
        """

    async def get(self, run_id: RunId, *, access: AccessFilter = EVERYTHING) -> Run | None: ...

    async def list(
        self,
        thread_id: ThreadId,
        *,
        status: RunStatus | None = None,
        limit: int = 10,
        offset: int = 0,
        access: AccessFilter = EVERYTHING,
    ) -> list[Run]:
        """Return one page of the thread's runs, newest first."""

    async def cancel(
        self, run_id: RunId, action: CancelAction, now: int, *, access: AccessFilter = EVERYTHING
    ) -> Cancelled | None:
        """Cancel a run.

        A pending run ends immediately, as `finish` would end it, with `cancelled_ending` of `core.run_state`. If it has
        never started, the thread's status and error stay as they were (5.3a). For a running run, `cancel` is set on its
        row for the worker to act on; the first action wins. Returns None if the run has ended or is unknown.
        """

    async def cancel_many(
        self, wanted: RunSelection, action: CancelAction, now: int, *, access: AccessFilter = EVERYTHING
    ) -> Sequence[Cancelled]:
        """Cancel every active run that `wanted` selects, each as `cancel` would. This is one transaction, so that none
        of them can be claimed in between.

        Returns the runs that were cancelled or asked to stop. Runs that have ended or are unknown are ignored.
        """

    async def delete(self, run_id: RunId, *, access: AccessFilter = EVERYTHING) -> None:
        """Delete a finished run's row; its entries stay. Raises `NotFound` if the run is unknown, and `Conflict` while
        it is active."""


class Assistants(Protocol):
    """An assistant's row holds its current version. `versions` lists every version since the assistant was created."""

    async def create(
        self, assistant: Assistant, *, if_exists: str = "raise", access: AccessFilter = EVERYTHING
    ) -> Assistant:
        """Store a new assistant, and its contents as version `assistant.version`.

        If the id is taken, raise `Conflict`. With `if_exists="do_nothing"`, return the existing assistant instead,
        unchanged, unless it is foreign.
        """

    async def get(self, assistant_id: AssistantId, *, access: AccessFilter = EVERYTHING) -> Assistant | None: ...

    async def update(
        self,
        assistant_id: AssistantId,
        change: Callable[[Assistant], Assistant],
        now: int,
        *,
        access: AccessFilter = EVERYTHING,
    ) -> Assistant:
        """Store `change(current row)` as a new version, numbered one above the highest, and make it current. The id,
        owner and `created_at` do not change. Raises `NotFound`.

        `change` must be a pure function: it may be called on any thread and more than once. A `ThreadwireError` that
        it raises is propagated, and nothing changes.
        """

    async def set_latest(
        self, assistant_id: AssistantId, version: int, now: int, *, access: AccessFilter = EVERYTHING
    ) -> Assistant:
        """Make an earlier version current again: the row takes over its contents and its number. No version is created.
        Raises `NotFound` if the assistant or the version does not exist."""

    async def versions(
        self,
        assistant_id: AssistantId,
        *,
        metadata: dict[str, Any],
        limit: int = 10,
        offset: int = 0,
        access: AccessFilter = EVERYTHING,
    ) -> list[AssistantVersion]:
        """Return one page of the versions whose metadata contains `metadata`, highest number first. Empty if the
        assistant is unknown. The filter applies to each version."""

    async def delete(self, assistant_id: AssistantId, *, access: AccessFilter = EVERYTHING) -> None:
        """Delete the assistant with its versions and its crons. Its threads and runs stay. Raises `NotFound`."""

    async def search(self, query: AssistantQuery, *, access: AccessFilter = EVERYTHING) -> list[Assistant]:
        """Return one page of the assistants of the query's graph whose name contains the query's (see `name_contains`)
        and whose metadata contains the query's (see `contains`)."""

    async def count(self, query: AssistantQuery, *, access: AccessFilter = EVERYTHING) -> int:
        """Return how many assistants `search` would find without a limit."""


class Crons(Protocol):
    """Scheduled runs. A cron's slot is the time its next run is scheduled for, `next_run_at`.

    `access` applies to the metadata of the cron, `thread_access` to that of its thread, if it has one.
    """

    async def create(self, cron: Cron, *, thread_access: AccessFilter = EVERYTHING) -> None:
        """Store a new cron. Raises `NotFound` if it names a thread that does not exist or is foreign.

        A cron is deleted with its thread and with its assistant.
        """

    async def get(self, cron_id: CronId, *, access: AccessFilter = EVERYTHING) -> Cron | None: ...

    async def update(
        self, cron_id: CronId, change: Callable[[Cron], Cron], *, access: AccessFilter = EVERYTHING
    ) -> Cron:
        """Replace a cron by `change(cron)` in one transaction, and return the result. Raises `NotFound`.

        `change` must be a quick, pure function: it may be called on any thread and more than once. An exception that it
        raises is propagated, and nothing changes.
        """

    async def delete(self, cron_id: CronId, *, access: AccessFilter = EVERYTHING) -> None:
        """Delete a cron. The runs it started stay. Raises `NotFound`."""

    async def search(
        self, query: CronQuery, *, access: AccessFilter = EVERYTHING, thread_access: AccessFilter = EVERYTHING
    ) -> list[Cron]: ...

    async def count(
        self, query: CronQuery, *, access: AccessFilter = EVERYTHING, thread_access: AccessFilter = EVERYTHING
    ) -> int: ...

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
        claim: Lease | None = None,
    ) -> Fired | None:
        """Claim a cron's slot: in one transaction, accept its run as `Runs.accept` would with `claim`, set
        `last_run_at` to the slot, and set the next slot to `next_run_at`. So neither a crash nor a competing caller can
        lose or repeat the run of a slot.

        Returns None, and changes nothing, unless the stored cron equals `cron`: another caller claimed the slot, or the
        cron was changed or deleted. Without `new`, or if the run is rejected, the slot passes without a run.
        """


class Deliveries(Protocol):
    """The webhook outbox. The transaction that ends a run adds to it."""

    async def claim(self, limit: int, lease: Lease, *, now: int) -> list[Delivery]:
        """Claim up to `limit` due deliveries for a worker, ordered by due time.

        No process gets a claimed delivery again until the lease has expired by the database's clock. If only one
        process can open the database, the leases of an earlier process count as expired.
        """

    async def postpone(self, delivery_id: int, until: int, lease: Lease) -> None:
        """Count a failed attempt, make the delivery due again at `until`, and end its claim. A no-op if it no longer
        exists, or if another worker has claimed it since."""

    async def release(self, delivery_id: int, lease: Lease) -> None:
        """End the claim of a delivery that was not attempted or whose result could not be stored: it is due as before.
        A no-op if it no longer exists, or if another worker has claimed it since."""

    async def remove(self, delivery_id: int) -> None:
        """Remove a delivery that succeeded or was abandoned. A no-op if it no longer exists."""


class Checkpoints(Protocol):
    def saver(self, durability: Durability = "async") -> "BaseCheckpointSaver[str]":
        """Return a LangGraph checkpoint saver for changes outside runs. Runs use `RunHandle.saver`.

        - Its writes go through the same queue as `Log.append`, in order (7.1). Its reads see its own writes.
        - With `sync` durability a put returns after its commit, otherwise immediately (7.3).
        - Once `get_tuple` has read any checkpoint of a namespace, the ids that LangGraph generates sort after the
          newest checkpoint of that namespace, whatever the clock says (`advance_id_clock`).
        - It has LangGraph's extended capabilities `copy_thread`, `prune` and `delete_for_runs`, each in one transaction
          and never fenced.
        - It also accepts ids that belong to no thread, so that checkpoints can be stored before their thread is created
          (`Threads.create`).
        """

    async def newest(self, thread_id: ThreadId) -> tuple[str, RunId | None] | None:
        """Return the id of the thread's newest root checkpoint, and the run that created it (from its metadata)."""

    async def has(self, thread_id: ThreadId, checkpoint_id: str, ns: str = "") -> bool:
        """Whether the thread has a checkpoint with that id in that namespace. Any string is a valid id. Must be
        cheap."""

    async def sizes(self, thread_id: ThreadId) -> CheckpointSizes:
        """Return how many bytes the thread's checkpoints occupy as stored."""


class StoredItems(Protocol):
    """The store: values by namespace and key, independent of threads. Usable from any thread and any event loop."""

    def batch(self, operations: Sequence[ItemOperation], now: int) -> list[ItemResult]:
        """Execute the operations and return one result for each, None for a write. Blocks the calling thread.

        - Reads see the items as they were before the batch. Writes take effect together, in order, durable on return.
        - The access filter of an operation applies to the values of items. If a put would replace a foreign item, the
          batch raises `Conflict` and changes nothing. Dropping a foreign item has no effect.
        - An item expires when its TTL has elapsed; from then on it is treated as absent.
        - A read with `refresh` restarts the TTL of every item it returns that has one. This may take effect shortly
          after the read returns.
        - Any string is a valid label or key, including the empty string. Keys of a filter are compared, never
          interpreted. Filters have passed `check_filter`.
        """

    async def abatch(self, operations: Sequence[ItemOperation], now: int) -> list[ItemResult]:
        """Like `batch`, without blocking."""


class Items(StoredItems, Protocol):
    """The store, and its upkeep."""

    async def sweep(self, now: int, limit: int = 1000) -> int:
        """Delete up to `limit` expired items, durable on return, and return how many were deleted."""


class FoldSnapshots(Protocol):
    """Stored snapshots of folds over threads' logs, so that a long log need not be read from its start.

    A fold can always be computed from the log again, so a driver may delete any snapshot at any time.
    """

    async def put(self, thread_id: ThreadId, name: str, snapshot: FoldSnapshot) -> None:
        """Store the snapshot of the fold `name`, in place of an earlier one.

        Nothing changes if the thread does not exist, if its log ends before the snapshot, or if the stored snapshot is
        at the same position or a later one. The snapshots of a thread are deleted with its log.
        """

    async def get(self, thread_id: ThreadId, name: str) -> FoldSnapshot | None: ...


class Keys(Protocol):
    """API keys. The command line changes them while servers are running, so a driver can also open only its keys,
    without the rest of the storage. Every process sees the changes of the others at its next call."""

    async def create(self, key: ApiKey) -> None:
        """Store a new key, durable on return. Raises `Conflict` if its id is taken."""

    async def find(self, key_ids: Collection[str]) -> Mapping[str, ApiKey]:
        """Return the keys that have one of these ids, by id, even if they are no longer valid. Any string is a valid
        id. Must be cheap: it is called for every request with a key."""

    async def list(self) -> Sequence[ApiKey]:
        """Return all keys, including revoked and expired ones, oldest first. Ties are broken by id."""

    async def revoke(self, key_id: str, now: int) -> ApiKey:
        """Revoke a key and return it, durable on return. A key that was revoked before keeps its `revoked_at`. Raises
        `NotFound`."""


class Tickets(Protocol):
    """One-time credentials for clients that cannot send headers. Every process that uses the database accepts them.

    A ticket need not survive a power failure.
    """

    async def issue(self, digest: bytes, grant: dict[str, Any], expires_at: int, now: int) -> None:
        """Store a ticket under the digest of its secret, with what it grants. Expired tickets are deleted."""

    async def redeem(self, digest: bytes, now: int) -> dict[str, Any] | None:
        """Delete a ticket and return what it grants; None if it does not exist or has expired. If several
        callers, in any process, redeem the same ticket, only one of them gets it."""


class WorkerStorage(Protocol):
    """The part of a storage that a worker needs. A worker process may have only this part."""

    @property
    def log(self) -> LogReader: ...
    @property
    def threads(self) -> HeldThreads: ...
    @property
    def runs(self) -> RunQueue: ...
    @property
    def checkpoints(self) -> Checkpoints: ...
    @property
    def items(self) -> StoredItems: ...

    def handle(self, run: Run) -> RunHandle:
        """Return the handle for the attempt of a claimed run. It is lost from the start if that attempt does not hold
        the thread."""

    @property
    def fatal_error(self) -> StorageFailed | None:
        """The error that made the storage unusable, or None.

        Once set, every write raises it, and only reopening the storage can help. Work that was enqueued but not
        acknowledged before the failure is never acknowledged or published. A driver that can reconnect to its database
        never sets it for a lost connection: see `write_error`.
        """

    @property
    def write_error(self) -> StorageUnavailable | None:
        """Why the storage cannot write now, or None. Unlike `fatal_error`, this is temporary: the disk is full,
        or the connection to the database is lost.

        While it is set, writes raise an error of the same class and change nothing. Writes that delete data or that
        end, release, cancel or recover runs may still succeed. Reads either work or raise `StorageUnavailable`.
        An attempt that could not append for this reason can only be released, end in `error` or be rolled back. For any
        other ending, `RunHandle.finish` raises the error again.
        """

    async def wait_for_failure(self) -> None:
        """Wait until the storage fails, then raise its fatal error. Never returns, not even when the storage is
        closed."""


class Storage(WorkerStorage, Protocol):
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
    def keys(self) -> Keys: ...
    @property
    def tickets(self) -> Tickets: ...


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
