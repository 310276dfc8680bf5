from exchanges import Wire
from normalization import NOWHERE

from scenarios import scenario
from scenarios.inputs import AGAIN, HELLO, TEXT, run


@scenario
async def the_state_of_an_empty_thread(wire: Wire) -> None:
    thread = await wire.thread()
    await wire.get(f"/threads/{thread}/state")
    await wire.get(f"/threads/{thread}/history")
    await wire.post(f"/threads/{thread}/history", {"limit": 10})


@scenario
async def the_state_after_a_run(wire: Wire) -> None:
    thread = await wire.thread_after_run("echo", TEXT)
    await wire.get(f"/threads/{thread}/state")


@scenario
async def the_state_of_a_conversation(wire: Wire) -> None:
    thread = await wire.thread_after_run("tools", HELLO)
    await wire.get(f"/threads/{thread}/state")


@scenario
async def the_state_of_a_graph_with_an_output_schema(wire: Wire) -> None:
    thread = await wire.thread_after_run("private", {"question": "why?"})
    await wire.get(f"/threads/{thread}/state")
    await wire.get(f"/threads/{thread}")


@scenario
async def the_state_of_an_entrypoint(wire: Wire) -> None:
    thread = await wire.thread_after_run("functional", {"number": 21})
    await wire.get(f"/threads/{thread}/state")


@scenario
async def values_that_json_cannot_represent(wire: Wire) -> None:
    thread = await wire.thread()
    await wire.post(f"/threads/{thread}/runs/stream", run("curious", {}, stream_mode=["values"]))
    await wire.get(f"/threads/{thread}/state")


@scenario
async def values_that_a_checkpoint_cannot_hold(wire: Wire) -> None:
    """Stateless, because the stock server could not return the thread afterwards, nor any list that contains it."""
    await wire.post("/runs/wait", run("curious", {"refused": True}))


@scenario
async def the_state_with_subgraphs(wire: Wire) -> None:
    thread = await wire.thread_after_run("approve_many", {})
    await wire.get(f"/threads/{thread}/state")
    await wire.get(f"/threads/{thread}/state?subgraphs=true")


@scenario
async def the_history_of_a_thread(wire: Wire) -> None:
    thread = await wire.thread_after_run("chat", HELLO)
    await wire.thread_after_run("chat", AGAIN, thread=thread)
    await wire.post(f"/threads/{thread}/history", {"limit": 10})


@scenario
async def the_history_page_by_page(wire: Wire) -> None:
    thread = await wire.thread_after_run("steps", {"count": 3})
    first = await wire.post(f"/threads/{thread}/history", {"limit": 2})
    last = first[-1]["checkpoint_id"]
    await wire.post(f"/threads/{thread}/history", {"limit": 2, "before": last})
    await wire.get(f"/threads/{thread}/history?limit=1")
    await wire.get(f"/threads/{thread}/history?limit=1&before={last}")


@scenario
async def the_history_before_a_checkpoint(wire: Wire) -> None:
    thread = await wire.thread_after_run("steps", {"count": 2})
    last = (await wire.unrecorded("POST", f"/threads/{thread}/history", {"limit": 2}))[-1]
    await wire.post(f"/threads/{thread}/history", {"before": last["checkpoint"], "limit": 1})
    await wire.post(f"/threads/{thread}/history", {"before": {"configurable": last["checkpoint"]}, "limit": 1})


@scenario
async def the_history_filtered_by_metadata(wire: Wire) -> None:
    thread = await wire.thread_after_run("steps", {"count": 2})
    await wire.post(f"/threads/{thread}/history", {"metadata": {"source": "input"}})
    await wire.post(f"/threads/{thread}/history", {"metadata": {"step": 1}})
    await wire.post(f"/threads/{thread}/history", {"metadata": {"step": 77}})


@scenario
async def the_history_with_invalid_limits(wire: Wire) -> None:
    thread = await wire.thread_after_run("echo", TEXT)
    await wire.post(f"/threads/{thread}/history", {"limit": 0})
    await wire.post(f"/threads/{thread}/history", {"limit": 100_000})


@scenario
async def the_state_at_a_checkpoint(wire: Wire) -> None:
    thread = await wire.thread_after_run("steps", {"count": 2})
    history = await wire.unrecorded("POST", f"/threads/{thread}/history", {"limit": 10})
    await wire.get(f"/threads/{thread}/state/{history[1]['checkpoint_id']}")
    checkpoint = {"checkpoint": history[1]["checkpoint"]}
    await wire.post(f"/threads/{thread}/state/checkpoint", checkpoint)
    await wire.post(f"/threads/{thread}/state/checkpoint", {**checkpoint, "subgraphs": True})


@scenario
async def the_state_at_a_checkpoint_that_does_not_exist(wire: Wire) -> None:
    thread = await wire.thread_after_run("echo", TEXT)
    await wire.get(f"/threads/{thread}/state/{NOWHERE}")
    await wire.post(f"/threads/{thread}/state/checkpoint", {"checkpoint": {"checkpoint_id": NOWHERE}})
    await wire.post(f"/threads/{thread}/state/checkpoint", {})


@scenario
async def a_state_is_read_with_invalid_arguments(wire: Wire) -> None:
    thread = await wire.thread()
    await wire.get(f"/threads/nobody/state/{NOWHERE}")
    await wire.post("/threads/nobody/state", {"values": {}})
    await wire.get(f"/threads/{thread}/history?limit=many")
    await wire.get(f"/threads/{NOWHERE}/state/{NOWHERE}")
    await wire.post(f"/threads/{NOWHERE}/state/checkpoint", {"checkpoint": {"checkpoint_id": NOWHERE}})


@scenario
async def a_state_is_updated(wire: Wire) -> None:
    thread = await wire.thread_after_run("echo", TEXT)
    await wire.post(f"/threads/{thread}/state", {"values": {"text": "changed"}})
    await wire.get(f"/threads/{thread}/state")
    await wire.get(f"/threads/{thread}")


@scenario
async def a_state_is_updated_as_a_node(wire: Wire) -> None:
    thread = await wire.thread_after_run("slow", {"seconds": 0})
    await wire.post(f"/threads/{thread}/state", {"values": {"steps": ["mine"]}, "as_node": "begin"})
    await wire.get(f"/threads/{thread}/state")
    await wire.get(f"/threads/{thread}")
    await wire.post(f"/threads/{thread}/runs/wait", run("slow", None))


@scenario
async def a_state_is_updated_as_a_node_that_does_not_exist(wire: Wire) -> None:
    thread = await wire.thread_after_run("echo", TEXT)
    await wire.post(f"/threads/{thread}/state", {"values": {"text": "x"}, "as_node": "nowhere"})


@scenario
async def a_state_is_updated_before_any_run(wire: Wire) -> None:
    await wire.post(f"/threads/{await wire.thread()}/state", {"values": {"text": "x"}})


@scenario
async def a_message_is_added_and_removed_by_state_updates(wire: Wire) -> None:
    thread = await wire.thread_after_run("chat", HELLO)
    added = {"messages": [{"role": "user", "content": "injected", "id": "user-9"}]}
    await wire.post(f"/threads/{thread}/state", {"values": added})
    removed = {"messages": [{"type": "remove", "content": "", "id": "ai-1"}]}
    await wire.post(f"/threads/{thread}/state", {"values": removed})
    await wire.get(f"/threads/{thread}/state")


@scenario
async def a_state_is_forked(wire: Wire) -> None:
    thread = await wire.thread_after_run("steps", {"count": 2})
    history = await wire.unrecorded("POST", f"/threads/{thread}/history", {"limit": 10})
    checkpoint = history[1]["checkpoint"]
    await wire.post(f"/threads/{thread}/state", {"values": {"done": [77]}, "checkpoint": checkpoint})
    await wire.get(f"/threads/{thread}/state")


@scenario
async def a_state_is_updated_at_a_checkpoint_that_does_not_exist(wire: Wire) -> None:
    thread = await wire.thread_after_run("echo", TEXT)
    update = {"values": {"echoed": "x"}, "as_node": "say_again", "checkpoint_id": NOWHERE}
    await wire.post(f"/threads/{thread}/state", update)


@scenario
async def a_state_is_updated_with_invalid_values(wire: Wire) -> None:
    thread = await wire.thread_after_run("echo", TEXT)
    await wire.post(f"/threads/{thread}/state", {"values": {"nothing_like_it": 1}})
    await wire.post(f"/threads/{thread}/state", {"values": 5})
    await wire.patch(f"/threads/{thread}/state", {"metadata": {}})


@scenario
async def a_state_is_updated_during_a_run(wire: Wire) -> None:
    thread = await wire.thread()
    run_id = await wire.start_slow_run(thread)
    await wire.post(f"/threads/{thread}/state", {"values": {"steps": ["mine"]}})
    wire.finish()
    await wire.wait_for_end(thread, run_id)


@scenario
async def the_state_after_a_malformed_message(wire: Wire) -> None:
    thread = await wire.thread_after_run("chat", HELLO)
    await wire.unrecorded("POST", f"/threads/{thread}/runs/wait", run("chat", {"messages": [{"role": "nonsense"}]}))
    await wire.get(f"/threads/{thread}/state")
    await wire.get(f"/threads/{thread}")
