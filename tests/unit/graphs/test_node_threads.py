"""Sync nodes and edges run on threads of their own, whose calls are counted by attempt until they have returned."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from threadwire.core.entries import Fence
from threadwire.core.ids import RunId
from threadwire.graphs.current_attempt import current_attempt
from threadwire.graphs.node_threads import Call, NodeThreads
from threadwire.graphs.user_loop import UserLoop

pytestmark = pytest.mark.anyio

FENCE = Fence(RunId("01a1e0f0-e5c3-7916-b07a-1eef68159e17"), 1)
SOON = 5.0


@pytest.fixture
def loop() -> Iterator[UserLoop]:
    with UserLoop("test") as loop:
        yield loop


@pytest.fixture
def threads() -> Iterator[NodeThreads]:
    threads = NodeThreads(2)
    yield threads
    threads.close()


def idle_event() -> tuple[asyncio.Event, Callable[[], object]]:
    """An event, and how it is set from any thread."""
    here, idle = asyncio.get_running_loop(), asyncio.Event()
    return idle, lambda: here.call_soon_threadsafe(idle.set)


async def reached(what: Callable[[], bool]) -> None:
    with anyio.fail_after(SOON):
        while not what():  # noqa: ASYNC110 - threads set no events of ours
            await asyncio.sleep(0.005)


def call(threads: NodeThreads, function: Callable[..., Any], *arguments: Any) -> Call:
    return threads.call(asyncio.get_running_loop(), function, arguments)


async def test_sync_calls_of_user_code_run_on_the_node_threads(loop: UserLoop) -> None:
    async def work() -> str:
        return await asyncio.to_thread(lambda: threading.current_thread().name)

    assert (await loop.run(work)).startswith("threadwire-node")


async def test_an_executor_that_is_named_is_used(loop: UserLoop) -> None:
    async def work() -> str:
        with ThreadPoolExecutor(1, "own") as own:
            return await asyncio.get_running_loop().run_in_executor(own, lambda: threading.current_thread().name)

    assert (await loop.run(work)).startswith("own")


async def test_a_call_returns_what_the_function_returns(threads: NodeThreads) -> None:
    assert await call(threads, divmod, 7, 3) == (2, 1)


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt()])
async def test_a_call_raises_what_the_function_raises(threads: NodeThreads, error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        await call(threads, fail)
    assert raised.value is error


async def test_a_call_that_raises_stop_iteration_does_not_hang(threads: NodeThreads) -> None:
    with anyio.fail_after(SOON), pytest.raises(RuntimeError, match="StopIteration"):
        await call(threads, next, iter(()))


async def test_one_call_after_the_other_takes_one_thread(threads: NodeThreads) -> None:
    assert len({await call(threads, threading.get_ident) for _ in range(50)}) == 1


async def test_calls_that_wait_for_calls_are_no_deadlock(loop: UserLoop) -> None:
    """As when many sync entrypoints at once wait for their sync tasks."""

    async def outer() -> int:
        home = asyncio.get_running_loop()

        def inner() -> int:
            return asyncio.run_coroutine_threadsafe(asyncio.to_thread(len, "abc"), home).result(SOON)

        return await asyncio.to_thread(inner)

    async def work() -> list[int]:
        return await asyncio.gather(*(outer() for _ in range(150)))

    with anyio.fail_after(2 * SOON):
        assert await loop.run(work) == [3] * 150


async def test_calls_at_once_take_as_many_threads_as_there_may_be(threads: NodeThreads) -> None:
    """The third waits, and nothing is forgotten."""
    together, names = threading.Barrier(2), list[int]()

    def meet() -> None:
        together.wait(SOON)
        names.append(threading.get_ident())

    with anyio.fail_after(SOON):
        await asyncio.gather(*(call(threads, meet) for _ in range(10)))
    assert len(names) == 10
    assert len(set(names)) == 2


async def test_a_call_that_is_cancelled_before_its_turn_is_never_made(threads: NodeThreads) -> None:
    """And its attempt is idle at once, though no thread is free to see to it."""
    gate, made = threading.Event(), list[str]()
    blocking = [call(threads, gate.wait, SOON) for _ in range(2)]
    token = current_attempt.set(FENCE)
    waiting = call(threads, made.append, "waited")
    current_attempt.reset(token)
    idle, tell = idle_event()
    assert not threads.when_idle(FENCE, tell)

    waiting.cancel()

    with anyio.fail_after(SOON):
        await idle.wait()
        gate.set()
        await asyncio.gather(*blocking)
        assert await call(threads, len, "abc") == 3  # and its place in the queue was given to nobody
    assert made == []


async def test_a_cancelled_call_is_told_of_when_it_has_returned(loop: UserLoop) -> None:
    """5.8: its thread must not be given to another run before that"""
    here = asyncio.get_running_loop()
    begun, may_return = asyncio.Event(), threading.Event()
    idle, tell = idle_event()

    def sync_node() -> None:
        here.call_soon_threadsafe(begun.set)
        may_return.wait(SOON)

    async def work() -> None:
        current_attempt.set(FENCE)
        await asyncio.to_thread(sync_node)

    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(loop.run, work)
            await begun.wait()
            tasks.cancel_scope.cancel()
        # The caller is back, but the thread is not.
        assert not loop.threads.when_idle(FENCE, tell)
        assert not idle.is_set()
        assert loop.threads.when_idle(Fence(FENCE.run_id, 2), lambda: pytest.fail("that attempt made no call"))
        may_return.set()
        await idle.wait()
    assert loop.threads.when_idle(FENCE, lambda: pytest.fail("it is idle by now"))


async def test_cancelled_calls_that_never_return_keep_nobody_waiting(threads: NodeThreads) -> None:
    gate, gone = threading.Event(), list[threading.Thread]()

    def stick() -> None:
        gate.wait(SOON)
        gone.append(threading.current_thread())

    for _ in range(3):
        begun = [call(threads, stick) for _ in range(2)]
        await reached(lambda: all(each.taken for each in begun))  # noqa: B023 - called at once
        for each in begun:
            each.cancel()
    with anyio.fail_after(SOON):
        assert await call(threads, len, "abc") == 3
    gate.set()
    await reached(lambda: len(gone) == 6)
    # And when they return after all, no more threads stay than there may be.
    await reached(lambda: sum(each.is_alive() for each in gone) <= 2)


async def test_a_call_is_made_though_no_other_returns(threads: NodeThreads) -> None:
    gate = threading.Event()
    stuck = [call(threads, gate.wait, SOON) for _ in range(2)]
    await reached(lambda: all(each.taken for each in stuck))
    with capture_logs() as logs, anyio.fail_after(SOON):
        assert await call(threads, len, "abc") == 3
    assert [log["event"] for log in logs] == ["sync_code_waits"]
    gate.set()


async def test_a_call_for_which_no_thread_can_be_had_fails_and_is_nobodys(
    threads: NodeThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    current_attempt.set(FENCE)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        for _ in range(5):
            with pytest.raises(RuntimeError, match="start new thread"):
                call(threads, len, "abc")
    assert threads.when_idle(FENCE, lambda: pytest.fail("nothing is running"))
    with anyio.fail_after(SOON):
        assert await call(threads, len, "abc") == 3


async def test_a_call_waits_for_the_threads_there_are_if_no_more_can_be_had(
    threads: NodeThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    gate = threading.Event()
    first = call(threads, gate.wait, SOON)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        second = call(threads, len, "abc")
    gate.set()
    with anyio.fail_after(SOON):
        assert await first
        assert await second == 3


async def test_a_failed_call_lets_go_of_what_it_was_given(threads: NodeThreads) -> None:
    """Without waiting for the collector: a state may be large, and every interrupt of a sync node comes this way."""

    class Given: ...

    def fail(given: Given) -> None:
        raise ValueError("no")

    gc.collect()
    gc.disable()
    try:
        given = Given()
        known = weakref.ref(given)
        with suppress(ValueError):
            await call(threads, fail, given)
        del given
        await reached(lambda: known() is None)
    finally:
        gc.enable()


async def test_who_waited_for_an_attempt_may_be_gone(threads: NodeThreads) -> None:
    """And the thread that would have told him goes on."""
    gate = threading.Event()

    async def leave() -> None:
        here = asyncio.get_running_loop()
        current_attempt.set(FENCE)
        call(threads, gate.wait, SOON)
        assert not threads.when_idle(FENCE, lambda: here.call_soon_threadsafe(print))

    await asyncio.to_thread(asyncio.run, leave())
    gate.set()
    await reached(lambda: threads.when_idle(FENCE, lambda: None))
    with anyio.fail_after(SOON):
        assert await call(threads, len, "abc") == 3


async def test_an_attempt_without_calls_is_idle(threads: NodeThreads) -> None:
    assert threads.when_idle(FENCE, lambda: pytest.fail("there was nothing to wait for"))


async def test_an_attempt_is_idle_only_when_its_last_call_has_returned(threads: NodeThreads) -> None:
    gates = [threading.Event(), threading.Event()]
    idle, tell = idle_event()
    current_attempt.set(FENCE)
    first, second = (call(threads, gate.wait, SOON) for gate in gates)
    assert not threads.when_idle(FENCE, tell)
    gates[0].set()
    await first
    assert not idle.is_set()
    gates[1].set()
    await second
    assert idle.is_set()


async def test_calls_that_belong_to_no_attempt_are_nobodys(threads: NodeThreads) -> None:
    gate = threading.Event()
    waiting = call(threads, gate.wait, SOON)
    assert threads.when_idle(FENCE, lambda: pytest.fail("it has no calls"))
    gate.set()
    assert await waiting


async def test_closed_threads_end_and_take_no_more_calls() -> None:
    threads, begun, gate, made = NodeThreads(1), threading.Event(), threading.Event(), list[str]()

    def wait() -> threading.Thread:
        begun.set()
        gate.wait(SOON)
        return threading.current_thread()

    running, waiting = call(threads, wait), call(threads, made.append, "late")
    begun.wait(SOON)

    threads.close()

    with pytest.raises(RuntimeError, match="closed"):
        call(threads, len, "")
    gate.set()
    thread = await running
    thread.join(SOON)
    assert not thread.is_alive()
    assert made == []
    assert not waiting.done()
