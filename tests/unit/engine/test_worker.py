"""The worker: it claims runs, carries them out side by side and ends each one, whatever it does."""

import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType

import anyio
import pytest

from threadwire.core.entries import START, Entry, Kind
from threadwire.core.records import Run
from threadwire.engine.checkpointing import Checkpointing
from threadwire.engine.worker import Worker
from threadwire.graphs.config import load_config, prepare_environment
from threadwire.graphs.memory import Memory
from threadwire.graphs.registry import GraphRegistry, load_registry
from threadwire.graphs.user_loop import UserLoop
from threadwire.storage.abc import Storage
from threadwire.storage.memory import open_memory_storage
from threadwire.testing.conformance.samples import (
    NOW,
    a_run,
    accept,
    keep_thread,
    kinds,
    run_log,
    start,
    start_on_new_thread,
    the_run,
    the_thread,
    whole_log,
)

pytestmark = pytest.mark.anyio

SOON = 10.0

GRAPHS = """
import asyncio
import operator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Annotated, Any, TypedDict

from langgraph.graph import START, StateGraph

gates: dict[str, Future] = {}


class State(TypedDict, total=False):
    said: Annotated[list[str], operator.add]
    gate: str


def hear(state: State) -> State:
    return {"said": ["heard"]}


async def hold(state: State) -> State:
    await asyncio.shield(asyncio.wrap_future(gates[state["gate"]]))
    return {"said": ["held"]}


def hold_in_thread(state: State) -> State:
    gates[state["gate"]].result(10)
    return {"said": ["held"]}


def chain(*nodes: Any) -> Any:
    builder = StateGraph(State)
    for before, node in zip((START, *(node.__name__ for node in nodes)), nodes):
        builder.add_node(node.__name__, node).add_edge(before, node.__name__)
    return builder.compile()


hears = chain(hear)
holds = chain(hear, hold)
holds_in_thread = chain(hear, hold_in_thread)


async def cancels() -> Any:
    raise asyncio.CancelledError


def unmade() -> Any:
    raise LookupError("no such model")


seen: list[str] = []


def fail(state: State) -> State:
    raise LookupError("no such tool")


@asynccontextmanager
async def watches():
    try:
        yield chain(hear, fail)
    except BaseException as error:
        seen.append(repr(error))
        raise
    finally:
        seen.append("left")


@contextmanager
def swallows():
    with suppress(LookupError):
        yield chain(hear, fail)
    seen.append("left")


@asynccontextmanager
async def translates():
    try:
        yield chain(hear, fail)
    except LookupError as error:
        raise ValueError("no tool at all") from error


@asynccontextmanager
async def fails_to_close():
    yield chain(hear)
    raise OSError("still open")
"""


NAMES = ("hears", "holds", "holds_in_thread", "cancels", "unmade")
NAMES += ("watches", "swallows", "translates", "fails_to_close")


@pytest.fixture
async def storage() -> AsyncIterator[Storage]:
    async with open_memory_storage() as storage:
        yield storage


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GraphRegistry]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "worker_graphs.py").write_text(GRAPHS)
    (tmp_path / "broken_graphs.py").write_text("raise RuntimeError('cannot be imported')")
    graphs = {name: f"worker_graphs:{name}" for name in NAMES}
    graphs["broken"] = "broken_graphs:graph"
    (tmp_path / "langgraph.json").write_text(json.dumps({"dependencies": ["."], "graphs": graphs}))
    config = load_config(tmp_path / "langgraph.json")
    prepare_environment(config)
    yield load_registry(config)
    graphs_of_test().gates.clear()
    del sys.modules["worker_graphs"]


def graphs_of_test() -> ModuleType:
    return sys.modules["worker_graphs"]


@pytest.fixture
def gate(registry: GraphRegistry) -> Iterator["Future[None]"]:
    """What the graphs that hold wait for. It opens at the latest when the test ends."""
    gate: Future[None] = Future()
    graphs_of_test().gates["gate"] = gate
    yield gate
    if not gate.done():
        gate.set_result(None)


HELD = {"input": {"said": ["hello"], "gate": "gate"}}


@asynccontextmanager
async def working(storage: Storage, registry: GraphRegistry, *, capacity: int = 4) -> AsyncIterator[Worker]:
    with UserLoop("test") as loop:
        async with Memory().open_store(loop, storage.items, lambda: NOW) as store:
            worker = Worker(
                storage,
                registry,
                loop,
                checkpointing=Checkpointing(storage),
                store=store,
                capacity=capacity,
                clock=lambda: NOW,
            )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(worker.work)
            await anyio.wait_all_tasks_blocked()
            try:
                yield worker
            finally:
                with anyio.CancelScope(shield=True):
                    await worker.drain(0)


async def grown(storage: Storage, run: Run, enough: Callable[[list[Entry]], bool]) -> list[Entry]:
    """The run's log, once it has what is waited for."""
    with anyio.fail_after(SOON), storage.log.watch(run.thread_id) as wakeup:
        while not enough(entries := await storage.log.read(run.thread_id, START, run_id=run.run_id)):
            await wakeup.wait(SOON)
    return entries


async def ended(storage: Storage, run: Run) -> Entry:
    return (await grown(storage, run, lambda log: bool(log) and log[-1].kind == Kind.RUN_ENDED))[-1]


def holding(attempt: int = 1) -> Callable[[list[Entry]], bool]:
    """Whether the node that holds has begun."""

    def holds(log: list[Entry]) -> bool:
        return any(
            entry.kind == Kind.TASK and entry.attempt == attempt and entry.data["name"].startswith("hold")
            for entry in log
        )

    return holds


async def asked(storage: Storage, graph_id: str, **kwargs: object) -> Run:
    return await accept(storage, await keep_thread(storage), graph_id=graph_id, kwargs=kwargs)


async def stop(storage: Storage, worker: Worker, run: Run, action: str = "interrupt") -> None:
    """As a request to cancel does it."""
    cancelled = await storage.runs.cancel(run.run_id, action, NOW)  # type: ignore[arg-type]
    assert cancelled is not None
    if not cancelled.at_once:
        worker.stop(run.run_id, action)  # type: ignore[arg-type]


async def status_of(storage: Storage, run: Run) -> str:
    return (await the_run(storage, run.run_id)).status


# -- carrying out -----------------------------------------------------------------------------------------------------


async def test_a_run_is_carried_out_from_its_first_entry_to_its_last(storage: Storage, registry: GraphRegistry) -> None:
    """5.1 - 5.3"""
    run = await asked(storage, "hears", input={"said": ["hello"]})
    async with working(storage, registry):
        assert (await ended(storage, run)).data == {"status": "success"}

    log = kinds(await run_log(storage, run))
    assert log[:2] == [Kind.RUN_QUEUED, Kind.RUN_STARTED]
    assert (log.count(Kind.RUN_STARTED), log.count(Kind.RUN_ENDED)) == (1, 1)
    thread = await the_thread(storage, run.thread_id)
    assert (thread.status, thread.values) == ("idle", {"said": ["hello", "heard"]})


async def test_a_hint_is_enough_to_begin(storage: Storage, registry: GraphRegistry) -> None:
    async with working(storage, registry) as worker:
        run = await asked(storage, "hears", input={"said": []})
        worker.hint()
        await ended(storage, run)


async def test_no_more_runs_than_there_are_places(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    runs = [await asked(storage, "holds", **HELD) for _ in range(4)]
    async with working(storage, registry, capacity=2) as worker:
        for run in runs[:2]:
            await grown(storage, run, holding())
        worker.hint()
        await anyio.wait_all_tasks_blocked()

        assert [await status_of(storage, run) for run in runs] == ["running", "running", "pending", "pending"]
        gate.set_result(None)
        for run in runs:
            await ended(storage, run)
    assert [await status_of(storage, run) for run in runs] == ["success"] * 4


async def test_a_place_kept_for_a_run_being_accepted_is_given_to_no_other(
    storage: Storage, registry: GraphRegistry
) -> None:
    async with working(storage, registry, capacity=1) as worker:
        thread_id = await keep_thread(storage)
        with worker.place_for(thread_id) as start, worker.place_for(thread_id) as another:
            assert start is not None
            assert another is None
            waiting = await asked(storage, "hears", input={"said": []})
            worker.hint()
            await anyio.wait_all_tasks_blocked()
            assert await status_of(storage, waiting) == "pending"

            new = a_run(thread_id, graph_id="hears", kwargs={"input": {"said": []}})
            accepted = await storage.runs.accept(new, start=start)
            assert accepted.started
        await ended(storage, accepted.run)
        await ended(storage, waiting)


async def test_the_runs_of_a_thread_take_turns(storage: Storage, registry: GraphRegistry, gate: "Future[None]") -> None:
    """5.8"""
    first = await asked(storage, "holds", **HELD)
    second = await accept(storage, first.thread_id, graph_id="hears", kwargs={"input": {"said": ["again"]}})
    async with working(storage, registry) as worker:
        await grown(storage, first, holding())
        worker.hint()
        await anyio.wait_all_tasks_blocked()
        assert await status_of(storage, second) == "pending"

        gate.set_result(None)
        await ended(storage, second)
    thread = await the_thread(storage, first.thread_id)
    assert thread.values["said"] == ["hello", "heard", "held", "again", "heard"]


# -- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph_id", "error", "message"),
    [
        ("broken", "GraphUnavailable", "cannot be imported"),
        ("unknown", "GraphUnavailable", "There is no graph 'unknown'"),
        ("unmade", "LookupError", "no such model"),
        ("cancels", "CancelledError", "cancelled itself"),
    ],
)
async def test_a_run_whose_graph_fails_ends_in_error_and_others_go_on(
    graph_id: str, error: str, message: str, storage: Storage, registry: GraphRegistry
) -> None:
    bad = await asked(storage, graph_id, input={"said": []})
    good = await asked(storage, "hears", input={"said": []})
    async with working(storage, registry) as worker:
        failed, succeeded = await ended(storage, bad), await ended(storage, good)
        later = await asked(storage, "hears", input={"said": []})
        worker.hint()
        await ended(storage, later)

    assert (failed.data["status"], failed.data["error"]["error"]) == ("error", error)
    assert message in failed.data["error"]["message"]
    assert succeeded.data["status"] == "success"
    assert await status_of(storage, bad) == "error"
    assert (await the_thread(storage, bad.thread_id)).status == "error"


@pytest.mark.parametrize(
    ("graph_id", "error", "seen"),
    [
        ("watches", "LookupError", ["LookupError('no such tool')", "left"]),
        ("swallows", "LookupError", ["left"]),
        ("translates", "ValueError", []),
        ("fails_to_close", "OSError", []),
    ],
)
async def test_a_factory_that_is_a_context_manager_sees_what_its_graph_raises(
    graph_id: str, error: str, seen: list[str], storage: Storage, registry: GraphRegistry
) -> None:
    """It may put another error in its place, but not make a failed run a good one."""
    run = await asked(storage, graph_id, input={"said": ["hello"]})
    async with working(storage, registry):
        end = await ended(storage, run)
    assert (end.data["status"], end.data["error"]["error"]) == ("error", error)
    assert graphs_of_test().seen == seen
    thread = await the_thread(storage, run.thread_id)
    assert (thread.status, thread.values) == ("error", {"said": ["hello", "heard"]})


# -- stopping ---------------------------------------------------------------------------------------------------------


async def test_a_run_cancelled_while_it_waits_is_never_begun(storage: Storage, registry: GraphRegistry) -> None:
    run = await asked(storage, "hears", input={"said": []})
    cancelled = await storage.runs.cancel(run.run_id, "interrupt", NOW)
    assert cancelled is not None
    assert cancelled.at_once

    other = await asked(storage, "hears", input={"said": []})
    async with working(storage, registry):
        await ended(storage, other)

    assert kinds(await run_log(storage, run)) == [Kind.RUN_QUEUED, Kind.RUN_ENDED]
    assert await status_of(storage, run) == "interrupted"


async def test_a_run_cancelled_between_its_claim_and_its_beginning_is_stopped(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    thread_id = await keep_thread(storage)
    async with working(storage, registry) as worker:
        with worker.place_for(thread_id) as free:
            assert free
            run = await start(storage, thread_id, graph_id="holds", kwargs=HELD)
            await stop(storage, worker, run)
            worker.begin(run)
        end = await ended(storage, run)

    assert (end.data["status"], end.data["error"]["error"]) == ("interrupted", "UserInterrupt")
    assert "held" not in str(await run_log(storage, run))


async def test_nobody_is_stopped_for_a_request_that_came_when_nothing_was_about_to_begin(
    storage: Storage, registry: GraphRegistry
) -> None:
    """Such a request is for a run that is over. Remembered, it would be kept for as long as the process lives."""
    async with working(storage, registry) as worker:
        run = await start_on_new_thread(storage, graph_id="hears", kwargs={"input": {"said": []}})
        worker.stop(run.run_id, "interrupt")
        worker.begin(run)
        assert (await ended(storage, run)).data == {"status": "success"}


async def test_a_request_to_stop_is_forgotten_with_the_place_it_was_for(
    storage: Storage, registry: GraphRegistry
) -> None:
    async with working(storage, registry) as worker:
        run = await start_on_new_thread(storage, graph_id="hears", kwargs={"input": {"said": []}})
        with worker.place_for(run.thread_id):
            worker.stop(run.run_id, "interrupt")
        worker.begin(run)
        assert (await ended(storage, run)).data == {"status": "success"}


async def test_a_run_cancelled_while_it_runs_keeps_what_it_had_done(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    run = await asked(storage, "holds", **HELD)
    async with working(storage, registry) as worker:
        await grown(storage, run, holding())
        await stop(storage, worker, run)
        end = await ended(storage, run)

    assert (end.data["status"], end.data["error"]["error"]) == ("interrupted", "UserInterrupt")
    thread = await the_thread(storage, run.thread_id)
    assert (thread.status, thread.values["said"]) == ("interrupted", ["hello", "heard"])


async def test_a_run_rolled_back_while_it_runs_leaves_only_its_entries(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    """5.9"""
    run = await asked(storage, "holds", **HELD)
    async with working(storage, registry) as worker:
        await grown(storage, run, holding())
        await stop(storage, worker, run, "rollback")
        end = await ended(storage, run)

    assert end.data == {"status": "rolled_back"}
    assert kinds(await run_log(storage, run))[-2:] == [Kind.STATE_RESET, Kind.RUN_ENDED]
    assert await storage.runs.get(run.run_id) is None
    assert await storage.checkpoints.newest(run.thread_id) is None


async def test_stopping_one_run_leaves_the_others_alone(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    stopped, other = await asked(storage, "holds", **HELD), await asked(storage, "holds", **HELD)
    async with working(storage, registry) as worker:
        for run in (stopped, other):
            await grown(storage, run, holding())
        await stop(storage, worker, stopped)
        await ended(storage, stopped)
        assert await status_of(storage, other) == "running"
        gate.set_result(None)
        assert (await ended(storage, other)).data == {"status": "success"}


async def test_a_sync_node_that_cannot_be_stopped_keeps_its_thread_until_it_returns(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    """5.8"""
    run = await asked(storage, "holds_in_thread", **HELD)
    async with working(storage, registry) as worker:
        await grown(storage, run, holding())
        await stop(storage, worker, run)
        await ended(storage, run)
        following = await accept(storage, run.thread_id, graph_id="hears", kwargs={"input": {"said": ["next"]}})
        elsewhere = await asked(storage, "hears", input={"said": []})
        worker.hint()
        await ended(storage, elsewhere)
        with worker.place_for(run.thread_id) as free:
            assert not free
        assert await status_of(storage, following) == "pending"

        gate.set_result(None)
        await ended(storage, following)
    assert (await the_thread(storage, run.thread_id)).values["said"] == ["hello", "heard", "next", "heard"]


# -- shutting down ----------------------------------------------------------------------------------------------------


async def test_draining_releases_what_does_not_end_and_charges_nothing(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    """5.6"""
    run = await asked(storage, "holds", **HELD)
    async with working(storage, registry) as worker:
        await grown(storage, run, holding())
        await worker.drain(0)

    released = await the_run(storage, run.run_id)
    assert (released.status, released.attempt, released.crashes) == ("pending", 1, 0)
    assert Kind.RUN_ENDED not in kinds(await run_log(storage, run))


async def test_draining_lets_what_ends_in_time_end(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    run = await asked(storage, "holds", **HELD)
    async with working(storage, registry) as worker, anyio.create_task_group() as tasks:
        await grown(storage, run, holding())
        tasks.start_soon(worker.drain, SOON)
        await anyio.wait_all_tasks_blocked()
        gate.set_result(None)
    assert await status_of(storage, run) == "success"


async def test_a_draining_worker_takes_no_new_work(storage: Storage, registry: GraphRegistry) -> None:
    async with working(storage, registry) as worker:
        await worker.drain(0)
        run = await asked(storage, "hears", input={"said": []})
        with worker.place_for(run.thread_id) as free:
            assert not free
        worker.hint()
        await anyio.wait_all_tasks_blocked()
    assert await status_of(storage, run) == "pending"


async def test_a_run_accepted_while_a_drain_begins_is_released(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    """Its place was kept before the drain, so it is claimed as it is accepted; nobody may leave it so."""
    thread_id = await keep_thread(storage)
    async with working(storage, registry) as worker, anyio.create_task_group() as tasks:
        with worker.place_for(thread_id) as free:
            assert free
            tasks.start_soon(worker.drain, 0)
            await anyio.wait_all_tasks_blocked()
            accepted = await storage.runs.accept(a_run(thread_id, graph_id="holds", kwargs=HELD), start=worker.begin)
            assert accepted.started
    released = await the_run(storage, accepted.run.run_id)
    assert (released.status, released.attempt, released.crashes) == ("pending", 1, 0)


async def test_a_released_run_goes_on_where_it_was(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    """5.4 - 5.6"""
    run = await asked(storage, "holds", **HELD)
    async with working(storage, registry):
        await grown(storage, run, holding())
    gate.set_result(None)
    async with working(storage, registry):
        await ended(storage, run)

    assert (await the_thread(storage, run.thread_id)).values["said"] == ["hello", "heard", "held"]
    finished = await the_run(storage, run.run_id)
    assert (finished.status, finished.attempt, finished.crashes) == ("success", 2, 0)


# -- after a crash ----------------------------------------------------------------------------------------------------


async def test_a_recovered_run_goes_on_from_its_checkpoint_with_its_input_applied_once(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    """5.2, 5.4 - 5.6, 2.5: the first worker counts as dead, and whatever it still says is refused"""
    run = await asked(storage, "holds", **HELD)
    async with working(storage, registry):
        await grown(storage, run, holding())
        checkpoint = await storage.checkpoints.newest(run.thread_id)
        [recovered] = await storage.runs.recover(NOW)
        assert (recovered.status, recovered.crashes) == ("pending", 1)

        async with working(storage, registry):
            await grown(storage, run, holding(attempt=2))
            gate.set_result(None)
            assert (await ended(storage, run)).data == {"status": "success"}

    log = await run_log(storage, run)
    attempts = [entry.attempt for entry in log]
    assert attempts == sorted(attempts)
    assert checkpoint is not None
    [_, again] = [entry.data for entry in log if entry.kind == Kind.RUN_STARTED]
    assert (again["attempt"], again["checkpoint_id"]) == (2, checkpoint[0])
    second = [entry for entry in log if entry.attempt == 2]
    assert [entry.data["name"] for entry in second if entry.kind == Kind.TASK and "ended" in entry.data] == ["hold"]
    assert next(entry.data for entry in second if entry.kind == Kind.STATE)["full"]  # 4.6
    assert (await the_thread(storage, run.thread_id)).values["said"] == ["hello", "heard", "held"]
    assert kinds(await whole_log(storage, run.thread_id)).count(Kind.RUN_ENDED) == 1


async def test_a_run_that_died_before_its_first_checkpoint_is_given_its_input(
    storage: Storage, registry: GraphRegistry
) -> None:
    """5.5"""
    run = await start_on_new_thread(storage, graph_id="hears", kwargs={"input": {"said": ["hello"]}})
    await storage.runs.recover(NOW)
    async with working(storage, registry):
        await ended(storage, run)

    assert (await the_thread(storage, run.thread_id)).values["said"] == ["hello", "heard"]
    finished = await the_run(storage, run.run_id)
    assert (finished.status, finished.attempt, finished.crashes) == ("success", 2, 1)


async def test_a_run_on_a_thread_with_a_past_is_given_its_input_again_unless_it_had_begun(
    storage: Storage, registry: GraphRegistry
) -> None:
    """5.5: the newest checkpoint is another run's"""
    first = await asked(storage, "hears", input={"said": ["hello"]})
    async with working(storage, registry):
        await ended(storage, first)
    second = await accept(storage, first.thread_id, graph_id="hears", kwargs={"input": {"said": ["again"]}})
    await storage.runs.claim(1, now=NOW)
    await storage.runs.recover(NOW)
    async with working(storage, registry):
        await ended(storage, second)

    said = (await the_thread(storage, first.thread_id)).values["said"]
    assert said == ["hello", "heard", "again", "heard"]
