"""The threads on which sync nodes and edges run, and a loop that calls there.

LangGraph calls them through `loop.run_in_executor`, for every super-step. Usually that is a future of a thread pool,
wrapped in one of the loop, and takes half as long again; here a call is the loop's own future.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import structlog
from uvloop import Loop

from threadwire.core.entries import Fence
from threadwire.graphs.current_attempt import current_attempt

MOST_THREADS = 64
MOST_SPARE = 192
"""Threads in place of those whose call was cancelled and does not return."""

logger = structlog.get_logger("threadwire.worker")


class NodeThreads:
    """As many threads as there are calls at once, up to a limit. It knows which attempt a call belongs to, because a
    cancelled call goes on until it returns: its thread must not be given to another run before that. Nor does it count
    among the threads there may be, or a few that never return would keep every other run waiting."""

    def __init__(self, most: int = MOST_THREADS) -> None:
        self._most = most
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._guard = threading.Lock()
        # Everything below is changed under the guard.
        self._threads = 0
        self._free = 0
        """Threads that wait for a call; below zero, calls that wait for a thread."""
        self._abandoned = 0
        """Calls that were cancelled and have not returned."""
        self._told = False
        self._closed = False
        self._running: dict[Fence | None, int] = {}
        """How many calls of an attempt have not returned."""
        self._idle: dict[Fence, Callable[[], object]] = {}

    def call(self, loop: asyncio.AbstractEventLoop, function: Callable[..., Any], arguments: tuple[Any, ...]) -> "Call":
        call = Call(self, loop, function, arguments, current_attempt.get())
        with self._guard:
            if self._closed:
                raise RuntimeError("The threads for sync code are closed.")
            self._running[call.fence] = self._running.get(call.fence, 0) + 1
            self._free -= 1
        self._calls.put(call)
        if self._free < 0:
            self._start_thread(call)
        return call

    def drop(self, call: "Call") -> None:
        """It was cancelled: if it is not running yet, it never will; if it is, its thread is not counted on."""
        with self._guard:
            runs = call.taken
            if runs:
                call.abandoned = not call.returned
                self._abandoned += call.abandoned
            call.taken = True
        if not runs:
            self._returned(call.fence)
        elif self._free < 0:
            self._start_thread()

    def when_idle(self, fence: Fence, tell: Callable[[], object]) -> bool:
        """Whether no call of this attempt is still running; if one is, `tell` is called (from its thread) once none
        is."""
        with self._guard:
            if fence not in self._running:
                return True
            self._idle[fence] = tell
            return False

    def close(self) -> None:
        """Let the threads go, each when its call has returned. What is still waiting is never called."""
        with self._guard:
            self._closed = True
        for _ in range(self._threads):
            self._calls.put(None)

    def _start_thread(self, call: "Call | None" = None) -> None:
        """For a call that waits, if there may be another thread. If there cannot, others will take it; if there are no
        others, it fails."""
        with self._guard:
            if self._free >= 0 or self._threads >= self._limit:
                self._tell_of_waiting()
                return
            self._threads += 1
            self._free += 1
        try:
            threading.Thread(target=self._live, name="threadwire-node", daemon=True).start()
        except RuntimeError as error:
            with self._guard:
                self._threads -= 1
                self._free -= 1
                alone = self._threads == 0
            logger.warning("no_thread_for_sync_code", reason=str(error), threads=self._threads)
            if alone and call is not None and self._take(call):
                self._returned(call.fence)
                raise

    @property
    def _limit(self) -> int:
        return self._most + min(self._abandoned, MOST_SPARE)

    def _tell_of_waiting(self) -> None:
        if self._free < 0 and not self._told:
            self._told = True
            logger.warning(
                "sync_code_waits",
                threads=self._threads,
                cancelled_but_running=self._abandoned,
                hint="Every thread for sync nodes is taken; calls without a timeout may never return.",
            )

    def _live(self) -> None:
        while (call := self._calls.get()) is not None:
            if self._take(call):
                result, error = _outcome(*call.work())
                goes_on = self._returned(call.fence, by=call)
                call.tell(result, error)
                del result, error
                if not goes_on:
                    return
            else:
                with self._guard:
                    self._free += 1
            del call  # or it would be kept until the next one comes

    def _take(self, call: "Call") -> bool:
        with self._guard:
            if call.taken or self._closed:
                return False
            call.taken = True
            return True

    def _returned(self, fence: Fence | None, by: "Call | None" = None) -> bool:
        """Count a call off. Whether the thread that made it is still needed."""
        with self._guard:
            goes_on = by is None or self._freed(by)
            self._running[fence] -= 1
            if self._running[fence]:
                return goes_on
            del self._running[fence]
            tell = None if fence is None else self._idle.pop(fence, None)
        if tell is not None:
            with suppress(RuntimeError):  # whoever waited had a loop that is closed by now
                tell()
        return goes_on

    def _freed(self, call: "Call") -> bool:
        call.returned = True
        self._abandoned -= call.abandoned
        if self._threads > self._limit and self._free >= 0:
            self._threads -= 1
            return False
        self._free += 1
        self._told = self._told and self._free < 0
        return True


class Call(asyncio.Future[Any]):
    """What a function on another thread will return or raise."""

    def __init__(
        self,
        threads: NodeThreads,
        loop: asyncio.AbstractEventLoop,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        fence: Fence | None,
    ) -> None:
        super().__init__(loop=loop)
        self.fence = fence
        # These are changed under the guard of the threads.
        self.taken = False
        self.abandoned = False
        self.returned = False
        self._threads = threads
        self._work: tuple[Callable[..., Any], tuple[Any, ...]] | None = (function, arguments)

    def work(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The function and its arguments, which are let go of: they may be large, and the future is kept for long."""
        work, self._work = self._work, None
        assert work is not None
        return work

    def cancel(self, msg: Any | None = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled:
            self._threads.drop(self)
        return cancelled

    def tell(self, result: Any, error: BaseException | None) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self.get_loop().call_soon_threadsafe(self._settle, result, error)

    def _settle(self, result: Any, error: BaseException | None) -> None:
        if self.done():
            return
        if error is None:
            self.set_result(result)
        else:
            self.set_exception(error)


def _outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, BaseException | None]:
    """A function without its call, which the traceback of an error would otherwise hold in a circle."""
    try:
        return function(*arguments), None
    except StopIteration as error:  # which no future may be given
        raised = RuntimeError("The function raised StopIteration")
        raised.__cause__ = error
        return None, raised
    except BaseException as error:
        return None, error


class NodeLoop(Loop):
    """An event loop whose usual executor are these threads."""

    def __init__(self, threads: NodeThreads) -> None:
        super().__init__()
        self._node_threads = threads

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        if executor is None:
            return self._node_threads.call(self, func, args)
        return super().run_in_executor(executor, func, *args)
