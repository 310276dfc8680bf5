"""A second run on a busy thread."""

import pytest
from clients import rejected, wait_for_start, wait_for_status

pytestmark = pytest.mark.anyio

BUSY = "Thread is already running a task. Wait for it to finish or choose a different multitask strategy."


async def busy(sdk, gate):
    thread_id = await sdk.thread()
    run = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)})
    await wait_for_start(sdk, run)
    return thread_id, run


async def test_reject_rejects_the_second_run(sdk, gate):
    thread_id, first = await busy(sdk, gate)
    for start in (sdk.runs.create, sdk.runs.wait):
        with rejected(409, BUSY):
            await start(thread_id, "echo", input={}, multitask_strategy="reject")
    assert len(await sdk.runs.list(thread_id)) == 1
    gate.touch()
    await wait_for_status(sdk, first, "success")
    await sdk.runs.wait(thread_id, "echo", input={}, multitask_strategy="reject")


@pytest.mark.parametrize("kwargs", [{}, {"multitask_strategy": "enqueue"}], ids=["by-default", "explicitly"])
async def test_enqueue_starts_the_second_run_when_the_first_has_ended(sdk, gate, kwargs):
    thread_id, first = await busy(sdk, gate)
    second = await sdk.runs.create(thread_id, "slow", input={"seconds": 0}, **kwargs)
    third = await sdk.runs.create(thread_id, "slow", input={"seconds": 0}, **kwargs)
    assert [run["status"] for run in await sdk.runs.list(thread_id)] == ["pending", "pending", "running"]
    gate.touch()
    await wait_for_status(sdk, third, "success")
    assert [run["status"] for run in await sdk.runs.list(thread_id)] == ["success"] * 3
    assert (await sdk.runs.join(thread_id, first["run_id"]))["steps"] == ["begun", "waited"]
    assert (await sdk.runs.join(thread_id, second["run_id"]))["steps"] == ["begun", "waited"] * 2
    assert (await sdk.runs.join(thread_id, third["run_id"]))["steps"] == ["begun", "waited"] * 3


async def test_interrupt_stops_the_first_run_and_keeps_its_progress(sdk, gate):
    thread_id, first = await busy(sdk, gate)
    waiting = await sdk.runs.create(thread_id, "echo", input={})
    values = await sdk.runs.wait(thread_id, "slow", input={"seconds": 0, "until": None}, multitask_strategy="interrupt")
    assert values["steps"] == ["begun", "begun", "waited"]
    assert (await sdk.runs.get(thread_id, first["run_id"]))["status"] == "interrupted"
    assert (await sdk.runs.get(thread_id, waiting["run_id"]))["status"] == "interrupted"
    assert (await sdk.threads.get(thread_id))["status"] == "idle"


async def test_rollback_stops_the_first_run_and_undoes_it(sdk, gate):
    thread_id, first = await busy(sdk, gate)
    values = await sdk.runs.wait(thread_id, "slow", input={"seconds": 0}, multitask_strategy="rollback")
    assert values["steps"] == ["begun", "waited"]
    with rejected(404, "Not Found"):
        await sdk.runs.get(thread_id, first["run_id"])
    assert len(await sdk.runs.list(thread_id)) == 1
    runs = {each["metadata"]["run_id"] for each in await sdk.threads.get_history(thread_id, limit=100)}
    assert first["run_id"] not in runs


async def test_the_next_run_waits_for_a_cancelled_sync_node_to_return(sdk, gate):
    """Its OS thread cannot be stopped, but two runs of one thread must never execute at the same time."""
    thread_id = await sdk.thread()
    first = await sdk.runs.create(thread_id, "slow_sync", input={"until": str(gate)})
    await wait_for_start(sdk, first)
    second = await sdk.runs.create(thread_id, "echo", input={"text": 1}, multitask_strategy="interrupt")
    await wait_for_status(sdk, first, "interrupted")
    assert (await sdk.runs.get(thread_id, second["run_id"]))["status"] == "pending"
    gate.touch()
    await wait_for_status(sdk, second, "success")
