"""Run streams: every mode alone and all together, with and without subgraphs, with models streaming or not."""

from functools import partial
from typing import Any

from exchanges import Wire

from scenarios import named, scenario
from scenarios.inputs import HELLO, TEXT, resume, run

MODES = ["values", "updates", "messages", "messages-tuple", "custom", "events", "debug", "tasks", "checkpoints"]


async def stream(wire: Wire, graph: str, given: Any, modes: Any, **body: Any) -> None:
    thread = await wire.thread()
    await wire.post(f"/threads/{thread}/runs/stream", run(graph, given, stream_mode=modes, **body))


for mode in MODES:
    for subgraphs in (False, True):
        ending = "_with_subgraphs" if subgraphs else ""
        arguments: dict[str, Any] = {"graph": "nested", "given": HELLO, "modes": [mode], "stream_subgraphs": subgraphs}
        named(f"stream_{mode.replace('-', '_')}{ending}", partial(stream, **arguments))

TOGETHER = [mode for mode in MODES if mode not in ("messages", "events")]
for subgraphs in (False, True):
    ending = "_with_subgraphs" if subgraphs else ""
    arguments = {"graph": "nested", "given": HELLO, "modes": TOGETHER, "stream_subgraphs": subgraphs}
    named(f"stream_many_modes_together{ending}", partial(stream, **arguments))
    named(f"stream_all_modes_together{ending}", partial(stream, **{**arguments, "modes": MODES}))

# Not as events: there the stock server includes the id of a tool message only sometimes.
for mode in ("values", "updates", "messages", "messages-tuple"):
    named(f"stream_tool_calls_as_{mode.replace('-', '_')}", partial(stream, graph="tools", given=HELLO, modes=[mode]))

for mode in ("values", "updates", "messages", "messages-tuple", "events"):
    name = f"stream_a_model_that_does_not_stream_as_{mode.replace('-', '_')}"
    named(name, partial(stream, graph="chat_whole", given=HELLO, modes=[mode]))

for mode in MODES:
    named(f"stream_a_failure_as_{mode.replace('-', '_')}", partial(stream, graph="fails", given=TEXT, modes=[mode]))


@scenario
async def stream_by_default(wire: Wire) -> None:
    thread = await wire.thread()
    await wire.post(f"/threads/{thread}/runs/stream", run("echo", TEXT))


@scenario
async def stream_one_mode_as_a_string(wire: Wire) -> None:
    await stream(wire, "echo", TEXT, "updates")


@scenario
async def stream_an_empty_list_of_modes(wire: Wire) -> None:
    await stream(wire, "echo", TEXT, [])


@scenario
async def stream_an_unknown_mode(wire: Wire) -> None:
    await stream(wire, "echo", TEXT, ["colours"])
    await stream(wire, "echo", TEXT, ["tools"])


@scenario
async def stream_everything_a_graph_can_do(wire: Wire) -> None:
    thread = await wire.thread()
    modes = ["values", "updates", "messages-tuple", "custom"]
    options = {"stream_mode": modes, "stream_subgraphs": True}
    await wire.post(f"/threads/{thread}/runs/stream", run("everything", HELLO, **options))
    await wire.post(f"/threads/{thread}/runs/stream", resume("everything", "yes", **options))
    await wire.get(f"/threads/{thread}/state")


@scenario
async def stream_an_entrypoint(wire: Wire) -> None:
    thread = await wire.thread()
    modes = ["values", "updates", "custom", "tasks"]
    for number in (1, 2):
        body = run("functional", {"number": number}, stream_mode=modes)
        await wire.post(f"/threads/{thread}/runs/stream", body)


@scenario
async def stream_a_graph_with_an_output_schema(wire: Wire) -> None:
    await stream(wire, "private", {"question": "why?"}, ["values", "updates", "debug"])


@scenario
async def stream_from_a_factory(wire: Wire) -> None:
    config = {"configurable": {"greeting": "moin"}}
    await stream(wire, "factory", TEXT, ["values", "updates"], config=config)


@scenario
async def stream_a_second_turn(wire: Wire) -> None:
    thread = await wire.thread_after_run("chat", HELLO)
    again = {"messages": [{"role": "user", "content": "more", "id": "user-2"}]}
    modes = ["values", "messages-tuple", "updates"]
    await wire.post(f"/threads/{thread}/runs/stream", run("chat", again, stream_mode=modes))


@scenario
async def stream_without_input(wire: Wire) -> None:
    await stream(wire, "echo", None, ["values", "updates"])
    await stream(wire, "echo", {}, ["values", "updates"])


@scenario
async def stream_beyond_the_recursion_limit(wire: Wire) -> None:
    await stream(wire, "steps", {"count": 5}, ["values"], config={"recursion_limit": 2})


@scenario
async def stream_with_each_durability(wire: Wire) -> None:
    for durability in ("sync", "async", "exit"):
        thread = await wire.thread()
        body = run("steps", {"count": 2}, stream_mode=["updates", "checkpoints"], durability=durability)
        await wire.post(f"/threads/{thread}/runs/stream", body)
        await wire.post(f"/threads/{thread}/history", {"limit": 10})


@scenario
async def the_ids_of_a_stream(wire: Wire) -> None:
    thread = await wire.thread()
    modes = ["values", "updates"]
    await wire.post(f"/threads/{thread}/runs/stream", run("echo", TEXT, stream_mode=modes), ids=True)
    body = run("echo", TEXT, stream_mode=modes, stream_resumable=True)
    await wire.post(f"/threads/{thread}/runs/stream", body, ids=True)


@scenario
async def the_ids_of_messages(wire: Wire) -> None:
    thread = await wire.thread()
    body = run("chat", HELLO, stream_mode=["messages"], stream_resumable=True)
    await wire.post(f"/threads/{thread}/runs/stream", body, ids=True)
