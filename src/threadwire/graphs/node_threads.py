"""The threads that run sync nodes and edges, and an event loop that uses them as its default executor.

LangGraph calls sync code through `loop.run_in_executor` in every step. By default that creates a thread pool
future and wraps it in a future of the loop, which takes 50 % longer. Here a call is a future of the loop itself.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from contextvars import Context
from queue import SimpleQueue
from typing import Any

import structlog
from uvloop import Loop

from threadwire.core.entries import Fence
from threadwire.graphs.current_attempt import current_attempt
from threadwire.graphs.langgraph_private.direct_stream import PartSink

SOFT_LIMIT = 64
HARD_LIMIT = 1024
STALL_TIMEOUT = 0.2
"""If no call returns for this many seconds, waiting calls get threads beyond the soft limit."""

logger = structlog.get_logger("threadwire.worker")


class NodeThreads:
    """One thread per concurrent call, up to the soft limit.

    Beyond the limit a call waits until another one returns. If none returns, more threads are started: the running
    calls may be waiting for the queued one, as a sync entrypoint does for its tasks, or may have been cancelled and
    never return.

    Calls are counted per attempt, because a cancelled call keeps running until it returns. Until then, no other run may
    start on the attempt's conversation thread.
    """

    def __init__(self, soft_limit: int = SOFT_LIMIT, hard_limit: int = HARD_LIMIT) -> None:
        self._soft_limit = soft_limit
        self._hard_limit = hard_limit
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._lock = threading.Lock()
        # Everything below is changed under the lock.
        self._threads = 0
        self._free = 0
        """The number of threads that wait for a call; if negative, of calls that wait for a thread."""
        self._completed = 0
        """The number of calls that have returned."""
        self._stall_check_scheduled = False
        self._closed = False
        self._running: dict[Fence | None, int] = {}
        """The number of calls per attempt that have not returned."""
        self._idle_callbacks: dict[Fence, Callable[[], object]] = {}

    def call(self, loop: asyncio.AbstractEventLoop, function: Callable[..., Any], arguments: tuple[Any, ...]) -> "Call":
        call = Call(self, loop, function, arguments, current_attempt.get())
        with self._lock:
            if self._closed:
                raise RuntimeError("The node threads are closed.")
            self._running[call.fence] = self._running.get(call.fence, 0) + 1
            self._free -= 1
        self._calls.put(call)
        if self._free < 0:
            self._provide_thread(call)
        return call

    def drop(self, call: "Call") -> None:
        """Discard a cancelled call that has not started yet."""
        with self._lock:
            if call.taken:
                return
            call.taken = True
        self._call_finished(call.fence)

    def when_idle(self, fence: Fence, callback: Callable[[], object]) -> bool:
        """Return True if no call of this attempt is running.

        Otherwise `callback` is called once the last one has returned, on that call's thread.
        """
        with self._lock:
            if fence not in self._running:
                return True
            self._idle_callbacks[fence] = callback
            return False

    def close(self) -> None:
        """Let each thread exit after its current call. Calls that are still waiting are never made."""
        with self._lock:
            self._closed = True
        for _ in range(self._threads):
            self._calls.put(None)

    # -- starting threads ----------------------------------------------------------------------------------------

    def _provide_thread(self, call: "Call") -> None:
        try:
            if not self._start_thread(self._soft_limit):
                self._schedule_stall_check(call.get_loop())
        except RuntimeError as error:
            logger.warning("node_thread_start_failed", error=str(error), threads=self._threads)
            if self._threads == 0 and self._take(call):  # otherwise one of the existing threads will run it
                self._call_finished(call.fence)
                raise

    def _start_thread(self, limit: int) -> bool:
        """Start a thread if a call is waiting and the limit allows it. Return whether one was started."""
        with self._lock:
            if self._free >= 0 or self._threads >= limit:
                return False
            self._threads += 1
            self._free += 1
        try:
            threading.Thread(target=self._run_calls, name="threadwire-node", daemon=True).start()
        except RuntimeError:
            with self._lock:
                self._threads -= 1
                self._free -= 1
            raise
        return True

    def _schedule_stall_check(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make sure that no waiting call waits forever."""
        with self._lock:
            if self._stall_check_scheduled or self._free >= 0:
                return
            self._stall_check_scheduled = True
        loop.call_later(STALL_TIMEOUT, self._check_stall, loop, self._completed)

    def _check_stall(self, loop: asyncio.AbstractEventLoop, completed_before: int) -> None:
        with self._lock:
            self._stall_check_scheduled = False
            waiting = -self._free if self._completed == completed_before else 0
        if waiting > 0:
            logger.warning(
                "node_threads_stalled",
                calls=waiting,
                threads=self._threads,
                reason="No sync node has returned for a while.",
            )
            with suppress(RuntimeError):  # the operating system allows no more threads
                while self._start_thread(self._hard_limit):
                    pass
        self._schedule_stall_check(loop)

    # -- on the threads ------------------------------------------------------------------------------------------

    def _run_calls(self) -> None:
        while (call := self._calls.get()) is not None:
            if self._take(call):
                result, error = _outcome(*call.work())
                is_needed = self._thread_finished_call()
                self._call_finished(call.fence)
                call.resolve(result, error)
                del result, error
            else:
                is_needed = self._thread_finished_call()
            del call  # otherwise this frame keeps it alive until the next call arrives
            if not is_needed:
                return

    def _take(self, call: "Call") -> bool:
        with self._lock:
            if call.taken or self._closed:
                return False
            call.taken = True
            return True

    def _thread_finished_call(self) -> bool:
        """Count the calling thread as free. Return False if it is not needed any more and must exit."""
        with self._lock:
            self._completed += 1
            if self._threads > self._soft_limit and self._free >= 0:
                self._threads -= 1
                return False
            self._free += 1
            return True

    def _call_finished(self, fence: Fence | None) -> None:
        """Remove a call from its attempt; call the idle callback if it was the last one."""
        with self._lock:
            self._running[fence] -= 1
            if self._running[fence]:
                return
            del self._running[fence]
            callback = None if fence is None else self._idle_callbacks.pop(fence, None)
        if callback is not None:
            with suppress(RuntimeError):  # the event loop of the waiting code may be closed
                callback()


class Call(asyncio.Future[Any]):
    """The result of a function that runs on another thread."""

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
        """Set when a thread takes the call or when it is cancelled; changed under the lock of `NodeThreads`."""
        self._threads = threads
        self._work: tuple[Callable[..., Any], tuple[Any, ...]] | None = (function, arguments)

    def work(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Return the function and its arguments and release them: they may be large, and the future may live long."""
        work, self._work = self._work, None
        assert work is not None
        return work

    def cancel(self, msg: Any | None = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled:
            self._threads.drop(self)
        return cancelled

    def resolve(self, result: Any, error: BaseException | None) -> None:
        """Set the result or the exception, from any thread."""
        call_threadsafe(self.get_loop(), self._resolve, result, error)

    def _resolve(self, result: Any, error: BaseException | None) -> None:
        if self.done():
            return
        if error is None:
            self.set_result(result)
        else:
            self.set_exception(error)


def _outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, BaseException | None]:
    """Call the function. Separate from `_run_calls`, so that a traceback does not form a reference cycle with the
    `Call`."""
    try:
        return function(*arguments), None
    except StopIteration as error:  # cannot be set on a future
        raised = RuntimeError("The function raised StopIteration")
        raised.__cause__ = error
        return None, raised
    except BaseException as error:
        return None, error


def call_threadsafe(loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *arguments: Any) -> None:
    """Schedule a callback on a loop from any thread; a no-op if the loop is closed."""
    with suppress(RuntimeError):  # a closed loop has nothing left that could wait for the callback
        loop.call_soon_threadsafe(callback, *arguments)


class NodeLoop(Loop):
    """An event loop whose default executor is a `NodeThreads`, and which passes on parts of a stream immediately."""

    def __init__(self, threads: NodeThreads) -> None:
        super().__init__()
        self._node_threads = threads

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        if executor is None:
            return self._node_threads.call(self, func, args)
        return super().run_in_executor(executor, func, *args)

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Any:
        if type(callback) is PartSink and asyncio._get_running_loop() is self:
            return callback(*args)  # LangGraph does not use the handle
        return super().call_soon_threadsafe(callback, *args, context=context)
