"""The stored records of assistants, threads, runs and crons, and the queries on them, as plain values."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Flag
from math import ceil
from typing import Any, Literal, Protocol

from threadwire.core.access_filter import EVERYTHING, AccessFilter
from threadwire.core.entries import START, Draft, Fence, Json, Kind
from threadwire.core.histogram import Histogram
from threadwire.core.ids import AssistantId, CronId, RunId, Seq, ThreadId

RunStatus = Literal["pending", "running", "success", "error", "interrupted", "timeout"]
ThreadStatus = Literal["idle", "busy", "interrupted", "error"]
MultitaskStrategy = Literal["reject", "enqueue", "interrupt", "rollback"]
CancelAction = Literal["interrupt", "rollback"]
Durability = Literal["sync", "async", "exit"]
ExpiryStrategy = Literal["delete", "keep_latest"]
Suspects = Literal["one", "none", "only"]
"""Which suspects (spec 5.7) a worker claims: at most one at a time, in addition to other runs; none; or only suspects,
each for a separate process."""

ACTIVE: frozenset[str] = frozenset({"pending", "running"})


@dataclass(frozen=True, slots=True)
class Assistant:
    assistant_id: AssistantId
    graph_id: str
    name: str
    created_at: int
    updated_at: int
    version: int = 1
    description: str | None = None
    config: dict[str, Any] = field(default_factory=dict)
    context: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class AssistantVersion:
    """An assistant as created or updated at `created_at`. Versions are numbered from 1 and never change."""

    assistant_id: AssistantId
    version: int
    graph_id: str
    name: str
    created_at: int
    description: str | None = None
    config: dict[str, Any] = field(default_factory=dict)
    context: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(assistant: Assistant, at: int) -> "AssistantVersion":
        return AssistantVersion(
            assistant_id=assistant.assistant_id,
            version=assistant.version,
            graph_id=assistant.graph_id,
            name=assistant.name,
            created_at=at,
            description=assistant.description,
            config=assistant.config,
            context=assistant.context,
            metadata=assistant.metadata,
        )

    def restored(self, assistant: Assistant, now: int) -> Assistant:
        """Return the assistant with this version as the current one."""
        return replace(
            assistant,
            version=self.version,
            graph_id=self.graph_id,
            name=self.name,
            updated_at=now,
            description=self.description,
            config=self.config,
            context=self.context,
            metadata=self.metadata,
        )


@dataclass(frozen=True, slots=True)
class Ttl:
    """How long a thread is retained after its last update, and what expires then: the whole thread, or all but its
    newest checkpoints."""

    minutes: float
    strategy: ExpiryStrategy = "delete"


RequestedTtl = Ttl | Literal["usual"] | None
"""None means that the thread never expires. `"usual"` is the project's default for a new thread and leaves the time to
live of an existing one unchanged."""


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread as clients see it. `status` is `busy` while it has pending or running runs, whatever the outcome of the
    previous run was."""

    thread_id: ThreadId
    created_at: int
    updated_at: int
    status: ThreadStatus = "idle"
    state_updated_at: int | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    values: Json = None
    interrupts: dict[str, Json] = field(default_factory=dict)
    error: Json = None
    ttl: Ttl | None = None
    owner: str | None = None

    @property
    def expires_at(self) -> int | None:
        return None if self.ttl is None else ceil(self.updated_at + self.ttl.minutes * 60_000)


@dataclass(frozen=True, slots=True)
class Run:
    """A run's row. `attempt` counts starts and never decreases; `crashes` counts only crashes charged to it."""

    run_id: RunId
    thread_id: ThreadId
    assistant_id: AssistantId
    graph_id: str
    status: RunStatus
    created_at: int
    updated_at: int
    due_at: int
    queued_seq: Seq
    multitask_strategy: MultitaskStrategy = "enqueue"
    attempt: int = 0
    crashes: int = 0
    cancel: CancelAction | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    kwargs: dict[str, Any] = field(default_factory=dict)
    error: Json = None
    ended_seq: Seq | None = None
    idempotency_key: str | None = None
    request_digest: str | None = None
    """A digest of the request that came with the idempotency key."""
    temporary: bool = False
    """Whether its thread is discarded when the run ends."""
    webhook: str | None = None
    """The URL to notify when the run has ended."""
    started_at: int | None = None
    """When the latest attempt started."""
    owner: str | None = None
    via: str | None = None
    """The protocol over which the request arrived, or `cron`."""

    @property
    def resume(self) -> Json:
        """The value that answers interrupts, or None."""
        return (self.kwargs.get("command") or {}).get("resume")

    @property
    def active(self) -> bool:
        return self.status in ACTIVE

    @property
    def delayed(self) -> bool:
        """Whether the client asked for a delayed start. False once the run has started."""
        return self.due_at > self.created_at

    def is_due(self, now: int) -> bool:
        return not self.delayed or self.due_at <= now

    @property
    def fence(self) -> Fence:
        return Fence(self.run_id, self.attempt)

    @property
    def is_first_on_thread(self) -> bool:
        """Whether the thread had no checkpoints in the storage before this attempt. Every checkpoint in the storage
        comes with a log entry, so a thread has none before its first entry. Only a run that started when it was
        accepted qualifies, because other runs can overtake a delayed one."""
        return self.queued_seq == START + 1 and self.attempt == 1 and self.started_at == self.created_at


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """How many runs may be pending."""

    per_thread: int
    total: int


@dataclass(frozen=True, slots=True)
class NewRun:
    """A requested run that has not been accepted yet."""

    run_id: RunId
    thread_id: ThreadId
    assistant_id: AssistantId
    graph_id: str
    created_at: int
    due_at: int
    multitask_strategy: MultitaskStrategy = "enqueue"
    metadata: dict[str, Any] = field(default_factory=dict)
    kwargs: dict[str, Any] = field(default_factory=dict)
    create_thread: bool = False
    thread_metadata: dict[str, Any] = field(default_factory=dict)
    thread_config: dict[str, Any] = field(default_factory=dict)
    thread_ttl: Ttl | None = None
    idempotency_key: str | None = None
    request_digest: str | None = None
    temporary: bool = False
    webhook: str | None = None
    owner: str | None = None
    via: str | None = None
    limits: QueueLimits | None = None
    """None if any number of runs may be pending."""
    preceding: tuple[Draft, ...] = ()
    """Entries outside the run that are appended right before its first one."""
    access: AccessFilter = EVERYTHING
    """Which threads the run may use. A foreign thread is treated as unknown, even with `create_thread`."""
    created_metadata: dict[str, Any] = field(default_factory=dict)
    """Metadata that the thread gets in addition if it is created, such as its owner."""

    def queued(self) -> Draft:
        """Return the run's first log entry (spec 5.1)."""
        return Draft(
            Kind.RUN_QUEUED, {"assistant_id": self.assistant_id, "graph_id": self.graph_id}, at=self.created_at
        )

    def row(self, queued_seq: Seq, *, started: bool = False) -> Run:
        """Return the run's row, given the seq of its first entry. If it is claimed immediately, it has `started`."""
        return Run(
            run_id=self.run_id,
            thread_id=self.thread_id,
            assistant_id=self.assistant_id,
            graph_id=self.graph_id,
            status="running" if started else "pending",
            created_at=self.created_at,
            updated_at=self.created_at,
            due_at=self.due_at,
            queued_seq=queued_seq,
            multitask_strategy=self.multitask_strategy,
            attempt=1 if started else 0,
            started_at=self.created_at if started else None,
            metadata=self.metadata,
            kwargs=self.kwargs,
            idempotency_key=self.idempotency_key,
            request_digest=self.request_digest,
            temporary=self.temporary,
            webhook=self.webhook,
            owner=self.owner,
            via=self.via,
        )

    def thread(self) -> Thread:
        """Return the thread to create for the run if it does not exist."""
        return Thread(
            thread_id=self.thread_id,
            created_at=self.created_at,
            updated_at=self.created_at,
            metadata={
                **self.created_metadata,
                **self.thread_metadata,
                "graph_id": self.graph_id,
                "assistant_id": self.assistant_id,
            },
            config=self.thread_config,
            ttl=self.thread_ttl,
            owner=self.owner,
        )


@dataclass(frozen=True, slots=True)
class FoldSnapshot:
    """The content of a fold at a position of the log, in the fold's own format."""

    seq: Seq
    data: bytes


class Commit(Protocol):
    """Work that has been enqueued and will be durable soon."""

    async def wait(self) -> None:
        """Return once the work is durable. Raise `StorageError` if it never will be, or `Fenced` if it was rejected.
        Usable on any event loop."""


class _Committed:
    async def wait(self) -> None:
        return None


COMMITTED: Commit = _Committed()
"""Work that is durable already."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Which worker claims something, and for how long a claim is valid unless it is renewed."""

    worker: str
    milliseconds: int


@dataclass(frozen=True, slots=True)
class Accepted:
    """The result of accepting a run: the run, whether the request was a repeat, whether the run is already claimed, and
    which running runs were asked to stop for it."""

    run: Run
    repeated: bool = False
    started: bool = False
    stopping: tuple[RunId, ...] = ()
    commit: Commit = field(default=COMMITTED, compare=False)
    """A run that is already claimed is durable once this returns. Any other run is durable already."""


class QueueHint(Flag):
    """Why a worker was woken."""

    NOTHING = 0
    WORK = 1
    """There may be a run to claim."""
    STOPS = 2
    """A running run may have been cancelled or lost: renewing the lease shows which."""


@dataclass(frozen=True, slots=True)
class RunSelection:
    """Selects active runs: by status, or by id within one thread."""

    status: Literal["pending", "running"] | None = None
    thread_id: ThreadId | None = None
    run_ids: tuple[RunId, ...] | None = None


@dataclass(frozen=True, slots=True)
class StateSummary:
    """A summary of a thread's state after a change, stored on the thread's row for searches and lookups."""

    status: Literal["idle", "interrupted", "error"]
    values: Json
    interrupts: dict[str, Json] = field(default_factory=dict)
    """The pending interrupts of each task."""
    error: Json = None

    @property
    def pending_interrupts(self) -> list[Json]:
        return [each for interrupts in self.interrupts.values() for each in interrupts]


@dataclass(frozen=True, slots=True)
class CheckpointPut:
    """The deferred arguments of a saver's `put`."""

    config: Any
    checkpoint: Any
    metadata: Any
    new_versions: Any


@dataclass(frozen=True, slots=True)
class WritesPut:
    """The deferred arguments of a saver's `put_writes`."""

    config: Any
    writes: Sequence[tuple[str, Any]]
    task_id: str
    task_path: str


Put = CheckpointPut | WritesPut


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended. Without `summary`, only the status and the error of the thread change; its values stay."""

    status: Literal["success", "error", "interrupted", "timeout"]
    error: Json = None
    interrupts: list[Json] = field(default_factory=list)
    unanswered: list[str] = field(default_factory=list)
    """The interrupts that the run should have answered and that are still pending (spec 6.16)."""
    summary: StateSummary | None = None
    rollback: bool = False
    started: bool = True
    """False for a run that was cancelled before its first attempt. It leaves the thread as it was."""

    def entry(self, now: int) -> Draft:
        """Return the run's last entry (spec 5.3)."""
        data: dict[str, Any] = {"status": self.status}
        if self.error is not None:
            data["error"] = self.error
        if self.interrupts:
            data["interrupts"] = self.interrupts
        if self.unanswered:
            data["unanswered"] = self.unanswered
        return Draft(Kind.RUN_ENDED, data, at=now)


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The result of cancelling a run: a pending run ends immediately, a running one is left to its worker."""

    run: Run
    ended: bool


@dataclass(frozen=True, slots=True)
class LogCounters:
    """How much has been written since the storage was opened."""

    entries: int
    commits: int
    append_seconds: Histogram | None = None
    """The time from appending an entry until it was published. Only drivers for several processes set this field and
    those below."""
    flush_seconds: Histogram | None = None
    """How long commits took."""
    hints_missed: int | None = None
    """How many hints could not be sent to other processes."""
    hints_connected: bool | None = None
    """Whether hints from other processes arrive."""


@dataclass(frozen=True, slots=True)
class Update:
    """A state update on behalf of a node: the values it wrote, or the command it returned."""

    as_node: str
    values: Any = None
    command: dict[str, Any] | None = None


Supersteps = Sequence[Sequence[Update]]
"""Updates grouped by step; the updates of one step are applied together."""


@dataclass(frozen=True, slots=True)
class ThreadQuery:
    ids: tuple[ThreadId, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    status: ThreadStatus | None = None
    limit: int = 10
    offset: int = 0
    sort_by: Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"] = "created_at"
    descending: bool = True
    with_state: bool = True
    """Whether to load values and interrupts, which can be large."""


@dataclass(frozen=True, slots=True)
class AssistantQuery:
    graph_id: str | None = None
    name: str | None = None
    """A substring of the name, case-insensitive."""
    metadata: dict[str, Any] = field(default_factory=dict)
    limit: int = 10
    offset: int = 0
    sort_by: Literal["assistant_id", "graph_id", "name", "created_at", "updated_at"] = "created_at"
    descending: bool = True


@dataclass(frozen=True, slots=True)
class Cron:
    """A run that is started on a schedule. `next_run_at` is the next scheduled time, or None if there is none;
    `last_run_at` is the last one that fired."""

    cron_id: CronId
    assistant_id: AssistantId
    schedule: str
    created_at: int
    updated_at: int
    thread_id: ThreadId | None = None
    """If None, each run gets its own thread."""
    keep_threads: bool = False
    """Whether those threads are kept after their run has ended."""
    timezone: str | None = None
    end_time: int | None = None
    next_run_at: int | None = None
    last_run_at: int | None = None
    enabled: bool = True
    multitask_strategy: MultitaskStrategy = "enqueue"
    metadata: dict[str, Any] = field(default_factory=dict)
    payload: dict[str, Any] = field(default_factory=dict)
    """The request as the client sent it."""
    kwargs: dict[str, Any] = field(default_factory=dict)
    """The arguments of each run."""
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class Fired:
    """The result of firing a cron: the accepted run, or why it was rejected."""

    accepted: Accepted | None = None
    rejected: str | None = None


@dataclass(frozen=True, slots=True)
class CronQuery:
    assistant_id: AssistantId | None = None
    thread_id: ThreadId | None = None
    enabled: bool | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    limit: int = 10
    offset: int = 0
    sort_by: Literal["cron_id", "assistant_id", "thread_id", "created_at", "updated_at", "next_run_at", "end_time"] = (
        "created_at"
    )
    descending: bool = True


@dataclass(frozen=True, slots=True)
class Delivery:
    """The pending webhook delivery of a run that has ended. It is self-contained, because the run and its thread may
    have been deleted since."""

    delivery_id: int
    run: Run
    """The run as it was when it ended."""
    values: Json
    """The values of the thread at that time; None if the run was rolled back."""
    due_at: int
    tries: int = 0


@dataclass(frozen=True, slots=True)
class Size:
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class CheckpointSizes:
    """The size of a thread's checkpoints: the checkpoints themselves, the values of each channel that are stored
    separately (one per version), and the writes of tasks."""

    checkpoints: Size
    channels: dict[str, Size]
    writes: Size
