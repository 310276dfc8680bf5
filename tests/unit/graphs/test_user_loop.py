"""User code runs on its own loop: results, cancellation, failures, and detection of blocking code."""

import asyncio
import importlib
import threading
import time
from collections.abc import AsyncIterator, Iterator, MutableMapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import anyio
import pytest
from langgraph.graph import START, StateGraph
from structlog.testing import capture_logs

from threadwire.errors import LoopAbandoned, LoopFailed
from threadwire.graphs import user_loop
from threadwire.graphs.user_loop import LoopBlocked, UserLoop, WorkCancelled, WorkExited

pytestmark = pytest.mark.anyio

SOON = 5.0

caller: ContextVar[str] = ContextVar("caller")


@pytest.fixture
def loop() -> Iterator[UserLoop]:
    with UserLoop("test") as loop:
        yield loop


class Work:
    """Work that only ends when it is cancelled. Its events can be awaited on the test's loop."""

    def __init__(self) -> None:
        self._here = asyncio.get_running_loop()
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.may_end = threading.Event()
        self.ended = False

    async def __call__(self) -> None:
        self._here.call_soon_threadsafe(self.started.set)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self._here.call_soon_threadsafe(self.cancelled.set)
            await asyncio.to_thread(self.may_end.wait, SOON)
            self.ended = True
            raise


# -- running ----------------------------------------------------------------------------------------------------------


async def test_result_of_work_is_returned_from_another_thread(loop: UserLoop) -> None:
    async def work() -> tuple[str, str]:
        await asyncio.sleep(0)
        return "result", threading.current_thread().name

    assert await loop.run(work) == ("result", "threadwire-test")
    assert threading.current_thread().name != "threadwire-test"


async def test_exception_of_work_is_raised(loop: UserLoop) -> None:
    async def work() -> None:
        raise LookupError("not found")

    with pytest.raises(LookupError, match="not found"):
        await loop.run(work)


async def test_all_work_shares_one_loop(loop: UserLoop) -> None:
    async def work() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    first, second = await loop.run(work), await loop.run(work)
    assert first is second is not asyncio.get_running_loop()


async def test_work_runs_concurrently(loop: UserLoop) -> None:
    barrier = asyncio.Barrier(2)

    async def meet() -> None:
        await barrier.wait()

    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(loop.run, meet)
            tasks.start_soon(loop.run, meet)


# -- stopping ---------------------------------------------------------------------------------------------------------


async def test_short_calls_that_start_together_have_the_context_of_their_own_callers(loop: UserLoop) -> None:
    seen: dict[str, str] = {}

    async def call(name: str) -> None:
        async def work() -> None:
            seen[name] = caller.get()

        caller.set(name)
        await loop.run_within(SOON, work)

    async with anyio.create_task_group() as tasks:
        for name in ("ada", "bob", "eve"):
            tasks.start_soon(call, name)
    assert seen == {"ada": "ada", "bob": "bob", "eve": "eve"}


async def test_cancelling_the_caller_cancels_the_work_and_waits_for_it(loop: UserLoop) -> None:
    work, returned = Work(), asyncio.Event()

    async def call() -> None:
        try:
            await loop.run(work)
        finally:
            returned.set()

    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await work.started.wait()
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await work.cancelled.wait()
                assert not returned.is_set()
                work.may_end.set()
    assert returned.is_set()
    assert work.ended


async def test_work_that_finishes_while_being_cancelled_returns_its_result(loop: UserLoop) -> None:
    here, started = asyncio.get_running_loop(), asyncio.Event()
    results: list[str] = []

    async def stubborn() -> str:
        here.call_soon_threadsafe(started.set)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "finished"
        return "never"

    async def call() -> None:
        results.append(await loop.run(stubborn))

    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await started.wait()
            tasks.cancel_scope.cancel()
    assert results == ["finished"]


async def test_exception_raised_while_being_cancelled_is_raised(loop: UserLoop) -> None:
    here, started = asyncio.get_running_loop(), asyncio.Event()

    async def failing_cleanup() -> None:
        here.call_soon_threadsafe(started.set)
        try:
            await asyncio.Event().wait()
        finally:
            raise LookupError("while cleaning up")

    async def stop(scope: anyio.CancelScope) -> None:
        await started.wait()
        scope.cancel()

    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:
                tasks.start_soon(stop, scope)
                with pytest.raises(LookupError, match="while cleaning up"):
                    await loop.run(failing_cleanup)


async def test_work_that_cancels_itself_raises_work_cancelled(loop: UserLoop) -> None:
    async def by_raising() -> None:
        raise asyncio.CancelledError

    async def by_its_task() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    for work in (by_raising, by_its_task):
        with pytest.raises(WorkCancelled):
            await loop.run(work)


async def test_loop_is_usable_after_work_was_cancelled(loop: UserLoop) -> None:
    async def cancels_itself() -> None:
        raise asyncio.CancelledError

    async def work() -> str:
        return "still here"

    with pytest.raises(WorkCancelled):
        await loop.run(cancels_itself)
    assert await loop.run(work) == "still here"


# -- exceptions that would end the process, and failures of the loop ---------------------------------------------------


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
async def test_work_that_would_end_the_process_raises_work_exited_and_the_loop_continues(
    loop: UserLoop, kind: type[BaseException]
) -> None:
    async def exit_now() -> None:
        raise kind("now")

    async def exit_in_a_task() -> str:
        tasks = [asyncio.create_task(exit_now()) for _ in range(3)]
        await asyncio.wait(tasks)
        return "still here"

    async def wait() -> str:
        await asyncio.wrap_future(may_end)
        return "undisturbed"

    may_end: Future[None] = Future()
    concurrent = asyncio.create_task(loop.run(wait))
    with pytest.raises(WorkExited, match=f"The project's code raised {kind.__name__}: now") as caught:
        await loop.run(exit_now)
    assert isinstance(caught.value.__cause__, kind)
    with pytest.raises(WorkExited):
        await asyncio.to_thread(loop.run_blocking, exit_now)
    assert await loop.run(exit_in_a_task) == "still here"
    may_end.set_result(None)
    assert await concurrent == "undisturbed"
    assert not loop.has_failed


async def test_loop_that_is_stopped_by_user_code_continues(loop: UserLoop) -> None:
    async def stop() -> str:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        return "still here"

    assert await loop.run(stop) == "still here"


async def test_loop_continues_when_error_reporting_fails(loop: UserLoop) -> None:
    class FailingRepr:
        def __call__(self) -> None:
            raise LookupError

        def __repr__(self) -> str:
            raise RecursionError

    async def work() -> str:
        asyncio.get_running_loop().call_soon(FailingRepr())
        await asyncio.sleep(0)
        return "still here"

    with capture_logs() as logs:
        assert await loop.run(work) == "still here"
    assert {"event": "loop_resumed", "loop": "test", "error": "RecursionError", "log_level": "warning"} in logs


def kill() -> None:
    """Kill the running loop: instead of resuming, it closes itself."""
    loop: Any = asyncio.get_running_loop()
    loop.run_forever = loop.close
    loop.stop()


@pytest.mark.filterwarnings("ignore:coroutine")  # coroutines of a failed loop are never awaited
async def test_failure_of_a_loop_is_raised_to_every_waiter(loop: UserLoop) -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    async def deadly() -> None:
        kill()
        await forever()

    def block() -> None:
        loop.run_blocking(forever)

    waiting = [
        asyncio.create_task(each) for each in (loop.run(forever), loop.wait_for_failure(), asyncio.to_thread(block))
    ]
    cancelled = asyncio.create_task(loop.run(forever))
    with anyio.fail_after(SOON):
        assert await loop.run(_nothing) is None  # the others have started by now
        cancelled.cancel()
        with pytest.raises(LoopFailed):
            await loop.run(deadly)
        for each in waiting:
            with pytest.raises(LoopFailed):
                await each
        await asyncio.wait([cancelled])
        assert loop.has_failed
        with pytest.raises(LoopFailed):
            await loop.run(forever)
        with pytest.raises(LoopFailed):
            await asyncio.to_thread(block)
        with pytest.raises(LoopFailed):
            await loop.wait_for_failure()


async def _nothing() -> None: ...


async def test_remaining_tasks_may_clean_up_when_the_loop_is_closed() -> None:
    cleaned = threading.Event()

    async def background() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            cleaned.set()

    tasks: list[asyncio.Task[None]] = []

    async def work() -> None:
        tasks.append(asyncio.create_task(background()))
        await asyncio.sleep(0)

    with UserLoop("test") as loop:
        await loop.run(work)
    assert cleaned.is_set()


async def test_nothing_waits_for_an_abandoned_loop() -> None:
    """Even if its work never returns; here it blocks the loop."""
    may_end, started = threading.Event(), asyncio.Event()

    @asynccontextmanager
    async def manager() -> AsyncIterator[str]:
        yield "value"

    with anyio.fail_after(SOON), UserLoop("test") as loop:
        here = asyncio.get_running_loop()

        async def block() -> None:
            here.call_soon_threadsafe(started.set)
            may_end.wait(2 * SOON)

        async with loop.enter(manager()) as value:
            assert value == "value"
            waiting = [asyncio.create_task(loop.run(block)), asyncio.create_task(loop.run(_nothing))]
            watching = asyncio.create_task(loop.wait_for_failure())
            await started.wait()
            waiting[0].cancel()
            loop.abandon()
            for each in waiting:
                with pytest.raises(LoopAbandoned):
                    await each
            await watching
            with pytest.raises(LoopAbandoned):
                await loop.run(_nothing)
    assert not loop.has_failed
    may_end.set()


# -- blocking ---------------------------------------------------------------------------------------------------------

BLOCKED_AFTER = 0.1


class WatchdogLog:
    """Records what the watchdog logs and lets tests wait for it."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.blocked = threading.Event()
        self.unblocked = threading.Event()

    def __call__(self, logger: Any, level: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        self.lines.append({**line, "level": level})
        (self.blocked if line["event"] == "loop_blocked" else self.unblocked).set()
        return line


@pytest.fixture
def watchdog(monkeypatch: pytest.MonkeyPatch) -> Iterator[WatchdogLog]:
    monkeypatch.setattr(user_loop, "BLOCKED_AFTER", BLOCKED_AFTER)
    watchdog = WatchdogLog()
    with capture_logs([watchdog]):
        yield watchdog


async def test_blocking_node_is_logged_with_file_and_line(watchdog: WatchdogLog) -> None:
    def blocking_call() -> None:
        watchdog.blocked.wait(SOON)

    async def blocking_node(state: dict[str, Any]) -> None:
        blocking_call()

    graph = StateGraph(dict).add_node("blocking", blocking_node).add_edge(START, "blocking").compile()
    with UserLoop("test") as loop:
        await loop.run(lambda: graph.ainvoke({}))
        assert await asyncio.to_thread(watchdog.unblocked.wait, SOON)

    blocked, unblocked = watchdog.lines
    assert (blocked["event"], blocked["level"], blocked["loop"]) == ("loop_blocked", "warning", "test")
    assert blocked["node"] == "blocking"
    assert blocked["at"] == f"{__file__}:{blocking_call.__code__.co_firstlineno + 1} in blocking_call"
    assert blocked["seconds"] >= BLOCKED_AFTER
    assert (unblocked["event"], unblocked["loop"]) == ("loop_unblocked", "test")


async def test_blocking_outside_a_node_is_logged_with_its_location(watchdog: WatchdogLog) -> None:
    async def factory() -> None:
        watchdog.blocked.wait(SOON)

    with UserLoop("test") as loop:
        await loop.run(factory)

    assert watchdog.lines[0]["node"] is None
    assert watchdog.lines[0]["at"] == f"{__file__}:{factory.__code__.co_firstlineno + 1} in factory"


async def test_an_import_that_blocks_is_not_logged(
    watchdog: WatchdogLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_to_import.py").write_text(f"import time; time.sleep({5 * BLOCKED_AFTER})")
    monkeypatch.syspath_prepend(str(tmp_path))

    async def work() -> None:
        importlib.import_module("slow_to_import")

    with UserLoop("test") as loop:
        await loop.run(work)
    assert watchdog.lines == []


async def test_long_block_is_logged_once(watchdog: WatchdogLog) -> None:
    async def work() -> None:
        watchdog.blocked.wait(SOON)
        time.sleep(3 * BLOCKED_AFTER)  # noqa: ASYNC251 - blocking is what is tested

    with UserLoop("test") as loop:
        await loop.run(work)
        assert await asyncio.to_thread(watchdog.unblocked.wait, SOON)

    assert [line["event"] for line in watchdog.lines] == ["loop_blocked", "loop_unblocked"]


class Blocker:
    """Work that blocks the loop until it is released."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.released = threading.Event()

    async def __call__(self) -> None:
        self.started.set()
        self.released.wait(SOON)


async def test_work_is_withdrawn_if_the_loop_is_blocked_before_it_starts(watchdog: WatchdogLog) -> None:
    blocker, late = Blocker(), Work()
    with UserLoop("test") as loop:
        blocking = asyncio.create_task(loop.run(blocker, unless_blocked=True))
        assert await asyncio.to_thread(blocker.started.wait, SOON)
        with pytest.raises(LoopBlocked):
            await loop.run(late, unless_blocked=True)
        blocker.released.set()
        await blocking
        assert await loop.run(_nothing) is None  # behind the withdrawn work, which would have started by now
    assert not late.started.is_set()


async def test_work_that_has_started_is_not_withdrawn(watchdog: WatchdogLog) -> None:
    blocker, work = Blocker(), Work()
    work.may_end.set()
    with UserLoop("test") as loop:
        task = asyncio.create_task(loop.run(work, unless_blocked=True))
        await work.started.wait()
        blocking = asyncio.create_task(loop.run(blocker))
        assert await asyncio.to_thread(watchdog.blocked.wait, SOON)
        await asyncio.sleep(3 * BLOCKED_AFTER)
        assert not task.done()
        blocker.released.set()
        await blocking
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_work_that_is_cancelled_before_it_starts_does_not_wait_for_a_blocked_loop(watchdog: WatchdogLog) -> None:
    blocker, late = Blocker(), Work()
    with UserLoop("test") as loop:
        blocking = asyncio.create_task(loop.run(blocker))
        assert await asyncio.to_thread(blocker.started.wait, SOON)
        task = asyncio.create_task(loop.run(late))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not blocking.done()
        blocker.released.set()
        await blocking
        assert await loop.run(_nothing) is None
    assert not late.started.is_set()


async def test_sync_node_does_not_block_the_loop(loop: UserLoop) -> None:
    here, started, may_return = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def waiting_node(state: dict[str, Any]) -> None:
        here.call_soon_threadsafe(started.set)
        may_return.wait(SOON)

    async def another() -> str:
        return "served"

    graph = StateGraph(dict).add_node("waiting", waiting_node).add_edge(START, "waiting").compile()
    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(loop.run, lambda: graph.ainvoke({}))
            await started.wait()
            assert await loop.run(another) == "served"
            may_return.set()


async def test_a_node_that_consists_of_library_code_is_named_without_a_line(watchdog: WatchdogLog) -> None:
    library: dict[str, Any] = {}
    source = "async def library_node(state): release.wait()"
    exec(compile(source, "/anywhere/site-packages/library.py", "exec"), library)
    release = library["release"] = threading.Event()
    graph = StateGraph(dict).add_node("blocking", library["library_node"]).add_edge(START, "blocking").compile()
    with UserLoop("test") as loop:
        assert loop.blocked_at() is None
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(loop.run(lambda: graph.ainvoke({})))
            assert await asyncio.to_thread(watchdog.blocked.wait, SOON)
            assert loop.blocked_at() == ("blocking", None)
            release.set()
