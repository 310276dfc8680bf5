from exchanges import Wire
from normalization import NOWHERE

from scenarios import alone, scenario
from scenarios.inputs import TEXT, run


@scenario
async def a_run_is_cancelled(wire: Wire) -> None:
    thread = await wire.thread()
    run_id = await wire.start_slow_run(thread)
    await wire.post(f"/threads/{thread}/runs/{run_id}/cancel")
    await wire.wait_for_end(thread, run_id)
    await wire.get(f"/threads/{thread}/runs?select=status")
    await wire.get(f"/threads/{thread}")
    await wire.get(f"/threads/{thread}/state")


@scenario
async def a_run_is_cancelled_and_waited_for(wire: Wire) -> None:
    thread = await wire.thread()
    run_id = await wire.start_slow_run(thread)
    await wire.post(f"/threads/{thread}/runs/{run_id}/cancel?wait=1&action=interrupt")
    await wire.get(f"/threads/{thread}/runs?select=status")


@scenario
async def a_run_is_rolled_back(wire: Wire) -> None:
    thread = await wire.thread_after_run("slow", {"seconds": 0})
    run_id = await wire.start_slow_run(thread)
    await wire.post(f"/threads/{thread}/runs/{run_id}/cancel?wait=1&action=rollback")
    await wire.get(f"/threads/{thread}/runs/{run_id}")
    await wire.get(f"/threads/{thread}/runs?select=status")
    await wire.get(f"/threads/{thread}/state")
    await wire.get(f"/threads/{thread}")


@scenario
async def the_stream_of_a_cancelled_run(wire: Wire) -> None:
    thread = await wire.thread()
    run_id = await wire.start_slow_run(thread, stream_resumable=True)
    await wire.unrecorded("POST", f"/threads/{thread}/runs/{run_id}/cancel?wait=1")
    await wire.get(f"/threads/{thread}/runs/{run_id}/stream", headers={"Last-Event-ID": "-1"})
    await wire.get(f"/threads/{thread}/runs/{run_id}/join")


@scenario
async def a_finished_run_is_cancelled(wire: Wire) -> None:
    thread = await wire.thread()
    run_id = await wire.start_run(thread, run("echo", TEXT))
    await wire.wait_for_end(thread, run_id)
    await wire.post(f"/threads/{thread}/runs/{run_id}/cancel")


@scenario
async def a_run_that_does_not_exist_is_cancelled(wire: Wire) -> None:
    await wire.post(f"/threads/{await wire.thread()}/runs/{NOWHERE}/cancel")
    await wire.post(f"/threads/{NOWHERE}/runs/{NOWHERE}/cancel")


@scenario
async def a_run_is_cancelled_with_an_unknown_action(wire: Wire) -> None:
    thread = await wire.thread()
    run_id = await wire.start_slow_run(thread)
    await wire.post(f"/threads/{thread}/runs/{run_id}/cancel?action=softly")
    wire.finish()
    await wire.wait_for_end(thread, run_id)


@scenario
async def a_queued_run_is_cancelled(wire: Wire) -> None:
    thread = await wire.thread()
    first = await wire.start_slow_run(thread)
    second = await wire.start_run(thread, run("echo", TEXT))
    await wire.post(f"/threads/{thread}/runs/{second}/cancel")
    await wire.wait_for_end(thread, second)
    wire.finish()
    await wire.wait_for_end(thread, first)
    await wire.get(f"/threads/{thread}/runs?select=status")


@scenario
async def a_running_run_is_deleted(wire: Wire) -> None:
    thread = await wire.thread()
    run_id = await wire.start_slow_run(thread)
    await wire.delete(f"/threads/{thread}/runs/{run_id}")
    await wire.get(f"/threads/{thread}/runs/{run_id}")


@scenario
async def several_runs_are_cancelled_by_id(wire: Wire) -> None:
    thread = await wire.thread()
    run_id = await wire.start_slow_run(thread)
    await wire.post("/runs/cancel", {"thread_id": thread, "run_ids": [run_id]})
    await wire.wait_for_end(thread, run_id)
    await wire.get(f"/threads/{thread}/runs?select=status")


@scenario
async def several_runs_are_cancelled_and_one_does_not_exist(wire: Wire) -> None:
    thread = await wire.thread()
    run_id = await wire.start_slow_run(thread)
    await wire.post("/runs/cancel", {"thread_id": thread, "run_ids": [run_id, NOWHERE]})
    await wire.post("/runs/cancel", {"thread_id": thread, "run_ids": [NOWHERE]})


@scenario
async def runs_are_cancelled_without_a_selection(wire: Wire) -> None:
    await wire.post("/runs/cancel", {})
    await wire.post("/runs/cancel", {"status": "asleep"})
    await wire.post("/runs/cancel", {"thread_id": NOWHERE})
    await wire.post("/runs/cancel", {"thread_id": NOWHERE, "run_ids": []})


@alone
async def all_running_runs_are_cancelled(wire: Wire) -> None:
    first, second = await wire.thread(), await wire.thread()
    runs = [(first, await wire.start_slow_run(first)), (second, await wire.start_slow_run(second))]
    await wire.post("/runs/cancel?action=interrupt", {"status": "running"})
    for thread, run_id in runs:
        await wire.wait_for_end(thread, run_id)
        await wire.get(f"/threads/{thread}/runs?select=status")


@alone
async def all_pending_runs_are_cancelled(wire: Wire) -> None:
    thread = await wire.thread()
    run_id = await wire.start_run(thread, run("echo", TEXT, after_seconds=3600))
    await wire.post("/runs/cancel", {"status": "pending"})
    await wire.wait_for_end(thread, run_id)
    await wire.get(f"/threads/{thread}/runs?select=status")


@alone
async def runs_are_cancelled_when_there_are_none(wire: Wire) -> None:
    await wire.post("/runs/cancel", {"status": "all"})
