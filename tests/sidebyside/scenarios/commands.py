from exchanges import Wire

from scenarios import scenario
from scenarios.inputs import TEXT, run

MODES = ["values", "updates"]


@scenario
async def a_command_goes_to_a_node(wire: Wire) -> None:
    thread = await wire.thread_after_run("slow", {"seconds": 0})
    body = {"assistant_id": "slow", "command": {"goto": "wait"}, "stream_mode": MODES}
    await wire.post(f"/threads/{thread}/runs/stream", body)


@scenario
async def a_command_sends_input_to_nodes(wire: Wire) -> None:
    thread = await wire.thread_after_run("slow", {"seconds": 0})
    goto = [{"node": "wait", "input": {"seconds": 0}}, {"node": "begin", "input": {}}]
    body = {"assistant_id": "slow", "command": {"goto": goto}, "stream_mode": ["values"]}
    await wire.post(f"/threads/{thread}/runs/stream", body)


@scenario
async def a_command_updates_the_state(wire: Wire) -> None:
    thread = await wire.thread_after_run("approve", {"topic": "x"})
    body = {"assistant_id": "approve", "command": {"update": {"topic": "y"}}, "stream_mode": MODES}
    await wire.post(f"/threads/{thread}/runs/stream", body)


@scenario
async def a_command_updates_and_resumes(wire: Wire) -> None:
    thread = await wire.thread_after_run("approve", {"topic": "x"})
    body = {"assistant_id": "approve", "command": {"update": {"topic": "y"}, "resume": "yes"}, "stream_mode": MODES}
    await wire.post(f"/threads/{thread}/runs/stream", body)


@scenario
async def invalid_commands(wire: Wire) -> None:
    thread = await wire.thread_after_run("echo", TEXT)
    body = {"assistant_id": "echo", "command": {"goto": "nowhere"}, "stream_mode": MODES}
    await wire.post(f"/threads/{thread}/runs/stream", body)
    await wire.post(f"/threads/{thread}/runs/stream", {"assistant_id": "echo", "command": {"goto": 5}})
    await wire.post(f"/threads/{thread}/runs/stream", {"assistant_id": "echo", "command": "resume"})


@scenario
async def a_command_together_with_input(wire: Wire) -> None:
    for given, command in (
        ({}, {"resume": "yes"}),
        ({"topic": "y"}, {"resume": "yes"}),
        ({}, {"goto": "__end__"}),
        ({"topic": "y"}, {}),
    ):
        thread = await wire.thread_after_run("approve", {"topic": "x"})
        await wire.post(f"/threads/{thread}/runs/wait", run("approve", given, command=command))


@scenario
async def an_empty_command(wire: Wire) -> None:
    for command in ({}, {"update": {}}, {"update": []}, {"goto": []}, {"goto": ""}):
        thread = await wire.thread_after_run("approve", {"topic": "x"})
        await wire.post(f"/threads/{thread}/runs/wait", {"assistant_id": "approve", "command": command})


@scenario
async def a_command_updates_with_pairs(wire: Wire) -> None:
    for update in ([["topic", "y"]], [["topic", "y"], ["answer", "z"]], [["topic"]], [1]):
        thread = await wire.thread_after_run("approve", {"topic": "x"})
        body = {"assistant_id": "approve", "command": {"update": update}}
        await wire.post(f"/threads/{thread}/runs/wait", body)


@scenario
async def a_command_goes_to_a_node_and_sends_to_another(wire: Wire) -> None:
    thread = await wire.thread_after_run("slow", {"seconds": 0})
    goto = ["begin", {"node": "wait", "input": {"seconds": 0}}]
    await wire.post(f"/threads/{thread}/runs/wait", {"assistant_id": "slow", "command": {"goto": goto}})


@scenario
async def a_run_from_an_earlier_checkpoint(wire: Wire) -> None:
    thread = await wire.thread_after_run("steps", {"count": 2})
    history = await wire.unrecorded("POST", f"/threads/{thread}/history", {"limit": 10})
    body = run("steps", {"count": 3}, stream_mode=MODES, checkpoint_id=history[1]["checkpoint_id"])
    await wire.post(f"/threads/{thread}/runs/stream", body)
    again = run("steps", None, stream_mode=MODES, checkpoint=history[1]["checkpoint"])
    await wire.post(f"/threads/{thread}/runs/stream", again)


@scenario
async def a_run_from_a_checkpoint_that_does_not_exist(wire: Wire) -> None:
    thread = await wire.thread_after_run("echo", TEXT)
    checkpoint = "1f0a0000-0000-6000-8000-000000000000"
    await wire.post(f"/threads/{thread}/runs/wait", run("echo", TEXT, checkpoint_id=checkpoint))
    await wire.post(f"/threads/{thread}/runs/wait", run("echo", TEXT, checkpoint={"checkpoint_id": checkpoint}))
    await wire.post(f"/threads/{thread}/runs/wait", run("echo", TEXT, checkpoint_id="nowhere"))


@scenario
async def a_run_from_an_unspecified_checkpoint(wire: Wire) -> None:
    thread = await wire.thread_after_run("steps", {"count": 2})
    for checkpoint in ({}, {"checkpoint_id": ""}, {"checkpoint_ns": "nowhere:1"}):
        await wire.post(f"/threads/{thread}/runs/wait", run("steps", {"count": 3}, checkpoint=checkpoint))


@scenario
async def a_run_from_an_invalid_checkpoint(wire: Wire) -> None:
    thread = await wire.thread_after_run("echo", TEXT)
    for checkpoint in ({"checkpoint_id": 5}, {"checkpoint_ns": 5}, {"checkpoint_map": 5}, "nowhere"):
        await wire.post(f"/threads/{thread}/runs/wait", run("echo", TEXT, checkpoint=checkpoint))
