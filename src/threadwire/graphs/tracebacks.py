"""Tracebacks of the project's errors, as text for the log and the console."""

from collections.abc import Iterator
from traceback import StackSummary, TracebackException

from threadwire.graphs.own_code import is_own_code

_full = False


def configure_tracebacks(*, full: bool) -> None:
    """Set whether tracebacks include the lines of libraries. Applies to the whole process, like the log level."""
    global _full
    _full = full


def render_traceback(error: BaseException) -> str:
    """Return the traceback of an error and of its causes. Unless configured otherwise, it has only the lines of the
    project's own code: LangGraph adds about twenty frames to every node. If no line is the project's own, it has all.

    The values of variables are never included: they are user data, and may be large.
    """
    rendered = TracebackException.from_exception(error, compact=True)
    hidden = 0 if _full else _hide_libraries(rendered)
    text = "".join(rendered.format()).rstrip("\n")
    return f"{text}\n({hidden} lines of libraries hidden; THREADWIRE_LOG_LEVEL=debug shows them)" if hidden else text


def fits_one_line(error: BaseException) -> bool:
    """Whether the message and one line of the project's code say everything that the traceback says."""
    rendered = TracebackException.from_exception(error, compact=True)
    own = [frame for frame in rendered.stack if is_own_code(frame.filename)]
    is_alone = len(list(_chain(rendered))) == 1
    return not _full and is_alone and len(own) <= 1 and len(str(rendered).splitlines()) <= 1


def _hide_libraries(rendered: TracebackException) -> int:
    """Remove the frames of libraries. Return their number."""
    errors = list(_chain(rendered))
    if not any(is_own_code(frame.filename) for each in errors for frame in each.stack):
        return 0
    hidden = 0
    for each in errors:
        own = [frame for frame in each.stack if is_own_code(frame.filename)]
        hidden += len(each.stack) - len(own)
        each.stack = StackSummary.from_list(own)
    return hidden


def _chain(rendered: TracebackException) -> Iterator[TracebackException]:
    """The error, its causes, and the errors of a group."""
    yield rendered
    for inner in (rendered.__cause__, rendered.__context__, *(rendered.exceptions or ())):
        if inner is not None:
            yield from _chain(inner)
