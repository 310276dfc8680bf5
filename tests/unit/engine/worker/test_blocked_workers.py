"""A node blocks the loop of a worker. The worker leaves all other runs to the workers that share its queue."""

from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager

import anyio
import pytest
from worker_harness import HOLD_KWARGS, TIMEOUT, accept_run, ended, keeping, running_worker, wait_until_holding

from threadwire.core.ids import ThreadId
from threadwire.core.records import Run
from threadwire.engine.checkpoints import ThreadCheckpoints
from threadwire.engine.leases import LeaseKeeper
from threadwire.engine.worker import Worker
from threadwire.graphs.registry import GraphRegistry
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.samples import NOW, the_run

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def sharing_worker(storage: Storage, registry: GraphRegistry) -> AsyncIterator[Worker]:
    async with (
        running_worker(storage, registry, shares_queue=True) as worker,
        keeping(LeaseKeeper(storage, worker, ThreadCheckpoints(storage), lambda: NOW)),
    ):
        yield worker


@asynccontextmanager
async def blocked_worker(storage: Storage, registry: GraphRegistry) -> AsyncIterator[Worker]:
    """A worker whose loop has just been blocked, which it does not know yet."""
    async with sharing_worker(storage, registry) as worker:
        await accept_run(storage, "blocks", **HOLD_KWARGS)
        await wait_until_holding("blocking")
        yield worker


async def until(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(TIMEOUT):
        while not holds():  # noqa: ASYNC110 - the loop is watched by time
            await anyio.sleep(0.005)


def has_slot(worker: Worker) -> bool:
    """Whether a run that is being accepted would start there."""
    with worker.reserve_slot(ThreadId("another thread")) as slot:
        return slot is not None


async def trivial_run(storage: Storage) -> Run:
    return await accept_run(storage, "hears", input={"said": []})


async def test_a_run_that_was_claimed_before_the_loop_was_known_to_be_blocked_ends_in_another_worker(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    async with blocked_worker(storage, registry) as blocked:
        run = await trivial_run(storage)
        await until(lambda: blocked.active == 2)
        async with sharing_worker(storage, registry):
            assert (await ended(storage, run)).data["status"] == "success"
            gate.set_result(None)
    stored = await the_run(storage, run.run_id)
    assert (stored.attempt, stored.crashes) == (2, 0)


async def test_a_worker_whose_loop_is_blocked_claims_no_run(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    async with blocked_worker(storage, registry) as blocked:
        await until(lambda: not has_slot(blocked))
        async with sharing_worker(storage, registry):
            for _ in range(10):
                run = await trivial_run(storage)
                assert (await ended(storage, run)).data["status"] == "success"
                assert (await the_run(storage, run.run_id)).attempt == 1
            assert blocked.active == 1
            gate.set_result(None)


async def test_a_worker_claims_runs_again_once_its_loop_responds(
    storage: Storage, registry: GraphRegistry, gate: "Future[None]"
) -> None:
    async with blocked_worker(storage, registry) as blocked:
        await until(lambda: not has_slot(blocked))
        run = await trivial_run(storage)
        gate.set_result(None)
        assert (await ended(storage, run)).data["status"] == "success"
