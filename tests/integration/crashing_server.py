"""`threadwire`, with a point at which it kills itself: CRASH_AT="point:n" dies the n-th time it gets there."""

import os
import signal
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from threadwire.cli import main
from threadwire.core.records import Run
from threadwire.engine.worker import Worker
from threadwire.storage.sqlite import checkpoints, crons, writer
from threadwire.storage.sqlite.runs import SqliteRuns

POINTS = (
    "accepted-not-claimed",
    "claimed",
    "before-checkpoint-commit",
    "after-checkpoint-commit",
    "before-terminal-commit",
    "after-terminal-commit",
    "before-recovery",
    "after-recovery",
)
SLOT_POINTS = ("before-slot-commit", "after-slot-commit")


class Countdown:
    def __init__(self, times: int) -> None:
        self.left = times

    def tick(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def before(owner: Any, name: str, countdown: Countdown, when: Callable[..., bool] = lambda *_: True) -> None:
    original = getattr(owner, name)

    async def dying(self: Any, *args: Any, **kwargs: Any) -> Any:
        countdown.tick()
        return await original(self, *args, **kwargs)

    setattr(owner, name, dying)


def after(owner: Any, name: str, countdown: Countdown) -> None:
    original = getattr(owner, name)

    async def dying(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = await original(self, *args, **kwargs)
        if result:
            countdown.tick()
        return result

    setattr(owner, name, dying)


def before_claim_of_something(countdown: Countdown) -> None:
    """No run is begun as it is accepted, as when the worker is full; it dies before it claims one."""
    original = SqliteRuns.claim
    Worker.place_for = lambda self, thread_id: nullcontext(None)  # type: ignore[method-assign, assignment]

    async def dying(self: SqliteRuns, limit: int, *, now: int, **kwargs: Any) -> Any:
        due = await self.next_due(but_not=kwargs.get("but_not", frozenset()))
        if due is not None and due <= now:
            countdown.tick()
        return await original(self, limit, now=now, **kwargs)

    SqliteRuns.claim = dying  # type: ignore[method-assign]


def before_begin(countdown: Countdown) -> None:
    """Claimed, but nothing has been carried out."""
    original = Worker.begin

    def dying(self: Worker, run: Run) -> None:
        countdown.tick()
        original(self, run)

    Worker.begin = dying  # type: ignore[method-assign]


def around_commit_of(module: Any, name: str, countdown: Countdown, *, dies_before: bool) -> None:
    """Die around the commit of a transaction in which `module.name` took part."""
    operation = getattr(module, name)
    commit = writer.Transaction.commit
    marked: set[int] = set()

    def marking(*args: Any) -> Any:
        marked.add(id(next(each for each in args if isinstance(each, writer.Transaction))))
        return operation(*args)

    def committing(self: writer.Transaction) -> None:
        concerned = id(self) in marked
        marked.discard(id(self))
        if concerned and dies_before:
            countdown.tick()
        commit(self)
        if concerned and not dies_before:
            countdown.tick()

    setattr(module, name, marking)
    writer.Transaction.commit = committing  # type: ignore[method-assign]


def around_terminal_commit(countdown: Countdown, *, dies_before: bool) -> None:
    original = writer.Writer.do_and_let_go
    module = type("Ending", (), {})

    async def marking(self: writer.Writer, fence: Any, operation: Any) -> bool:
        return await original(self, fence, lambda transaction, thread: module.end(operation, transaction, thread))

    module.end = staticmethod(lambda operation, transaction, thread: operation(transaction, thread))
    around_commit_of(module, "end", countdown, dies_before=dies_before)
    writer.Writer.do_and_let_go = marking  # type: ignore[method-assign]


def arm(point: str, times: int) -> None:
    countdown = Countdown(times)
    match point:
        case "accepted-not-claimed":
            before_claim_of_something(countdown)
        case "claimed":
            before_begin(countdown)
        case "before-checkpoint-commit":
            around_commit_of(checkpoints, "_store_checkpoint", countdown, dies_before=True)
        case "after-checkpoint-commit":
            around_commit_of(checkpoints, "_store_checkpoint", countdown, dies_before=False)
        case "before-terminal-commit":
            around_terminal_commit(countdown, dies_before=True)
        case "after-terminal-commit":
            around_terminal_commit(countdown, dies_before=False)
        case "before-recovery":
            before(SqliteRuns, "recover", countdown)
        case "after-recovery":
            after(SqliteRuns, "recover", countdown)
        case "before-slot-commit":
            around_commit_of(crons, "_fire", countdown, dies_before=True)
        case "after-slot-commit":
            around_commit_of(crons, "_fire", countdown, dies_before=False)
        case _:
            raise SystemExit(f"no such point: {point}")


if __name__ == "__main__":
    name, _, count = os.environ["CRASH_AT"].partition(":")
    arm(name, int(count or 1))
    main()
