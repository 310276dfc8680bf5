"""Calls one auth handler: on the auth loop, or directly on the API loop once it has proven to be harmless there.

Switching to the auth loop and back takes ten times as long as a typical handler. A handler is called *inline* if it
cannot suspend and its first calls were fast. If a later call contradicts this, the handler moves back to the auth loop
for good.
"""

import asyncio
import dis
import inspect
import time
from asyncio.events import _get_running_loop, _set_running_loop
from collections.abc import Coroutine, Mapping
from contextvars import copy_context
from functools import partial
from types import FunctionType
from typing import Any

import structlog

from threadwire.graphs.thread_usage import NOTICEABLE, ThreadUsage, own_seconds, thread_usage
from threadwire.graphs.user_loop import UserLoop, WorkCancelled, work_exited

PROOF_CALLS = 100
"""How many calls on the auth loop have to be fast before a handler is called inline."""

FAST_SECONDS = NOTICEABLE
"""Each of them must be faster than this."""

SLOW_SECONDS = 0.02
"""An inline call that takes this long is suspicious. Waiting for the interpreter lock usually takes 5 ms."""

HANGING_SECONDS = 1.0
"""After an inline call that takes this long, the handler is no longer called inline."""

WATCHED_CALLS = 1000
"""For how many calls a suspicious handler is watched. Watching takes 3 µs per call and shows why a call was slow. If a
watched call is slow and nothing else delayed it, the handler moves to the auth loop."""

_SUSPENDING = frozenset(
    "GET_AWAITABLE SEND YIELD_VALUE YIELD_FROM GET_YIELD_FROM_ITER GET_AITER GET_ANEXT END_ASYNC_FOR BEFORE_ASYNC_WITH"
    " ASYNC_GEN_WRAP".split()
)
"""The instructions of `await`, `async for`, `async with` and `yield` in all supported versions of Python."""

logger = structlog.get_logger("threadwire.auth")


class HandlerCalls:
    """The calls of one handler."""

    def __init__(self, handler: Any, loop: UserLoop, timeout: float) -> None:
        self._handler = handler
        self._loop = loop
        self._timeout = timeout
        self._may_qualify = cannot_suspend(handler)
        self._missing_proof = PROOF_CALLS
        self._watched = 0
        """For how many more inline calls the handler is watched."""
        self.is_inline = False

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        """Call the handler. Raises what the handler raises, `WorkExited` for an exception that would end the process,
        and `TimeoutError` if it takes too long."""
        if self.is_inline:
            try:
                return self._call_inline(arguments)
            except NeedsLoop:
                self._move("It used the event loop.")
        return await self._loop.run_within(self._timeout, partial(self._invoke, arguments))

    def _call_inline(self, arguments: Mapping[str, Any]) -> Any:
        before = thread_usage() if self._watched else None
        start = time.perf_counter()
        try:
            return call_inline(self._handler, arguments)
        finally:
            if self._watched:
                self._watched -= 1
            if (seconds := time.perf_counter() - start) >= SLOW_SECONDS:
                self._judge(seconds, before)

    def _judge(self, seconds: float, before: ThreadUsage | None) -> None:
        """Decide after a slow call whether the next one may be inline."""
        if seconds >= HANGING_SECONDS or (before is not None and own_seconds(before) >= SLOW_SECONDS):
            self._move("It was slow.", seconds=round(seconds, 3))
        else:
            self._watched = WATCHED_CALLS

    def _move(self, reason: str, **fields: Any) -> None:
        """Call the handler on the auth loop from now on."""
        if not self._may_qualify:
            return
        self._may_qualify = self.is_inline = False
        name = getattr(self._handler, "__qualname__", repr(self._handler))
        logger.warning("auth_handler_moved", handler=name, reason=reason, to=self._loop.name, **fields)

    # -- on the auth loop ---------------------------------------------------------------------------------------------

    async def _invoke(self, arguments: Mapping[str, Any]) -> Any:
        """Call the handler on its loop, or in a thread if it is a plain function."""
        if self._may_qualify:
            return await self._prove(arguments)
        if inspect.iscoroutinefunction(self._handler):
            return await self._handler(**arguments)
        returned = await asyncio.to_thread(self._handler, **arguments)
        return await returned if inspect.isawaitable(returned) else returned

    async def _prove(self, arguments: Mapping[str, Any]) -> Any:
        """Call the handler and measure it. A call that rejects the request proves nothing: it may end before the
        slow part, such as fetching keys."""
        before, returned = thread_usage(), None
        try:
            returned = await self._handler(**arguments)
        finally:
            if own_seconds(before) >= FAST_SECONDS:
                self._may_qualify = False
            elif returned is not None:
                self._missing_proof -= 1
            self.is_inline = self._may_qualify and self._missing_proof <= 0
        return returned


def cannot_suspend(handler: Any) -> bool:
    """Whether the handler is a coroutine function that never awaits anything. Everything else may suspend or block."""
    if type(handler) is not FunctionType or not handler.__code__.co_flags & inspect.CO_COROUTINE:
        return False
    return not any(each.opname in _SUSPENDING for each in dis.get_instructions(handler.__code__))


# -- inline -----------------------------------------------------------------------------------------------------------


class NeedsLoop(Exception):
    """The handler suspended, or used the event loop, for example with `asyncio.create_task`."""


class _NoLoop:
    """Replaces the API loop during a call, so that the project's code cannot create tasks there."""

    was_used = False

    def __getattr__(self, name: str) -> Any:
        self.was_used = True
        raise NeedsLoop


def call_inline(handler: Any, arguments: Mapping[str, Any]) -> Any:
    """Call a coroutine function without an event loop, in a copy of the current context. Raises `NeedsLoop` if it
    suspends or uses the event loop; then the call has to be repeated on a loop."""
    here, instead = _get_running_loop(), _NoLoop()
    _set_running_loop(instead)  # type: ignore[arg-type]
    try:
        return copy_context().run(_run_to_end, handler(**arguments))
    finally:
        _set_running_loop(here)
        if instead.was_used:
            raise NeedsLoop from None


def _run_to_end(coroutine: Coroutine[Any, Any, Any]) -> Any:
    try:
        coroutine.send(None)
    except StopIteration as returned:
        return returned.value
    except asyncio.CancelledError:
        raise WorkCancelled("The handler cancelled itself.") from None
    except Exception:
        raise
    except BaseException as error:
        raise work_exited(error) from error
    coroutine.close()
    raise NeedsLoop
