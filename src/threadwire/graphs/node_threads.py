"""The threads on which sync nodes and edges run, and a loop that calls there.

LangGraph calls them through `loop.run_in_executor`, for every super-step. Usually that is a future of a thread pool,
wrapped in one of the loop, and takes twice as long as the way there and back; here a call is the loop's own future.
"""

import asyncio
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Any

from threadwire.core.entries import Fence

if sys.platform == "win32":
    from asyncio import ProactorEventLoop as _Loop
else:
    from uvloop import Loop as _Loop

current_attempt: ContextVar[Fence | None] = ContextVar("current_attempt", default=None)
"""Whose code is running."""


class NodeThreads:
    """As many threads as there are calls at once, up to a limit. It knows which attempt a call belongs to, because a
    cancelled call goes on until it returns: its thread must not be given to another run before that."""

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._guard = threading.Lock()
        # Everything below is changed under the guard.
        self._threads = 0
        self._free = 0
        """Threads that wait for a call; below zero, calls that wait for a thread."""
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
            needs_another = self._free < 0 and self._threads < self._most
            if needs_another:
                self._free += 1
                self._threads += 1
        if needs_another:
            threading.Thread(target=self._live, name="threadwire-node", daemon=True).start()
        self._calls.put(call)
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

    def _live(self) -> None:
        while (call := self._calls.get()) is not None:
            if self._take(call):
                result, error = call.outcome()
                self._returned(call.fence, freed=1)
                call.tell(result, error)
                del result, error
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

    def _returned(self, fence: Fence | None, freed: int = 0) -> None:
        with self._guard:
            self._free += freed
            self._running[fence] -= 1
            if self._running[fence]:
                return
            del self._running[fence]
            tell = None if fence is None else self._idle.pop(fence, None)
        if tell is not None:
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
        self._threads = threads
        self._function = function
        self._arguments = arguments

    def cancel(self, msg: Any | None = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled:
            self._threads.drop(self)
        return cancelled

    def outcome(self) -> tuple[Any, BaseException | None]:
        try:
            return self._function(*self._arguments), None
        except StopIteration as error:  # which no future may be given
            raised = RuntimeError("The function raised StopIteration")
            raised.__cause__ = error
            return None, raised
        except BaseException as error:
            return None, error

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


class NodeLoop(_Loop):
    """An event loop whose usual executor are these threads."""

    def __init__(self, threads: NodeThreads) -> None:
        super().__init__()
        self._node_threads = threads

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        if executor is None:
            return self._node_threads.call(self, func, args)
        return super().run_in_executor(executor, func, *args)
