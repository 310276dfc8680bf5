from exchanges import Wire
from normalization import NOWHERE

from scenarios import scenario
from scenarios.inputs import HELLO, TEXT, resume, run


@scenario
async def a_stateless_run_is_waited_for(wire: Wire) -> None:
    await wire.post("/runs/wait", run("chat", HELLO))


@scenario
async def a_stateless_run_is_streamed(wire: Wire) -> None:
    await wire.post("/runs/stream", run("nested", HELLO, stream_mode=["values", "messages-tuple", "updates"]))


@scenario
async def a_stateless_run_in_the_background(wire: Wire) -> None:
    created = await wire.post("/runs", run("echo", TEXT))
    assert created["run_id"]


@scenario
async def a_stateless_run_leaves_no_thread(wire: Wire) -> None:
    created = await wire.unrecorded("POST", "/runs", run("echo", TEXT))
    thread = created["thread_id"]

    async def deleted() -> bool:
        return bool((await wire.unrecorded("GET", f"/threads/{thread}")).get("detail"))

    await wire.until(deleted)
    await wire.get(f"/threads/{thread}")
    await wire.get(f"/threads/{thread}/runs/{created['run_id']}")


@scenario
async def a_stateless_run_keeps_its_thread(wire: Wire) -> None:
    created = await wire.post("/runs", run("echo", TEXT, on_completion="keep"))
    await wire.wait_for_end(created["thread_id"], created["run_id"])
    await wire.get(f"/threads/{created['thread_id']}")
    await wire.get(f"/threads/{created['thread_id']}/state")


@scenario
async def a_stateless_run_that_fails(wire: Wire) -> None:
    await wire.post("/runs/wait", run("fails", TEXT))
    await wire.post("/runs/stream", run("fails", TEXT))


@scenario
async def a_stateless_run_that_interrupts(wire: Wire) -> None:
    await wire.post("/runs/wait", run("approve", {"topic": "x"}))
    await wire.post("/runs/stream", run("approve", {"topic": "x"}, stream_mode=["values", "updates"]))


@scenario
async def a_stateless_run_that_answers_an_interrupt(wire: Wire) -> None:
    for ending in ("", "/stream", "/wait"):
        await wire.post(f"/runs{ending}", resume("approve", "yes"))


@scenario
async def a_stateless_run_that_is_rejected(wire: Wire) -> None:
    for ending in ("", "/stream", "/wait"):
        await wire.post(f"/runs{ending}", run("nope", TEXT))
        await wire.post(f"/runs{ending}", run(NOWHERE, TEXT))
    await wire.post("/runs/wait", {"input": TEXT})
    await wire.post("/runs/stream", run("echo", TEXT, stream_mode=["colours"]))
    await wire.post("/runs/wait", run("echo", TEXT, on_completion="explode"))


@scenario
async def the_stream_a_stateless_run_advertises(wire: Wire) -> None:
    created = await wire.unrecorded("POST", "/runs", run("slow", wire.slow, stream_resumable=True))
    wire.finish()
    await wire.get(f"/runs/{created['run_id']}/stream", headers={"Last-Event-ID": "-1"})


@scenario
async def a_stateless_run_is_addressed_by_its_id_alone(wire: Wire) -> None:
    created = await wire.unrecorded("POST", "/runs", run("slow", wire.slow, on_completion="keep"))
    path = f"/runs/{created['run_id']}"
    await wire.get(path)
    await wire.post(f"{path}/cancel?wait=1")
    await wire.get(f"{path}/join")
    await wire.get(f"{path}/stream", headers={"Last-Event-ID": "nonsense"})
    await wire.delete(path)
    await wire.delete(path)


@scenario
async def a_stateless_run_is_cancelled_by_its_id_alone(wire: Wire) -> None:
    created = await wire.unrecorded("POST", "/runs", run("slow", wire.slow, on_completion="keep"))
    await wire.post(f"/runs/{created['run_id']}/cancel")
    for verb, ending in (("GET", ""), ("GET", "/join"), ("GET", "/stream"), ("POST", "/cancel")):
        await wire.request(verb, f"/runs/{NOWHERE}{ending}")
    for verb, ending in (("GET", ""), ("DELETE", ""), ("GET", "/join"), ("GET", "/stream"), ("POST", "/cancel")):
        await wire.request(verb, f"/runs/nobody{ending}")


@scenario
async def a_batch_of_runs(wire: Wire) -> None:
    await wire.post("/runs/batch", [run("echo", {"text": "a"}), run("echo", {"text": "b"})])


@scenario
async def an_empty_batch(wire: Wire) -> None:
    await wire.post("/runs/batch", [])
    await wire.post("/runs/batch", {"not": "a list"})


@scenario
async def a_batch_with_one_invalid_run(wire: Wire) -> None:
    await wire.post("/runs/batch", [run("echo", TEXT), run("nope", TEXT)])
    await wire.post("/runs/batch", [run("echo", TEXT), run(NOWHERE, TEXT)])
    await wire.post("/runs/batch", [run("echo", TEXT), resume("approve", "yes")])
