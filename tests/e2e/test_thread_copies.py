"""Copies, threads created from supersteps, pruning, and the storage and metadata of threads."""

import pytest
from clients import fresh_id, human, rejected, wait_for_start

pytestmark = pytest.mark.anyio


async def assert_deleted(sdk, thread_id):
    with rejected(404, f"Thread with ID {thread_id} not found"):
        await sdk.threads.get(thread_id)


# -- copies -----------------------------------------------------------------------------------------------------------


async def test_a_copy_has_the_history_and_the_state_of_its_source(sdk):
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


async def test_a_copy_is_independent_of_its_source(sdk):
    source = await sdk.thread()
    await sdk.runs.wait(source, "chat", input=human("one", "h1"))
    copy = (await sdk.threads.copy(source))["thread_id"]
    continued = await sdk.runs.wait(copy, "chat", input=human("two", "h2"))
    assert [each["content"] for each in continued["messages"]] == ["one", "You said: one", "two", "You said: two"]
    assert len((await sdk.threads.get(source))["values"]["messages"]) == 2
    await sdk.threads.delete(source)
    assert len((await sdk.threads.get_state(copy))["values"]["messages"]) == 4


async def test_a_copy_of_an_interrupted_thread_can_be_answered(sdk):
    source = await sdk.thread()
    await sdk.runs.wait(source, "approve", input={"topic": "x"})
    copy = await sdk.threads.copy(source)
    assert (copy["status"], copy["interrupts"]) == ("interrupted", (await sdk.threads.get(source))["interrupts"])
    answered = await sdk.runs.wait(copy["thread_id"], "approve", command={"resume": "yes"})
    assert answered["answer"] == "yes"
    assert (await sdk.threads.get(source))["status"] == "interrupted"


async def test_a_copy_of_an_empty_thread_is_empty(sdk):
    copy = await sdk.threads.copy(await sdk.thread(metadata={"a": 1}))
    assert (copy["metadata"], copy["values"], copy["status"]) == ({"a": 1}, None, "idle")
    assert (await sdk.threads.get_state(copy["thread_id"]))["checkpoint"] is None


async def test_a_busy_thread_is_copied_in_its_newest_state(sdk, gate):
    source = await sdk.thread()
    run = await sdk.runs.create(source, "slow", input={"until": str(gate)})
    await wait_for_start(sdk, run)
    copy = await sdk.threads.copy(source)
    assert (copy["status"], copy["values"]["steps"]) == ("interrupted", ["begun"])
    assert (await sdk.threads.get_state(copy["thread_id"]))["next"] == ["wait"]
    gate.touch()
    assert (await sdk.runs.wait(copy["thread_id"], "slow", input=None))["steps"] == ["begun", "waited"]
    assert (await sdk.runs.join(source, run["run_id"]))["steps"] == ["begun", "waited"]


async def test_an_unknown_thread_cannot_be_copied(sdk):
    unknown = fresh_id()
    with rejected(404, f"Thread with ID {unknown} not found"):
        await sdk.threads.copy(unknown)
    with rejected(422, "Invalid thread ID: must be a UUID"):
        await sdk.threads.copy("nope")


# -- from supersteps --------------------------------------------------------------------------------------------------

INPUT = {"updates": [{"values": {"topic": "x"}, "as_node": "__input__"}]}
STARTED = {"updates": [{"values": {"topic": "x"}, "as_node": "__start__"}]}
ANSWERED = {"updates": [{"values": {"answer": "yes"}, "as_node": "ask"}]}


async def test_a_thread_can_be_created_from_supersteps(sdk):
    thread = await sdk.threads.create(graph_id="approve", metadata={"a": 1}, supersteps=[INPUT, STARTED, ANSWERED])
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


async def test_a_conversation_can_be_recreated_from_its_messages(sdk):
    source = await sdk.thread()
    await sdk.runs.wait(source, "chat", input=human("one", "h1"))
    messages = (await sdk.threads.get_state(source))["values"]["messages"]
    steps = [
        {"updates": [{"values": {"messages": messages[:1]}, "as_node": "__input__"}]},
        {"updates": [{"values": {"messages": messages[:1]}, "as_node": "__start__"}]},
        {"updates": [{"values": {"messages": messages[1:]}, "as_node": "model"}]},
    ]
    thread = await sdk.threads.create(graph_id="chat", supersteps=steps)
    assert thread["status"] == "idle"
    assert [each["content"] for each in thread["values"]["messages"]] == ["one", "You said: one"]
    continued = await sdk.runs.wait(thread["thread_id"], "chat", input=human("two", "h2"))
    assert [each["content"] for each in continued["messages"]][-1] == "You said: two"


async def test_an_update_can_be_the_command_of_a_node(sdk):
    command = {"values": None, "command": {"update": {"answer": "by command"}, "goto": "act"}, "as_node": "ask"}
    thread = await sdk.threads.create(graph_id="approve", supersteps=[STARTED, {"updates": [command]}])
    assert thread["values"] == {"topic": "x", "answer": "by command"}
    assert (await sdk.threads.get_state(thread["thread_id"]))["next"] == ["act"]


async def test_an_existing_id_is_checked_before_any_update(sdk):
    chosen = fresh_id()
    created = await sdk.threads.create(thread_id=chosen, graph_id="approve", supersteps=[STARTED])
    with rejected(409, f"Thread with ID {chosen} already exists"):
        await sdk.threads.create(thread_id=chosen, graph_id="approve", supersteps=[STARTED, ANSWERED])
    again = await sdk.threads.create(
        thread_id=chosen, graph_id="approve", supersteps=[STARTED, ANSWERED], if_exists="do_nothing"
    )
    assert again == created
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
        ({"graph_id": "approve"}, [STARTED, {"updates": []}], 400, "No updates provided"),
        ({"graph_id": "nope"}, [STARTED], 404, "Graph 'nope' not found. Expected one of:"),
        ({}, [STARTED], 400, "has no assigned graph ID"),
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
async def test_updates_that_fail_leave_nothing(http, metadata, steps, status, detail):
    chosen = fresh_id()
    response = await http.post("/threads", json={"thread_id": chosen, "metadata": metadata, "supersteps": steps})
    assert response.status_code == status
    assert detail in response.json()["detail"]
    assert (await http.get(f"/threads/{chosen}")).status_code == 404
    created = await http.post("/threads", json={"thread_id": chosen, "metadata": {"graph_id": "approve"}})
    assert created.status_code == 200
    assert (await http.get(f"/threads/{chosen}/state")).json()["values"] == {}


async def test_no_supersteps_create_an_ordinary_thread(http):
    thread = (await http.post("/threads", json={"supersteps": []})).json()
    assert (thread["values"], thread["status"]) == (None, "idle")


# -- pruning ----------------------------------------------------------------------------------------------------------


async def test_pruned_threads_are_deleted(sdk):
    threads = [await sdk.thread() for _ in range(3)]
    assert await sdk.threads.prune([*threads[:2], threads[0], fresh_id()]) == {"pruned_count": 2}
    for thread_id in threads[:2]:
        await assert_deleted(sdk, thread_id)
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
    (remaining,) = await sdk.threads.get_history(thread_id, limit=100)
    assert remaining["checkpoint_id"] == before[0]["checkpoint_id"]
    assert remaining["values"] == before[0]["values"] == (await sdk.threads.get_state(thread_id))["values"]
    assert len(await sdk.runs.list(thread_id)) == 2
    assert (await sdk.runs.wait(thread_id, "steps", input={"count": 6}))["count"] == 6


async def test_an_interrupted_thread_can_be_answered_after_pruning(sdk):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "approve", input={"topic": "old"})
    await sdk.runs.wait(thread_id, "approve", command={"resume": "one"})
    await sdk.runs.wait(thread_id, "approve", input={"topic": "new"})
    await sdk.threads.prune([thread_id], strategy="keep_latest")
    assert (await sdk.runs.wait(thread_id, "approve", command={"resume": "two"}))["answer"] == "two"


async def test_a_thread_with_a_running_run_keeps_its_checkpoints(sdk, gate):
    thread_id = await sdk.thread()
    run = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)})
    await wait_for_start(sdk, run)
    before = await sdk.threads.get_history(thread_id)
    assert await sdk.threads.prune([thread_id], strategy="keep_latest") == {"pruned_count": 0}
    assert await sdk.threads.get_history(thread_id) == before
    assert await sdk.threads.prune([thread_id]) == {"pruned_count": 1}
    await assert_deleted(sdk, thread_id)


async def test_invalid_prune_requests_are_rejected(sdk, http):
    with rejected(422, "Invalid thread ID: must be a UUID"):
        await sdk.threads.prune(["nope"])
    for body in ({}, {"thread_ids": "x"}, {"thread_ids": [], "strategy": "nope"}):
        assert (await http.post("/threads/prune", json=body)).status_code == 422


# -- storage, metadata ------------------------------------------------------------------------------------------------


async def test_a_thread_reports_the_size_of_its_checkpoints(sdk, http):
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
    storage = (await http.get(f"/threads/{thread_id}/storage")).json()
    history = await sdk.threads.get_history(thread_id, limit=100)
    values = storage["channel_values"]
    assert storage["checkpoints"]["count"] == len(history)
    assert values["by_channel"]["messages"]["bytes"] > 1000
    assert values["bytes"] == sum(each["bytes"] for each in values["by_channel"].values())
    assert values["count"] == sum(each["versions"] for each in values["by_channel"].values())
    parts = ("checkpoints", "channel_values", "pending_writes")
    assert storage["total_bytes"] == sum(storage[part]["bytes"] for part in parts)
    await sdk.threads.prune([thread_id], strategy="keep_latest")
    assert (await http.get(f"/threads/{thread_id}/storage")).json()["total_bytes"] < storage["total_bytes"]
    unknown = fresh_id()
    response = await http.get(f"/threads/{unknown}/storage")
    assert (response.status_code, response.json()) == (404, {"detail": f"Thread with ID {unknown} not found"})


async def test_patching_the_state_patches_the_metadata_of_the_thread(sdk, http):
    thread_id = await sdk.thread(metadata={"a": 1, "b": 1})
    response = await http.patch(f"/threads/{thread_id}/state", json={"metadata": {"b": 2, "c": 3}})
    assert response.status_code == 200
    assert (await sdk.threads.get(thread_id))["metadata"] == {"a": 1, "b": 2, "c": 3}
    assert (await http.patch(f"/threads/{fresh_id()}/state", json={"metadata": {}})).status_code == 404
    assert (await http.patch(f"/threads/{thread_id}/state", json={"metadata": 5})).status_code == 422


async def test_an_update_returns_no_body_if_preferred(sdk, http):
    thread_id = await sdk.thread()
    assert await sdk.threads.update(thread_id, metadata={"a": 1}, return_minimal=True) is None
    assert (await sdk.threads.update(thread_id, metadata={"b": 1}))["metadata"] == {"a": 1, "b": 1}
    for prefer in ("return=minimal", "respond-async, Return=Minimal", "return=minimal; foo"):
        response = await http.patch(f"/threads/{thread_id}", json={"metadata": {"c": 1}}, headers={"prefer": prefer})
        assert (response.status_code, response.content) == (204, b"")
    response = await http.patch(f"/threads/{thread_id}", json={}, headers={"prefer": "return=representation"})
    assert response.status_code == 200
    unknown = fresh_id()
    with rejected(404, f"Thread with ID {unknown} not found"):
        await sdk.threads.update(unknown, metadata={}, return_minimal=True)


async def test_a_thread_shows_the_config_of_its_runs_but_not_configurable(sdk):
    thread_id = await sdk.thread()
    config = {"tags": ["a"], "recursion_limit": 7, "configurable": {"secret": 1}}
    await sdk.runs.wait(thread_id, "echo", input={"text": 1}, config=config)
    assert (await sdk.threads.get(thread_id))["config"] == {"tags": ["a"], "recursion_limit": 7, "configurable": {}}
    await sdk.runs.wait(thread_id, "echo", input={"text": 1}, config={"tags": ["b"]})
    assert (await sdk.threads.get(thread_id))["config"] == {"tags": ["b"], "recursion_limit": 7, "configurable": {}}
    await sdk.runs.wait(thread_id, "echo", input={"text": 1})
    assert (await sdk.threads.get(thread_id))["config"]["tags"] == ["b"]
