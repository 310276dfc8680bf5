from exchanges import Wire
from normalization import NOWHERE, system_assistant

from scenarios import scenario
from scenarios.inputs import HELLO, TEXT, resume, run


@scenario
async def a_thread_is_created(wire: Wire) -> None:
    await wire.post("/threads", {})


@scenario
async def a_thread_is_created_with_metadata(wire: Wire) -> None:
    thread = await wire.post("/threads", {"metadata": {"mark": wire.mark, "nested": {"a": [1, None]}}})
    await wire.get(f"/threads/{thread['thread_id']}")


@scenario
async def a_thread_is_created_with_an_existing_id(wire: Wire) -> None:
    thread = await wire.thread(metadata={"n": 1})
    await wire.post("/threads", {"thread_id": thread})
    await wire.post("/threads", {"thread_id": thread, "if_exists": "do_nothing", "metadata": {"n": 2}})


@scenario
async def a_thread_is_created_with_a_malformed_id(wire: Wire) -> None:
    await wire.post("/threads", {"thread_id": "nobody"})


@scenario
async def ids_in_other_uuid_forms(wire: Wire) -> None:
    thread = await wire.thread_after_run("echo", TEXT)
    for form in (thread.replace("-", ""), f"{{{thread}}}", f"urn:uuid:{thread}"):
        await wire.get(f"/threads/{form}")
        await wire.post("/threads", {"thread_id": form, "if_exists": "do_nothing"})
        await wire.post("/threads/search", {"ids": [form], "select": ["thread_id"]})
        await wire.post(f"/threads/{form}/runs/wait", run(system_assistant("echo").replace("-", ""), TEXT))
    await wire.get(f"/assistants/{system_assistant('echo').replace('-', '')}")


@scenario
async def a_thread_is_created_from_supersteps(wire: Wire) -> None:
    supersteps = [
        {"updates": [{"values": {"text": "a"}, "as_node": "__input__"}]},
        {"updates": [{"values": {"echoed": "b"}, "as_node": "say_again"}]},
    ]
    thread = await wire.post("/threads", {"metadata": {"graph_id": "echo"}, "supersteps": supersteps})
    await wire.get(f"/threads/{thread['thread_id']}/state")
    await wire.get(f"/threads/{thread['thread_id']}")
    await wire.post(f"/threads/{thread['thread_id']}/history", {"limit": 10})


@scenario
async def a_thread_with_a_time_to_live(wire: Wire) -> None:
    thread = await wire.post("/threads", {"ttl": {"ttl": 60, "strategy": "delete"}})
    await wire.get(f"/threads/{thread['thread_id']}?include=ttl")
    await wire.patch(f"/threads/{thread['thread_id']}", {"ttl": None})
    await wire.get(f"/threads/{thread['thread_id']}?include=ttl")


@scenario
async def a_thread_that_does_not_exist(wire: Wire) -> None:
    await wire.get(f"/threads/{NOWHERE}")
    await wire.patch(f"/threads/{NOWHERE}", {"metadata": {}})
    await wire.delete(f"/threads/{NOWHERE}")
    await wire.post(f"/threads/{NOWHERE}/copy")
    await wire.get(f"/threads/{NOWHERE}/state")
    await wire.post(f"/threads/{NOWHERE}/state", {"values": {}})
    await wire.get(f"/threads/{NOWHERE}/history")
    await wire.post(f"/threads/{NOWHERE}/history", {"limit": 10})
    await wire.get(f"/threads/{NOWHERE}/runs")


@scenario
async def a_malformed_thread_id(wire: Wire) -> None:
    await wire.get("/threads/nobody")
    await wire.patch("/threads/nobody", {"metadata": {}})
    await wire.delete("/threads/nobody")
    await wire.post("/threads/nobody/copy")
    await wire.get("/threads/nobody/state")
    await wire.post("/threads/nobody/history", {"limit": 10})
    await wire.get("/threads/nobody/runs")
    await wire.post("/threads/nobody/runs", run("echo", TEXT))


@scenario
async def the_metadata_of_a_thread_is_merged(wire: Wire) -> None:
    thread = await wire.thread(metadata={"a": 1, "b": {"c": 2}})
    await wire.patch(f"/threads/{thread}", {"metadata": {"b": {"d": 3}, "e": None}})
    await wire.patch(f"/threads/{thread}", {"metadata": {"f": 4}}, headers={"Prefer": "return=minimal"})
    await wire.get(f"/threads/{thread}")


@scenario
async def a_thread_is_deleted(wire: Wire) -> None:
    thread = await wire.thread_after_run("echo", TEXT)
    await wire.delete(f"/threads/{thread}")
    await wire.get(f"/threads/{thread}")
    await wire.get(f"/threads/{thread}/state")
    await wire.delete(f"/threads/{thread}")


@scenario
async def a_thread_after_a_run(wire: Wire) -> None:
    thread = await wire.thread_after_run("echo", TEXT)
    await wire.get(f"/threads/{thread}")


@scenario
async def a_thread_with_messages(wire: Wire) -> None:
    thread = await wire.thread_after_run("chat", HELLO)
    await wire.get(f"/threads/{thread}")


@scenario
async def a_thread_after_a_failed_run(wire: Wire) -> None:
    thread = await wire.thread_after_run("fails", TEXT)
    await wire.get(f"/threads/{thread}")
    await wire.get(f"/threads/{thread}/state")
    await wire.thread_after_run("echo", TEXT, thread=thread)
    await wire.get(f"/threads/{thread}")


@scenario
async def an_interrupted_thread(wire: Wire) -> None:
    thread = await wire.thread_after_run("approve", {"topic": "x"})
    await wire.get(f"/threads/{thread}")
    await wire.unrecorded("POST", f"/threads/{thread}/runs/wait", resume("approve", "yes"))
    await wire.get(f"/threads/{thread}")


@scenario
async def a_thread_during_a_run(wire: Wire) -> None:
    thread = await wire.thread()
    run = await wire.start_slow_run(thread)
    await wire.get(f"/threads/{thread}")
    wire.finish()
    await wire.wait_for_end(thread, run)
    await wire.get(f"/threads/{thread}")


@scenario
async def threads_are_found_by_metadata(wire: Wire) -> None:
    for kind in ("a", "b"):
        await wire.thread(metadata={"mark": wire.mark, "deep": {"kind": kind}})
    await wire.post("/threads/search", {"metadata": {"mark": wire.mark, "deep": {"kind": "a"}}})
    await wire.post("/threads/search", {"metadata": {"mark": wire.mark, "deep": {"kind": "c"}}})


@scenario
async def threads_are_found_by_status(wire: Wire) -> None:
    await wire.thread_after_run("approve", {"topic": "x"}, thread=await wire.thread(metadata={"mark": wire.mark}))
    await wire.thread(metadata={"mark": wire.mark})
    for status in ("interrupted", "idle", "busy", "error"):
        body = {"metadata": {"mark": wire.mark}, "status": status, "select": ["status", "interrupts"]}
        await wire.post("/threads/search", body)
    await wire.post("/threads/search", {"status": "sleepy"})


@scenario
async def threads_are_found_by_values(wire: Wire) -> None:
    for text in ("a", "b"):
        await wire.thread_after_run("echo", {"text": text}, thread=await wire.thread(metadata={"mark": wire.mark}))
    body = {"metadata": {"mark": wire.mark}, "values": {"text": "b"}, "select": ["values"]}
    await wire.post("/threads/search", body)


@scenario
async def threads_are_found_by_id(wire: Wire) -> None:
    first, second = await wire.thread(), await wire.thread()
    await wire.thread()
    body = {"ids": [first, second, NOWHERE], "select": ["thread_id"], "sort_by": "created_at", "sort_order": "asc"}
    await wire.post("/threads/search", body)
    await wire.post("/threads/search", {"ids": ["nobody"]})


@scenario
async def threads_are_searched_page_by_page(wire: Wire) -> None:
    for number in range(3):
        await wire.thread(metadata={"mark": wire.mark, "number": number})
    query = {"metadata": {"mark": wire.mark}, "select": ["metadata"], "limit": 2, "sort_by": "created_at"}
    await wire.post("/threads/search", {**query, "sort_order": "asc"})
    await wire.post("/threads/search", {**query, "sort_order": "asc", "offset": 2})
    await wire.post("/threads/search", {**query, "sort_order": "desc", "limit": 3})
    await wire.post("/threads/search", {**query, "offset": 100})


@scenario
async def threads_are_searched_with_invalid_paging(wire: Wire) -> None:
    await wire.post("/threads/search", {"limit": 0})
    await wire.post("/threads/search", {"limit": -1})
    await wire.post("/threads/search", {"limit": 100_000})
    await wire.post("/threads/search", {"offset": -1})
    await wire.post("/threads/search", {"sort_by": "colour"})


@scenario
async def threads_with_selected_fields(wire: Wire) -> None:
    await wire.thread_after_run("echo", TEXT, thread=await wire.thread(metadata={"mark": wire.mark}))
    await wire.post("/threads/search", {"metadata": {"mark": wire.mark}, "select": ["status", "values"]})
    await wire.post("/threads/search", {"metadata": {"mark": wire.mark}, "select": ["nothing_like_it"]})


@scenario
async def threads_with_extracted_values(wire: Wire) -> None:
    await wire.thread_after_run("chat", HELLO, thread=await wire.thread(metadata={"mark": wire.mark}))
    extract = {
        "last": "values.messages[-1].content",
        "first": "values.messages[0].id",
        "mark": "metadata.mark",
        "none": "values.nothing",
    }
    await wire.post("/threads/search", {"metadata": {"mark": wire.mark}, "select": ["thread_id"], "extract": extract})
    await wire.post("/threads/search", {"metadata": {"mark": wire.mark}, "extract": {"all": "$..x["}})


@scenario
async def threads_are_counted(wire: Wire) -> None:
    for _ in range(2):
        await wire.thread(metadata={"mark": wire.mark})
    await wire.post("/threads/count", {"metadata": {"mark": wire.mark}})
    await wire.post("/threads/count", {"metadata": {"mark": wire.mark}, "status": "busy"})
    await wire.post("/threads/count", {"status": "sleepy"})


@scenario
async def a_thread_is_copied(wire: Wire) -> None:
    thread = await wire.thread_after_run("chat", HELLO, thread=await wire.thread(metadata={"kept": True}))
    copy = await wire.post(f"/threads/{thread}/copy")
    await wire.get(f"/threads/{copy['thread_id']}")
    await wire.get(f"/threads/{copy['thread_id']}/state")
    await wire.get(f"/threads/{copy['thread_id']}/runs")


@scenario
async def a_copy_is_independent(wire: Wire) -> None:
    thread = await wire.thread_after_run("steps", {"count": 1})
    copy = (await wire.unrecorded("POST", f"/threads/{thread}/copy"))["thread_id"]
    await wire.thread_after_run("steps", {"count": 2}, thread=copy)
    await wire.get(f"/threads/{copy}/state")
    await wire.get(f"/threads/{thread}/state")


@scenario
async def an_interrupted_thread_is_copied(wire: Wire) -> None:
    thread = await wire.thread_after_run("approve", {"topic": "x"})
    copy = await wire.post(f"/threads/{thread}/copy")
    await wire.post(f"/threads/{copy['thread_id']}/runs/wait", resume("approve", "yes"))


@scenario
async def threads_are_pruned(wire: Wire) -> None:
    first, second = await wire.thread_after_run("echo", TEXT), await wire.thread()
    await wire.post("/threads/prune", {"thread_ids": [first, second, NOWHERE], "strategy": "delete"})
    await wire.get(f"/threads/{first}")


@scenario
async def threads_are_pruned_to_their_latest_state(wire: Wire) -> None:
    thread = await wire.thread_after_run("steps", {"count": 3})
    await wire.post("/threads/prune", {"thread_ids": [thread], "strategy": "keep_latest"})
    await wire.post(f"/threads/{thread}/history", {"limit": 10})


@scenario
async def threads_are_pruned_with_invalid_arguments(wire: Wire) -> None:
    await wire.post("/threads/prune", {"thread_ids": [], "strategy": "softly"})
    await wire.post("/threads/prune", {"strategy": "delete"})
    await wire.post("/threads/prune", {"thread_ids": ["nobody"]})


@scenario
async def the_storage_of_a_thread(wire: Wire) -> None:
    thread = await wire.thread_after_run("echo", TEXT)
    await wire.get(f"/threads/{thread}/storage")
    await wire.get(f"/threads/{NOWHERE}/storage")
    await wire.get("/threads/nobody/storage")


@scenario
async def the_metadata_of_a_thread_is_merged_through_its_state(wire: Wire) -> None:
    await wire.patch(f"/threads/{await wire.thread()}/state", {"metadata": {"a": 1}})
    await wire.patch(f"/threads/{NOWHERE}/state", {"metadata": {"a": 1}})
    await wire.patch(f"/threads/{NOWHERE}/state", {"metadata": 5})


@scenario
async def a_thread_is_created_from_supersteps_without_a_graph(wire: Wire) -> None:
    await wire.post("/threads", {"supersteps": [{"updates": [{"values": {}, "as_node": "x"}]}]})


@scenario
async def a_thread_is_streamed_with_invalid_arguments(wire: Wire) -> None:
    thread = await wire.thread()
    for path in (f"/threads/{NOWHERE}/stream", "/threads/nobody/stream", f"/threads/{thread}/stream?stream_modes=x"):
        async with wire.open(path):
            pass
    async with wire.open(f"/threads/{thread}/stream", headers={"Last-Event-ID": "nonsense"}):
        pass


@scenario
async def a_thread_is_streamed_over_two_runs(wire: Wire) -> None:
    thread = await wire.thread()
    async with wire.open(f"/threads/{thread}/stream") as stream:
        for text in ("a", "b"):
            await wire.start_run(thread, run("echo", {"text": text}, stream_mode=["values", "updates"]))
            await stream.until("updates")
            await stream.until("metadata")
