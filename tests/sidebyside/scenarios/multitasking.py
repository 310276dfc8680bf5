from exchanges import Wire

from scenarios import scenario
from scenarios.inputs import run


async def while_busy(wire: Wire, strategy: str) -> tuple[str, str]:
    """Start a second run on a thread with a running run. Return the ids of the thread and the first run."""
    thread = await wire.thread()
    first = await wire.start_slow_run(thread)
    second = await wire.post(f"/threads/{thread}/runs", run("steps", {"count": 1}, multitask_strategy=strategy))
    if "run_id" in second:
        if strategy == "enqueue":
            wire.finish()
        await wire.wait_for_end(thread, second["run_id"])
    return thread, first


@scenario
async def a_second_run_is_rejected(wire: Wire) -> None:
    thread, _ = await while_busy(wire, "reject")
    for ending in ("/stream", "/wait"):
        body = run("steps", {"count": 1}, multitask_strategy="reject")
        await wire.post(f"/threads/{thread}/runs{ending}", body)


@scenario
async def a_second_run_is_enqueued(wire: Wire) -> None:
    thread, _ = await while_busy(wire, "enqueue")
    await wire.get(f"/threads/{thread}/runs?select=status&select=multitask_strategy")
    await wire.get(f"/threads/{thread}/state")


@scenario
async def a_second_run_interrupts_the_first(wire: Wire) -> None:
    thread, _ = await while_busy(wire, "interrupt")
    await wire.get(f"/threads/{thread}/runs?select=status&select=multitask_strategy")
    await wire.get(f"/threads/{thread}/state")


@scenario
async def a_second_run_rolls_the_first_back(wire: Wire) -> None:
    thread, first = await while_busy(wire, "rollback")
    await wire.get(f"/threads/{thread}/runs?select=status&select=multitask_strategy")
    await wire.get(f"/threads/{thread}/runs/{first}")
    await wire.get(f"/threads/{thread}/state")


@scenario
async def a_run_of_another_graph_waits(wire: Wire) -> None:
    thread = await wire.thread()
    await wire.start_slow_run(thread)
    second = await wire.start_run(thread, run("steps", {"count": 1}))
    await wire.get(f"/threads/{thread}")
    await wire.get(f"/threads/{thread}/state")
    wire.finish()
    await wire.wait_for_end(thread, second)
    await wire.get(f"/threads/{thread}")
