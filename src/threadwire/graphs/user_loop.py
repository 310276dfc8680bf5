"""Event loops on which user code runs, each in a thread of its own, so that a node that blocks never blocks the API.

People keep async clients at module level, so all runs of a worker share one loop. A node that blocks it is named in the
log with file and line: a watchdog thread looks at the loop's stack when its heart stops beating.

An exception that would end the process (`sys.exit` in a tool) ends what raised it, and no more. Should a loop die all
the same, whoever waits for it is told.
"""

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial
from types import FrameType, TracebackType
from typing import Any, TypeVar

import anyio
import structlog
from anyio import CancelScope

from threadwire.errors import LoopDied, LoopGivenUp
from threadwire.graphs.node_threads import NodeLoop, NodeThreads, call_on

T = TypeVar("T")

BLOCKED_AFTER = 0.5
"""Seconds without a beat after which a loop counts as blocked."""

WIND_UP = 2.0
"""Seconds for the tasks that are still there when a loop is closed."""

CLOSED_WITHIN = WIND_UP + 0.5
"""Seconds that a loop has to close. One that is blocked does not; its thread ends with the process."""

logger = structlog.get_logger("threadwire.worker")


class WorkCancelled(Exception):
    """The work on a user loop was cancelled: because its caller asked, or because its own code raised a
    cancellation."""


class WorkExited(Exception):
    """The work on a user loop raised what would end the process, and there would end the caller's loop too."""


class UserLoop:
    def __init__(self, name: str) -> None:
        self.name = name
        self.threads = NodeThreads()
        self._loop = NodeLoop(self.threads)
        self._thread = threading.Thread(target=self._live, name=f"threadwire-{name}", daemon=True)
        self._beat = time.monotonic()
        self._closing = threading.Event()
        self._waiting: set[Callable[[LoopDied], object]] = set()
        self.is_dead = False
        self._given_up = False
        self._watchdog = threading.Thread(target=self._watch, name=f"threadwire-{name}-watchdog", daemon=True)

    def __enter__(self) -> "UserLoop":
        self._thread.start()
        self._watchdog.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        if not self._given_up:
            self._tell(self._loop.stop)
            self._thread.join(CLOSED_WITHIN)
            if self._thread.is_alive():
                self.give_up()
        self.threads.close()

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run `work()` on the user loop; return or raise what it does, once it has really ended.

        When the caller is cancelled, the work is cancelled and still waited for. Work that was cancelled by its own
        doing raises `WorkCancelled`; if it can never end, because the loop is dead, `LoopDied` is raised, and
        `LoopGivenUp` if nobody is to wait for it any more.
        """
        here = asyncio.get_running_loop()
        done: asyncio.Future[T] = here.create_future()
        tasks: list[asyncio.Task[T]] = []

        def start() -> None:
            task = self._loop.create_task(work())
            tasks.append(task)
            task.add_done_callback(lambda ended: call_on(here, _hand_over, ended, done))

        def stop() -> None:
            for task in tasks:
                task.cancel()

        with self._or_dead(partial(_break_soon, here, done)):
            self._tell(start)
            try:
                return await asyncio.shield(done)
            except asyncio.CancelledError:
                self._tell(stop)
                with CancelScope(shield=True):
                    await asyncio.wait([done])
                if isinstance(done.exception(), WorkCancelled):
                    raise
                return done.result()  # it ended by itself while it was being asked to

    async def here_or_there(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """`run`, and without the way there and back if the caller is on the loop already."""
        return await work() if asyncio.get_running_loop() is self._loop else await self.run(work)

    def ask(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """`run` for a caller without an event loop: blocks its thread, which must not be the loop's own."""
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "A sync call on the loop would wait for what only the loop can do. Await the async method instead."
            )
        answer: Future[T] = Future()

        def start() -> None:
            task = self._loop.create_task(work())
            task.add_done_callback(lambda ended: _hand_over(ended, answer))

        with self._or_dead(partial(_break, answer)):
            self._tell(start)
            return answer.result()

    async def lives(self) -> None:
        """Wait for the loop's death, which is raised, unless it is given up."""
        here = asyncio.get_running_loop()
        death: asyncio.Future[None] = here.create_future()
        with suppress(LoopGivenUp), self._or_dead(partial(_break_soon, here, death)):
            await death

    def give_up(self) -> None:
        """Have nobody wait for anything on the loop any more: a shutdown must end, though a node blocks the loop or
        does not let itself be cancelled. What is there goes on until the process ends."""
        self._given_up = True
        self._tell_who_waits(LoopGivenUp)

    def blocked_at(self) -> tuple[str | None, str | None]:
        """The node that blocks the loop, and the line; as far as they are known, and if it is blocked."""
        return self._place() if time.monotonic() - self._beat > BLOCKED_AFTER else (None, None)

    @asynccontextmanager
    async def holding(self, manager: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
        """The manager's value, entered and left on the user loop, both by the same task."""
        here = asyncio.get_running_loop()
        entered: asyncio.Future[T] = here.create_future()
        leave = asyncio.Event()

        async def hold() -> None:
            async with manager as value:
                here.call_soon_threadsafe(entered.set_result, value)
                await leave.wait()

        async def held() -> None:
            with suppress(LoopGivenUp):  # then it is left to the end of the process
                await self.run(hold)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(held)
            try:
                yield await entered
            finally:
                self._tell(leave.set)

    def _tell(self, callback: Callable[[], object]) -> None:
        call_on(self._loop, callback)  # if it is closed, whoever waits for an answer is told so

    @contextmanager
    def _or_dead(self, tell: Callable[[LoopDied], object]) -> Iterator[None]:
        """Call `tell`, from any thread, if the loop dies or is given up during the block, or was before."""
        self._waiting.add(tell)
        # Looked at after adding, and set before telling: so nobody is left out.
        if self.is_dead or self._given_up:
            tell(LoopDied() if self.is_dead else LoopGivenUp())
        try:
            yield
        finally:
            self._waiting.discard(tell)

    def _tell_who_waits(self, loss: type[LoopDied]) -> None:
        for tell in list(self._waiting):
            tell(loss())

    def _live(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.call_soon(self._tick)
        try:
            while not self._closing.is_set() and not self._loop.is_closed():
                self._run_on()
        finally:
            self.is_dead = True
            self._closing.set()
            self._tell_who_waits(LoopDied)
            if not self._loop.is_closed():
                self._wind_up()

    def _run_on(self) -> None:
        """Until the loop is stopped, or left by an exception. asyncio gives SystemExit and KeyboardInterrupt to the
        task they were raised in and lets them out besides, and so leaves what goes wrong while the loop reports
        something that went wrong. Neither harms the loop; ending it would harm every run."""
        try:
            self._loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as error:
            logger.debug("worker_went_on", loop=self.name, after=type(error).__name__)
        except BaseException as error:
            # Not its traceback: what could not be shown before would be shown with it.
            logger.warning("worker_went_on", loop=self.name, after=type(error).__name__)

    def _wind_up(self) -> None:
        """What the project left running may clean up after itself, if it does so soon."""
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.wait(tasks, timeout=WIND_UP))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def _tick(self) -> None:
        self._beat = time.monotonic()
        self._loop.call_later(BLOCKED_AFTER / 5, self._tick)

    def _watch(self) -> None:
        reported: float | None = None
        while not self._closing.wait(BLOCKED_AFTER / 2):
            silent = time.monotonic() - self._beat
            if silent < BLOCKED_AFTER:
                if reported is not None:
                    logger.warning("worker_unblocked", loop=self.name)
                reported = None
            elif reported is None:
                reported = silent
                self._report(silent)

    def _report(self, silent: float) -> None:
        node, place = self._place()
        logger.warning(
            "worker_blocked",
            loop=self.name,
            node=node,
            at=place,
            seconds=round(silent, 1),
            hint="A node is blocking the loop that all runs share; use an async client or a sync node.",
        )

    def _place(self) -> tuple[str | None, str | None]:
        return _blocking_place(sys._current_frames().get(self._thread.ident or 0))


def _hand_over(ended: "asyncio.Task[T]", done: "asyncio.Future[T] | Future[T]") -> None:
    if done.done():
        return
    if ended.cancelled():
        done.set_exception(WorkCancelled("The graph cancelled itself."))
    elif (error := ended.exception()) is None:
        done.set_result(ended.result())
    elif isinstance(error, Exception):
        done.set_exception(error)
    else:
        exited = WorkExited(f"The project's code raised {type(error).__name__}: {error}")
        exited.__cause__ = error
        done.set_exception(exited)


def _break_soon(home: asyncio.AbstractEventLoop, promise: "asyncio.Future[Any]", death: LoopDied) -> None:
    call_on(home, _break, promise, death)


def _break(promise: "asyncio.Future[Any] | Future[Any]", death: LoopDied) -> None:
    with suppress(asyncio.InvalidStateError, InvalidStateError):  # kept already
        promise.set_exception(death)


def _blocking_place(frame: FrameType | None) -> tuple[str | None, str | None]:
    """The node whose code is on the stack, and the innermost line of it that is not a library's."""
    node: str | None = None
    place: str | None = None
    while frame is not None:
        code = frame.f_code
        if place is None and "site-packages" not in code.co_filename and "/lib/python" not in code.co_filename:
            place = f"{code.co_filename}:{frame.f_lineno} in {code.co_name}"
        if node is None and "/langgraph/" in code.co_filename:
            node = _node_of(frame.f_locals.get("config"))
        frame = frame.f_back
    return node, place


def _node_of(config: Any) -> str | None:
    """LangGraph calls each node in a task of its own, whose outermost frame has the config that names the node."""
    metadata = config.get("metadata") if isinstance(config, dict) else None
    return metadata.get("langgraph_node") if isinstance(metadata, dict) else None
