"""Stopping runs in every state: pending, about to start, running, in a thread."""

from concurrent.futures import Future
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs
from worker_harness import (
    HOLD_KWARGS,
    TIMEOUT,
    accept_run,
    ended,
    is_holding,
    running_worker,
    status_of,
    stop,
    wait_for_log,
    wait_until_holding,
)

from threadwire.core.entries import Kind
from threadwire.engine import worker as worker_module
from threadwire.graphs.registry import GraphRegistry
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.samples import (
    NOW,
    accept,
    kinds,
    run_log,
    start,
    start_on_new_thread,
    store_thread,
    the_run,
    the_thread,
)

pytestmark = pytest.mark.anyio


async def test_a_run_cancelled_while_pending_never_starts(storage: Storage, registry: GraphRegistry) -> None:
    run = await accept_run(storage, "hears", input={"said": []})
    cancelled = await storage.runs.cancel(run.run_id, "interrupt", NOW)
    assert cancelled is not None
    assert cancelled.ended

    other = await accept_run(storage, "hears", input={"said": []})
    async with running_worker(storage, registry):
        await ended(storage, other)

    assert kinds(await run_log(storage, run)) == [Kind.RUN_QUEUED, Kind.RUN_ENDED]
    assert await status_of(storage, run) == "interrupted"


async def test_a_run_cancelled_between_its_claim_and_its_start_is_stopped(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    thread_id = await store_thread(storage)
    async with running_worker(storage, registry) as worker:
        with worker.reserve_slot(thread_id) as start_now:
            assert start_now is not None
            run = await start(storage, thread_id, graph_id="holds", kwargs=HOLD_KWARGS)
            await stop(storage, worker, run)
            worker.start(run)
        end = await ended(storage, run)

    assert (end.data["status"], end.data["error"]["error"]) == ("interrupted", "UserInterrupt")
    assert "held" not in str(await run_log(storage, run))


async def test_a_stop_request_is_ignored_if_no_run_is_about_to_start(storage: Storage, registry: GraphRegistry) -> None:
    """Such a request is for a run that has ended. Storing it would leak memory for the lifetime of the process."""
    async with running_worker(storage, registry) as worker:
        run = await start_on_new_thread(storage, graph_id="hears", kwargs={"input": {"said": []}})
        worker.stop(run.run_id, "interrupt")
        worker.start(run)
        assert (await ended(storage, run)).data == {"status": "success"}


async def test_a_stop_request_is_discarded_with_the_reserved_slot(storage: Storage, registry: GraphRegistry) -> None:
    async with running_worker(storage, registry) as worker:
        run = await start_on_new_thread(storage, graph_id="hears", kwargs={"input": {"said": []}})
        with worker.reserve_slot(run.thread_id):
            worker.stop(run.run_id, "interrupt")
        worker.start(run)
        assert (await ended(storage, run)).data == {"status": "success"}


async def test_a_run_cancelled_while_running_keeps_its_progress(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    run = await accept_run(storage, "holds", **HOLD_KWARGS)
    async with running_worker(storage, registry) as worker:
        await wait_for_log(storage, run, is_holding())
        await stop(storage, worker, run)
        end = await ended(storage, run)

    assert (end.data["status"], end.data["error"]["error"]) == ("interrupted", "UserInterrupt")
    thread = await the_thread(storage, run.thread_id)
    assert (thread.status, thread.values["said"]) == ("interrupted", ["hello", "heard"])


@pytest.mark.parametrize("how", ["stopped", "ends by itself meanwhile", "ends before the worker is notified"])
async def test_a_run_rolled_back_while_running_leaves_only_its_log_entries(
    how: str, storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    """5.9: the rollback was promised to the client, even if the graph ends first."""
    run = await accept_run(storage, "holds" if how == "stopped" else "holds_on", **HOLD_KWARGS)
    async with running_worker(storage, registry) as worker:
        await wait_for_log(storage, run, is_holding())
        if how == "ends before the worker is notified":
            await storage.runs.cancel(run.run_id, "rollback", NOW)
        else:
            await stop(storage, worker, run, "rollback")
        if how != "stopped":
            gate.set_result(None)
        end = await ended(storage, run)
    assert worker.ended == {"interrupted": 1}

    assert end.data == {"status": "rolled_back"}
    assert kinds(await run_log(storage, run))[-2:] == [Kind.STATE_RESET, Kind.RUN_ENDED]
    assert await storage.runs.get(run.run_id) is None
    assert await storage.checkpoints.newest(run.thread_id) is None


async def test_stopping_one_run_does_not_affect_others(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    stopped, other = (
        await accept_run(storage, "holds", **HOLD_KWARGS),
        await accept_run(storage, "holds", **HOLD_KWARGS),
    )
    async with running_worker(storage, registry) as worker:
        for run in (stopped, other):
            await wait_for_log(storage, run, is_holding())
        await stop(storage, worker, stopped)
        await ended(storage, stopped)
        assert await status_of(storage, other) == "running"
        gate.set_result(None)
        assert (await ended(storage, other)).data == {"status": "success"}


@pytest.fixture
def short_stop_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "STOP_TIMEOUT", 0.01)


@pytest.mark.usefixtures("short_stop_timeout")
async def test_a_shutdown_releases_a_run_that_does_not_stop(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    """5.6"""
    run = await accept_run(storage, "holds_on", **HOLD_KWARGS)
    with capture_logs() as logs, anyio.fail_after(TIMEOUT):
        async with running_worker(storage, registry) as worker:
            await wait_for_log(storage, run, is_holding())
            await worker.drain(0)

    released = await the_run(storage, run.run_id)
    assert (released.status, released.attempt, released.crashes) == ("pending", 1, 0)
    [line] = [line for line in logs if line["event"] == "run_stop_timed_out"]
    assert (line["run_id"], line["graph_id"], line["nodes"]) == (run.run_id, "holds_on", ["hold_on"])


@pytest.mark.usefixtures("short_stop_timeout")
async def test_at_a_shutdown_a_cancelled_run_that_does_not_stop_ends_as_requested(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    run = await accept_run(storage, "holds_on", **HOLD_KWARGS)
    with anyio.fail_after(TIMEOUT):
        async with running_worker(storage, registry) as worker:
            await wait_for_log(storage, run, is_holding())
            await stop(storage, worker, run)
            await worker.drain(0)

    assert (await ended(storage, run)).data["status"] == "interrupted"
    assert (await the_thread(storage, run.thread_id)).values["said"] == ["hello", "heard"]


async def test_a_sync_node_that_cannot_be_stopped_holds_its_thread_until_it_returns(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    """5.8"""
    run = await accept_run(storage, "holds_in_thread", **HOLD_KWARGS)
    async with running_worker(storage, registry) as worker:
        await wait_until_holding()
        await stop(storage, worker, run)
        await ended(storage, run)
        following = await accept(storage, run.thread_id, graph_id="hears", kwargs={"input": {"said": ["next"]}})
        other = await accept_run(storage, "hears", input={"said": []})
        worker.hint()
        await ended(storage, other)
        with worker.reserve_slot(run.thread_id) as start_now:
            assert start_now is None
        assert await status_of(storage, following) == "pending"

        gate.set_result(None)
        await ended(storage, following)
    assert (await the_thread(storage, run.thread_id)).values["said"] == ["hello", "heard", "next", "heard"]


async def test_background_work_of_a_successful_run_does_not_hold_its_thread(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    run = await accept_run(storage, "leaves_behind", **HOLD_KWARGS)
    async with running_worker(storage, registry) as worker:
        await ended(storage, run)
        following = await accept(storage, run.thread_id, graph_id="hears", kwargs={"input": {"said": ["next"]}})
        worker.hint()
        await ended(storage, following)
        assert not gate.done()
        gate.set_result(None)
    assert (await the_thread(storage, run.thread_id)).values["said"] == ["hello", "left", "next", "heard"]


async def test_the_worker_does_not_poll_for_a_run_on_a_held_thread(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]", monkeypatch: pytest.MonkeyPatch
) -> None:
    polls: list[int | None] = []
    next_due = storage.runs.next_due

    async def recorded(**kwargs: Any) -> int | None:
        polls.append(await next_due(**kwargs))
        return polls[-1]

    run = await accept_run(storage, "holds_in_thread", **HOLD_KWARGS)
    async with running_worker(storage, registry) as worker:
        await wait_until_holding()
        await stop(storage, worker, run)
        await ended(storage, run)
        following = await accept(storage, run.thread_id, graph_id="hears", kwargs={"input": {"said": ["next"]}})
        monkeypatch.setattr(storage.runs, "next_due", recorded)
        worker.hint()
        await anyio.wait_all_tasks_blocked()
        assert set(polls) == {None}, "nothing to wait for by the clock"

        gate.set_result(None)
        await ended(storage, following)
