"""Rejected requests: invalid runs, and fields of the wrong type."""

from exchanges import Wire
from normalization import NOWHERE

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
async def a_run_without_an_assistant(wire: Wire) -> None:
    await wire.post(f"/threads/{await wire.thread()}/runs", {"input": TEXT})


@scenario
async def a_run_on_a_thread_that_does_not_exist(wire: Wire) -> None:
    for ending in ("", "/stream", "/wait"):
        await wire.post(f"/threads/{NOWHERE}/runs{ending}", run("echo", TEXT))


@scenario
async def a_run_with_fields_of_the_wrong_type(wire: Wire) -> None:
    thread = await wire.thread()
    for invalid in (
        {"config": "x"},
        {"metadata": []},
        {"multitask_strategy": "hope"},
        {"on_disconnect": "cry"},
        {"on_disconnect": None},
        {"after_seconds": "soon"},
        {"after_seconds": "1"},
        {"after_seconds": True},
        {"after_seconds": -1},
        {"stream_subgraphs": "yes"},
        {"stream_subgraphs": 1},
        {"stream_resumable": "yes"},
        {"checkpoint_during": "true"},
        {"config": {"tags": [1]}},
        {"config": {"tags": "a"}},
        {"config": {"recursion_limit": "5"}},
        {"config": {"recursion_limit": True}},
        {"config": {"recursion_limit": 5.5}},
        {"config": {"recursion_limit": 0}},
        {"command": {"update": 5}},
        {"command": {"update": "x"}},
        {"command": {"goto": {"node": "say_again"}}},
        {"command": {"goto": [5]}},
        {"durability": "forever"},
        {"interrupt_before": 5},
        {"if_not_exists": "maybe"},
        {"assistant_id": 5},
    ):
        await wire.post(f"/threads/{thread}/runs", {**run("echo", TEXT), **invalid})


@scenario
async def other_fields_of_the_wrong_type(wire: Wire) -> None:
    thread, item = await wire.thread(), {"namespace": [wire.mark], "key": "k", "value": {}}
    cron = {"assistant_id": "echo", "schedule": "@yearly"}
    for invalid in ({"limit": "5"}, {"limit": True}, {"offset": "0"}):
        for path in ("/threads", "/assistants", "/runs/crons"):
            await wire.post(f"{path}/search", invalid)
        await wire.post("/store/items/search", {"namespace_prefix": [wire.mark], **invalid})
        await wire.post("/store/namespaces", invalid)
    await wire.post(f"/threads/{thread}/history", {"limit": "5"})
    await wire.post("/store/namespaces", {"max_depth": "1"})
    await wire.post("/store/items/search", {"namespace_prefix": [wire.mark], "refresh_ttl": "yes"})
    await wire.put("/store/items", {**item, "ttl": "5"})
    await wire.post("/threads", {"ttl": {"ttl": "5"}})
    await wire.post(f"/threads/{thread}/state/checkpoint", {"checkpoint": {}, "subgraphs": "yes"})
    for invalid in ({"end_time": 5}, {"enabled": "yes"}, {"enabled": 1}):
        await wire.post("/runs/crons", {**cron, **invalid})
    await wire.post("/runs/crons/search", {"enabled": 1})


@scenario
async def a_run_with_null_fields(wire: Wire) -> None:
    for name in ("config", "context", "metadata", "webhook", "stream_mode", "interrupt_before", "durability"):
        await wire.post(f"/threads/{await wire.thread()}/runs/wait", {**run("echo", TEXT), name: None})
    for name in ("on_disconnect", "multitask_strategy", "if_not_exists", "after_seconds", "stream_subgraphs"):
        await wire.post(f"/threads/{await wire.thread()}/runs/wait", {**run("echo", TEXT), name: None})


@scenario
async def a_run_with_numbers_in_unusual_forms(wire: Wire) -> None:
    for config in ({"recursion_limit": 20_000}, {"recursion_limit": 9.0}, {"metadata": None}):
        await wire.post(f"/threads/{await wire.thread()}/runs/wait", run("echo", TEXT, config=config))
    await wire.post(f"/threads/{await wire.thread()}/runs/wait", run("echo", TEXT, after_seconds=0.0))


@scenario
async def a_run_with_integers_beyond_64_bits(wire: Wire) -> None:
    for text in (2**64 - 1, -(2**63), 2**64, -(2**63) - 1):
        await wire.post(f"/threads/{await wire.thread()}/runs/wait", run("echo", {"text": text}))


@scenario
async def a_run_with_keys_of_the_runtime(wire: Wire) -> None:
    keys = {"__pregel_task_id": "x", "__pregel_resuming": True}
    for given in ({"config": {"configurable": keys}}, {"context": keys}):
        await wire.post(f"/threads/{await wire.thread()}/runs/wait", run("echo", TEXT, **given))
        await wire.post(f"/threads/{await wire.thread()}/runs", run("echo", TEXT, **given))


@scenario
async def a_run_with_an_invalid_webhook(wire: Wire) -> None:
    thread = await wire.thread()
    for webhook in ("http://127.0.0.1:9/x", "https://127.0.0.1:9/x", "ftp://example.com/x", "not an address"):
        await wire.post(f"/threads/{thread}/runs", run("echo", TEXT, webhook=webhook))


@scenario
async def the_state_after_a_node_fails(wire: Wire) -> None:
    thread = await wire.thread_after_run("fails", TEXT)
    await wire.get(f"/threads/{thread}/state")
    await wire.post(f"/threads/{thread}/history", {"limit": 10})


@scenario
async def input_that_a_node_cannot_handle(wire: Wire) -> None:
    await wire.post(f"/threads/{await wire.thread()}/runs/wait", run("chat", {"messages": "no list"}))
    await wire.post(f"/threads/{await wire.thread()}/runs/wait", run("chat", {"messages": [{"role": "odd"}]}))
    await wire.post(f"/threads/{await wire.thread()}/runs/wait", run("echo", "not an object"))
