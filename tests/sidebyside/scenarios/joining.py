from exchanges import Wire

from scenarios import scenario
from scenarios.inputs import HELLO, TEXT, run

MODES = ["values", "updates"]


async def finished(wire: Wire, graph: str = "echo", given: object = TEXT, **body: object) -> str:
    """Execute a run whose stream can be resumed, and return its path."""
    thread = await wire.thread()
    body = {"stream_mode": MODES, "stream_resumable": True, **body}
    run_id = await wire.start_run(thread, run(graph, given, **body))
    await wire.wait_for_end(thread, run_id)
    return f"/threads/{thread}/runs/{run_id}"


@scenario
async def a_finished_run_is_replayed(wire: Wire) -> None:
    await wire.get(f"{await finished(wire)}/stream", headers={"Last-Event-ID": "-1"})


@scenario
async def a_finished_run_with_subgraphs_is_replayed(wire: Wire) -> None:
    modes = ["messages-tuple", "values", "custom"]
    path = await finished(wire, "nested", HELLO, stream_mode=modes, stream_subgraphs=True)
    await wire.get(f"{path}/stream", headers={"Last-Event-ID": "-1"})


@scenario
async def a_finished_run_is_replayed_from_a_position(wire: Wire) -> None:
    path = await finished(wire)
    thread, run_id = path.split("/")[2::2]
    unrecorded = Wire(wire._client, wire._gate.parent)
    frames = await unrecorded.get(f"/threads/{thread}/runs/{run_id}/stream", headers={"Last-Event-ID": "-1"}, ids=True)
    await wire.get(f"{path}/stream", headers={"Last-Event-ID": frames[1]["id"]})


@scenario
async def a_finished_run_is_joined_without_a_position(wire: Wire) -> None:
    await wire.get(f"{await finished(wire)}/stream")


@scenario
async def a_finished_run_is_joined_at_an_invalid_position(wire: Wire) -> None:
    await wire.get(f"{await finished(wire)}/stream", headers={"Last-Event-ID": "nonsense"})


@scenario
async def a_run_that_is_not_resumable_is_replayed(wire: Wire) -> None:
    path = await finished(wire, stream_resumable=False)
    await wire.get(f"{path}/stream", headers={"Last-Event-ID": "-1"})


@scenario
async def a_run_is_replayed_in_another_mode(wire: Wire) -> None:
    path = await finished(wire)
    await wire.get(f"{path}/stream?stream_mode=updates", headers={"Last-Event-ID": "-1"})


@scenario
async def a_run_is_replayed_in_modes_sent_as_one_array(wire: Wire) -> None:
    path = await finished(wire)
    headers = {"Last-Event-ID": "-1"}
    await wire.get(f"{path}/stream", params={"stream_mode": '["values","updates"]'}, headers=headers)


@scenario
async def a_run_is_joined_in_an_unknown_mode(wire: Wire) -> None:
    path = await finished(wire)
    await wire.get(f"{path}/stream?stream_mode=colours", headers={"Last-Event-ID": "-1"})


@scenario
async def a_failed_run_is_replayed(wire: Wire) -> None:
    path = await finished(wire, "fails", TEXT)
    await wire.get(f"{path}/stream", headers={"Last-Event-ID": "-1"})


async def live(wire: Wire) -> str:
    """Return the stream path of a run that emits nothing more until `finish`. The stock server sends some frames twice
    to a client that joins while frames are being emitted."""
    thread = await wire.thread()
    run_id = await wire.start_slow_run(thread, stream_mode=MODES, stream_resumable=True)
    path = f"/threads/{thread}/runs/{run_id}/stream"
    async with wire.open(path, recorded=False, headers={"Last-Event-ID": "-1"}) as stream:
        for event in ("metadata", "values", "updates", "values"):
            await stream.until(event)
    return path


@scenario
async def a_live_run_is_joined(wire: Wire) -> None:
    async with wire.open(await live(wire)) as stream:
        wire.finish()
        await stream.until("the end")


@scenario
async def a_live_run_is_joined_from_its_start(wire: Wire) -> None:
    async with wire.open(await live(wire), headers={"Last-Event-ID": "-1"}) as stream:
        await stream.until("updates")
        wire.finish()
        await stream.until("the end")


@scenario
async def a_run_is_cancelled_when_its_client_disconnects(wire: Wire) -> None:
    thread = await wire.thread()
    run_id = await wire.start_slow_run(thread, stream_resumable=True)
    path = f"/threads/{thread}/runs/{run_id}/stream?cancel_on_disconnect=true"
    async with wire.open(path, headers={"Last-Event-ID": "-1"}) as stream:
        await stream.until("metadata")
    await wire.wait_for_end(thread, run_id)
    await wire.get(f"/threads/{thread}/runs?select=status")
