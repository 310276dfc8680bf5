from typing import Any
from uuid import uuid4

from exchanges import Wire
from normalization import NOWHERE

from scenarios import scenario
from scenarios.inputs import TEXT


async def command(wire: Wire, thread: str, method: str, **params: Any) -> Any:
    return await wire.post(f"/threads/{thread}/commands", {"id": 1, "method": method, "params": params})


async def events(wire: Wire, thread: str, *channels: str, last: str = "lifecycle", count: int = 2) -> None:
    """Record events up to the `count`th one with the method `last`."""
    body = {"channels": list(channels)}
    async with wire.open(f"/threads/{thread}/stream/events", method="POST", json=body) as stream:
        for _ in range(count):
            await stream.until(last)


@scenario
async def the_wire_of_a_new_thread(wire: Wire) -> None:
    thread = str(uuid4())
    await command(wire, thread, "run.start", assistant_id="echo", input=TEXT)
    await events(wire, thread, "lifecycle", "values")


@scenario
async def the_wire_of_a_failing_run(wire: Wire) -> None:
    thread = str(uuid4())
    await command(wire, thread, "run.start", assistant_id="fails", input=TEXT)
    await events(wire, thread, "lifecycle")


@scenario
async def the_wire_of_a_subgraph(wire: Wire) -> None:
    thread = str(uuid4())
    messages = [{"role": "user", "content": "hello", "id": "human-1"}]
    await command(wire, thread, "run.start", assistant_id="nested", input={"messages": messages})
    await events(wire, thread, "lifecycle", count=4)


@scenario
async def the_wire_of_a_message(wire: Wire) -> None:
    thread = str(uuid4())
    messages = [{"role": "user", "content": "hello", "id": "human-1"}]
    await command(wire, thread, "run.start", assistant_id="chat", input={"messages": messages})
    await events(wire, thread, "messages", "lifecycle")


@scenario
async def the_wire_of_an_interrupt(wire: Wire) -> None:
    thread = str(uuid4())
    await command(wire, thread, "run.start", assistant_id="approve", input={"topic": "x"})
    await events(wire, thread, "lifecycle", "input")
    await command(wire, thread, "input.respond", interrupt_id="nope", response=1)
    state = await wire.unrecorded("GET", f"/threads/{thread}/state")
    (interrupt,) = state["interrupts"]
    await command(wire, thread, "input.respond", namespace=[], interrupt_id=interrupt["id"], response={"ok": True})
    await events(wire, thread, "lifecycle", count=4)


@scenario
async def the_wire_takes_input_as_an_answer(wire: Wire) -> None:
    thread = str(uuid4())
    await command(wire, thread, "run.start", assistant_id="approve", input={"topic": "x"})
    await events(wire, thread, "lifecycle")
    await command(wire, thread, "run.start", assistant_id="approve", input={"ok": True})
    await events(wire, thread, "lifecycle", count=4)


@scenario
async def commands_of_the_wire_that_fail(wire: Wire) -> None:
    thread = str(uuid4())
    await command(wire, thread, "nope")
    await command(wire, thread, "run.start")
    await command(wire, thread, "input.respond", interrupt_id="x", response=1)
    await command(wire, thread, "input.respond")
    await command(wire, thread, "input.respond", responses=[])
    await command(wire, thread, "agent.getTree")
    await command(wire, thread, "subscription.unsubscribe", subscription_id="x")
    await command(wire, "no-uuid", "state.get")
    await command(wire, f"{NOWHERE}%2Fx", "state.get")
    await wire.post(f"/threads/{thread}/commands", {})


@scenario
async def commands_of_the_wire_that_the_stock_server_lacks(wire: Wire) -> None:
    thread = await wire.thread_after_run("echo", TEXT)
    await command(wire, thread, "state.get", namespace=[])
    await command(wire, thread, "state.listCheckpoints", limit=1)
    await command(wire, thread, "state.fork", checkpoint_id=NOWHERE)
    await command(wire, thread, "agent.getTree")


@scenario
async def a_busy_thread_on_the_wire(wire: Wire) -> None:
    thread = await wire.thread()
    await wire.start_slow_run(thread)
    await command(wire, thread, "run.start", assistant_id="slow", input={}, multitaskStrategy="reject")
    wire.finish()


@scenario
async def invalid_subscriptions_of_the_wire(wire: Wire) -> None:
    path = f"/threads/{NOWHERE}/stream/events"
    await wire.post(path, {})
    await wire.post(path, {"channels": ["bogus"]})
    for thread, body in [("no-uuid", {"channels": ["values"]}), (NOWHERE, {"channels": ["values"], "since": "3"})]:
        async with wire.open(f"/threads/{thread}/stream/events", method="POST", json=body):
            pass
    async with wire.open(f"/threads/{NOWHERE}%2Fx/stream/events", method="POST", json={"channels": ["values"]}):
        pass
