"""The life cycle of a run: the allowed status transitions, the order in which runs start, how crashes are charged, and
what a rollback restores on the thread."""

from collections.abc import Sequence
from typing import Any

from threadwire.core.records import CancelAction, Ending, NewRun, QueueLimits, Run, RunStatus
from threadwire.errors import QueueFull

MAX_CRASHES = 3
"""A run whose process died this many times ends in error (spec 5.6)."""

SUSPECT_CRASHES = 2
"""From this many crashes on, a run is retried only while no other suspect is running (spec 5.7)."""

TRANSITIONS: dict[RunStatus, frozenset[RunStatus]] = {
    # claimed; cancelled before it started
    "pending": frozenset({"running", "interrupted"}),
    # released or recovered; the four endings
    "running": frozenset({"pending", "success", "error", "interrupted", "timeout"}),
    "success": frozenset(),
    "error": frozenset(),
    "interrupted": frozenset(),
    "timeout": frozenset(),
}

MAX_ATTEMPTS_ERROR = {
    "error": "max_attempts",
    "message": f"The server died {MAX_CRASHES} times while this run was in flight.",
}


def can_transition(before: RunStatus, after: RunStatus) -> bool:
    return after in TRANSITIONS[before]


def is_suspect(crashes: int) -> bool:
    return crashes >= SUSPECT_CRASHES


def thread_queue_full(limits: QueueLimits) -> QueueFull:
    return QueueFull(f"The thread already has {limits.per_thread} pending runs. Retry when some of them have ended.")


def queue_full(limits: QueueLimits) -> QueueFull:
    return QueueFull(f"The server cannot hold more than {limits.total} pending runs. Retry later.")


def startable_runs(pending: Sequence[Run]) -> list[Run]:
    """Return the runs that may start next, sorted by due time (spec 5.8). The first one that is due starts.

    `pending` contains the pending runs of one thread in the order of acceptance."""
    prompt = [run for run in pending if not run.delayed][:1]
    delayed = [] if any(run.attempt > 0 for run in pending) else [run for run in pending if run.delayed]
    return sorted(prompt + sorted(delayed, key=_due_time)[:1], key=_due_time)


def _due_time(run: Run) -> tuple[int, int]:
    return run.due_at, run.queued_seq


def graph_assignment(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a thread's metadata that names its graph and its assistant."""
    return {key: metadata[key] for key in _GRAPH_KEYS if key in metadata}


def assignment_by(run: Run | NewRun) -> dict[str, Any]:
    """Return the graph and the assistant that a run assigns to its thread when it starts (spec 5.11)."""
    return {"graph_id": run.graph_id, "assistant_id": run.assistant_id}


def metadata_after_acceptance(metadata: dict[str, Any], new: NewRun, *, started: bool) -> dict[str, Any]:
    """Return the thread's metadata after `new` was accepted, and possibly started."""
    assigns = started or not graph_assignment(metadata)
    return metadata | new.thread_metadata | (assignment_by(new) if assigns else {})


def metadata_after_rollback(metadata: dict[str, Any], run: Run, previous: dict[str, Any]) -> dict[str, Any]:
    """Return the thread's metadata after a rollback of `run`: the graph and the assistant are those of `previous`,
    unless they have changed since the run assigned its own."""
    if graph_assignment(metadata) != assignment_by(run):
        return metadata
    return {key: value for key, value in metadata.items() if key not in _GRAPH_KEYS} | previous


_GRAPH_KEYS = ("graph_id", "assistant_id")


def cancelled_ending(run: Run, action: CancelAction) -> Ending:
    """Return how a cancelled run ends if no worker executes it."""
    error = user_interrupt_error(action)
    return Ending("interrupted", error=error, rollback=action == "rollback", started=run.attempt > 0)


def user_interrupt_error(action: str) -> dict[str, str]:
    """Return the error that a cancelled run leaves on its thread, with the texts of the stock server."""
    return {
        "error": "UserInterrupt" if action == "interrupt" else "UserRollback",
        "message": f"{action} requested via POST /threads/{{thread_id}}/runs/{{run_id}}/cancel",
    }
