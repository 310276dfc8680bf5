"""User code runs on a loop of its own: what it returns, how it is stopped, and how it is found out when it blocks."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator, MutableMapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from langgraph.graph import START, StateGraph
from structlog.testing import capture_logs

from threadwire.errors import LoopDied, LoopGivenUp
from threadwire.graphs import user_loop
from threadwire.graphs.user_loop import UserLoop, WorkCancelled, WorkExited

pytestmark = pytest.mark.anyio

SOON = 5.0


@pytest.fixture
def loop() -> Iterator[UserLoop]:
    with UserLoop("test") as loop:
        yield loop


class Work:
    """Work that never ends by itself; what happens to it can be awaited from the test's own loop."""

    def __init__(self) -> None:
        self._here = asyncio.get_running_loop()
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.may_end = threading.Event()
        self.ended = False

    async def __call__(self) -> None:
        self._here.call_soon_threadsafe(self.begun.set)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self._here.call_soon_threadsafe(self.cancelled.set)
            await asyncio.to_thread(self.may_end.wait, SOON)
            self.ended = True
            raise


# -- running ----------------------------------------------------------------------------------------------------------


async def test_work_returns_what_it_returns_from_another_thread(loop: UserLoop) -> None:
    async def work() -> tuple[str, str]:
        await asyncio.sleep(0)
        return "result", threading.current_thread().name

    assert await loop.run(work) == ("result", "threadwire-test")
    assert threading.current_thread().name != "threadwire-test"


async def test_work_raises_what_it_raises(loop: UserLoop) -> None:
    async def work() -> None:
        raise LookupError("not there")

    with pytest.raises(LookupError, match="not there"):
        await loop.run(work)


async def test_all_work_shares_one_loop(loop: UserLoop) -> None:
    async def work() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    first, second = await loop.run(work), await loop.run(work)
    assert first is second is not asyncio.get_running_loop()


async def test_works_go_on_side_by_side(loop: UserLoop) -> None:
    barrier = asyncio.Barrier(2)

    async def meet() -> None:
        await barrier.wait()

    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(loop.run, meet)
            tasks.start_soon(loop.run, meet)


# -- stopping ---------------------------------------------------------------------------------------------------------


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
            await work.begun.wait()
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await work.cancelled.wait()
                assert not returned.is_set()
                work.may_end.set()
    assert returned.is_set()
    assert work.ended


async def test_work_that_ends_while_it_is_being_stopped_has_ended(loop: UserLoop) -> None:
    here, begun = asyncio.get_running_loop(), asyncio.Event()
    ended: list[str] = []

    async def stubborn() -> str:
        here.call_soon_threadsafe(begun.set)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done all the same"
        return "never"

    async def call() -> None:
        ended.append(await loop.run(stubborn))

    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await begun.wait()
            tasks.cancel_scope.cancel()
    assert ended == ["done all the same"]


async def test_what_work_raises_while_it_is_being_stopped_is_raised(loop: UserLoop) -> None:
    here, begun = asyncio.get_running_loop(), asyncio.Event()

    async def clumsy() -> None:
        here.call_soon_threadsafe(begun.set)
        try:
            await asyncio.Event().wait()
        finally:
            raise LookupError("while cleaning up")

    async def stop(scope: anyio.CancelScope) -> None:
        await begun.wait()
        scope.cancel()

    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:
                tasks.start_soon(stop, scope)
                with pytest.raises(LookupError, match="while cleaning up"):
                    await loop.run(clumsy)


async def test_work_that_cancels_itself_says_so(loop: UserLoop) -> None:
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


async def test_the_loop_goes_on_after_work_was_stopped(loop: UserLoop) -> None:
    async def cancels_itself() -> None:
        raise asyncio.CancelledError

    async def work() -> str:
        return "still here"

    with pytest.raises(WorkCancelled):
        await loop.run(cancels_itself)
    assert await loop.run(work) == "still here"


# -- exceptions that would end the process, and death ------------------------------------------------------------------


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
async def test_work_that_would_end_the_process_says_so_and_the_loop_goes_on(
    loop: UserLoop, kind: type[BaseException]
) -> None:
    async def leave() -> None:
        raise kind("now")

    async def leave_in_a_task() -> str:
        tasks = [asyncio.create_task(leave()) for _ in range(3)]
        await asyncio.wait(tasks)
        return "still here"

    async def waits() -> str:
        await asyncio.wrap_future(may_end)
        return "undisturbed"

    may_end: Future[None] = Future()
    beside = asyncio.create_task(loop.run(waits))
    with pytest.raises(WorkExited, match=f"The project's code raised {kind.__name__}: now") as caught:
        await loop.run(leave)
    assert isinstance(caught.value.__cause__, kind)
    with pytest.raises(WorkExited):
        await asyncio.to_thread(loop.ask, leave)
    assert await loop.run(leave_in_a_task) == "still here"
    may_end.set_result(None)
    assert await beside == "undisturbed"
    assert not loop.is_dead


async def test_a_loop_that_is_stopped_by_what_runs_on_it_goes_on(loop: UserLoop) -> None:
    async def stop() -> str:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        return "still here"

    assert await loop.run(stop) == "still here"


async def test_a_loop_goes_on_when_it_cannot_tell_what_went_wrong(loop: UserLoop) -> None:
    class Unspeakable:
        def __call__(self) -> None:
            raise LookupError

        def __repr__(self) -> str:
            raise RecursionError

    async def work() -> str:
        asyncio.get_running_loop().call_soon(Unspeakable())
        await asyncio.sleep(0)
        return "still here"

    with capture_logs() as told:
        assert await loop.run(work) == "still here"
    assert {"event": "worker_went_on", "loop": "test", "after": "RecursionError", "log_level": "warning"} in told


def kill() -> None:
    """Kill the loop it is called on: when it goes on, it is closed."""
    loop: Any = asyncio.get_running_loop()
    loop.run_forever = loop.close
    loop.stop()


@pytest.mark.filterwarnings("ignore:coroutine")  # on a dead loop, nobody awaits what was asked
async def test_everybody_who_waits_for_a_loop_is_told_of_its_death(loop: UserLoop) -> None:
    async def for_ever() -> None:
        await asyncio.Event().wait()

    async def deadly() -> None:
        kill()
        await for_ever()

    def asked() -> None:
        loop.ask(for_ever)

    waiting = [asyncio.create_task(each) for each in (loop.run(for_ever), loop.lives(), asyncio.to_thread(asked))]
    cancelled = asyncio.create_task(loop.run(for_ever))
    with anyio.fail_after(SOON):
        assert await loop.run(_nothing) is None  # by now, the others have been begun
        cancelled.cancel()
        with pytest.raises(LoopDied):
            await loop.run(deadly)
        for each in waiting:
            with pytest.raises(LoopDied):
                await each
        await asyncio.wait([cancelled])
        assert loop.is_dead
        with pytest.raises(LoopDied):
            await loop.run(for_ever)
        with pytest.raises(LoopDied):
            await asyncio.to_thread(asked)
        with pytest.raises(LoopDied):
            await loop.lives()


async def _nothing() -> None: ...


async def test_what_is_left_running_may_clean_up_when_the_loop_is_closed() -> None:
    cleaned = threading.Event()

    async def background() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            cleaned.set()

    kept: list[asyncio.Task[None]] = []

    async def work() -> None:
        kept.append(asyncio.create_task(background()))
        await asyncio.sleep(0)

    with UserLoop("test") as loop:
        await loop.run(work)
    assert cleaned.is_set()


async def test_nobody_waits_for_a_loop_that_is_given_up() -> None:
    """However it keeps its work: here by blocking."""
    may_end, begun = threading.Event(), asyncio.Event()

    @asynccontextmanager
    async def kept() -> AsyncIterator[str]:
        yield "kept"

    with anyio.fail_after(SOON), UserLoop("test") as loop:
        here = asyncio.get_running_loop()

        async def block() -> None:
            here.call_soon_threadsafe(begun.set)
            may_end.wait(2 * SOON)

        async with loop.holding(kept()) as value:
            assert value == "kept"
            waiting = [asyncio.create_task(loop.run(block)), asyncio.create_task(loop.run(_nothing))]
            watching = asyncio.create_task(loop.lives())
            await begun.wait()
            waiting[0].cancel()
            loop.give_up()
            for each in waiting:
                with pytest.raises(LoopGivenUp):
                    await each
            await watching
            with pytest.raises(LoopGivenUp):
                await loop.run(_nothing)
    assert not loop.is_dead
    may_end.set()


# -- blocking ---------------------------------------------------------------------------------------------------------

BLOCKED_AFTER = 0.1


class Heard:
    """What the watchdog says, and a way to wait for it."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.blocked = threading.Event()
        self.unblocked = threading.Event()

    def __call__(self, logger: Any, level: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        self.lines.append({**line, "level": level})
        (self.blocked if line["event"] == "worker_blocked" else self.unblocked).set()
        return line


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Heard]:
    monkeypatch.setattr(user_loop, "BLOCKED_AFTER", BLOCKED_AFTER)
    heard = Heard()
    with capture_logs([heard]):
        yield heard


async def test_a_node_that_blocks_is_named_with_file_and_line(heard: Heard) -> None:
    def careless_call() -> None:
        heard.blocked.wait(SOON)

    async def careless(state: dict[str, Any]) -> None:
        careless_call()

    graph = StateGraph(dict).add_node("careless", careless).add_edge(START, "careless").compile()
    with UserLoop("test") as loop:
        await loop.run(lambda: graph.ainvoke({}))
        assert await asyncio.to_thread(heard.unblocked.wait, SOON)

    blocked, unblocked = heard.lines
    assert (blocked["event"], blocked["level"], blocked["loop"]) == ("worker_blocked", "warning", "test")
    assert blocked["node"] == "careless"
    assert blocked["at"] == f"{__file__}:{careless_call.__code__.co_firstlineno + 1} in careless_call"
    assert blocked["seconds"] >= BLOCKED_AFTER
    assert (unblocked["event"], unblocked["loop"]) == ("worker_unblocked", "test")


async def test_work_that_blocks_outside_a_node_is_named_by_its_place(heard: Heard) -> None:
    async def factory() -> None:
        heard.blocked.wait(SOON)

    with UserLoop("test") as loop:
        await loop.run(factory)

    assert heard.lines[0]["node"] is None
    assert heard.lines[0]["at"] == f"{__file__}:{factory.__code__.co_firstlineno + 1} in factory"


async def test_a_block_is_told_once_however_long_it_lasts(heard: Heard) -> None:
    async def work() -> None:
        heard.blocked.wait(SOON)
        time.sleep(3 * BLOCKED_AFTER)  # noqa: ASYNC251 - blocking is what is tested

    with UserLoop("test") as loop:
        await loop.run(work)
        assert await asyncio.to_thread(heard.unblocked.wait, SOON)

    assert [line["event"] for line in heard.lines] == ["worker_blocked", "worker_unblocked"]


async def test_a_sync_node_blocks_nobody(loop: UserLoop) -> None:
    here, begun, may_return = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def patient(state: dict[str, Any]) -> None:
        here.call_soon_threadsafe(begun.set)
        may_return.wait(SOON)

    async def another() -> str:
        return "served meanwhile"

    graph = StateGraph(dict).add_node("patient", patient).add_edge(START, "patient").compile()
    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(loop.run, lambda: graph.ainvoke({}))
            await begun.wait()
            assert await loop.run(another) == "served meanwhile"
            may_return.set()
