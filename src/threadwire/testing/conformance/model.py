"""The simplest possible model of a storage, with which the state machine compares a driver.

It shares no code with any driver or with `core.run_state`: if both had the same bug, they would agree.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from threadwire.core.ids import RunId, ThreadId
from threadwire.core.records import Lease, NewRun
from threadwire.errors import NotFound, ThreadBusy

Rejection = type[NotFound] | type[ThreadBusy]

STATUS_AFTER = {"success": "idle", "error": "error", "timeout": "error", "interrupted": "interrupted"}


class Line(NamedTuple):
    """The parts of an entry that the model checks."""

    run_id: RunId | None
    attempt: int
    text: str


@dataclass
class Row:
    """A run."""

    run_id: RunId
    thread_id: ThreadId
    due: int
    created_at: int
    order: int
    status: str = "pending"
    attempt: int = 0
    crashes: int = 0
    cancel: str | None = None
    temporary: bool = False
    worker: str = ""
    lease_is_live: bool = False

    @property
    def queue_key(self) -> tuple[int, int]:
        return (self.due, self.order)

    @property
    def delayed(self) -> bool:
        return self.due > self.created_at

    def comes_before(self, other: "Row") -> bool:
        """Whether this run starts before `other` on the same thread, whatever the time."""
        if self.delayed and other.delayed:
            return self.queue_key < other.queue_key
        if self.delayed or other.delayed:
            return self.attempt > 0
        return self.order < other.order


@dataclass
class Model:
    logs: dict[ThreadId, list[Line]] = field(default_factory=dict)
    resting_status: dict[ThreadId, str] = field(default_factory=dict)
    saved: dict[ThreadId, list[tuple[str, RunId | None]]] = field(default_factory=dict)
    rows: dict[RunId, Row] = field(default_factory=dict)
    discarded: set[ThreadId] = field(default_factory=set)
    marked: set[ThreadId] = field(default_factory=set)
    accepted: int = 0

    def exists(self, thread_id: ThreadId) -> bool:
        return thread_id in self.logs and thread_id not in self.discarded

    def create(self, thread_id: ThreadId) -> None:
        self.logs[thread_id], self.saved[thread_id], self.resting_status[thread_id] = [], [], "idle"

    def delete(self, thread_id: ThreadId) -> None:
        del self.logs[thread_id], self.saved[thread_id], self.resting_status[thread_id]
        self.marked.discard(thread_id)
        self.rows = {row.run_id: row for row in self.rows.values() if row.thread_id != thread_id}

    def active(self, thread_id: ThreadId) -> list[Row]:
        return [row for row in self.of(thread_id) if row.status in ("pending", "running")]

    def of(self, thread_id: ThreadId) -> list[Row]:
        return [row for row in self.rows.values() if row.thread_id == thread_id]

    def status(self, thread_id: ThreadId) -> str:
        return "busy" if self.active(thread_id) else self.resting_status[thread_id]

    def write(self, row: Row, text: str) -> None:
        self.logs[row.thread_id].append(Line(row.run_id, row.attempt, text))

    def accept(self, new: NewRun) -> Rejection | tuple[RunId, ...]:
        """Return the running runs that are asked to stop, or the error the run is rejected with."""
        if not self.exists(new.thread_id):
            return NotFound
        active = self.active(new.thread_id)
        if active and new.multitask_strategy == "reject":
            return ThreadBusy
        running = tuple(row.run_id for row in active if row.status == "running")
        stops = new.multitask_strategy in ("interrupt", "rollback")
        for row in active if stops else []:
            self.cancel(row.run_id, new.multitask_strategy)
        self.discarded.discard(new.thread_id)  # the thread stays for the new run
        self.accepted += 1
        self.rows[new.run_id] = Row(
            new.run_id, new.thread_id, new.due_at, new.created_at, self.accepted, temporary=new.temporary
        )
        self.write(self.rows[new.run_id], "run.queued")
        return running if stops else ()

    def claim(self, limit: int, lease: Lease, now: int) -> list[RunId]:
        claimed: list[RunId] = []
        for row in sorted(self.rows.values(), key=lambda row: row.queue_key):
            due = not row.delayed or row.due <= now
            if len(claimed) < limit and due and self.is_next(row):
                row.status, row.attempt, row.due = "running", row.attempt + 1, min(row.due, row.created_at)
                row.worker, row.lease_is_live = lease.worker, lease.milliseconds > 0
                claimed.append(row.run_id)
        return claimed

    def is_next(self, row: Row) -> bool:
        rivals = [other for other in self.active(row.thread_id) if other is not row]
        first = all(other.status == "pending" and not other.comes_before(row) for other in rivals)
        suspects = [other for other in self.rows.values() if other.crashes >= 2 and other.status == "running"]
        return row.status == "pending" and first and (row.crashes < 2 or not suspects)

    def next_due(self, exclude: ThreadId | None = None) -> int | None:
        waiting = [row for row in self.rows.values() if self.is_next(row) and row.thread_id != exclude]
        return min((row.due for row in waiting), default=None)

    def renew(self, lease: Lease) -> dict[tuple[RunId, int], str | None]:
        held = [row for row in self.rows.values() if row.status == "running" and row.worker == lease.worker]
        for row in held:
            row.lease_is_live = lease.milliseconds > 0
        return {(row.run_id, row.attempt): row.cancel for row in held}

    def holds(self, run_id: RunId) -> bool:
        return run_id in self.rows and self.rows[run_id].status == "running"

    def cancel(self, run_id: RunId, action: str) -> bool | None:
        """Return whether the run ended immediately, or None if there was nothing to cancel."""
        row = self.rows.get(run_id)
        if row is None or row.status not in ("pending", "running"):
            return None
        if row.status == "running":
            row.cancel = row.cancel or action
            return False
        self.end(row, _STATUS_AFTER_CANCEL[action])
        return True

    def end(self, row: Row, how: str) -> None:
        if how == "rolled_back":
            self.write(row, "state.reset rollback")
            del self.rows[row.run_id]
            saved = self.saved[row.thread_id]
            self.saved[row.thread_id] = [checkpoint for checkpoint in saved if checkpoint[1] != row.run_id]
        else:
            row.status = how
            if row.attempt > 0:  # a run that never started leaves the thread as it was
                self.resting_status[row.thread_id] = STATUS_AFTER[how]
        self.write(row, f"run.ended {how}")
        if row.temporary and not self.active(row.thread_id):
            self.discarded.add(row.thread_id)

    def sweep(self) -> set[ThreadId]:
        swept, self.discarded = self.discarded, set()
        for thread_id in swept:
            self.delete(thread_id)
        return swept

    def reclaim(self) -> set[RunId]:
        """Recover the runs whose leases have expired, and return them."""
        lost = [row for row in self.rows.values() if row.status == "running" and not row.lease_is_live]
        for row in lost:
            row.crashes += 1
            if row.cancel is not None:
                self.end(row, _STATUS_AFTER_CANCEL[row.cancel])
            elif row.crashes == 3:
                self.end(row, "error")
            else:
                row.status = "pending"
        return {row.run_id for row in lost}


_STATUS_AFTER_CANCEL = {"interrupt": "interrupted", "rollback": "rolled_back"}
