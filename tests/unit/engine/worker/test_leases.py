"""A worker renews the leases of its runs, learns from the renewals what other processes did to them, and reclaims
the runs of workers that died."""

from concurrent.futures import Future

import anyio
import pytest
from worker_harness import (
    HOLD_KWARGS,
    accept_run,
    ended,
    is_holding,
    keeping,
    running_worker,
    wait_for_log,
    wait_until_holding,
)

from threadwire.core.entries import Kind
from threadwire.core.records import Ending, Lease, Run
from threadwire.engine.checkpoints import ThreadCheckpoints
from threadwire.engine.leases import MAX_UNRENEWED, LeaseKeeper
from threadwire.engine.worker import Worker
from threadwire.engine.workers import LEASE_MILLISECONDS
from threadwire.errors import StorageUnavailable
from threadwire.graphs.registry import GraphRegistry
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.samples import LEASE, LONG_LEASE, NOW, accept, run_log, start_on_new_thread, the_run

pytestmark = pytest.mark.anyio

TIMEOUT = 10


class FakeTime:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def keeper(storage: Storage, worker: Worker, time: FakeTime | None = None) -> LeaseKeeper:
    """It does only what hints ask for: the fake time stands still after the first turn."""
    return LeaseKeeper(storage, worker, ThreadCheckpoints(storage), lambda: NOW, now=time or FakeTime())


async def expire(storage: Storage, worker: Worker) -> None:
    await storage.runs.renew(Lease(worker.lease.worker, 0))


async def until_stopped(worker: Worker, run: Run) -> None:
    with anyio.fail_after(TIMEOUT):
        await worker.wait_until_stopped(run.run_id)


@pytest.mark.parametrize("action", ["interrupt", "rollback"])
async def test_a_run_cancelled_by_another_process_is_stopped(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]", action: str
) -> None:
    run = await accept_run(storage, "holds", **HOLD_KWARGS)
    async with running_worker(storage, registry) as worker, keeping(keeper(storage, worker)):
        await wait_for_log(storage, run, is_holding())
        await storage.runs.cancel(run.run_id, action, NOW)
        end = await ended(storage, run)
    assert end.data["status"] == ("interrupted" if action == "interrupt" else "rolled_back")


async def test_a_run_accepted_by_another_process_is_claimed(storage: Storage, registry: GraphRegistry) -> None:
    async with running_worker(storage, registry) as worker, keeping(keeper(storage, worker)):
        run = await accept_run(storage, "hears", input={"said": []})
        assert (await ended(storage, run)).data == {"status": "success"}


async def test_a_lost_run_is_stopped_and_neither_ends_nor_is_released(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    run = await accept_run(storage, "holds", **HOLD_KWARGS)
    async with running_worker(storage, registry) as worker, keeping(keeper(storage, worker)):
        await wait_for_log(storage, run, is_holding())
        await expire(storage, worker)
        await storage.runs.reclaim(NOW)
        [stolen] = await storage.runs.claim(1, Lease("another worker", LONG_LEASE.milliseconds), now=NOW)
        before = await run_log(storage, run)
        await until_stopped(worker, run)
        assert await run_log(storage, run) == before
        assert await the_run(storage, run.run_id) == stolen
        assert await storage.handle(stolen).finish(Ending("success"), NOW)


async def test_a_run_whose_thread_was_deleted_by_another_process_is_stopped(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    run = await accept_run(storage, "holds", **HOLD_KWARGS)
    async with running_worker(storage, registry) as worker, keeping(keeper(storage, worker)):
        await wait_for_log(storage, run, is_holding())
        await storage.threads.delete(run.thread_id)
        await until_stopped(worker, run)


async def test_renewed_runs_are_not_reclaimed(storage: Storage, registry: GraphRegistry, gate: "Future[None]") -> None:
    run = await accept_run(storage, "holds", **HOLD_KWARGS)
    async with running_worker(storage, registry) as worker:
        await wait_for_log(storage, run, is_holding())
        await expire(storage, worker)
        leases = keeper(storage, worker)
        await leases.renew()
        await leases.reclaim()
        gate.set_result(None)
        assert (await ended(storage, run)).data == {"status": "success"}
    assert (await the_run(storage, run.run_id)).crashes == 0


async def test_the_hold_of_a_node_that_cannot_be_stopped_is_visible_to_other_workers(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    run = await accept_run(storage, "holds_in_thread", **HOLD_KWARGS)
    async with running_worker(storage, registry) as worker:
        await wait_until_holding()
        await storage.runs.cancel(run.run_id, "interrupt", NOW)
        await keeper(storage, worker).renew()
        await ended(storage, run)
        following = await accept(storage, run.thread_id, graph_id="hears", kwargs={"input": {"said": []}})
        await expire(storage, worker)
        await keeper(storage, worker).renew()
        assert await storage.runs.claim(1, LONG_LEASE, now=NOW) == []
        gate.set_result(None)
        await ended(storage, following)


async def test_runs_of_a_dead_worker_are_resumed(storage: Storage, registry: GraphRegistry) -> None:
    run = await start_on_new_thread(storage, graph_id="hears", kwargs={"input": {"said": []}})
    assert LEASE.milliseconds == 0
    async with running_worker(storage, registry) as worker, keeping(keeper(storage, worker)):
        assert (await ended(storage, run)).data == {"status": "success"}
    assert ((await the_run(storage, run.run_id)).attempt, (await the_run(storage, run.run_id)).crashes) == (2, 1)


async def test_a_worker_that_cannot_renew_gives_its_runs_up_before_their_leases_expire(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]", monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await accept_run(storage, "holds", **HOLD_KWARGS)
    async with running_worker(storage, registry) as worker:
        await wait_for_log(storage, run, is_holding())
        time = FakeTime()
        leases = keeper(storage, worker, time)
        await leases.renew()

        async def unavailable(lease: Lease) -> None:
            raise StorageUnavailable

        monkeypatch.setattr(storage.runs, "renew", unavailable)
        limit = MAX_UNRENEWED * LEASE_MILLISECONDS / 1000
        for time.now in (limit - 1, limit + 1):
            assert worker.active == 1
            with pytest.raises(StorageUnavailable):
                await leases.renew()
        await until_stopped(worker, run)
    log = await run_log(storage, run)
    assert Kind.RUN_ENDED not in [entry.kind for entry in log]
    assert (await the_run(storage, run.run_id)).status == "running"
