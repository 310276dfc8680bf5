"""User loops: event loops for the project's code, each in its own thread, so that a blocking node never blocks the API.

Projects keep async clients at module level, so all runs of a worker share one loop. If a node blocks it, a watchdog
thread notices the missing heartbeat, inspects the loop's stack and logs the node with file and line.

An exception that would end the process (`sys.exit` in a tool) only ends the work that raised it. If a loop fails
nevertheless, everything that waits for it gets an exception.
"""

import asyncio
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass
from functools import partial
from types import FrameType, TracebackType
from typing import Any, TypeVar

import anyio
import structlog
from anyio import CancelScope

from threadwire.errors import LoopAbandoned, LoopFailed
from threadwire.graphs.langgraph_private.node_on_stack import node_of
from threadwire.graphs.node_threads import NodeLoop, NodeThreads, call_threadsafe
from threadwire.graphs.own_code import is_own_code

T = TypeVar("T")

BLOCKED_AFTER = 0.5
"""Seconds without a heartbeat after which a loop counts as blocked."""

CLEANUP_TIMEOUT = 2.0
"""Seconds that the remaining tasks get to clean up when a loop is closed."""

CLOSE_TIMEOUT = CLEANUP_TIMEOUT + 0.5
"""Seconds to wait for a loop to close. A blocked one does not close; its thread ends with the process."""

logger = structlog.get_logger("threadwire.worker")


class WorkCancelled(Exception):
    """The work on a user loop was cancelled, by its caller or by its own code."""


class LoopBlocked(Exception):
    """The work was withdrawn before it started, because other work blocks the user loop."""


class WorkExited(Exception):
    """The work on a user loop raised an exception that would end the process, such as `SystemExit`.

    The original is the `__cause__`. Raised in the caller, it would end the caller's loop too.
    """


def work_exited(error: BaseException) -> WorkExited:
    exited = WorkExited(f"The project's code raised {type(error).__name__}: {error}")
    exited.__cause__ = error
    return exited


@dataclass(eq=False, slots=True)
class _ShortCall:
    work: Callable[[], Coroutine[Any, Any, Any]]
    done: "asyncio.Future[Any]"
    context: Context
    task: "asyncio.Task[Any] | None" = None

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


class UserLoop:
    def __init__(self, name: str) -> None:
        self.name = name
        self.threads = NodeThreads()
        self._loop = NodeLoop(self.threads)
        self._thread = threading.Thread(target=self._run_thread, name=f"threadwire-{name}", daemon=True)
        self._heartbeat = time.monotonic()
        self._closing = threading.Event()
        self._failure_callbacks: set[Callable[[LoopFailed], object]] = set()
        self.has_failed = False
        self._abandoned = False
        self._short_calls: deque[_ShortCall] = deque()
        """Calls of `run_within` that wait for the loop to start them."""
        self._ended_calls: list[tuple[_ShortCall, asyncio.Task[Any]]] = []
        self._watchdog = threading.Thread(target=self._watch, name=f"threadwire-{name}-watchdog", daemon=True)

    def __enter__(self) -> "UserLoop":
        self._thread.start()
        self._watchdog.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        if not self._abandoned:
            self._call_soon(self._loop.stop)
            self._thread.join(CLOSE_TIMEOUT)
            if self._thread.is_alive():
                self.abandon()
        self.threads.close()

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]], *, unless_blocked: bool = False) -> T:
        """Run `work()` on the user loop and return or raise its outcome once it has really ended.

        If the caller is cancelled, the work is cancelled and still awaited. Raises `WorkCancelled` if the work
        cancelled itself, `LoopFailed` if it can never end because the loop has failed, and `LoopAbandoned` if the loop
        was abandoned. With `unless_blocked`, raises `LoopBlocked` if the loop is blocked before the work has started;
        then it never starts.
        """
        here = asyncio.get_running_loop()
        done: asyncio.Future[T] = here.create_future()
        tasks: list[asyncio.Task[T]] = []
        decided = threading.Lock()
        """Acquired once, either by the loop to start the work or by the caller to withdraw it."""

        def start() -> None:
            if decided.acquire(blocking=False):
                task = self._loop.create_task(work())
                tasks.append(task)
                task.add_done_callback(lambda ended: call_threadsafe(here, _copy_outcome, ended, done))

        def withdraw_if_blocked() -> None:
            if not self.is_blocked:
                watch_start()
            elif decided.acquire(blocking=False) and not done.done():
                done.set_exception(LoopBlocked())

        def watch_start() -> None:
            if not decided.locked():
                here.call_later(BLOCKED_AFTER, withdraw_if_blocked)

        def stop() -> None:
            for task in tasks:
                task.cancel()

        with self._on_failure(partial(_fail_soon, here, done)):
            self._call_soon(start)
            if unless_blocked:
                watch_start()
            try:
                return await asyncio.shield(done)
            except asyncio.CancelledError:
                if decided.acquire(blocking=False):  # the work has not started, and will not
                    raise
                self._call_soon(stop)
                with CancelScope(shield=True):
                    await asyncio.wait([done])
                if isinstance(done.exception(), WorkCancelled):
                    raise
                return done.result()  # the work finished although it was being cancelled

    async def run_within(self, seconds: float, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Like `run`, but limited in time. After that many seconds, or if the caller is cancelled, the work is
        cancelled and not awaited: it may block the loop. Raises `TimeoutError`.

        Meant for short work of many callers: several calls at about the same time wake the loop only once. Each has the
        context variables of its own caller."""
        here = asyncio.get_running_loop()
        call = _ShortCall(work, here.create_future(), copy_context())
        self._short_calls.append(call)
        if len(self._short_calls) == 1:  # otherwise the loop has been woken for those before it
            self._call_soon(self._start_short_calls)
        if self.has_failed or self._abandoned:
            raise LoopFailed() if self.has_failed else LoopAbandoned()
        timer = here.call_later(seconds, _time_out, call.done)
        try:
            return await call.done  # type: ignore[no-any-return]
        except (TimeoutError, asyncio.CancelledError):
            self._call_soon(call.cancel)
            raise
        finally:
            timer.cancel()

    def _start_short_calls(self) -> None:
        while self._short_calls:
            call = self._short_calls.popleft()
            if not call.done.done():  # otherwise the loop was blocked until now, and the caller has left
                call.task = self._loop.create_task(call.work(), context=call.context)
                call.task.add_done_callback(partial(self._end_short_call, call))

    def _end_short_call(self, call: "_ShortCall", ended: "asyncio.Task[Any]") -> None:
        self._ended_calls.append((call, ended))
        if len(self._ended_calls) == 1:
            self._loop.call_soon(self._report_short_calls, call.done.get_loop())

    def _report_short_calls(self, caller: asyncio.AbstractEventLoop) -> None:
        ended, self._ended_calls = self._ended_calls, []
        call_threadsafe(caller, _copy_outcomes, ended)

    async def run_or_await(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Like `run`, but awaits the work directly if the caller is already on the loop."""
        return await work() if asyncio.get_running_loop() is self._loop else await self.run(work)

    def run_blocking(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """`run` for a caller without an event loop: blocks its thread, which must not be the loop's own."""
        if threading.current_thread() is self._thread:
            raise RuntimeError("A sync call on the event loop would deadlock. Await the async method instead.")
        done: Future[T] = Future()

        def start() -> None:
            task = self._loop.create_task(work())
            task.add_done_callback(lambda ended: _copy_outcome(ended, done))

        with self._on_failure(partial(_fail, done)):
            self._call_soon(start)
            return done.result()

    async def wait_for_failure(self) -> None:
        """Wait until the loop fails, then raise `LoopFailed`. Return if the loop is abandoned."""
        here = asyncio.get_running_loop()
        failure: asyncio.Future[None] = here.create_future()
        with suppress(LoopAbandoned), self._on_failure(partial(_fail_soon, here, failure)):
            await failure

    def abandon(self) -> None:
        """Abandon the loop: everything that waits for it gets `LoopAbandoned`.

        A shutdown must end even if a node blocks the loop or ignores cancellation. The work keeps running until the
        process ends.
        """
        self._abandoned = True
        self._notify_failure(LoopAbandoned)

    def blocked_at(self) -> tuple[str | None, str | None] | None:
        """The node and the line that block the loop, as far as they are known; None if the loop is not blocked."""
        return self._location() if self.is_blocked else None

    @property
    def is_blocked(self) -> bool:
        return time.monotonic() - self._heartbeat > BLOCKED_AFTER

    @asynccontextmanager
    async def enter(self, manager: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
        """Enter a context manager on the user loop and yield its value. The same task enters and exits it."""
        here = asyncio.get_running_loop()
        entered: asyncio.Future[T] = here.create_future()
        leave = asyncio.Event()

        async def hold() -> None:
            async with manager as value:
                here.call_soon_threadsafe(entered.set_result, value)
                await leave.wait()

        async def run_hold() -> None:
            with suppress(LoopAbandoned):  # the manager is not exited then; the process ends
                await self.run(hold)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_hold)
            try:
                yield await entered
            finally:
                self._call_soon(leave.set)

    def _call_soon(self, callback: Callable[[], object]) -> None:
        call_threadsafe(self._loop, callback)  # a no-op on a closed loop; `_on_failure` notifies the caller then

    @contextmanager
    def _on_failure(self, callback: Callable[[LoopFailed], object]) -> Iterator[None]:
        """Call `callback`, from any thread, if the loop fails or is abandoned before or during the block."""
        self._failure_callbacks.add(callback)
        # The flags are set before callbacks run and checked after adding one, so no callback is missed.
        if self.has_failed or self._abandoned:
            callback(LoopFailed() if self.has_failed else LoopAbandoned())
        try:
            yield
        finally:
            self._failure_callbacks.discard(callback)

    def _notify_failure(self, error: type[LoopFailed]) -> None:
        for callback in list(self._failure_callbacks):
            callback(error())

    def _run_thread(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.call_soon(self._beat)
        try:
            while not self._closing.is_set() and not self._loop.is_closed():
                self._run_loop()
        finally:
            self.has_failed = True
            self._closing.set()
            self._notify_failure(LoopFailed)
            if not self._loop.is_closed():
                self._clean_up()

    def _run_loop(self) -> None:
        """Run the loop until it is stopped or an exception escapes from it.

        asyncio sets SystemExit and KeyboardInterrupt on the task that raised them and also lets them escape from the
        loop. An error in the loop's own error reporting escapes too. The loop remains usable after both, and closing it
        would end every run.
        """
        try:
            self._loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as error:
            logger.debug("loop_resumed", loop=self.name, error=type(error).__name__)
        except BaseException as error:
            # Without the traceback: rendering it might fail again.
            logger.warning("loop_resumed", loop=self.name, error=type(error).__name__)

    def _clean_up(self) -> None:
        """Cancel the tasks that the project left running and give them a limited time to finish."""
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.wait(tasks, timeout=CLEANUP_TIMEOUT))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def _beat(self) -> None:
        self._heartbeat = time.monotonic()
        self._loop.call_later(BLOCKED_AFTER / 5, self._beat)

    def _watch(self) -> None:
        reported = False
        while not self._closing.wait(BLOCKED_AFTER / 2):
            silence = time.monotonic() - self._heartbeat
            if silence < BLOCKED_AFTER:
                if reported:
                    logger.warning("loop_unblocked", loop=self.name)
                reported = False
            elif not reported:
                reported = self._report(silence)

    def _report(self, silence: float) -> bool:
        """Report that a node blocks the loop. Return False if an import blocks it instead: an import blocks every loop,
        whatever thread it runs on, but only once."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        node, location = _blocking_location(frame)
        if (node is None and location is None) or _is_importing(frame):
            return False
        logger.warning(
            "loop_blocked",
            loop=self.name,
            node=node,
            at=location,
            seconds=round(silence, 1),
            hint="An async node is blocking the loop that all runs share. Use an async client, or a sync node.",
        )
        return True

    def _location(self) -> tuple[str | None, str | None]:
        return _blocking_location(sys._current_frames().get(self._thread.ident or 0))


def _copy_outcome(ended: "asyncio.Task[T]", done: "asyncio.Future[T] | Future[T]") -> None:
    if done.done():
        return
    if ended.cancelled():
        done.set_exception(WorkCancelled("The graph cancelled itself."))
    elif (error := ended.exception()) is None:
        done.set_result(ended.result())
    else:
        done.set_exception(error if isinstance(error, Exception) else work_exited(error))


def _copy_outcomes(ended: "list[tuple[_ShortCall, asyncio.Task[Any]]]") -> None:
    for call, task in ended:
        _copy_outcome(task, call.done)


def _time_out(done: "asyncio.Future[Any]") -> None:
    if not done.done():
        done.set_exception(TimeoutError())


def _fail_soon(loop: asyncio.AbstractEventLoop, future: "asyncio.Future[Any]", error: LoopFailed) -> None:
    call_threadsafe(loop, _fail, future, error)


def _fail(future: "asyncio.Future[Any] | Future[Any]", error: LoopFailed) -> None:
    with suppress(asyncio.InvalidStateError, InvalidStateError):  # already done
        future.set_exception(error)


def _blocking_location(frame: FrameType | None) -> tuple[str | None, str | None]:
    """The node whose code is on the stack, and its innermost line outside of libraries."""
    node: str | None = None
    location: str | None = None
    while frame is not None:
        code = frame.f_code
        if location is None and is_own_code(code.co_filename):
            location = f"{code.co_filename}:{frame.f_lineno} in {code.co_name}"
        if node is None:
            node = node_of(frame)
        frame = frame.f_back
    return node, location


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
