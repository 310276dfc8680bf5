"""Which auth handlers are called on the server's loop, and what moves them back to the auth loop."""

import asyncio
import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest
from langgraph_sdk import Auth
from structlog.testing import capture_logs

from threadwire.graphs.inline_handlers import (
    PROOF_CALLS,
    SLOW_SECONDS,
    HandlerCalls,
    NeedsLoop,
    call_inline,
    cannot_suspend,
)
from threadwire.graphs.thread_usage import ThreadUsage, is_own, own_seconds, thread_usage
from threadwire.graphs.user_loop import UserLoop, WorkCancelled, WorkExited

pytestmark = pytest.mark.anyio

note: ContextVar[str] = ContextVar("note", default="")


@pytest.fixture
def loop() -> Iterator[UserLoop]:
    with UserLoop("auth") as loop:
        yield loop


async def proven(loop: UserLoop, handler: Any, **arguments: Any) -> HandlerCalls:
    """The calls of a handler that has been called until it is inline. Calls during which the machine was too busy do
    not count, so there may be a few more than necessary."""
    calls = HandlerCalls(handler, loop, 30)
    for _ in range(5 * PROOF_CALLS):
        if calls.is_inline:
            return calls
        await calls.call(arguments)
    raise AssertionError("the handler does not qualify")


def here() -> bool:
    return threading.current_thread() is threading.main_thread()


async def where() -> str:
    return threading.current_thread().name


# -- which handlers qualify -------------------------------------------------------------------------------------------


async def test_a_fast_handler_is_called_inline_after_its_first_calls(loop: UserLoop) -> None:
    calls = HandlerCalls(where, loop, 30)
    first = [await calls.call({}) for _ in range(PROOF_CALLS)]
    assert set(first) == {"threadwire-auth"}
    assert await (await proven(loop, where)).call({}) == threading.current_thread().name


async def awaits() -> None:
    await asyncio.sleep(0)


async def iterates(items: Any) -> None:
    async for _ in items:
        pass


async def enters(manager: Any) -> None:
    async with manager:
        pass


async def comprehends(items: Any) -> list[Any]:
    return [each async for each in items]


async def yields() -> Any:
    yield 1


class CallableHandler:
    async def __call__(self) -> str:
        return "ada"

    async def method(self) -> str:
        return "ada"


def wrapped(handler: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(handler)
    async def wrapper(**arguments: Any) -> Any:
        return await handler(**arguments)

    return wrapper


MAY_SUSPEND = [
    awaits, iterates, enters, comprehends, yields, lambda: "ada", functools.partial(where), CallableHandler(),
    CallableHandler().method, wrapped(where), str,
]  # fmt: skip


@pytest.mark.parametrize("handler", MAY_SUSPEND, ids=lambda each: getattr(each, "__name__", type(each).__name__))
async def test_whatever_may_suspend_or_block_does_not_qualify(handler: Any) -> None:
    assert not cannot_suspend(handler)


async def test_loops_closures_and_exceptions_do_not_suspend() -> None:
    users = {"a": 1}

    async def handler(authorization: str, value: dict[str, Any]) -> dict[str, Any]:
        try:
            found = [each for each in users if each in authorization]
            with threading.Lock():
                value.update({name: users[name] for name in found})
        except KeyError as error:
            raise Auth.exceptions.HTTPException(status_code=401) from error
        return value

    assert cannot_suspend(handler)


async def test_a_coroutine_that_another_function_creates_is_not_awaited_inline() -> None:
    async def outer() -> Any:
        async def inner() -> None:
            await asyncio.sleep(0)

        return inner

    assert cannot_suspend(outer)  # only calling `inner` would suspend, and that needs an await


@pytest.mark.parametrize("slow", [1, 50])
async def test_one_slow_call_among_the_first_disqualifies_a_handler(loop: UserLoop, slow: int) -> None:
    made = 0

    async def handler() -> str:
        nonlocal made
        made += 1
        if made == slow:
            time.sleep(0.005)  # noqa: ASYNC251 - like fetching keys
        return threading.current_thread().name

    calls = HandlerCalls(handler, loop, 30)
    assert {await calls.call({}) for _ in range(3 * PROOF_CALLS)} == {"threadwire-auth"}


async def test_rejected_requests_prove_nothing(loop: UserLoop) -> None:
    async def handler(token: str) -> str | None:
        if token == "none":
            return None
        raise PermissionError

    calls = HandlerCalls(handler, loop, 30)
    for _ in range(PROOF_CALLS + 1):
        assert await calls.call({"token": "none"}) is None
        with pytest.raises(PermissionError):
            await calls.call({"token": "bad"})
    assert not calls.is_inline


# -- inline calls -----------------------------------------------------------------------------------------------------


async def test_inline_calls_have_the_context_of_the_request_and_do_not_change_it() -> None:
    async def handler() -> str:
        seen = note.get()
        note.set("of the handler")
        return seen

    note.set("of the request")
    assert call_inline(handler, {}) == "of the request"
    assert note.get() == "of the request"


async def test_exceptions_of_inline_calls_are_raised() -> None:
    async def handler(error: BaseException) -> None:
        raise error

    for error in (ValueError("no"), Auth.exceptions.HTTPException(status_code=418), AssertionError(), TimeoutError()):
        with pytest.raises(type(error)) as raised:
            call_inline(handler, {"error": error})
        assert raised.value is error
    with pytest.raises(RuntimeError, match="StopIteration"):
        call_inline(handler, {"error": StopIteration()})
    with pytest.raises(WorkCancelled):
        call_inline(handler, {"error": asyncio.CancelledError()})


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
async def test_an_inline_call_cannot_end_the_process(kind: type[BaseException]) -> None:
    async def handler() -> None:
        raise kind

    with pytest.raises(WorkExited) as exited:
        call_inline(handler, {})
    assert isinstance(exited.value.__cause__, kind)


async def test_the_running_loop_is_restored() -> None:
    running = asyncio.get_running_loop()

    async def handler(error: Exception | None) -> bool:
        if error is not None:
            raise error
        return asyncio.get_running_loop() is running

    assert call_inline(handler, {"error": None}) is False
    assert asyncio.get_running_loop() is running
    with pytest.raises(ValueError):
        call_inline(handler, {"error": ValueError()})
    assert asyncio.get_running_loop() is running
    assert asyncio.current_task() is not None


async def test_a_handler_that_uses_the_loop_is_repeated_on_the_auth_loop(loop: UserLoop) -> None:
    audited: list[str] = []

    def audit() -> None:
        asyncio.get_running_loop().call_soon(lambda: audited.append(threading.current_thread().name))

    async def handler(audits: bool) -> str:
        try:
            if audits:
                audit()
        except Exception:
            return "the handler hides the error"
        return threading.current_thread().name

    calls = await proven(loop, handler, audits=False)
    with capture_logs() as logs:
        assert await calls.call({"audits": True}) == "threadwire-auth"
        assert await calls.call({"audits": False}) == "threadwire-auth"
    assert audited == ["threadwire-auth"]
    assert [log["event"] for log in logs] == ["auth_handler_moved"]


async def test_a_coroutine_that_suspends_after_all_is_closed() -> None:
    closed = []

    async def handler() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            closed.append(True)

    with pytest.raises(NeedsLoop):
        call_inline(handler, {})
    assert closed == [True]


# -- moving back ------------------------------------------------------------------------------------------------------


async def test_the_second_slow_call_moves_a_handler_for_good(loop: UserLoop) -> None:
    async def handler(seconds: float = 0) -> bool:
        if seconds:
            time.sleep(seconds)  # noqa: ASYNC251
        return here()

    calls = await proven(loop, handler)
    with capture_logs() as logs:
        assert await calls.call({"seconds": SLOW_SECONDS})
        assert await calls.call({}), "the first one may have been delayed by something else"
        assert await calls.call({"seconds": SLOW_SECONDS})
        assert not [inline for _ in range(3 * PROOF_CALLS) if (inline := await calls.call({}))]
    [log] = logs
    assert (log["event"], log["reason"], log["to"]) == ("auth_handler_moved", "It was slow.", "auth")
    assert log["handler"].endswith("handler")
    assert log["seconds"] >= SLOW_SECONDS


async def test_a_call_that_hangs_moves_a_handler_at_once(loop: UserLoop) -> None:
    async def handler(seconds: float = 0) -> bool:
        if seconds:
            time.sleep(seconds)  # noqa: ASYNC251
        return here()

    calls = await proven(loop, handler)
    assert await calls.call({"seconds": 1.0})
    assert not await calls.call({})


# -- how long a call took ---------------------------------------------------------------------------------------------


async def test_waiting_and_computing_count() -> None:
    before = thread_usage()
    time.sleep(0.005)  # noqa: ASYNC251
    assert own_seconds(before) >= 0.005
    assert is_own(ThreadUsage(0, 0, 5, 1), ThreadUsage(1, 0.9, 5, 1))


async def test_preemption_and_garbage_collection_do_not_count() -> None:
    assert not is_own(ThreadUsage(0, 0, 5, 1), ThreadUsage(1, 0.1, 5, 1))
    assert not is_own(ThreadUsage(0, 0, 5, 9), ThreadUsage(1, 1, 6, 0))
