"""Runs that are refused."""

from exchanges import Wire
from normal import NOWHERE

from scenarios import scenario
from scenarios.inputs import TEXT, run


@scenario
async def a_run_of_an_unknown_graph(wire: Wire) -> None:
    thread = await wire.thread()
    for ending in ("", "/stream", "/wait"):
        await wire.post(f"/threads/{thread}/runs{ending}", run("nope", TEXT))


@scenario
async def a_run_of_an_unknown_assistant(wire: Wire) -> None:
    thread = await wire.thread()
    for ending in ("", "/stream", "/wait"):
        await wire.post(f"/threads/{thread}/runs{ending}", run(NOWHERE, TEXT))


@scenario
async def a_run_of_nobody(wire: Wire) -> None:
    await wire.post(f"/threads/{await wire.thread()}/runs", {"input": TEXT})


@scenario
async def a_run_on_a_thread_that_is_not_there(wire: Wire) -> None:
    for ending in ("", "/stream", "/wait"):
        await wire.post(f"/threads/{NOWHERE}/runs{ending}", run("echo", TEXT))


@scenario
async def a_run_with_fields_of_the_wrong_kind(wire: Wire) -> None:
    thread = await wire.thread()
    for wrong in (
        {"config": "x"},
        {"metadata": []},
        {"multitask_strategy": "hope"},
        {"on_disconnect": "cry"},
        {"after_seconds": "soon"},
        {"durability": "forever"},
        {"interrupt_before": 5},
        {"if_not_exists": "maybe"},
        {"assistant_id": 5},
    ):
        await wire.post(f"/threads/{thread}/runs", {**run("echo", TEXT), **wrong})


@scenario
async def a_run_with_keys_that_belong_to_the_server(wire: Wire) -> None:
    config = {"configurable": {"__pregel_task_id": "x"}}
    await wire.post(f"/threads/{await wire.thread()}/runs/wait", run("echo", TEXT, config=config))


@scenario
async def a_run_that_is_to_tell_a_private_address(wire: Wire) -> None:
    thread = await wire.thread()
    for webhook in ("http://127.0.0.1:9/x", "https://127.0.0.1:9/x", "ftp://example.com/x", "not an address"):
        await wire.post(f"/threads/{thread}/runs", run("echo", TEXT, webhook=webhook))


@scenario
async def a_node_that_fails_leaves_its_mark(wire: Wire) -> None:
    thread = await wire.ran("fails", TEXT)
    await wire.get(f"/threads/{thread}/state")
    await wire.post(f"/threads/{thread}/history", {"limit": 10})


@scenario
async def input_that_a_node_stumbles_over(wire: Wire) -> None:
    await wire.post(f"/threads/{await wire.thread()}/runs/wait", run("chat", {"messages": "no list"}))
    await wire.post(f"/threads/{await wire.thread()}/runs/wait", run("chat", {"messages": [{"role": "odd"}]}))
    await wire.post(f"/threads/{await wire.thread()}/runs/wait", run("echo", "not an object"))
