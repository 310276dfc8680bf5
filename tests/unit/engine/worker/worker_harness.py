"""Graphs that wait or fail, and a worker to execute them."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import ModuleType

import anyio

from threadwire.core.entries import START, Entry, Kind
from threadwire.core.records import Run
from threadwire.engine.checkpoints import ThreadCheckpoints
from threadwire.engine.leases import LeaseKeeper
from threadwire.engine.worker import Worker
from threadwire.graphs.project_persistence import ProjectPersistence
from threadwire.graphs.registry import GraphRegistry
from threadwire.graphs.user_loop import UserLoop
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.samples import (
    NOW,
    accept,
    store_thread,
    the_run,
)

TIMEOUT = 10.0

GRAPHS = """
import asyncio
import operator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Annotated, Any, TypedDict

from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

gates: dict[str, Future] = {}


class State(TypedDict, total=False):
    said: Annotated[list[str], operator.add]
    gate: str


def hear(state: State) -> State:
    return {"said": ["heard"]}


async def hold(state: State) -> State:
    await asyncio.shield(asyncio.wrap_future(gates[state["gate"]]))
    return {"said": ["held"]}


async def hold_on(state: State) -> State:
    while not gates[state["gate"]].done():
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)
    return {"said": ["held"]}


async def hold_after_answer(state: State) -> State:
    answer = interrupt("ok?")
    await asyncio.shield(asyncio.wrap_future(gates[state["gate"]]))
    return {"said": [answer]}


async def block(state: State) -> State:
    seen.append("blocking")
    gates[state["gate"]].result(10)
    return {"said": ["blocked"]}


def hold_in_thread(state: State) -> State:
    seen.append("holding")
    gates[state["gate"]].result(10)
    return {"said": ["held"]}


async def leave_behind(state: State) -> State:
    left.append(asyncio.create_task(asyncio.to_thread(gates[state["gate"]].result, 10)))
    await asyncio.sleep(0)
    return {"said": ["left"]}


left: list[asyncio.Task] = []


def chain(*nodes: Any) -> Any:
    builder = StateGraph(State)
    for before, node in zip((START, *(node.__name__ for node in nodes)), nodes):
        builder.add_node(node.__name__, node).add_edge(before, node.__name__)
    return builder.compile()


hears = chain(hear)
holds = chain(hear, hold)
holds_on = chain(hear, hold_on)
holds_after_answer = chain(hold_after_answer)
blocks = chain(block)
holds_in_thread = chain(hear, hold_in_thread)
leaves_behind = chain(leave_behind)


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


NAMES = ("hears", "holds", "holds_on", "holds_after_answer", "holds_in_thread", "leaves_behind", "cancels", "unmade")
NAMES += ("blocks", "watches", "swallows", "translates", "fails_to_close")


HOLD_KWARGS = {"input": {"said": ["hello"], "gate": "gate"}}


def graphs_module() -> ModuleType:
    return sys.modules["worker_graphs"]


@asynccontextmanager
async def running_worker(
    storage: Storage, registry: GraphRegistry, *, capacity: int = 4, shares_queue: bool = False
) -> AsyncIterator[Worker]:
    with UserLoop("test") as loop:
        async with ProjectPersistence().open_store(loop, storage.items, lambda: NOW) as store:
            worker = Worker(
                storage,
                registry,
                loop,
                checkpoints=ThreadCheckpoints(storage),
                store=store,
                capacity=capacity,
                clock=lambda: NOW,
                shares_queue=shares_queue,
            )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(worker.work)
            await anyio.wait_all_tasks_blocked()
            try:
                yield worker
            finally:
                with anyio.CancelScope(shield=True):
                    await worker.drain(0)


@asynccontextmanager
async def keeping(leases: LeaseKeeper) -> AsyncIterator[None]:
    """Pass on the hints of the storage to the worker."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(leases.work)
        await anyio.wait_all_tasks_blocked()
        yield
        tasks.cancel_scope.cancel()


async def wait_for_log(storage: Storage, run: Run, enough: Callable[[list[Entry]], bool]) -> list[Entry]:
    """Return the run's log once `enough` is true for it."""
    with anyio.fail_after(TIMEOUT), storage.log.watch(run.thread_id) as wakeup:
        while not enough(entries := await storage.log.read(run.thread_id, START, run_id=run.run_id)):
            await wakeup.wait(TIMEOUT)
    return entries


async def ended(storage: Storage, run: Run) -> Entry:
    return (await wait_for_log(storage, run, lambda log: bool(log) and log[-1].kind == Kind.RUN_ENDED))[-1]


def is_holding(attempt: int = 1) -> Callable[[list[Entry]], bool]:
    """A predicate for `wait_for_log`: whether the holding node has started."""

    def holds(log: list[Entry]) -> bool:
        return any(
            entry.kind == Kind.TASK and entry.attempt == attempt and entry.data["name"].startswith("hold")
            for entry in log
        )

    return holds


async def wait_until_holding(node: str = "holding") -> None:
    """Return once the sync node that holds has started. Its task entry comes earlier, and a run cancelled in between
    never calls the node."""
    with anyio.fail_after(TIMEOUT):
        while node not in graphs_module().seen:  # noqa: ASYNC110 - the node runs on another loop
            await anyio.sleep(0.005)


async def accept_run(storage: Storage, graph_id: str, **kwargs: object) -> Run:
    return await accept(storage, await store_thread(storage), graph_id=graph_id, kwargs=kwargs)


async def stop(storage: Storage, worker: Worker, run: Run, action: str = "interrupt") -> None:
    """Stop a run as a cancel request does."""
    cancelled = await storage.runs.cancel(run.run_id, action, NOW)  # type: ignore[arg-type]
    assert cancelled is not None
    if not cancelled.ended:
        worker.stop(run.run_id, action)  # type: ignore[arg-type]


async def status_of(storage: Storage, run: Run) -> str:
    return (await the_run(storage, run.run_id)).status
