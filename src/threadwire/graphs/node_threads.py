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

USUAL_THREADS = 64
MOST_THREADS = 1024
PATIENCE = 0.2
"""Seconds without a call that returned, after which those that wait are given threads beyond the usual."""

logger = structlog.get_logger("threadwire.worker")


class NodeThreads:
    """As many threads as there are calls at once, up to the usual number. Beyond it a call waits for another to return;
    but not if none does. They may be waiting for the very call that waits, as a sync entrypoint does for its tasks, or
    have been cancelled and never come back.

    It knows which attempt a call belongs to, because a cancelled call goes on until it returns: its thread must not be
    given to another run before that."""

    def __init__(self, usual: int = USUAL_THREADS, most: int = MOST_THREADS) -> None:
        self._usual = usual
        self._most = most
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._guard = threading.Lock()
        # Everything below is changed under the guard.
        self._threads = 0
        self._free = 0
        """Threads that wait for a call; below zero, calls that wait for a thread."""
        self._made = 0
        """How many calls have returned."""
        self._watched = False
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
            self._find_thread(call)
        return call

    def drop(self, call: "Call") -> None:
        """It was cancelled: if it is not running yet, it never will."""
        with self._guard:
            if call.taken:
                return
            call.taken = True
        self._returned(call.fence)

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

    # Having enough of them

    def _find_thread(self, call: "Call") -> None:
        try:
            if not self._start_thread(self._usual):
                self._watch(call.get_loop())
        except RuntimeError as error:
            logger.warning("no_thread_for_sync_code", reason=str(error), threads=self._threads)
            if self._threads == 0 and self._take(call):  # or one of the others will make it
                self._returned(call.fence)
                raise

    def _start_thread(self, limit: int) -> bool:
        """Whether a call that waits will be taken by a new thread."""
        with self._guard:
            if self._free >= 0 or self._threads >= limit:
                return False
            self._threads += 1
            self._free += 1
        try:
            threading.Thread(target=self._live, name="threadwire-node", daemon=True).start()
        except RuntimeError:
            with self._guard:
                self._threads -= 1
                self._free -= 1
            raise
        return True

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """See to it that what waits is not waiting for ever."""
        with self._guard:
            if self._watched or self._free >= 0:
                return
            self._watched = True
        loop.call_later(PATIENCE, self._relieve, loop, self._made)

    def _relieve(self, loop: asyncio.AbstractEventLoop, made_before: int) -> None:
        with self._guard:
            self._watched = False
            waiting = -self._free if self._made == made_before else 0
        if waiting > 0:
            logger.warning(
                "sync_code_waits", calls=waiting, threads=self._threads, hint="No sync node has returned for a while."
            )
            with suppress(RuntimeError):  # there can be no more of them
                while self._start_thread(self._most):
                    pass
        self._watch(loop)

    # The threads themselves

    def _live(self) -> None:
        while (call := self._calls.get()) is not None:
            if self._take(call):
                result, error = _outcome(*call.work())
                is_needed = self._free_again()
                self._returned(call.fence)
                call.tell(result, error)
                del result, error
            else:
                is_needed = self._free_again()
            del call  # or it would be kept until the next one comes
            if not is_needed:
                return

    def _take(self, call: "Call") -> bool:
        with self._guard:
            if call.taken or self._closed:
                return False
            call.taken = True
            return True

    def _free_again(self) -> bool:
        """Whether the thread is still needed."""
        with self._guard:
            self._made += 1
            if self._threads > self._usual and self._free >= 0:
                self._threads -= 1
                return False
            self._free += 1
            return True

    def _returned(self, fence: Fence | None) -> None:
        """Count a call off."""
        with self._guard:
            self._running[fence] -= 1
            if self._running[fence]:
                return
            del self._running[fence]
            tell = None if fence is None else self._idle.pop(fence, None)
        if tell is not None:
            with suppress(RuntimeError):  # whoever waited had a loop that is closed by now
                tell()


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
        self.taken = False
        """By a thread, or by nobody ever; changed under the guard of the threads."""
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
        call_on(self.get_loop(), self._settle, result, error)

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


def call_on(home: asyncio.AbstractEventLoop, callback: Callable[..., object], *arguments: Any) -> None:
    """From any thread, and perhaps from work that the home's loop has not waited for."""
    with suppress(RuntimeError):  # it is closed, so nobody waits there
        home.call_soon_threadsafe(callback, *arguments)


class NodeLoop(Loop):
    """An event loop whose usual executor are these threads."""

    def __init__(self, threads: NodeThreads) -> None:
        super().__init__()
        self._node_threads = threads

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        if executor is None:
            return self._node_threads.call(self, func, args)
        return super().run_in_executor(executor, func, *args)
