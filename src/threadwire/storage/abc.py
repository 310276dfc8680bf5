"""What a database must do for Threadwire, in small protocols whose words are exact.

A driver is a folder (or file) that offers `open_*` returning an async context manager of `Storage`, and that passes
`threadwire.testing.conformance`. Drivers share no base class; the numbers in brackets are sentences of spec/log.md.

Threads of control. A storage is opened on one event loop, and every `async` method is called there. `Log.append`, a
checkpoint saver and `Items` are called from any thread and any loop, because graphs run elsewhere.
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
    LogFigures,
    NewRun,
    Put,
    Run,
    RunSelection,
    RunStatus,
    Settled,
    Thread,
    ThreadQuery,
    WantedTtl,
)
from threadwire.errors import StorageDied

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver


class Commit(Protocol):
    """Work that has been taken in and will be durable soon."""

    async def wait(self) -> None:
        """Return once it is durable; raise `StorageError` if it never will be. Usable on any event loop."""


class Settling(Protocol):
    """A move of a state that has been taken in."""

    async def wait(self) -> bool:
        """Return True once it is durable, False if nothing was changed. Raises `NotFound` if there is no such thread,
        `StorageError` if it could not be kept. Usable on any event loop."""


class Wakeup(Protocol):
    """A hint that a thread may have grown (3.3)."""

    async def wait(self, timeout: float) -> bool:
        """Return True once a hint has come since the last call, or False after `timeout` seconds. Hints do not pile
        up."""


class Log(Protocol):
    def append(self, thread_id: ThreadId, drafts: Sequence[Draft], fence: Fence | None = None) -> Commit:
        """Take in `drafts`, all or none (2.1), without waiting for the disk (2.3).

        With a fence, the entries carry its run and attempt; raises `Fenced` unless that attempt holds the thread (2.5).
        Without one they are changes outside a run, and raise `NotFound` if there is no such thread.
        Thread-safe; entries of one thread are numbered in the order of the calls (2.2).
        """

    @property
    def crowded(self) -> bool:
        """Whether the queue has reached its bound (2.7). Cheap; asked after every append."""

    async def room(self) -> None:
        """Return once the queue is below its bound. Usable on any event loop."""

    async def read(
        self, thread_id: ThreadId, after: Seq, *, limit: int = 1000, run_id: RunId | None = None
    ) -> list[Entry]:
        """Committed entries with `seq > after`, in order, at most `limit` (3.1). With `run_id`, only that run's.

        An empty list means there is nothing (of that run) after `after` yet. A thread that does not exist reads as
        empty; one that was discarded can be read until it is swept (5.10).
        """

    async def last(self, thread_id: ThreadId) -> Seq:
        """The highest committed number, 0 for a thread without entries."""

    def watch(self, thread_id: ThreadId) -> AbstractContextManager[Wakeup]:
        """Be told when the thread grows. Watch, then read (3.2)."""

    def figures(self) -> LogFigures:
        """How many entries have become readable since the storage was opened, on all threads, and in how many
        commits. A commit may carry several entries, or changes that are none; neither number ever goes down."""


class Threads(Protocol):
    async def create(
        self,
        thread: Thread,
        *,
        if_exists: str = "raise",
        drafts: Sequence[Draft] = (),
        checkpoints_of: ThreadId | None = None,
    ) -> Thread:
        """Keep a new thread. If the id is taken: `Conflict`, or the existing one with `if_exists="do_nothing"`.

        In the same transaction `drafts` become its first entries, outside a run, and the checkpoints that were put
        under the id `checkpoints_of` become its own and are no longer found there. If the id is taken neither happens.
        """

    async def get(self, thread_id: ThreadId) -> Thread | None: ...

    async def update(
        self, thread_id: ThreadId, *, metadata: dict[str, Any], ttl: WantedTtl = "usual", now: int
    ) -> Thread:
        """Merge `metadata` key by key into what is there; replace the ttl, or with None take it off, unless it is to be
        the usual. Raises `NotFound`."""

    async def delete(self, thread_id: ThreadId) -> None:
        """Remove the thread with its log, runs and checkpoints; whoever held it is fenced, whoever watches it is woken.
        Raises `NotFound`."""

    async def prune(self, thread_id: ThreadId, now: int) -> bool:
        """Keep only the newest checkpoint of every namespace, and what it needs.

        If any were removed, a `state.reset` entry of cause `prune` says so and names the newest root checkpoint.
        `updated_at` stays. False, and nothing changes, while the thread has active runs, or if there is no such thread.
        """

    async def due(self, now: int, limit: int) -> list[ThreadId]:
        """Threads whose `expires_at` is not after `now` and that have no active runs, the longest due first. One that
        was pruned since its last update is not due again before its next."""

    async def expire(self, thread_id: ThreadId, now: int) -> ExpiryStrategy | None:
        """Do what the ttl of a thread that is `due` says, as `delete` or `prune` would, and say what it was. None, and
        nothing changes, if the thread is not due (any more)."""

    async def search(self, query: ThreadQuery) -> list[Thread]:
        """Threads whose metadata and values contain those of the query (`contains` of this module), one page.

        Rows that are alike in what they are sorted by follow their ids, and rows alike in status first their
        `updated_at`, in the same direction. What has never happened comes before everything. Without `with_state`, rows
        have neither values nor interrupts, whatever they hold.
        """

    async def count(self, query: ThreadQuery) -> int:
        """How many `search` would give without a limit."""

    def settle(
        self,
        thread_id: ThreadId,
        settled: Settled,
        drafts: Sequence[Draft],
        puts: Sequence[Put] = (),
        *,
        since: Seq,
        now: int,
    ) -> Settling:
        """The state was moved outside a run: put its checkpoints, as a saver without a fence would, note what the
        thread now holds, and append `drafts`, in one transaction (7.6). Thread-safe; what is put is serialised here,
        on the caller's thread.

        Nothing changes if the thread has active runs, or if its log has entries after `since`: then it is not what the
        state was moved from.
        """

    async def discarded(
        self, *, before: int, but_not: frozenset[ThreadId] = frozenset(), limit: int = 100
    ) -> Sequence[ThreadId]:
        """Up to `limit` threads that were discarded before that moment and are not swept yet, the oldest first; none of
        `but_not` (5.10)."""

    async def sweep(self, thread_ids: Sequence[ThreadId]) -> None:
        """Remove what is left of discarded threads: their logs, runs and checkpoints. One that was made anew since then
        is left alone, and no longer one of them; so is one that never was."""


class Runs(Protocol):
    async def accept(
        self, new: NewRun, *, start: Callable[[Run], None] | None = None, patient: bool = False
    ) -> Accepted:
        """Take a run in: its row and its `run.queued` entry, durable on return (5.1), or nothing. What is in them,
        `new` says: `row`, `queued`, and `thread` if that has to be made.

        - The thread must exist, unless `create_thread`: `NotFound`. A thread that exists gains `thread_metadata` and
          `thread_config`, key by key; one that is made has them, and `thread_ttl`.
        - An `idempotency_key` seen before on that owner returns the run it made, `repeated`, with the `request_digest`
          that it was made with; nothing else is looked at, and nothing changes.
        - While the thread has active runs: `reject` raises `ThreadBusy`; `enqueue` waits its turn; `interrupt` and
          `rollback` cancel every active run with that action, as `cancel` would, then wait their turn.
        - A run whose `due_at` is not after its `created_at` was not asked to be delayed: it is due, whatever any clock
          says later. Times are only compared, and need not ascend from call to call.
        - With `start`, a run that is due at once on a thread without active runs is claimed in the same transaction, as
          `claim` would, and says `started`. `start` is called with it, once and in a task of the storage's loop, as
          soon as it outlives the process and before this returns; also if the caller is cancelled meanwhile, unless
          nothing is kept then.
        - A `patient` caller lets a run that is started be made durable together with its first entries, as soon as
          those are.
        """

    async def get(self, run_id: RunId) -> Run | None: ...

    async def list(
        self, thread_id: ThreadId, *, status: RunStatus | None = None, limit: int = 10, offset: int = 0
    ) -> list[Run]:
        """A thread's runs, newest first."""

    async def claim(self, limit: int, *, now: int, but_not: frozenset[ThreadId] = frozenset()) -> Sequence[Run]:
        """Take up to `limit` runs that are due, in order of their due time, then of their acceptance; each becomes
        `running` with the next attempt, and is not delayed any more: its `due_at` is its `created_at`, if it was later.

        Of a thread only the run whose turn it is (5.8): the first accepted of those that are not delayed, or the first
        due of those that are; if both are due, the one with the earlier due time; and none that is delayed while one
        that has begun before waits. Only threads with no running run and not in `but_not`; and of the suspects (5.7) at
        most one, and none while another is running. Durable on return. Nothing due: empty.
        """

    async def next_due(self, *, but_not: frozenset[ThreadId] = frozenset()) -> int | None:
        """The `due_at` of the earliest pending run that `claim` would take then with the same `but_not`, if nothing
        changed meanwhile, or None: how long a worker may sleep."""

    async def count_active(self) -> dict[RunStatus, int]:
        """How many runs are `pending` and how many are `running`; both are named, also with 0. Cheap, however many
        have ended."""

    async def cancel(self, run_id: RunId, action: CancelAction, now: int) -> Cancelled | None:
        """Ask a run to stop. Pending: it ends at once, as `finish` would end it. Running: `cancel` is noted on its row
        for the worker, the first action wins. Already over, or unknown: None."""

    async def cancel_many(self, wanted: RunSelection, action: CancelAction, now: int) -> Sequence[Cancelled]:
        """Ask every active run that is wanted to stop, in one transaction, each as `cancel` would: no run of theirs is
        claimed in between. Those that were asked; runs that are over or unknown are passed over."""

    async def finish(self, fence: Fence, ending: Ending, now: int, *, regardless: bool = False) -> bool:
        """End a run in one transaction: its `run.ended` entry (`ending.entry`), its row, what its thread settles on
        (5.3).

        With `rollback`: a `state.reset` entry before it, its checkpoints and its row removed, the thread's values as
        they were. So are `graph_id` and `assistant_id` in its metadata, if they are those of the run; but if a run that
        was accepted after this one is active, they are its own, and are given back when that one is rolled back too.
        A run with a `webhook` leaves a delivery, due at once, however it ended; so does one that ends in another way.
        A `temporary` run that leaves no active run on its thread discards the thread (5.10), however it ended.
        Takes effect after everything this attempt appended. False, and nothing changes, if the attempt does not hold
        the thread. Raises `RollbackDue`, and nothing changes, if it was cancelled with `rollback` and ends otherwise,
        as it may have been about to when that was promised; but not if it is to end so `regardless`, because it cannot
        be rolled back.
        """

    async def release(self, fence: Fence, now: int) -> bool:
        """Put a running run back to pending, uncharged (5.6), before all that were accepted after it. False if it does
        not hold the thread."""

    async def recover(self, now: int) -> Sequence[Run]:
        """At boot, when no worker can be alive: every `running` run is charged a crash and becomes pending again, or
        ends: `interrupted` (or rolled back) if it had been asked to stop, in `error` at the third charge (5.6).
        Returns them all as they are now."""

    async def delete(self, run_id: RunId) -> None:
        """Remove a finished run's row; its entries stay. `NotFound` if unknown, `Conflict` while it is active."""


class Assistants(Protocol):
    """An assistant's row is the version of it that counts; `versions` are all there were since it was made."""

    async def create(self, assistant: Assistant, *, if_exists: str = "raise") -> Assistant:
        """Keep a new assistant, and its first version under the number it carries. If the id is taken: `Conflict`, or
        the existing one, as it is, with `if_exists="do_nothing"`."""

    async def get(self, assistant_id: AssistantId) -> Assistant | None: ...

    async def update(self, assistant_id: AssistantId, change: Callable[[Assistant], Assistant], now: int) -> Assistant:
        """Make the next version: what `change` gives for the row as it is, numbered one above the highest version there
        is. It is the one that counts from then on; id, owner and `created_at` stay. Raises `NotFound`.

        `change` does nothing but compute. It may be called on any thread and more than once. It may raise a
        `ThreadwireError`, which goes to the caller, and nothing has changed.
        """

    async def set_latest(self, assistant_id: AssistantId, version: int, now: int) -> Assistant:
        """Let an earlier version count again: the row takes over all it holds, its number too. No version is made.
        Raises `NotFound` if there is no such assistant or version."""

    async def versions(
        self, assistant_id: AssistantId, *, metadata: dict[str, Any], limit: int = 10, offset: int = 0
    ) -> list[AssistantVersion]:
        """Its versions whose metadata contain `metadata`, highest number first, one page. Empty if it is unknown."""

    async def delete(self, assistant_id: AssistantId) -> None:
        """Remove it with its versions and its crons. Its threads and runs stay. Raises `NotFound`."""

    async def search(self, query: AssistantQuery) -> list[Assistant]:
        """Assistants of the graph whose name has `name` in it (`named`) and whose metadata contain those of the query,
        one page."""

    async def count(self, query: AssistantQuery) -> int:
        """How many `search` would give without a limit."""


class Crons(Protocol):
    async def create(self, cron: Cron) -> None:
        """Keep a new cron. `NotFound` if it names a thread that does not exist. It goes with its thread."""

    async def get(self, cron_id: CronId) -> Cron | None: ...

    async def update(self, cron_id: CronId, change: Callable[[Cron], Cron]) -> Cron:
        """Replace a cron by what `change` makes of it, in one transaction; what it is now. `NotFound`.

        `change` is quick and has no effects: it may be called on any thread of control, and more than once. What it
        raises is raised here, and nothing changes.
        """

    async def delete(self, cron_id: CronId) -> None:
        """Raises `NotFound`. Runs that it started stay."""

    async def search(self, query: CronQuery) -> list[Cron]: ...

    async def count(self, query: CronQuery) -> int: ...

    async def due(self, now: int, *, limit: int) -> list[Cron]:
        """Up to `limit` enabled crons whose next slot is not after `now`, the earliest slots first."""

    async def next_due(self) -> int | None:
        """The earliest next slot of an enabled cron."""

    async def fire(
        self,
        cron: Cron,
        new: NewRun | None,
        next_run_at: int | None,
        *,
        start: Callable[[Run], None] | None = None,
    ) -> Fired | None:
        """Take a cron's slot: in one transaction its run is accepted, as `Runs.accept` would, and the cron's slot is
        noted as its last and replaced by the next. So a slot makes one run, whoever dies or competes.

        None, and nothing changes, unless the cron is exactly as `cron` says: somebody else took the slot, or changed
        it. Without `new`, or if the run is refused, the slot passes without a run.
        """


class Deliveries(Protocol):
    """The outbox: what webhooks are to be told. Filled by the transaction that ends a run."""

    async def due(self, now: int, *, limit: int, but_not: frozenset[int] = frozenset()) -> list[Delivery]:
        """Up to `limit` of those that are due and not in `but_not`, in the order of their due time."""

    async def postpone(self, delivery_id: int, until: int) -> None:
        """It was tried in vain: count the try, and let it be due then. Nothing happens if it is gone."""

    async def remove(self, delivery_id: int) -> None:
        """It was delivered, or given up. Nothing happens if it is gone."""


class Checkpoints(Protocol):
    def saver(
        self, fence: Fence | None = None, durability: Durability = "async", *, empty: ThreadId | None = None
    ) -> "BaseCheckpointSaver[str]":
        """A checkpoint saver over this storage, as LangGraph wants one.

        Its writes go through the same queue as `Log.append`, in order (7.1), under `fence` if there is one (7.2:
        `Fenced`).
        `sync` durability returns from a put after its commit, the others at once (7.3). Its reads see its own writes.
        It also has `async def written()`, which returns once everything put through it so far outlives the process:
        it may still be on its way to the disk, as a machine that loses power would show, but nobody has been told of
        it. `empty` names a thread that has no checkpoint, so that none need be looked for before one is put.

        After `get_tuple`, whichever checkpoint it asks for, the ids that LangGraph makes come behind the newest of that
        namespace, whatever the clock says (`let_new_ids_follow`).

        It has LangGraph's extended capabilities too: `copy_thread`, `prune` and `delete_for_runs`, each one
        transaction; under no fence. Without a fence it also serves ids that are no thread's, so that checkpoints can be
        made before their thread (`Threads.create`).
        """

    async def newest(self, thread_id: ThreadId) -> tuple[str, RunId | None] | None:
        """The id of the thread's newest root checkpoint, and the run that made it (from its metadata)."""

    async def has(self, thread_id: ThreadId, checkpoint_id: str, ns: str = "") -> bool:
        """Whether the thread has a checkpoint of that id in that namespace. Any text is an id. Cheap."""

    async def sizes(self, thread_id: ThreadId) -> CheckpointSizes:
        """How many bytes the thread's checkpoints take up, as they are stored."""


class Items(Protocol):
    """The store: values by namespace and key, apart from any thread. Usable from any thread and any loop."""

    def batch(self, operations: Sequence[ItemOperation], now: int) -> list[ItemResult]:
        """Carry out the operations; one result for each, None for a change. Blocks the caller's thread.

        - What is read is as it was before the batch. The changes take effect together, in order, durable on return.
        - An item expires at the moment its time is over: from then on it is as if it were not there.
        - A read that refreshes gives what it returns its whole time again, if it has one, soon after it returned.
        - Any text is a label or a key, also an empty one, and any key of a filter is only compared. The filter has
          passed `check_filter`.
        """

    async def abatch(self, operations: Sequence[ItemOperation], now: int) -> list[ItemResult]:
        """The same, without blocking."""

    async def sweep(self, now: int, limit: int = 1000) -> int:
        """Remove up to `limit` items that have expired, durable on return. How many there were."""


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
    def death(self) -> StorageDied | None:
        """What the storage has died of: from then on every write raises it, and only opening it anew may help. Nothing
        that was taken in and not acknowledged before is ever acknowledged or shown."""

    async def lives(self) -> None:
        """Wait for its death, which is raised. It does not return, also not when the storage is closed."""


def contains(whole: Any, part: Any) -> bool:
    """Whether `part` is contained in `whole`: objects key by key, lists element by element in any order, the rest by
    equality.

    This is PostgreSQL's `@>`, said once so that every driver filters alike. Keys are only ever compared.
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


def named(name: str, part: str) -> bool:
    """Whether a name has `part` in it, whichever is written in capitals. Nothing in `part` is a pattern."""
    return part.lower() in name.lower()
