"""The run queue: how runs are accepted, claimed and ended (section 5 of spec/log.md)."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from threadwire.core.access_filter import EVERYTHING, AccessFilter
from threadwire.core.entries import Draft, Fence, Kind
from threadwire.core.ids import RunId, ThreadId
from threadwire.core.records import (
    Accepted,
    CancelAction,
    Cancelled,
    Ending,
    Lease,
    NewRun,
    QueueHint,
    Run,
    RunSelection,
    RunStatus,
    Suspects,
    Thread,
)
from threadwire.core.run_state import (
    MAX_ATTEMPTS_ERROR,
    MAX_CRASHES,
    assignment_by,
    cancelled_ending,
    graph_assignment,
    is_suspect,
    metadata_after_acceptance,
    metadata_after_rollback,
    queue_full,
    startable_runs,
    thread_queue_full,
    user_interrupt_error,
)
from threadwire.errors import Conflict, NotFound, RollbackDue, ThreadBusy
from threadwire.storage.abc import QueueWakeup
from threadwire.storage.memory.checkpoints import delete_run_checkpoints
from threadwire.storage.memory.tables import Tables, stored_copy

RunList = list[Run]
"""`MemoryRuns` has a method named `list`, which would shadow the type."""


class MemoryRuns:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def accept(self, new: NewRun, *, claim: Lease | None = None, defer_sync: bool = False) -> Accepted:
        return self.accept_now(new, claim)

    def accept_now(self, new: NewRun, claim: Lease | None) -> Accepted:
        with self._tables.lock:
            if (existing := self._find_by_key(new)) is not None:
                return Accepted(stored_copy(existing), repeated=True)
            # Every check that can reject the run comes before the first change: all or nothing (5.1).
            self._check(new)
            active = self._tables.active(new.thread_id)
            if active and new.multitask_strategy == "reject":
                raise ThreadBusy
            free = not active and new.thread_id not in self._tables.holds.held_threads()
            lease = claim if free and new.due_at <= new.created_at else None
            if lease is None:
                self._check_limits(new)
            stopping = self._cancel_active(active, new)
            self._prepare_thread(new)
            run = self._enqueue(new)
            if lease is not None:
                return Accepted(self._start(run, lease, new.created_at), started=True)
            self._tables.queue_hints.hint(QueueHint.WORK)
            return Accepted(run, stopping=stopping)

    async def get(self, run_id: RunId, *, access: AccessFilter = EVERYTHING) -> Run | None:
        with self._tables.lock:
            run = self._tables.find_run(run_id, access)
            return None if run is None else stored_copy(run)

    async def list(
        self,
        thread_id: ThreadId,
        *,
        status: RunStatus | None = None,
        limit: int = 10,
        offset: int = 0,
        access: AccessFilter = EVERYTHING,
    ) -> RunList:
        with self._tables.lock:
            newest_first = reversed(self._tables.runs.values())
            of_thread = [run for run in newest_first if run.thread_id == thread_id]
            runs = [run for run in of_thread if status in (None, run.status) and self._tables.may_access(run, access)]
            return [stored_copy(run) for run in runs[offset : offset + limit]]

    async def claim(self, limit: int, lease: Lease, *, now: int, suspects: Suspects = "one") -> RunList:
        with self._tables.lock:
            claimed: RunList = []
            skipped = self._tables.holds.held_threads()
            for run in self._next_in_turn():
                if (
                    len(claimed) < limit
                    and run.is_due(now)
                    and run.thread_id not in skipped
                    and self._may_claim(run, suspects)
                ):
                    skipped.add(run.thread_id)
                    claimed.append(self._start(run, lease, now))
            return claimed

    async def next_due(self, *, suspects: Suspects = "one") -> int | None:
        with self._tables.lock:
            held = self._tables.holds.held_threads()
            turns = [run for run in self._next_in_turn() if self._may_claim(run, suspects)]
            return min((run.due_at for run in turns if run.thread_id not in held), default=None)

    def _may_claim(self, run: Run, suspects: Suspects) -> bool:
        if not is_suspect(run.crashes):
            return suspects != "only"
        return suspects == "only" or (suspects == "one" and not self._suspect_running())

    async def count_active(self) -> dict[RunStatus, int]:
        with self._tables.lock:
            statuses = [run.status for run in self._tables.runs.values()]
            return {"pending": statuses.count("pending"), "running": statuses.count("running")}

    async def cancel(
        self, run_id: RunId, action: CancelAction, now: int, *, access: AccessFilter = EVERYTHING
    ) -> Cancelled | None:
        with self._tables.lock:
            run = self._tables.find_run(run_id, access)
            return None if run is None or not run.active else self._cancel(run, action, now)

    async def cancel_many(
        self, wanted: RunSelection, action: CancelAction, now: int, *, access: AccessFilter = EVERYTHING
    ) -> Sequence[Cancelled]:
        with self._tables.lock:
            selected = [run for run in self._tables.runs.values() if run.active and _is_selected(run, wanted)]
            runs = [run for run in selected if self._tables.may_access(run, access)]
            return [self._cancel(run, action, now) for run in runs]

    def finish(self, fence: Fence, ending: Ending, now: int, *, force: bool = False) -> bool:
        with self._tables.lock:
            if (run := self._tables.holder(fence)) is None:
                return False
            if run.cancel == "rollback" and not (ending.rollback or force):
                raise RollbackDue
            self._end(run, ending, now)
            return True

    def release(self, fence: Fence, now: int) -> bool:
        with self._tables.lock:
            if (run := self._tables.holder(fence)) is None:
                return False
            self._to_pending(run, now)
            return True

    async def renew(self, lease: Lease) -> dict[Fence, CancelAction | None]:
        with self._tables.lock:
            self._tables.holds.renew(lease)
            holders = map(self._tables.holder, self._tables.leases.renew(lease))
            return {run.fence: run.cancel for run in holders if run is not None}

    def watch(self) -> AbstractContextManager[QueueWakeup]:
        return self._tables.queue_hints.watching()

    async def expire_leases(self, worker: str) -> None:
        with self._tables.lock:
            self._tables.leases.expire(worker)
            self._tables.holds.expire(worker)
            self._tables.queue_hints.hint(QueueHint.WORK)

    async def reclaim(self, now: int) -> RunList:
        with self._tables.lock:
            lost = [self._recover(run, now) for run in self._running() if not self._tables.leases.is_live(run.fence)]
            self._tables.queue_hints.hint(QueueHint.STOPS if lost else QueueHint.NOTHING)
            return lost

    async def delete(self, run_id: RunId, *, access: AccessFilter = EVERYTHING) -> None:
        with self._tables.lock:
            if (run := self._tables.find_run(run_id, access)) is None:
                raise NotFound(f"Run {run_id} not found")
            if run.active:
                raise Conflict(f"Run {run_id} is {run.status}; cancel it or wait for it to end")
            del self._tables.runs[run_id]

    # Accepting

    def _find_by_key(self, new: NewRun) -> Run | None:
        if new.idempotency_key is None:
            return None
        wanted = (new.owner, new.idempotency_key)
        runs = self._tables.runs.values()
        return next((run for run in runs if (run.owner, run.idempotency_key) == wanted), None)

    def _check(self, new: NewRun) -> None:
        if new.run_id in self._tables.runs:
            raise Conflict(f"Run {new.run_id} already exists")
        if not new.create_thread or new.thread_id in self._tables.threads:
            self._tables.thread(new.thread_id, new.access)

    def _check_limits(self, new: NewRun) -> None:
        if new.limits is None:
            return
        pending = [run.thread_id for run in self._tables.runs.values() if run.status == "pending"]
        ends_others = new.multitask_strategy in ("interrupt", "rollback")
        if not ends_others and pending.count(new.thread_id) >= new.limits.per_thread:
            raise thread_queue_full(new.limits)
        if len(pending) >= new.limits.total:
            raise queue_full(new.limits)

    def _prepare_thread(self, new: NewRun) -> None:
        if new.thread_id not in self._tables.threads:
            self._tables.store_thread(new.thread())
            return
        thread = self._tables.thread(new.thread_id)
        metadata = metadata_after_acceptance(thread.metadata, new, started=False)
        if (previous := graph_assignment(thread.metadata)) != graph_assignment(metadata):
            self._tables.previous_metadata[new.run_id] = previous
        config = thread.config | new.thread_config
        self._tables.store_thread(replace(thread, metadata=metadata, config=config, updated_at=new.created_at))

    def _cancel_active(self, active: RunList, new: NewRun) -> tuple[RunId, ...]:
        """Cancel the active runs if the new run's strategy asks for it. Return those that their workers must stop."""
        strategy = new.multitask_strategy
        if strategy not in ("interrupt", "rollback"):
            return ()
        cancelled = [self._cancel(run, strategy, new.created_at, discard=False) for run in active]
        return tuple(each.run.run_id for each in cancelled if not each.ended)

    def _enqueue(self, new: NewRun) -> Run:
        if new.preceding:
            self._tables.write(new.thread_id, list(new.preceding), None)
        return self._tables.store_run(new.row(self._tables.write(new.thread_id, [new.queued()], Fence(new.run_id, 0))))

    # Claiming

    def _running(self) -> RunList:
        return [run for run in self._tables.runs.values() if run.status == "running"]

    def _suspect_running(self) -> bool:
        return any(is_suspect(run.crashes) for run in self._running())

    def _next_in_turn(self) -> RunList:
        """The runs that may be next on threads without a running run (5.8), in queue order."""
        busy = {run.thread_id for run in self._running()}
        pending: dict[ThreadId, RunList] = {}
        for run in self._tables.runs.values():
            if run.status == "pending" and run.thread_id not in busy:
                pending.setdefault(run.thread_id, []).append(run)
        turns = {run.run_id for of_thread in pending.values() for run in startable_runs(of_thread)}
        # Sorting is stable, so runs due at the same time stay in the order of acceptance.
        return sorted((run for run in self._tables.runs.values() if run.run_id in turns), key=lambda run: run.due_at)

    def _start(self, run: Run, lease: Lease, now: int) -> Run:
        due_at = min(run.due_at, run.created_at)
        if run.attempt == 0:
            self._assign_graph(run)
        started = self._change(run, status="running", attempt=run.attempt + 1, started_at=now, due_at=due_at, now=now)
        self._tables.leases.grant(started.fence, lease)
        return started

    def _assign_graph(self, run: Run) -> None:
        """Assign the run's graph and assistant to its thread (5.11), and note the previous ones for a rollback."""
        thread = self._tables.thread(run.thread_id)
        if (previous := graph_assignment(thread.metadata)) != assignment_by(run):
            self._tables.previous_metadata[run.run_id] = previous
            self._tables.store_thread(replace(thread, metadata=thread.metadata | assignment_by(run)))

    def _recover(self, run: Run, now: int) -> Run:
        charged = self._change(run, crashes=run.crashes + 1, now=now)
        if charged.cancel is not None:
            return self._end(charged, cancelled_ending(charged, charged.cancel), now)
        if charged.crashes >= MAX_CRASHES:
            return self._end(charged, Ending("error", error=MAX_ATTEMPTS_ERROR), now)
        return self._to_pending(charged, now)

    def _to_pending(self, run: Run, now: int) -> Run:
        self._tables.leases.end(run.fence)
        self._tables.queue_hints.hint(QueueHint.WORK)
        return self._change(run, status="pending", now=now)

    # Ending

    def _cancel(self, run: Run, action: CancelAction, now: int, *, discard: bool = True) -> Cancelled:
        if run.status == "pending":
            return Cancelled(self._end(run, cancelled_ending(run, action), now, discard=discard), ended=True)
        self._tables.queue_hints.hint(QueueHint.STOPS)
        return Cancelled(self._change(run, cancel=run.cancel or action, now=now), ended=False)

    def _end(self, run: Run, ending: Ending, now: int, *, discard: bool = True) -> Run:
        """End a run, and discard its thread if the run is temporary (5.10), unless it ends in favour of a new run."""
        self._tables.leases.end(run.fence)
        previous = self._tables.previous_metadata.pop(run.run_id, None)
        ended = self._roll_back(run, now) if ending.rollback else self._close(run, ending, now)
        if ending.rollback and previous is not None:
            self._restore_metadata(run, previous)
        if run.webhook is not None:
            values = None if ending.rollback else self._tables.thread(run.thread_id).values
            self._tables.enqueue_delivery(ended, values=values, now=now)
        if self._tables.active(run.thread_id):
            self._tables.queue_hints.hint(QueueHint.WORK)
        elif discard and run.temporary:
            discarded = self._tables.threads.pop(run.thread_id)  # its log and runs stay until it is swept (5.10)
            self._tables.discarded_metadata[run.thread_id] = discarded.metadata
            self._tables.discarded[run.thread_id] = now
        return ended

    def _close(self, run: Run, ending: Ending, now: int) -> Run:
        self._tables.writes_by_run.pop(run.run_id, None)
        ended = ending.entry(now)
        seq = self._tables.write(run.thread_id, [ended], run.fence)
        if ending.summary is not None:
            self._tables.store_state(run.thread_id, ending.summary, now)
        else:
            self._tables.store_thread(_thread_after(self._tables.thread(run.thread_id), ending, now))
        return self._change(run, status=ending.status, error=ending.error, ended_seq=seq, now=now)

    def _roll_back(self, run: Run, now: int) -> Run:
        """Remove everything of the run except its entries (5.9). Return the row as it would have been."""
        reset = Draft(Kind.STATE_RESET, {"cause": "rollback"}, at=now)
        ended = Draft(Kind.RUN_ENDED, {"status": "rolled_back"}, at=now)
        seq = self._tables.write(run.thread_id, [reset, ended], run.fence)
        delete_run_checkpoints(self._tables, run.thread_id, run.run_id)
        del self._tables.runs[run.run_id]
        error = user_interrupt_error("rollback")
        return replace(run, status="interrupted", error=error, ended_seq=seq, updated_at=now)

    def _restore_metadata(self, run: Run, previous: dict[str, Any]) -> None:
        """If another run has started since, hand `previous` over to it, to be restored when it is rolled back."""
        noted = self._tables.previous_metadata
        started = [each.run_id for each in self._tables.active(run.thread_id) if each.attempt > 0]
        for run_id in started:
            if noted.get(run_id) == assignment_by(run):
                noted[run_id] = previous
                return
        thread = self._tables.thread(run.thread_id)
        self._tables.store_thread(replace(thread, metadata=metadata_after_rollback(thread.metadata, run, previous)))

    def _change(self, run: Run, *, now: int, **fields: Any) -> Run:
        return self._tables.store_run(replace(run, updated_at=now, **fields))


def _is_selected(run: Run, wanted: RunSelection) -> bool:
    return (
        wanted.status in (None, run.status)
        and wanted.thread_id in (None, run.thread_id)
        and (wanted.run_ids is None or run.run_id in wanted.run_ids)
    )


def _thread_after(thread: Thread, ending: Ending, now: int) -> Thread:
    """The thread after a run that ended without a state: its values stay; status and error are the run's if it started
    at all."""
    if not ending.started:
        return replace(thread, updated_at=now)
    if ending.status == "success":
        return replace(thread, status="idle", error=ending.error, updated_at=now)
    failed = ending.status in ("error", "timeout")
    return replace(thread, status="error" if failed else "interrupted", error=ending.error, updated_at=now)
