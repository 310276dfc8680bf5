"""Threads that begin with a past, and threads that lose theirs."""

import pytest
from clients import fresh_id, has_begun, human, refused

pytestmark = pytest.mark.anyio


async def gone(sdk, thread_id):
    with refused(404, f"Thread with ID {thread_id} not found"):
        await sdk.threads.get(thread_id)


# -- copies -----------------------------------------------------------------------------------------------------------


async def test_a_copy_has_the_past_and_the_state_of_its_source(sdk):
    source = await sdk.thread(metadata={"topic": "x"})
    await sdk.runs.wait(source, "steps", input={"count": 3}, config={"tags": ["t"]})
    copied = await sdk.threads.copy(source)
    before, after = await sdk.threads.get(source), await sdk.threads.get(copied["thread_id"])
    assert after == copied
    assert copied["thread_id"] != source
    for field in ("metadata", "values", "status", "config", "interrupts", "error"):
        assert copied[field] == before[field]
    old, new = [await sdk.threads.get_history(thread_id) for thread_id in (source, copied["thread_id"])]
    for field in ("values", "next", "checkpoint_id", "parent_checkpoint_id", "created_at"):
        assert [each[field] for each in new] == [each[field] for each in old]
    assert {each["checkpoint"]["thread_id"] for each in new} == {copied["thread_id"]}
    assert {each["metadata"]["thread_id"] for each in new} == {copied["thread_id"]}
    assert await sdk.runs.list(copied["thread_id"]) == []


async def test_a_copy_goes_its_own_way(sdk):
    source = await sdk.thread()
    await sdk.runs.wait(source, "chat", input=human("one", "h1"))
    copy = (await sdk.threads.copy(source))["thread_id"]
    went_on = await sdk.runs.wait(copy, "chat", input=human("two", "h2"))
    assert [each["content"] for each in went_on["messages"]] == ["one", "You said: one", "two", "You said: two"]
    assert len((await sdk.threads.get(source))["values"]["messages"]) == 2
    await sdk.threads.delete(source)
    assert len((await sdk.threads.get_state(copy))["values"]["messages"]) == 4


async def test_a_copy_of_a_paused_thread_can_be_answered(sdk):
    source = await sdk.thread()
    await sdk.runs.wait(source, "approve", input={"topic": "x"})
    copy = await sdk.threads.copy(source)
    assert (copy["status"], copy["interrupts"]) == ("interrupted", (await sdk.threads.get(source))["interrupts"])
    answered = await sdk.runs.wait(copy["thread_id"], "approve", command={"resume": "yes"})
    assert answered["answer"] == "yes"
    assert (await sdk.threads.get(source))["status"] == "interrupted"


async def test_a_copy_of_a_thread_on_which_nothing_happened_is_as_empty(sdk):
    copy = await sdk.threads.copy(await sdk.thread(metadata={"a": 1}))
    assert (copy["metadata"], copy["values"], copy["status"]) == ({"a": 1}, None, "idle")
    assert (await sdk.threads.get_state(copy["thread_id"]))["checkpoint"] is None


async def test_a_busy_thread_is_copied_in_its_newest_state(sdk, gate):
    source = await sdk.thread()
    run = await sdk.runs.create(source, "slow", input={"until": str(gate)})
    await has_begun(sdk, run)
    copy = await sdk.threads.copy(source)
    assert (copy["status"], copy["values"]["steps"]) == ("interrupted", ["begun"])
    assert (await sdk.threads.get_state(copy["thread_id"]))["next"] == ["wait"]
    gate.touch()
    assert (await sdk.runs.wait(copy["thread_id"], "slow", input=None))["steps"] == ["begun", "waited"]
    assert (await sdk.runs.join(source, run["run_id"]))["steps"] == ["begun", "waited"]


async def test_a_thread_that_is_not_there_cannot_be_copied(sdk):
    unknown = fresh_id()
    with refused(404, f"Thread with ID {unknown} not found"):
        await sdk.threads.copy(unknown)
    with refused(422, "Invalid thread ID: must be a UUID"):
        await sdk.threads.copy("nope")


# -- from supersteps --------------------------------------------------------------------------------------------------

INPUT = {"updates": [{"values": {"topic": "x"}, "as_node": "__input__"}]}
ASKED = {"updates": [{"values": {"topic": "x"}, "as_node": "__start__"}]}
ANSWERED = {"updates": [{"values": {"answer": "yes"}, "as_node": "ask"}]}


async def test_a_thread_can_begin_with_the_state_that_updates_lead_to(sdk):
    thread = await sdk.threads.create(graph_id="approve", metadata={"a": 1}, supersteps=[INPUT, ASKED, ANSWERED])
    assert thread["metadata"] == {"a": 1, "graph_id": "approve"}
    assert (thread["status"], thread["values"]) == ("interrupted", {"topic": "x", "answer": "yes"})
    assert (thread["config"], thread["error"], thread["interrupts"]) == ({}, None, {})
    assert await sdk.threads.get(thread["thread_id"]) == thread
    history = await sdk.threads.get_history(thread["thread_id"])
    assert [(each["metadata"]["source"], each["next"]) for each in history] == [
        ("update", ["act"]),
        ("update", ["ask"]),
        ("input", ["__start__"]),
    ]
    assert (await sdk.runs.wait(thread["thread_id"], "approve", input=None))["done"] is True


async def test_a_conversation_can_be_carried_over_from_its_history(sdk):
    source = await sdk.thread()
    await sdk.runs.wait(source, "chat", input=human("one", "h1"))
    said = (await sdk.threads.get_state(source))["values"]["messages"]
    steps = [
        {"updates": [{"values": {"messages": said[:1]}, "as_node": "__input__"}]},
        {"updates": [{"values": {"messages": said[:1]}, "as_node": "__start__"}]},
        {"updates": [{"values": {"messages": said[1:]}, "as_node": "model"}]},
    ]
    thread = await sdk.threads.create(graph_id="chat", supersteps=steps)
    assert thread["status"] == "idle"
    assert [each["content"] for each in thread["values"]["messages"]] == ["one", "You said: one"]
    went_on = await sdk.runs.wait(thread["thread_id"], "chat", input=human("two", "h2"))
    assert [each["content"] for each in went_on["messages"]][-1] == "You said: two"


async def test_an_update_may_be_the_command_of_a_node(sdk):
    command = {"values": None, "command": {"update": {"answer": "by command"}, "goto": "act"}, "as_node": "ask"}
    thread = await sdk.threads.create(graph_id="approve", supersteps=[ASKED, {"updates": [command]}])
    assert thread["values"] == {"topic": "x", "answer": "by command"}
    assert (await sdk.threads.get_state(thread["thread_id"]))["next"] == ["act"]


async def test_whether_the_id_is_taken_decides_before_any_update(sdk):
    chosen = fresh_id()
    made = await sdk.threads.create(thread_id=chosen, graph_id="approve", supersteps=[ASKED])
    with refused(409, f"Thread with ID {chosen} already exists"):
        await sdk.threads.create(thread_id=chosen, graph_id="approve", supersteps=[ASKED, ANSWERED])
    again = await sdk.threads.create(
        thread_id=chosen, graph_id="approve", supersteps=[ASKED, ANSWERED], if_exists="do_nothing"
    )
    assert again == made
    assert len(await sdk.threads.get_history(chosen)) == 1


@pytest.mark.parametrize(
    ("metadata", "steps", "status", "detail"),
    [
        (
            {"graph_id": "approve"},
            [{"updates": [{"values": {}, "as_node": "nobody"}]}],
            400,
            "Node nobody does not exist",
        ),
        ({"graph_id": "approve"}, [ASKED, {"updates": []}], 400, "No updates provided"),
        ({"graph_id": "nope"}, [ASKED], 404, "Graph 'nope' not found. Expected one of:"),
        ({}, [ASKED], 400, "has no assigned graph ID"),
        ({"graph_id": "approve"}, [{"updates": [{"values": {}}]}], 422, '"as_node" is a required property'),
        ({"graph_id": "approve"}, [{"updates": [{"as_node": "ask", "command": {"goto": 5}}]}], 422, "goto must be"),
        (
            {"graph_id": "approve"},
            [{"updates": [{"as_node": "ask", "values": {}, "command": {"goto": "act"}}]}],
            422,
            "Cannot specify both values and command",
        ),
        ({"graph_id": "approve"}, [5], 422, "supersteps"),
    ],
)
async def test_of_updates_that_fail_nothing_is_left(http, metadata, steps, status, detail):
    chosen = fresh_id()
    answer = await http.post("/threads", json={"thread_id": chosen, "metadata": metadata, "supersteps": steps})
    assert answer.status_code == status
    assert detail in answer.json()["detail"]
    assert (await http.get(f"/threads/{chosen}")).status_code == 404
    made = await http.post("/threads", json={"thread_id": chosen, "metadata": {"graph_id": "approve"}})
    assert made.status_code == 200
    assert (await http.get(f"/threads/{chosen}/state")).json()["values"] == {}


async def test_no_supersteps_make_an_ordinary_thread(http):
    thread = (await http.post("/threads", json={"supersteps": []})).json()
    assert (thread["values"], thread["status"]) == (None, "idle")


# -- pruning ----------------------------------------------------------------------------------------------------------


async def test_pruned_threads_are_deleted(sdk):
    threads = [await sdk.thread() for _ in range(3)]
    assert await sdk.threads.prune([*threads[:2], threads[0], fresh_id()]) == {"pruned_count": 2}
    for thread_id in threads[:2]:
        await gone(sdk, thread_id)
    assert (await sdk.threads.get(threads[2]))["status"] == "idle"
    assert await sdk.threads.prune([]) == {"pruned_count": 0}


async def test_pruning_can_keep_the_latest_checkpoint(sdk):
    thread_id = await sdk.thread()
    for count in (3, 5):
        await sdk.runs.wait(thread_id, "steps", input={"count": count})
    before = await sdk.threads.get_history(thread_id, limit=100)
    thread = await sdk.threads.get(thread_id)
    assert await sdk.threads.prune([thread_id, fresh_id()], strategy="keep_latest") == {"pruned_count": 1}
    assert await sdk.threads.get(thread_id) == thread
    (kept,) = await sdk.threads.get_history(thread_id, limit=100)
    assert kept["checkpoint_id"] == before[0]["checkpoint_id"]
    assert kept["values"] == before[0]["values"] == (await sdk.threads.get_state(thread_id))["values"]
    assert len(await sdk.runs.list(thread_id)) == 2
    assert (await sdk.runs.wait(thread_id, "steps", input={"count": 6}))["count"] == 6


async def test_an_interrupted_thread_can_be_answered_after_pruning(sdk):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "approve", input={"topic": "old"})
    await sdk.runs.wait(thread_id, "approve", command={"resume": "one"})
    await sdk.runs.wait(thread_id, "approve", input={"topic": "new"})
    await sdk.threads.prune([thread_id], strategy="keep_latest")
    assert (await sdk.runs.wait(thread_id, "approve", command={"resume": "two"}))["answer"] == "two"


async def test_a_thread_with_a_run_under_way_keeps_its_checkpoints(sdk, gate):
    thread_id = await sdk.thread()
    run = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)})
    await has_begun(sdk, run)
    before = await sdk.threads.get_history(thread_id)
    assert await sdk.threads.prune([thread_id], strategy="keep_latest") == {"pruned_count": 0}
    assert await sdk.threads.get_history(thread_id) == before
    assert await sdk.threads.prune([thread_id]) == {"pruned_count": 1}
    await gone(sdk, thread_id)


async def test_prunings_that_make_no_sense_are_refused(sdk, http):
    with refused(422, "Invalid thread ID: must be a UUID"):
        await sdk.threads.prune(["nope"])
    for body in ({}, {"thread_ids": "x"}, {"thread_ids": [], "strategy": "nope"}):
        assert (await http.post("/threads/prune", json=body)).status_code == 422


# -- storage, metadata ------------------------------------------------------------------------------------------------


async def test_a_thread_tells_what_its_checkpoints_take_up(sdk, http):
    thread_id = await sdk.thread()
    empty = (await http.get(f"/threads/{thread_id}/storage")).json()
    assert empty == {
        "thread_id": thread_id,
        "total_bytes": 0,
        "checkpoints": {"count": 0, "bytes": 0},
        "channel_values": {"count": 0, "bytes": 0, "by_channel": {}},
        "pending_writes": {"count": 0, "bytes": 0},
    }
    await sdk.runs.wait(thread_id, "chat", input=human("x" * 1000))
    told = (await http.get(f"/threads/{thread_id}/storage")).json()
    history = await sdk.threads.get_history(thread_id, limit=100)
    values = told["channel_values"]
    assert told["checkpoints"]["count"] == len(history)
    assert values["by_channel"]["messages"]["bytes"] > 1000
    assert values["bytes"] == sum(each["bytes"] for each in values["by_channel"].values())
    assert values["count"] == sum(each["versions"] for each in values["by_channel"].values())
    parts = ("checkpoints", "channel_values", "pending_writes")
    assert told["total_bytes"] == sum(told[part]["bytes"] for part in parts)
    await sdk.threads.prune([thread_id], strategy="keep_latest")
    assert (await http.get(f"/threads/{thread_id}/storage")).json()["total_bytes"] < told["total_bytes"]
    unknown = fresh_id()
    answer = await http.get(f"/threads/{unknown}/storage")
    assert (answer.status_code, answer.json()) == (404, {"detail": f"Thread with ID {unknown} not found"})


async def test_patching_the_state_patches_the_metadata_of_the_thread(sdk, http):
    thread_id = await sdk.thread(metadata={"a": 1, "b": 1})
    answer = await http.patch(f"/threads/{thread_id}/state", json={"metadata": {"b": 2, "c": 3}})
    assert answer.status_code == 200
    assert (await sdk.threads.get(thread_id))["metadata"] == {"a": 1, "b": 2, "c": 3}
    assert (await http.patch(f"/threads/{fresh_id()}/state", json={"metadata": {}})).status_code == 404
    assert (await http.patch(f"/threads/{thread_id}/state", json={"metadata": 5})).status_code == 422


async def test_an_update_answers_with_little_if_that_is_preferred(sdk, http):
    thread_id = await sdk.thread()
    assert await sdk.threads.update(thread_id, metadata={"a": 1}, return_minimal=True) is None
    assert (await sdk.threads.update(thread_id, metadata={"b": 1}))["metadata"] == {"a": 1, "b": 1}
    for prefer in ("return=minimal", "respond-async, Return=Minimal", "return=minimal; foo"):
        answer = await http.patch(f"/threads/{thread_id}", json={"metadata": {"c": 1}}, headers={"prefer": prefer})
        assert (answer.status_code, answer.content) == (204, b"")
    answer = await http.patch(f"/threads/{thread_id}", json={}, headers={"prefer": "return=representation"})
    assert answer.status_code == 200
    unknown = fresh_id()
    with refused(404, f"Thread with ID {unknown} not found"):
        await sdk.threads.update(unknown, metadata={}, return_minimal=True)


async def test_a_thread_shows_how_its_runs_were_configured_but_not_what_was_configurable(sdk):
    thread_id = await sdk.thread()
    config = {"tags": ["a"], "recursion_limit": 7, "configurable": {"secret": 1}}
    await sdk.runs.wait(thread_id, "echo", input={"text": 1}, config=config)
    assert (await sdk.threads.get(thread_id))["config"] == {"tags": ["a"], "recursion_limit": 7, "configurable": {}}
    await sdk.runs.wait(thread_id, "echo", input={"text": 1}, config={"tags": ["b"]})
    assert (await sdk.threads.get(thread_id))["config"] == {"tags": ["b"], "recursion_limit": 7, "configurable": {}}
    await sdk.runs.wait(thread_id, "echo", input={"text": 1})
    assert (await sdk.threads.get(thread_id))["config"]["tags"] == ["b"]
