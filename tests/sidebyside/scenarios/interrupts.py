from exchanges import Wire

from scenarios import scenario
from scenarios.inputs import HELLO, TEXT, resume, run

MODES = ["values", "updates"]


@scenario
async def a_run_that_interrupts(wire: Wire) -> None:
    thread = await wire.thread()
    await wire.post(f"/threads/{thread}/runs/stream", run("approve", {"topic": "x"}, stream_mode=MODES))
    await wire.get(f"/threads/{thread}/state")


@scenario
async def a_run_that_interrupts_is_streamed_in_debug_modes(wire: Wire) -> None:
    thread = await wire.thread()
    modes = ["debug", "tasks", "checkpoints"]
    await wire.post(f"/threads/{thread}/runs/stream", run("approve", {"topic": "x"}, stream_mode=modes))
    await wire.post(f"/threads/{thread}/runs/stream", resume("approve", "yes", stream_mode=modes))


@scenario
async def a_run_that_interrupts_is_waited_for(wire: Wire) -> None:
    thread = await wire.thread()
    await wire.post(f"/threads/{thread}/runs/wait", run("approve", {"topic": "x"}))
    await wire.post(f"/threads/{thread}/runs/wait", resume("approve", {"ok": True}))


@scenario
async def an_answer_is_streamed(wire: Wire) -> None:
    thread = await wire.thread_after_run("approve", {"topic": "x"})
    await wire.post(f"/threads/{thread}/runs/stream", resume("approve", "yes", stream_mode=MODES))
    await wire.get(f"/threads/{thread}/state")
    await wire.post(f"/threads/{thread}/history", {"limit": 10})


@scenario
async def an_answer_by_interrupt_id(wire: Wire) -> None:
    thread = await wire.thread_after_run("approve", {"topic": "x"})
    state = await wire.unrecorded("GET", f"/threads/{thread}/state")
    answer = {state["interrupts"][0]["id"]: "by id"}
    await wire.post(f"/threads/{thread}/runs/wait", resume("approve", answer))


@scenario
async def a_null_answer(wire: Wire) -> None:
    thread = await wire.thread_after_run("approve", {"topic": "x"})
    await wire.post(f"/threads/{thread}/runs/wait", resume("approve", None))


@scenario
async def an_answer_without_an_interrupt(wire: Wire) -> None:
    thread = await wire.thread_after_run("echo", TEXT)
    await wire.post(f"/threads/{thread}/runs/wait", resume("echo", "yes"))
    await wire.get(f"/threads/{thread}")


@scenario
async def an_answer_on_an_empty_thread(wire: Wire) -> None:
    thread = await wire.thread()
    await wire.post(f"/threads/{thread}/runs/wait", resume("approve", "yes"))


@scenario
async def new_input_instead_of_an_answer(wire: Wire) -> None:
    thread = await wire.thread_after_run("approve", {"topic": "x"})
    await wire.post(f"/threads/{thread}/runs/stream", run("approve", {"topic": "y"}, stream_mode=MODES))
    await wire.get(f"/threads/{thread}")


@scenario
async def several_interrupts(wire: Wire) -> None:
    thread = await wire.thread_after_run("approve_many", {})
    await wire.get(f"/threads/{thread}")
    await wire.get(f"/threads/{thread}/state")


@scenario
async def several_interrupts_are_waited_for(wire: Wire) -> None:
    await wire.post(f"/threads/{await wire.thread()}/runs/wait", run("approve_many", {}))


@scenario
async def several_interrupts_are_answered_by_id(wire: Wire) -> None:
    thread = await wire.thread_after_run("approve_many", {})
    state = await wire.unrecorded("GET", f"/threads/{thread}/state")
    answers = {each["id"]: f"to {each['value']}" for each in state["interrupts"]}
    await wire.post(f"/threads/{thread}/runs/wait", resume("approve_many", answers))
    await wire.post(f"/threads/{thread}/runs/wait", resume("approve_many", "one"))
    await wire.post(f"/threads/{thread}/runs/wait", resume("approve_many", "two"))
    await wire.get(f"/threads/{thread}/state")


@scenario
async def one_of_several_interrupts_is_answered(wire: Wire) -> None:
    thread = await wire.thread_after_run("approve_many", {})
    state = await wire.unrecorded("GET", f"/threads/{thread}/state")
    [left] = [each["id"] for each in state["interrupts"] if each["value"] == "left?"]
    await wire.post(f"/threads/{thread}/runs/wait", resume("approve_many", {left: "only"}))
    await wire.get(f"/threads/{thread}/state")


@scenario
async def an_interrupt_before_a_node(wire: Wire) -> None:
    thread = await wire.thread()
    body = run("slow", {"seconds": 0}, stream_mode=MODES, interrupt_before=["wait"])
    await wire.post(f"/threads/{thread}/runs/stream", body)
    await wire.get(f"/threads/{thread}")
    await wire.get(f"/threads/{thread}/state")
    await wire.post(f"/threads/{thread}/runs/stream", run("slow", None, stream_mode=MODES))


@scenario
async def an_interrupt_after_a_node(wire: Wire) -> None:
    thread = await wire.thread()
    body = run("slow", {"seconds": 0}, stream_mode=MODES, interrupt_after=["begin"])
    await wire.post(f"/threads/{thread}/runs/stream", body)
    await wire.get(f"/threads/{thread}")


@scenario
async def an_interrupt_before_every_node(wire: Wire) -> None:
    thread = await wire.thread()
    await wire.post(f"/threads/{thread}/runs/wait", run("slow", {"seconds": 0}, interrupt_before="*"))
    await wire.get(f"/threads/{thread}/state")


@scenario
async def an_interrupt_before_a_node_that_does_not_exist(wire: Wire) -> None:
    thread = await wire.thread()
    await wire.post(f"/threads/{thread}/runs/wait", run("echo", TEXT, interrupt_before=["nowhere"]))


@scenario
async def an_interrupt_after_tools_and_subgraphs(wire: Wire) -> None:
    thread = await wire.thread()
    await wire.post(f"/threads/{thread}/runs/wait", run("everything", HELLO))
    await wire.get(f"/threads/{thread}")


@scenario
async def a_strict_answer_to_an_unknown_interrupt(wire: Wire) -> None:
    thread = await wire.thread_after_run("approve", {"topic": "x"})
    await wire.post(f"/threads/{thread}/runs/wait", resume("approve", {"0" * 31 + "1": "yes"}, strict_resume=True))
    await wire.post(f"/threads/{thread}/runs/wait", resume("approve", "yes", strict_resume=True))
