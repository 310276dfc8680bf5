"""Cancelling several runs with one request. The tests have their own server, because "all" means every run on it."""

import pytest
from clients import OPENERS, fresh_id, rejected, wait_for_start, wait_for_status

from threadwire.testing.server import running_server

pytestmark = pytest.mark.anyio

OVER = (
    "No matching runs to cancel. Please verify the thread ID and run IDs are correct, and the runs haven't been deleted"
    " or completed."
)
NEITHER = "Provide either `status`, or `thread_id` and `run_ids`"


@pytest.fixture(scope="module")
def server(project, tmp_path_factory):
    with running_server(project, tmp_path_factory.mktemp("server") / "data") as running:
        yield running


@pytest.fixture(params=OPENERS)
async def sdk(request, server):
    async with OPENERS[request.param](server.url) as opened:
        yield opened


async def one_running_and_two_queued(sdk, gate):
    thread_id = await sdk.thread()
    runs = [await sdk.runs.create(thread_id, "slow", input={"until": str(gate)}) for _ in range(3)]
    await wait_for_start(sdk, runs[0])
    return runs


async def statuses(sdk, thread_id):
    return [run["status"] for run in reversed(await sdk.runs.list(thread_id))]


async def test_all_runs_are_cancelled(sdk, gate):
    first, second = await one_running_and_two_queued(sdk, gate), await one_running_and_two_queued(sdk, gate)
    await sdk.runs.cancel_many(status="all")
    for run in first + second:
        await wait_for_status(sdk, run, "interrupted")


async def test_pending_runs_are_cancelled(sdk, gate):
    runs = await one_running_and_two_queued(sdk, gate)
    await sdk.runs.cancel_many(status="pending")
    assert await statuses(sdk, runs[0]["thread_id"]) == ["running", "interrupted", "interrupted"]
    gate.touch()
    await wait_for_status(sdk, runs[0], "success")


async def test_running_runs_are_rolled_back(sdk, gate):
    runs = await one_running_and_two_queued(sdk, gate)
    await sdk.runs.cancel_many(status="running", action="rollback")
    gate.touch()
    await wait_for_status(sdk, runs[2], "success")
    assert await statuses(sdk, runs[0]["thread_id"]) == ["success", "success"]


async def test_some_runs_of_a_thread_are_cancelled(sdk, gate):
    runs = await one_running_and_two_queued(sdk, gate)
    thread_id = runs[0]["thread_id"]
    await sdk.runs.cancel_many(thread_id=thread_id, run_ids=[runs[0]["run_id"], runs[2]["run_id"], fresh_id()])
    await wait_for_status(sdk, runs[0], "interrupted")
    gate.touch()
    await wait_for_status(sdk, runs[1], "success")
    assert await statuses(sdk, thread_id) == ["interrupted", "success", "interrupted"]


async def test_no_matching_runs_is_not_found(sdk):
    for status in ("pending", "running", "all"):
        with rejected(404, "No runs found to cancel."):
            await sdk.runs.cancel_many(status=status)
    thread_id, other = await sdk.thread(), await sdk.thread()
    await sdk.runs.wait(thread_id, "echo", input={})
    (run,) = await sdk.runs.list(thread_id)
    with rejected(404, OVER):
        await sdk.runs.cancel_many(thread_id=thread_id, run_ids=[run["run_id"]])
    for thread, run_id in ((thread_id, fresh_id()), (other, run["run_id"])):
        with rejected(404, "No runs found to cancel."):
            await sdk.runs.cancel_many(thread_id=thread, run_ids=[run_id])


async def test_invalid_arguments_are_rejected(sdk):
    thread_id = await sdk.thread()
    for given in (
        {},
        {"thread_id": thread_id},
        {"run_ids": [fresh_id()]},
        {"status": "all", "thread_id": thread_id, "run_ids": [fresh_id()]},
        {"status": "all", "thread_id": thread_id},
    ):
        with rejected(422, NEITHER):
            await sdk.runs.cancel_many(**given)
    with rejected(422, "Invalid run ID: must be a UUID"):
        await sdk.runs.cancel_many(thread_id=thread_id, run_ids=["abc"])
    with rejected(422, "Invalid thread ID: must be a UUID"):
        await sdk.runs.cancel_many(thread_id="abc", run_ids=[fresh_id()])
    with pytest.raises(Exception, match="status"):
        await sdk.runs.cancel_many(status="success")
    with pytest.raises(Exception, match="action"):
        await sdk.runs.cancel_many(status="all", action="burn")
