"""The vocabulary of the thread log: what an entry is, and which kinds there are (spec/log.md, sections 1 and 6)."""

from enum import StrEnum
from typing import Any, NamedTuple

from threadwire.core.ids import RunId, Seq
from threadwire.errors import InvalidCursor

Json = Any
"""A value that consists of dict, list, str, int, float, bool and None, as `core.json.native` returns it."""

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
    WIDGET_FROZEN = "widget.frozen"
    NOTE = "note"
    TASK = "task"
    CHECKPOINT = "checkpoint"
    TASKS = "tasks"
    CHECKPOINTS = "checkpoints"
    DEBUG = "debug"
    EVENTS = "events"


MESSAGES = Kind.MESSAGES.value
"""For encoders: nearly every entry is of this kind, and looking up an enum member takes as long as encoding a token."""


class Draft(NamedTuple):
    """An entry that the log has not numbered yet."""

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
    """The attempt that may write to a thread."""

    run_id: RunId
    attempt: int


START = Seq(0)


def parse_cursor(text: str) -> Seq:
    """Parse the position that a client has reached; 0 and -1 are the start (spec 4.3)."""
    if text == "-1":
        return START
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise InvalidCursor(f"Invalid Last-Event-ID: {text[:40]!r} is not a sequence number")
    return Seq(int(text))


def check_cursor(cursor: Seq, last: Seq) -> None:
    """Raise `InvalidCursor` for a position beyond the last entry of the log (spec 4.3a)."""
    if cursor > last:
        raise InvalidCursor(
            f"Invalid Last-Event-ID: {cursor} is beyond the last entry of this thread, {last}."
            " It may belong to a deleted thread with the same id."
        )
