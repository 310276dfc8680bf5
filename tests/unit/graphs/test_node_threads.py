"""Sync nodes and edges run on their own threads. Calls are counted per attempt until they have returned."""

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
    """An event, and a callback that sets it from any thread."""
    here, idle = asyncio.get_running_loop(), asyncio.Event()
    return idle, lambda: here.call_soon_threadsafe(idle.set)


async def wait_until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(SOON):
        while not condition():  # noqa: ASYNC110 - threads set no events of ours
            await asyncio.sleep(0.005)


def call(threads: NodeThreads, function: Callable[..., Any], *arguments: Any) -> Call:
    return threads.call(asyncio.get_running_loop(), function, arguments)


async def test_sync_calls_of_user_code_run_on_node_threads(loop: UserLoop) -> None:
    async def work() -> str:
        return await asyncio.to_thread(lambda: threading.current_thread().name)

    assert (await loop.run(work)).startswith("threadwire-node")


async def test_explicit_executor_is_used(loop: UserLoop) -> None:
    async def work() -> str:
        with ThreadPoolExecutor(1, "own") as own:
            return await asyncio.get_running_loop().run_in_executor(own, lambda: threading.current_thread().name)

    assert (await loop.run(work)).startswith("own")


async def test_call_returns_what_the_function_returns(threads: NodeThreads) -> None:
    assert await call(threads, divmod, 7, 3) == (2, 1)


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt()])
async def test_call_raises_what_the_function_raises(threads: NodeThreads, error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        await call(threads, fail)
    assert raised.value is error


async def test_call_that_raises_stop_iteration_does_not_hang(threads: NodeThreads) -> None:
    with anyio.fail_after(SOON), pytest.raises(RuntimeError, match="StopIteration"):
        await call(threads, next, iter(()))


async def test_sequential_calls_share_one_thread(threads: NodeThreads) -> None:
    assert len({await call(threads, threading.get_ident) for _ in range(50)}) == 1


async def test_calls_that_wait_for_other_calls_do_not_deadlock(loop: UserLoop) -> None:
    """For example many concurrent sync entrypoints that wait for their sync tasks."""

    async def outer() -> int:
        running_loop = asyncio.get_running_loop()

        def inner() -> int:
            return asyncio.run_coroutine_threadsafe(asyncio.to_thread(len, "abc"), running_loop).result(SOON)

        return await asyncio.to_thread(inner)

    async def work() -> list[int]:
        return await asyncio.gather(*(outer() for _ in range(150)))

    with anyio.fail_after(2 * SOON):
        assert await loop.run(work) == [3] * 150


async def test_concurrent_calls_use_threads_up_to_the_soft_limit(threads: NodeThreads) -> None:
    """Further calls wait, and none is lost."""
    barrier, idents = threading.Barrier(2), list[int]()

    def meet() -> None:
        barrier.wait(SOON)
        idents.append(threading.get_ident())

    with anyio.fail_after(SOON):
        await asyncio.gather(*(call(threads, meet) for _ in range(10)))
    assert len(idents) == 10
    assert len(set(idents)) == 2


async def test_sync_nodes_of_a_thousand_runs_take_turns_on_the_allowed_threads() -> None:
    """No run gets its second call before every run has got its first one."""
    limit, runs = 8, 1000
    threads, calls = NodeThreads(limit, limit), list[tuple[int, int]]()  # appending is atomic

    def sync_node(step: int) -> None:
        calls.append((step, threading.get_ident()))

    async def run() -> None:
        for step in range(3):
            await call(threads, sync_node, step)

    with anyio.fail_after(4 * SOON):
        await asyncio.gather(*(run() for _ in range(runs)))
    threads.close()
    assert len({ident for _, ident in calls}) <= limit
    for step in range(3):
        first = next(index for index, (each, _) in enumerate(calls) if each == step)
        assert first >= step * runs - limit  # each thread may be about to record the call it has taken


async def test_call_cancelled_while_waiting_is_never_made(threads: NodeThreads) -> None:
    """Its attempt is idle immediately, even if no thread is free."""
    gate, calls = threading.Event(), list[str]()
    blocking = [call(threads, gate.wait, SOON) for _ in range(2)]
    token = current_attempt.set(FENCE)
    waiting = call(threads, calls.append, "waited")
    current_attempt.reset(token)
    idle, set_idle = idle_event()
    assert not threads.when_idle(FENCE, set_idle)

    waiting.cancel()

    with anyio.fail_after(SOON):
        await idle.wait()
        gate.set()
        await asyncio.gather(*blocking)
        assert await call(threads, len, "abc") == 3  # later calls are not affected
    assert calls == []


async def test_attempt_is_idle_only_after_its_cancelled_call_has_returned(loop: UserLoop) -> None:
    """5.8: no other run may start on its conversation thread before that"""
    here = asyncio.get_running_loop()
    started, may_return = asyncio.Event(), threading.Event()
    idle, set_idle = idle_event()

    def sync_node() -> None:
        here.call_soon_threadsafe(started.set)
        may_return.wait(SOON)

    async def work() -> None:
        current_attempt.set(FENCE)
        await asyncio.to_thread(sync_node)

    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(loop.run, work)
            await started.wait()
            tasks.cancel_scope.cancel()
        # The caller has returned, but the thread has not.
        assert not loop.threads.when_idle(FENCE, set_idle)
        assert not idle.is_set()
        assert loop.threads.when_idle(Fence(FENCE.run_id, 2), lambda: pytest.fail("that attempt made no call"))
        may_return.set()
        await idle.wait()
    assert loop.threads.when_idle(FENCE, lambda: pytest.fail("the attempt is already idle"))


async def test_cancelled_calls_that_never_return_do_not_block_others(threads: NodeThreads) -> None:
    gate, returned = threading.Event(), list[threading.Thread]()

    def stick() -> None:
        gate.wait(SOON)
        returned.append(threading.current_thread())

    for _ in range(3):
        stuck = [call(threads, stick) for _ in range(2)]
        await wait_until(lambda: all(each.taken for each in stuck))  # noqa: B023 - called immediately
        for each in stuck:
            each.cancel()
    with anyio.fail_after(SOON):
        assert await call(threads, len, "abc") == 3
    gate.set()
    await wait_until(lambda: len(returned) == 6)
    # When they do return, the threads beyond the soft limit exit.
    await wait_until(lambda: sum(each.is_alive() for each in returned) <= 2)


async def test_call_is_made_even_if_no_other_call_returns(threads: NodeThreads) -> None:
    gate = threading.Event()
    stuck = [call(threads, gate.wait, SOON) for _ in range(2)]
    await wait_until(lambda: all(each.taken for each in stuck))
    with capture_logs() as logs, anyio.fail_after(SOON):
        assert await call(threads, len, "abc") == 3
    assert [log["event"] for log in logs] == ["node_threads_stalled"]
    gate.set()


async def test_call_raises_and_is_not_counted_if_no_thread_can_be_started(
    threads: NodeThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_to_start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    current_attempt.set(FENCE)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail_to_start)
        for _ in range(5):
            with pytest.raises(RuntimeError, match="start new thread"):
                call(threads, len, "abc")
    assert threads.when_idle(FENCE, lambda: pytest.fail("nothing is running"))
    with anyio.fail_after(SOON):
        assert await call(threads, len, "abc") == 3


async def test_call_waits_for_existing_threads_if_no_more_can_be_started(
    threads: NodeThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_to_start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    gate = threading.Event()
    first = call(threads, gate.wait, SOON)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail_to_start)
        second = call(threads, len, "abc")
    gate.set()
    with anyio.fail_after(SOON):
        assert await first
        assert await second == 3


async def test_failed_call_releases_its_arguments(threads: NodeThreads) -> None:
    """Without the garbage collector: a state may be large, and every interrupt of a sync node is a failed call."""

    class Argument: ...

    def fail(argument: Argument) -> None:
        raise ValueError("no")

    gc.collect()
    gc.disable()
    try:
        argument = Argument()
        reference = weakref.ref(argument)
        with suppress(ValueError):
            await call(threads, fail, argument)
        del argument
        await wait_until(lambda: reference() is None)
    finally:
        gc.enable()


async def test_idle_callback_of_a_closed_loop_is_ignored(threads: NodeThreads) -> None:
    """The thread that calls it keeps running."""
    gate = threading.Event()

    async def wait_on_closing_loop() -> None:
        here = asyncio.get_running_loop()
        current_attempt.set(FENCE)
        call(threads, gate.wait, SOON)
        assert not threads.when_idle(FENCE, lambda: here.call_soon_threadsafe(print))

    await asyncio.to_thread(asyncio.run, wait_on_closing_loop())
    gate.set()
    await wait_until(lambda: threads.when_idle(FENCE, lambda: None))
    with anyio.fail_after(SOON):
        assert await call(threads, len, "abc") == 3


async def test_attempt_without_calls_is_idle(threads: NodeThreads) -> None:
    assert threads.when_idle(FENCE, lambda: pytest.fail("there was nothing to wait for"))


async def test_attempt_is_idle_only_when_its_last_call_has_returned(threads: NodeThreads) -> None:
    gates = [threading.Event(), threading.Event()]
    idle, set_idle = idle_event()
    current_attempt.set(FENCE)
    first, second = (call(threads, gate.wait, SOON) for gate in gates)
    assert not threads.when_idle(FENCE, set_idle)
    gates[0].set()
    await first
    assert not idle.is_set()
    gates[1].set()
    await second
    assert idle.is_set()


async def test_calls_without_an_attempt_are_not_counted(threads: NodeThreads) -> None:
    gate = threading.Event()
    waiting = call(threads, gate.wait, SOON)
    assert threads.when_idle(FENCE, lambda: pytest.fail("it has no calls"))
    gate.set()
    assert await waiting


async def test_closed_threads_exit_and_accept_no_calls() -> None:
    threads, started, gate, calls = NodeThreads(1), threading.Event(), threading.Event(), list[str]()

    def wait() -> threading.Thread:
        started.set()
        gate.wait(SOON)
        return threading.current_thread()

    running, waiting = call(threads, wait), call(threads, calls.append, "late")
    started.wait(SOON)

    threads.close()

    with pytest.raises(RuntimeError, match="closed"):
        call(threads, len, "")
    gate.set()
    thread = await running
    thread.join(SOON)
    assert not thread.is_alive()
    assert calls == []
    assert not waiting.done()
