"""The vocabulary of the thread log: what an entry is, and which kinds there are (spec/log.md, sections 1 and 6)."""

from enum import StrEnum
from typing import Any, NamedTuple

from threadwire.core.ids import RunId, Seq
from threadwire.errors import InvalidCursor

Json = Any
"""A value made of dict, list, str, int, float, bool and None: what `core.json.native` returns."""

Namespace = tuple[str, ...]


class Kind(StrEnum):
    RUN_QUEUED = "run.queued"
    RUN_STARTED = "run.started"
    RUN_ENDED = "run.ended"
    MESSAGES = "messages"
    CUSTOM = "custom"
    DISPATCHED = "dispatched"
    TOOL = "tool"
    UPDATES = "updates"
    STATE = "state"
    STATE_RESET = "state.reset"
    INPUT_REQUESTED = "input.requested"
    INPUT_ANSWERED = "input.answered"
    TASK = "task"
    CHECKPOINT = "checkpoint"
    TASKS = "tasks"
    CHECKPOINTS = "checkpoints"
    DEBUG = "debug"
    EVENTS = "events"


class Draft(NamedTuple):
    """An entry before the log has given it a number."""

    kind: str
    data: Json
    ns: Namespace = ()
    at: int = 0


class Entry(NamedTuple):
    seq: Seq
    run_id: RunId | None
    attempt: int
    at: int
    ns: Namespace
    kind: str
    data: Json


class Fence(NamedTuple):
    """Who may write a thread: one attempt of one run."""

    run_id: RunId
    attempt: int


START = Seq(0)


def parse_cursor(text: str) -> Seq:
    """The position a client says it has reached; 0 and -1 are the start (spec 4.3)."""
    if text == "-1":
        return START
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise InvalidCursor(f"Invalid Last-Event-ID: {text[:40]!r} is not a sequence number")
    return Seq(int(text))


def require_given(cursor: Seq, last: Seq) -> None:
    """Raise `InvalidCursor` for a position that no entry of the log has had (spec 4.3a)."""
    if cursor > last:
        raise InvalidCursor(
            f"Invalid Last-Event-ID: {cursor} was never given on this thread, whose last is {last}. It may be of a"
            " thread with the same id that was deleted."
        )
