"""The life of a run: which status may follow which, whose turn it is, what a crash is charged, and what its thread is
given back. All of it lives here."""

from collections.abc import Sequence
from typing import Any

from threadwire.core.records import Run, RunStatus

MAX_CRASHES = 3
"""A run whose process died this often ends in error (spec 5.6)."""

SUSPECT_CRASHES = 2
"""From this many on, a run is retried only while no other suspect is running (spec 5.7)."""

MOVES: dict[RunStatus, frozenset[RunStatus]] = {
    # claimed · cancelled before it started
    "pending": frozenset({"running", "interrupted"}),
    # released or recovered · the four endings
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


def may_move(before: RunStatus, after: RunStatus) -> bool:
    return after in MOVES[before]


def is_suspect(crashes: int) -> bool:
    return crashes >= SUSPECT_CRASHES


def next_in_turn(pending: Sequence[Run]) -> list[Run]:
    """Of the pending runs of a thread, in the order of acceptance, those that may begin next (spec 5.8); the first
    that is due does. In the order of their due times."""
    prompt = [run for run in pending if not run.delayed][:1]
    delayed = [] if any(run.attempt > 0 for run in pending) else [run for run in pending if run.delayed]
    return sorted(prompt + sorted(delayed, key=_due_time)[:1], key=_due_time)


def _due_time(run: Run) -> tuple[int, int]:
    return run.due_at, run.queued_seq


def belonging(metadata: dict[str, Any]) -> dict[str, Any]:
    """What a thread's metadata say of the graph and the assistant whose runs it has."""
    return {key: metadata[key] for key in _BELONGING if key in metadata}


def given_back(metadata: dict[str, Any], run: Run, was: dict[str, Any]) -> dict[str, Any]:
    """The metadata of a thread from which a run is taken back, before which that `was`; somebody may have said
    something else since."""
    if belonging(metadata) != {"graph_id": run.graph_id, "assistant_id": run.assistant_id}:
        return metadata
    return {key: value for key, value in metadata.items() if key not in _BELONGING} | was


_BELONGING = ("graph_id", "assistant_id")


def user_interrupt(action: str) -> dict[str, str]:
    """What a cancelled run leaves on its thread as the error, in the words the official server uses."""
    return {
        "error": "UserInterrupt" if action == "interrupt" else "UserRollback",
        "message": f"{action} requested via POST /threads/{{thread_id}}/runs/{{run_id}}/cancel",
    }
