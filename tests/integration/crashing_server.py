"""`threadwire` with a crash point: with CRASH_AT="point:n" it kills itself the n-th time it reaches that point."""

import os
import signal
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from threadwire.cli import main
from threadwire.core.records import Lease, Run, Suspects
from threadwire.engine.worker import Worker
from threadwire.engine.worker_pool import WorkerPool
from threadwire.storage.sqlite import checkpoint_rows, crons, runs, writer
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
ANSWER_POINTS = ("before-answer-commit", "after-answer-commit")


class Countdown:
    def __init__(self, times: int) -> None:
        self.left = times

    def tick(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def before(owner: Any, name: str, countdown: Countdown, when: Callable[..., bool] = lambda *_: True) -> None:
    original = getattr(owner, name)

    async def crashing(self: Any, *args: Any, **kwargs: Any) -> Any:
        countdown.tick()
        return await original(self, *args, **kwargs)

    setattr(owner, name, crashing)


def after(owner: Any, name: str, countdown: Countdown) -> None:
    original = getattr(owner, name)

    async def crashing(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = await original(self, *args, **kwargs)
        if result:
            countdown.tick()
        return result

    setattr(owner, name, crashing)


def before_claim(countdown: Countdown) -> None:
    """Crash before a claim. No run starts as it is accepted, as if the worker had no free slot."""
    original = SqliteRuns.claim
    for workers in (Worker, WorkerPool):
        workers.reserve_slot = lambda self, thread_id: nullcontext(None)  # type: ignore[method-assign, assignment]

    async def crashing(self: SqliteRuns, limit: int, lease: Lease, *, now: int, suspects: Suspects = "one") -> Any:
        due = await self.next_due()
        if due is not None and due <= now:
            countdown.tick()
        return await original(self, limit, lease, now=now, suspects=suspects)

    SqliteRuns.claim = crashing  # type: ignore[method-assign]


def before_start(countdown: Countdown) -> None:
    """Crash after a run was claimed, before it is executed."""
    original = Worker.start

    def crashing(self: Worker, run: Run) -> None:
        countdown.tick()
        original(self, run)

    Worker.start = crashing  # type: ignore[method-assign]


def around_commit_of(module: Any, name: str, countdown: Countdown, *, crash_before: bool) -> None:
    """Crash before or after the commit of a transaction that called `module.name`."""
    operation = getattr(module, name)
    commit = writer.Transaction.commit
    marked: set[int] = set()

    def marking(*args: Any) -> Any:
        marked.add(id(next(each for each in args if isinstance(each, writer.Transaction))))
        return operation(*args)

    def committing(self: writer.Transaction) -> None:
        is_marked = id(self) in marked
        marked.discard(id(self))
        if is_marked and crash_before:
            countdown.tick()
        commit(self)
        if is_marked and not crash_before:
            countdown.tick()

    setattr(module, name, marking)
    writer.Transaction.commit = committing  # type: ignore[method-assign]


def around_terminal_commit(countdown: Countdown, *, crash_before: bool) -> None:
    original = writer.Writer.do_and_release
    module = type("Ending", (), {})

    async def marking(self: writer.Writer, fence: Any, operation: Any) -> bool:
        return await original(self, fence, lambda transaction, thread: module.end(operation, transaction, thread))

    module.end = staticmethod(lambda operation, transaction, thread: operation(transaction, thread))
    around_commit_of(module, "end", countdown, crash_before=crash_before)
    writer.Writer.do_and_release = marking  # type: ignore[method-assign]


def arm(point: str, times: int) -> None:
    countdown = Countdown(times)
    match point:
        case "accepted-not-claimed":
            before_claim(countdown)
        case "claimed":
            before_start(countdown)
        case "before-checkpoint-commit":
            around_commit_of(checkpoint_rows, "_store_checkpoint", countdown, crash_before=True)
        case "after-checkpoint-commit":
            around_commit_of(checkpoint_rows, "_store_checkpoint", countdown, crash_before=False)
        case "before-terminal-commit":
            around_terminal_commit(countdown, crash_before=True)
        case "after-terminal-commit":
            around_terminal_commit(countdown, crash_before=False)
        case "before-recovery":
            before(SqliteRuns, "reclaim", countdown)
        case "after-recovery":
            after(SqliteRuns, "reclaim", countdown)
        case "before-slot-commit":
            around_commit_of(crons, "_fire", countdown, crash_before=True)
        case "after-slot-commit":
            around_commit_of(crons, "_fire", countdown, crash_before=False)
        case "before-answer-commit":
            around_commit_of(runs, "accept_run", countdown, crash_before=True)
        case "after-answer-commit":
            around_commit_of(runs, "accept_run", countdown, crash_before=False)
        case _:
            raise SystemExit(f"Unknown crash point: {point}")


if __name__ == "__main__":
    name, _, count = os.environ["CRASH_AT"].partition(":")
    arm(name, int(count or 1))
    main()
