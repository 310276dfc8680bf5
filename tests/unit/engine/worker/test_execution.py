"""The worker claims runs, executes them concurrently and ends each of them, however it fails."""

from concurrent.futures import Future

import anyio
import pytest
from structlog.testing import capture_logs
from worker_harness import (
    HOLD_KWARGS,
    accept_run,
    ended,
    graphs_module,
    is_holding,
    running_worker,
    status_of,
    wait_for_log,
)

from threadwire.core.entries import Kind
from threadwire.graphs.registry import GraphRegistry
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.samples import (
    a_run,
    accept,
    kinds,
    run_log,
    store_thread,
    the_thread,
)

pytestmark = pytest.mark.anyio


async def test_a_run_is_executed_from_its_first_entry_to_its_last(storage: Storage, registry: GraphRegistry) -> None:
    """5.1 - 5.3"""
    run = await accept_run(storage, "hears", input={"said": ["hello"]})
    async with running_worker(storage, registry):
        assert (await ended(storage, run)).data == {"status": "success"}

    log = kinds(await run_log(storage, run))
    assert log[:2] == [Kind.RUN_QUEUED, Kind.RUN_STARTED]
    assert (log.count(Kind.RUN_STARTED), log.count(Kind.RUN_ENDED)) == (1, 1)
    thread = await the_thread(storage, run.thread_id)
    assert (thread.status, thread.values) == ("idle", {"said": ["hello", "heard"]})


async def test_a_hint_starts_a_pending_run(storage: Storage, registry: GraphRegistry) -> None:
    async with running_worker(storage, registry) as worker:
        run = await accept_run(storage, "hears", input={"said": []})
        worker.hint()
        await ended(storage, run)


async def test_no_more_runs_than_slots(storage: Storage, registry: GraphRegistry, gate: "Future[None]") -> None:
    runs = [await accept_run(storage, "holds", **HOLD_KWARGS) for _ in range(4)]
    async with running_worker(storage, registry, capacity=2) as worker:
        for run in runs[:2]:
            await wait_for_log(storage, run, is_holding())
        worker.hint()
        await anyio.wait_all_tasks_blocked()

        assert [await status_of(storage, run) for run in runs] == ["running", "running", "pending", "pending"]
        gate.set_result(None)
        for run in runs:
            await ended(storage, run)
    assert [await status_of(storage, run) for run in runs] == ["success"] * 4


async def test_a_slot_reserved_for_a_run_being_accepted_is_not_given_to_another(
    storage: Storage, registry: GraphRegistry
) -> None:
    async with running_worker(storage, registry, capacity=1) as worker:
        thread_id = await store_thread(storage)
        with worker.reserve_slot(thread_id) as slot, worker.reserve_slot(thread_id) as another:
            assert slot is not None
            assert another is None
            waiting = await accept_run(storage, "hears", input={"said": []})
            worker.hint()
            await anyio.wait_all_tasks_blocked()
            assert await status_of(storage, waiting) == "pending"

            new = a_run(thread_id, graph_id="hears", kwargs={"input": {"said": []}})
            accepted = await storage.runs.accept(new, claim=slot.lease)
            assert accepted.started
            slot.start(accepted.run)
        await ended(storage, accepted.run)
        await ended(storage, waiting)


async def test_a_run_that_has_started_occupies_one_slot_while_it_is_being_accepted(
    storage: Storage, registry: GraphRegistry
) -> None:
    async with running_worker(storage, registry, capacity=2) as worker:
        thread_id = await store_thread(storage)
        with worker.reserve_slot(thread_id) as slot:
            assert slot is not None
            new = a_run(thread_id, graph_id="hears", kwargs={"input": {"said": []}})
            accepted = await storage.runs.accept(new, claim=slot.lease)
            slot.start(accepted.run)
            with worker.reserve_slot(await store_thread(storage)) as another:
                assert another is not None
        await ended(storage, accepted.run)


async def test_a_reserved_slot_that_is_not_used_goes_to_a_pending_run(
    storage: Storage, registry: GraphRegistry
) -> None:
    async with running_worker(storage, registry, capacity=1) as worker:
        with worker.reserve_slot(await store_thread(storage)):
            waiting = await accept_run(storage, "hears", input={"said": []})
            worker.hint()
            await anyio.wait_all_tasks_blocked()
        await ended(storage, waiting)


async def test_runs_of_a_thread_execute_one_after_another(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    """5.8"""
    first = await accept_run(storage, "holds", **HOLD_KWARGS)
    second = await accept(storage, first.thread_id, graph_id="hears", kwargs={"input": {"said": ["again"]}})
    async with running_worker(storage, registry) as worker:
        await wait_for_log(storage, first, is_holding())
        worker.hint()
        await anyio.wait_all_tasks_blocked()
        assert await status_of(storage, second) == "pending"

        gate.set_result(None)
        await ended(storage, second)
    thread = await the_thread(storage, first.thread_id)
    assert thread.values["said"] == ["hello", "heard", "held", "again", "heard"]


# -- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph_id", "error", "message"),
    [
        ("broken", "GraphUnavailable", "cannot be imported"),
        ("unknown", "GraphUnavailable", "Graph 'unknown' does not exist"),
        ("unmade", "LookupError", "no such model"),
        ("cancels", "CancelledError", "cancelled itself"),
    ],
)
async def test_a_run_whose_graph_fails_ends_in_error_and_others_continue(
    graph_id: str, error: str, message: str, storage: Storage, registry: GraphRegistry
) -> None:
    bad = await accept_run(storage, graph_id, input={"said": []})
    good = await accept_run(storage, "hears", input={"said": []})
    async with running_worker(storage, registry) as worker:
        failed, succeeded = await ended(storage, bad), await ended(storage, good)
        later = await accept_run(storage, "hears", input={"said": []})
        worker.hint()
        await ended(storage, later)

    assert (failed.data["status"], failed.data["error"]["error"]) == ("error", error)
    assert message in failed.data["error"]["message"]
    assert succeeded.data["status"] == "success"
    assert await status_of(storage, bad) == "error"
    assert (await the_thread(storage, bad.thread_id)).status == "error"


async def test_the_log_says_where_a_run_failed(storage: Storage, registry: GraphRegistry) -> None:
    run = await accept_run(storage, "watches", input={"said": []})
    with capture_logs() as logged:
        async with running_worker(storage, registry):
            await ended(storage, run)

    (event,) = [each for each in logged if each["event"] == "run_ended"]
    assert (event["error"], event["run_id"]) == ("LookupError", run.run_id)
    assert 'raise LookupError("no such tool")' in event["stack"]
    assert "worker_graphs.py" in event["stack"]
    assert "langgraph/pregel" not in event["stack"]
    assert "During task with name 'fail'" in event["stack"]


async def test_a_run_that_the_server_ended_has_no_traceback(storage: Storage, registry: GraphRegistry) -> None:
    run = await accept_run(storage, "broken", input={"said": []})
    with capture_logs() as logged:
        async with running_worker(storage, registry):
            await ended(storage, run)
    assert ["stack" in each for each in logged if each["event"] == "run_ended"] == [False]


@pytest.mark.parametrize(
    ("graph_id", "error", "seen"),
    [
        ("watches", "LookupError", ["LookupError('no such tool')", "left"]),
        ("swallows", "LookupError", ["left"]),
        ("translates", "ValueError", []),
        ("fails_to_close", "OSError", []),
    ],
)
async def test_a_context_manager_factory_sees_the_error_of_its_graph(
    graph_id: str, error: str, seen: list[str], storage: Storage, registry: GraphRegistry
) -> None:
    """It may replace the error, but cannot turn a failed run into a successful one."""
    run = await accept_run(storage, graph_id, input={"said": ["hello"]})
    async with running_worker(storage, registry):
        end = await ended(storage, run)
    assert (end.data["status"], end.data["error"]["error"]) == ("error", error)
    assert graphs_module().seen == seen
    thread = await the_thread(storage, run.thread_id)
    assert (thread.status, thread.values) == ("error", {"said": ["hello", "heard"]})
