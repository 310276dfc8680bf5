"""Runs that a worker releases at a shutdown, or loses in a crash, are resumed by the next worker."""

from concurrent.futures import Future

import anyio
import pytest
from worker_harness import HOLD_KWARGS, TIMEOUT, accept_run, ended, is_holding, running_worker, status_of, wait_for_log

from threadwire.core.entries import Kind
from threadwire.core.records import Lease
from threadwire.graphs.registry import GraphRegistry
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.samples import (
    LEASE,
    NOW,
    a_run,
    accept,
    claim_run,
    kinds,
    run_log,
    start_on_new_thread,
    store_thread,
    the_run,
    the_thread,
    whole_log,
)

pytestmark = pytest.mark.anyio


async def test_draining_releases_unfinished_runs_uncharged(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    """5.6"""
    run = await accept_run(storage, "holds", **HOLD_KWARGS)
    async with running_worker(storage, registry) as worker:
        await wait_for_log(storage, run, is_holding())
        await worker.drain(0)

    released = await the_run(storage, run.run_id)
    assert (released.status, released.attempt, released.crashes) == ("pending", 1, 0)
    assert Kind.RUN_ENDED not in kinds(await run_log(storage, run))


async def test_draining_waits_for_runs_that_end_in_time(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    run = await accept_run(storage, "holds", **HOLD_KWARGS)
    async with running_worker(storage, registry) as worker, anyio.create_task_group() as tasks:
        await wait_for_log(storage, run, is_holding())
        tasks.start_soon(worker.drain, TIMEOUT)
        await anyio.wait_all_tasks_blocked()
        gate.set_result(None)
    assert await status_of(storage, run) == "success"


async def test_a_draining_worker_accepts_no_new_work(storage: Storage, registry: GraphRegistry) -> None:
    async with running_worker(storage, registry) as worker:
        await worker.drain(0)
        run = await accept_run(storage, "hears", input={"said": []})
        with worker.reserve_slot(run.thread_id) as start:
            assert start is None
        worker.hint()
        await anyio.wait_all_tasks_blocked()
    assert await status_of(storage, run) == "pending"


async def test_a_run_accepted_while_a_drain_starts_is_released(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    """Its slot was reserved before the drain, so it is claimed as it is accepted, and must not stay claimed."""
    thread_id = await store_thread(storage)
    async with running_worker(storage, registry) as worker, anyio.create_task_group() as tasks:
        with worker.reserve_slot(thread_id) as slot:
            assert slot is not None
            tasks.start_soon(worker.drain, 0)
            await anyio.wait_all_tasks_blocked()
            new = a_run(thread_id, graph_id="holds", kwargs=HOLD_KWARGS)
            accepted = await storage.runs.accept(new, claim=slot.lease)
            assert accepted.started
            slot.start(accepted.run)
    released = await the_run(storage, accepted.run.run_id)
    assert (released.status, released.attempt, released.crashes) == ("pending", 1, 0)


async def test_a_released_run_resumes_where_it_stopped(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    """5.4 - 5.6"""
    run = await accept_run(storage, "holds", **HOLD_KWARGS)
    async with running_worker(storage, registry):
        await wait_for_log(storage, run, is_holding())
    gate.set_result(None)
    async with running_worker(storage, registry):
        await ended(storage, run)

    assert (await the_thread(storage, run.thread_id)).values["said"] == ["hello", "heard", "held"]
    finished = await the_run(storage, run.run_id)
    assert (finished.status, finished.attempt, finished.crashes) == ("success", 2, 0)


@pytest.mark.parametrize("attempts_before_the_start", [0, 1])
async def test_a_run_that_is_released_records_what_it_answers_once(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]", attempts_before_the_start: int
) -> None:
    """6.14, also if the attempts before the first one that started left no entry"""
    asking = await accept_run(storage, "holds_after_answer", **HOLD_KWARGS)
    async with running_worker(storage, registry):
        [interrupt] = (await ended(storage, asking)).data["interrupts"]
    resume = {"command": {"resume": "yes"}}
    run = await accept(
        storage, asking.thread_id, graph_id="holds_after_answer", kwargs=resume, owner="ada", via="langgraph"
    )
    for _ in range(attempts_before_the_start):
        await storage.handle(await claim_run(storage, run.run_id)).release(NOW)
    first = attempts_before_the_start + 1
    async with running_worker(storage, registry):
        await wait_for_log(storage, run, is_holding(first))
    gate.set_result(None)
    async with running_worker(storage, registry):
        await ended(storage, run)

    log = await run_log(storage, run)
    assert [entry.attempt for entry in log if entry.kind == Kind.RUN_STARTED] == [first, first + 1]
    [answered] = [entry for entry in log if entry.kind == Kind.INPUT_ANSWERED]
    assert (answered.seq, answered.attempt) == (log[1].seq + 1, first)
    answers = [{"id": interrupt["id"], "response": "yes"}]
    assert answered.data == {"value": "yes", "answers": answers, "by": "ada", "via": "langgraph"}
    assert (await the_thread(storage, run.thread_id)).values["said"] == ["hello", "yes"]


# -- after a crash ----------------------------------------------------------------------------------------------------


async def test_a_recovered_run_resumes_from_its_checkpoint_and_applies_its_input_once(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    """5.2, 5.4 - 5.6, 2.5: the first worker counts as dead, and its writes are rejected"""
    run = await accept_run(storage, "holds", **HOLD_KWARGS)
    async with running_worker(storage, registry) as worker:
        await wait_for_log(storage, run, is_holding())
        checkpoint = await storage.checkpoints.newest(run.thread_id)
        await storage.runs.renew(Lease(worker.lease.worker, 0))  # so that its lease has expired
        [recovered] = await storage.runs.reclaim(NOW)
        assert (recovered.status, recovered.crashes) == ("pending", 1)

        async with running_worker(storage, registry):
            await wait_for_log(storage, run, is_holding(attempt=2))
            gate.set_result(None)
            assert (await ended(storage, run)).data == {"status": "success"}

    log = await run_log(storage, run)
    attempts = [entry.attempt for entry in log]
    assert attempts == sorted(attempts)
    assert checkpoint is not None
    [_, restarted] = [entry.data for entry in log if entry.kind == Kind.RUN_STARTED]
    assert (restarted["attempt"], restarted["checkpoint_id"]) == (2, checkpoint[0])
    second = [entry for entry in log if entry.attempt == 2]
    assert [entry.data["name"] for entry in second if entry.kind == Kind.TASK and "ended" in entry.data] == ["hold"]
    assert next(entry.data for entry in second if entry.kind == Kind.STATE)["full"]  # 4.6
    assert (await the_thread(storage, run.thread_id)).values["said"] == ["hello", "heard", "held"]
    assert kinds(await whole_log(storage, run.thread_id)).count(Kind.RUN_ENDED) == 1


async def test_a_run_that_crashed_before_its_first_checkpoint_gets_its_input(
    storage: Storage, registry: GraphRegistry
) -> None:
    """5.5"""
    run = await start_on_new_thread(storage, graph_id="hears", kwargs={"input": {"said": ["hello"]}})
    await storage.runs.reclaim(NOW)
    async with running_worker(storage, registry):
        await ended(storage, run)

    assert (await the_thread(storage, run.thread_id)).values["said"] == ["hello", "heard"]
    finished = await the_run(storage, run.run_id)
    assert (finished.status, finished.attempt, finished.crashes) == ("success", 2, 1)


async def test_a_run_on_a_thread_with_history_gets_its_input_again_if_it_has_no_checkpoint(
    storage: Storage, registry: GraphRegistry
) -> None:
    """5.5: the newest checkpoint is another run's"""
    first = await accept_run(storage, "hears", input={"said": ["hello"]})
    async with running_worker(storage, registry):
        await ended(storage, first)
    second = await accept(storage, first.thread_id, graph_id="hears", kwargs={"input": {"said": ["again"]}})
    await storage.runs.claim(1, LEASE, now=NOW)
    await storage.runs.reclaim(NOW)
    async with running_worker(storage, registry):
        await ended(storage, second)

    said = (await the_thread(storage, first.thread_id)).values["said"]
    assert said == ["hello", "heard", "again", "heard"]
