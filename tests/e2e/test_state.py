import anyio
import pytest
from clients import collect, fresh_id, human, rejected, wait_for_start

pytestmark = pytest.mark.anyio

EMPTY = {
    "values": {},
    "next": [],
    "tasks": [],
    "metadata": None,
    "created_at": None,
    "checkpoint": None,
    "parent_checkpoint": None,
    "interrupts": [],
    "checkpoint_id": None,
    "parent_checkpoint_id": None,
}


async def thread_after_steps(sdk, count=3):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "steps", input={"count": count})
    return thread_id


async def test_a_thread_without_runs_has_an_empty_state(sdk):
    thread_id = await sdk.thread()
    assert await sdk.threads.get_state(thread_id) == EMPTY
    assert await sdk.threads.get_history(thread_id) == []


async def test_the_state_after_a_run_is_its_last_checkpoint(sdk):
    thread_id = await thread_after_steps(sdk)
    (run,) = await sdk.runs.list(thread_id)
    state = await sdk.threads.get_state(thread_id)
    assert state["values"] == {"count": 3, "done": [1, 2, 3]}
    assert (state["next"], state["tasks"], state["interrupts"]) == ([], [], [])
    assert state["checkpoint"] == {
        "thread_id": thread_id,
        "checkpoint_ns": "",
        "checkpoint_id": state["checkpoint_id"],
    }
    assert state["parent_checkpoint"]["checkpoint_id"] == state["parent_checkpoint_id"]
    assert state["created_at"].endswith("+00:00")
    metadata = state["metadata"]
    assert (metadata["source"], metadata["step"]) == ("loop", 3)
    assert (metadata["run_id"], metadata["thread_id"]) == (run["run_id"], thread_id)
    assert (metadata["graph_id"], metadata["run_attempt"]) == ("steps", 1)


async def test_history_is_newest_first_and_linked_by_parents(sdk):
    thread_id = await thread_after_steps(sdk)
    history = await sdk.threads.get_history(thread_id)
    assert [(each["metadata"]["source"], each["metadata"]["step"]) for each in history] == [
        ("loop", 3),
        ("loop", 2),
        ("loop", 1),
        ("loop", 0),
        ("input", -1),
    ]
    assert [each["values"].get("done") for each in history] == [[1, 2, 3], [1, 2], [1], [], []]
    assert [each["next"] for each in history] == [[], ["step"], ["step"], ["step"], ["__start__"]]
    parents = [each["parent_checkpoint_id"] for each in history]
    assert parents == [*(each["checkpoint_id"] for each in history[1:]), None]
    assert history[0] == await sdk.threads.get_state(thread_id)


async def test_history_is_limited_and_bounded(sdk):
    thread_id = await thread_after_steps(sdk)
    whole = await sdk.threads.get_history(thread_id)
    assert await sdk.threads.get_history(thread_id, limit=2) == whole[:2]
    for before in (whole[1]["checkpoint"], whole[1]["checkpoint_id"], {"configurable": whole[1]["checkpoint"]}):
        assert await sdk.threads.get_history(thread_id, before=before) == whole[2:]
    assert await sdk.threads.get_history(thread_id, before=whole[1]["checkpoint"], limit=1) == whole[2:3]
    assert await sdk.threads.get_history(thread_id, before=whole[-1]["checkpoint"]) == []


async def test_history_is_filtered_by_metadata(sdk):
    thread_id = await thread_after_steps(sdk)
    whole = await sdk.threads.get_history(thread_id)
    assert await sdk.threads.get_history(thread_id, metadata={"source": "input"}) == whole[-1:]
    assert await sdk.threads.get_history(thread_id, metadata={"step": 2, "source": "loop"}) == [whole[1]]
    assert await sdk.threads.get_history(thread_id, metadata={"step": 99}) == []


async def test_history_can_be_read_with_get_too(sdk, http):
    thread_id = await thread_after_steps(sdk)
    whole = await sdk.threads.get_history(thread_id)
    got = await http.get(f"/threads/{thread_id}/history", params={"limit": 2, "before": whole[0]["checkpoint_id"]})
    assert got.json() == whole[1:3]


async def test_the_state_at_a_checkpoint_is_the_state_of_that_time(sdk):
    thread_id = await thread_after_steps(sdk)
    for past in await sdk.threads.get_history(thread_id):
        by_id = await sdk.threads.get_state(thread_id, checkpoint_id=past["checkpoint_id"])
        by_checkpoint = await sdk.threads.get_state(thread_id, checkpoint=past["checkpoint"])
        assert by_id["values"] == by_checkpoint["values"] == past["values"]
        assert by_id["next"] == past["next"]
        assert by_id["checkpoint_id"] == past["checkpoint_id"]


@pytest.mark.needs("langgraph-sdk", "0.4.14")
async def test_parts_of_a_state_can_be_selected(sdk, http):
    thread_id = await thread_after_steps(sdk)
    whole = await sdk.threads.get_state(thread_id)
    for position in ({}, {"checkpoint": whole["checkpoint"]}, {"checkpoint_id": whole["checkpoint_id"]}):
        for select, expected in (
            (["next", "checkpoint"], {key: whole[key] for key in ("next", "checkpoint")}),
            (["values"], {"values": whole["values"]}),
            (["values.done"], {"values": {"done": whole["values"]["done"]}}),
            (["values.done", "values.nope", "next"], {"values": {"done": [1, 2, 3]}, "next": []}),
            (["values", "values.done"], {"values": whole["values"]}),
        ):
            assert await sdk.threads.get_state(thread_id, **position, select=select) == expected
    history = await sdk.threads.get_history(thread_id, select=["values.done", "checkpoint_id"], limit=2)
    assert [each["values"] for each in history] == [{"done": [1, 2, 3]}, {"done": [1, 2]}]
    assert {key for each in history for key in each} == {"values", "checkpoint_id"}
    listed = await http.get(f"/threads/{thread_id}/state", params={"select": '["next"]'})
    assert listed.json() == {"next": []}


@pytest.mark.needs("langgraph-sdk", "0.4.14")
async def test_selecting_an_unknown_part_of_a_state_is_rejected(sdk):
    thread_id = await thread_after_steps(sdk)
    checkpoint = (await sdk.threads.get_state(thread_id))["checkpoint"]
    for call in (
        lambda: sdk.threads.get_state(thread_id, select=["nope"]),
        lambda: sdk.threads.get_state(thread_id, checkpoint=checkpoint, select=["nope"]),
        lambda: sdk.threads.get_state(thread_id, checkpoint_id=checkpoint["checkpoint_id"], select=["nope"]),
        lambda: sdk.threads.get_history(thread_id, select=["nope"]),
    ):
        with pytest.raises(Exception, match=r"neither values\.<key> nor one of"):
            await call()


async def test_the_history_of_a_subgraph_is_its_own(sdk):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "nested", input=human("hi"))
    whole = await sdk.threads.get_history(thread_id)
    (pointer,) = [task["checkpoint"] for each in whole for task in each["tasks"] if task["checkpoint"]]
    inside = await sdk.threads.get_history(thread_id, checkpoint=pointer)
    assert {each["checkpoint"]["checkpoint_ns"] for each in inside} == {pointer["checkpoint_ns"]}
    assert len(inside) > 1
    assert await sdk.threads.get_history(thread_id, checkpoint=pointer, limit=1) == inside[:1]
    assert await sdk.threads.get_history(thread_id, checkpoint=pointer, before=inside[0]["checkpoint"]) == inside[1:]
    (one,) = await sdk.threads.get_history(thread_id, checkpoint=whole[1]["checkpoint"])
    assert one == whole[1]


async def test_the_state_at_an_unknown_checkpoint_is_empty(sdk):
    thread_id = await thread_after_steps(sdk)
    for checkpoint_id in (fresh_id(), "no-such-checkpoint"):
        state = await sdk.threads.get_state(thread_id, checkpoint_id=checkpoint_id)
        assert (state["values"], state["next"], state["tasks"]) == ({}, [], [])
        assert (state["metadata"], state["created_at"]) == (None, None)


async def test_the_state_of_an_interrupted_subgraph_is_included_on_request(sdk):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "approve_many", input={"answers": []})
    outside = await sdk.threads.get_state(thread_id)
    (task,) = [task for task in outside["tasks"] if task["name"] == "deep"]
    assert task["state"] is None
    assert task["checkpoint"]["checkpoint_ns"] == f"deep:{task['id']}"
    assert [each["value"] for each in task["interrupts"]] == ["deep?"]

    inside = await sdk.threads.get_state(thread_id, subgraphs=True)
    (task,) = [task for task in inside["tasks"] if task["name"] == "deep"]
    nested = task["state"]
    assert nested["next"] == ["ask_deep"]
    assert nested["checkpoint"]["checkpoint_ns"] == f"deep:{task['id']}"
    assert [each["value"] for each in nested["tasks"][0]["interrupts"]] == ["deep?"]

    by_pointer = await sdk.threads.get_state(thread_id, checkpoint=nested["checkpoint"])
    assert by_pointer["next"] == ["ask_deep"]


async def test_updating_the_state_creates_a_checkpoint_and_updates_the_thread(sdk):
    thread_id = await thread_after_steps(sdk)
    before = await sdk.threads.get_state(thread_id)
    moved = await sdk.threads.update_state(thread_id, {"done": [99]})
    after = await sdk.threads.get_state(thread_id)
    assert moved["checkpoint"] == moved["configurable"] == after["checkpoint"]
    assert moved["checkpoint_id"] == after["checkpoint_id"]
    assert after["values"] == {"count": 3, "done": [1, 2, 3, 99]}
    assert after["metadata"]["source"] == "update"
    assert after["parent_checkpoint_id"] == before["checkpoint_id"]
    thread = await sdk.threads.get(thread_id)
    assert (thread["values"], thread["status"]) == (after["values"], "idle")


async def test_updating_as_a_node_decides_what_comes_next(sdk):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "approve", input={"topic": "x"})
    await sdk.threads.update_state(thread_id, {"answer": "by update"}, as_node="ask")
    state = await sdk.threads.get_state(thread_id)
    assert (state["next"], state["values"]["answer"]) == (["act"], "by update")
    thread = await sdk.threads.get(thread_id)
    assert (thread["status"], thread["interrupts"]) == ("interrupted", {})
    assert await sdk.runs.wait(thread_id, "approve", input=None) == {
        "topic": "x",
        "answer": "by update",
        "done": True,
    }
    assert (await sdk.threads.get(thread_id))["status"] == "idle"


async def test_updating_at_a_checkpoint_forks_from_there(sdk):
    thread_id = await thread_after_steps(sdk)
    history = await sdk.threads.get_history(thread_id)
    early = history[2]
    assert early["values"]["done"] == [1]
    for kwargs in ({"checkpoint_id": early["checkpoint_id"]}, {"checkpoint": early["checkpoint"]}):
        await sdk.threads.update_state(thread_id, {"done": [50]}, as_node="step", **kwargs)
        state = await sdk.threads.get_state(thread_id)
        assert state["values"]["done"] == [1, 50]
        assert state["next"] == ["step"]
        assert state["parent_checkpoint_id"] == early["checkpoint_id"]
        assert (await sdk.threads.get(thread_id))["values"]["done"] == [1, 50]


async def test_a_run_can_fork_from_a_checkpoint(sdk):
    thread_id = await thread_after_steps(sdk)
    history = await sdk.threads.get_history(thread_id)
    early = history[2]
    for kwargs in ({"checkpoint_id": early["checkpoint_id"]}, {"checkpoint": early["checkpoint"]}):
        parts = await collect(sdk.runs.stream(thread_id, "steps", input=None, stream_mode="updates", **kwargs))
        assert [part.data for part in parts[1:]] == [{"step": {"done": [2]}}, {"step": {"done": [3]}}]
    assert len(await sdk.threads.get_history(thread_id, limit=100)) > len(history)


async def test_a_fork_with_new_input_leaves_the_other_branch_readable(sdk):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "chat", input=human("one", "h1"))
    first = await sdk.threads.get_state(thread_id)
    await sdk.runs.wait(thread_id, "chat", input=human("two", "h2"))
    second = await sdk.threads.get_state(thread_id)
    forked = await sdk.runs.wait(thread_id, "chat", input=human("three", "h3"), checkpoint=first["checkpoint"])
    assert [each["content"] for each in forked["messages"]] == ["one", "You said: one", "three", "You said: three"]
    old = await sdk.threads.get_state(thread_id, checkpoint=second["checkpoint"])
    assert [each["content"] for each in old["values"]["messages"]] == ["one", "You said: one", "two", "You said: two"]


def no_checkpoint(thread_id, checkpoint_id):
    return rejected(404, f"Thread {thread_id} has no checkpoint '{checkpoint_id}'. It may have been pruned.")


@pytest.fixture(params=["pruned", "unknown"])
async def missing_checkpoint(request, sdk):
    """A thread with values, and the id of a checkpoint that it does not have."""
    thread_id = await thread_after_steps(sdk)
    checkpoint_id = fresh_id()
    if request.param == "pruned":
        checkpoint_id = (await sdk.threads.get_history(thread_id))[1]["checkpoint_id"]
        await sdk.threads.prune([thread_id], strategy="keep_latest")
    return thread_id, checkpoint_id


async def test_a_run_from_a_missing_checkpoint_is_rejected(sdk, missing_checkpoint):
    thread_id, checkpoint_id = missing_checkpoint
    before = await sdk.threads.get_state(thread_id)
    for arguments in (
        {"checkpoint_id": checkpoint_id},
        {"checkpoint": {"checkpoint_id": checkpoint_id, "checkpoint_ns": ""}},
        {"config": {"configurable": {"checkpoint_id": checkpoint_id}}},
    ):
        with no_checkpoint(thread_id, checkpoint_id):
            await sdk.runs.create(thread_id, "steps", input={"count": 3}, **arguments)
        with no_checkpoint(thread_id, checkpoint_id):
            await sdk.runs.wait(thread_id, "steps", input={"count": 3}, **arguments)
        with no_checkpoint(thread_id, checkpoint_id):
            await collect(sdk.runs.stream(thread_id, "steps", input={"count": 3}, **arguments))
    assert await sdk.threads.get_state(thread_id) == before
    assert len(await sdk.runs.list(thread_id)) == 1


async def test_an_update_at_a_missing_checkpoint_is_rejected(sdk, missing_checkpoint):
    thread_id, checkpoint_id = missing_checkpoint
    before = await sdk.threads.get_state(thread_id)
    for arguments in ({"checkpoint_id": checkpoint_id}, {"checkpoint": {"checkpoint_id": checkpoint_id}}):
        with no_checkpoint(thread_id, checkpoint_id):
            await sdk.threads.update_state(thread_id, {"done": [9]}, as_node="step", **arguments)
    assert await sdk.threads.get_state(thread_id) == before


async def test_a_run_whose_checkpoint_is_rolled_back_before_it_starts_ends_in_error(sdk, gate):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "slow", input={"seconds": 0})
    before = await sdk.threads.get_state(thread_id)
    first = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)})
    await wait_for_start(sdk, first)
    first_checkpoint = (await sdk.threads.get_state(thread_id))["checkpoint"]
    values = await sdk.runs.wait(
        thread_id, "slow", input=None, checkpoint=first_checkpoint, multitask_strategy="rollback", raise_error=False
    )
    assert values["__error__"]["error"] == "NotFound"
    assert f"has no checkpoint '{first_checkpoint['checkpoint_id']}'" in values["__error__"]["message"]
    assert (await sdk.threads.get_state(thread_id)) == before
    assert (await sdk.threads.get(thread_id))["status"] == "error"


async def test_the_checkpoint_of_a_run_must_be_valid(sdk, http):
    thread_id = await thread_after_steps(sdk)
    kinds = {"checkpoint_id": "a string", "checkpoint_ns": "a string", "checkpoint_map": "an object"}
    for key, kind in kinds.items():
        for body in ({"checkpoint": {key: 5}}, {"config": {"configurable": {key: 5}}}):
            response = await http.post(f"/threads/{thread_id}/runs/wait", json={"assistant_id": "steps", **body})
            assert (response.status_code, response.json()) == (422, {"detail": f"{key} must be {kind}"})


async def test_an_empty_checkpoint_is_the_newest(sdk):
    for arguments in ({"checkpoint_id": ""}, {"checkpoint": {}}, {"config": {"configurable": {"checkpoint_id": ""}}}):
        thread_id = await thread_after_steps(sdk)
        values = await sdk.runs.wait(thread_id, "steps", input={"count": 4}, **arguments)
        assert values["done"] == [1, 2, 3, 4]


async def test_the_state_cannot_be_updated_during_a_run(sdk, gate):
    thread_id = await sdk.thread()
    run = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)})
    await wait_for_start(sdk, run)
    with rejected(409, f"Thread {thread_id} has in-flight runs: ['{run['run_id']}']"):
        await sdk.threads.update_state(thread_id, {"steps": ["mine"]})


async def test_concurrent_updates_are_all_applied(sdk):
    thread_id = await thread_after_steps(sdk)
    given = range(100, 120)
    async with anyio.create_task_group() as tasks:
        for number in given:
            tasks.start_soon(sdk.threads.update_state, thread_id, {"done": [number]})
    done = (await sdk.threads.get_state(thread_id))["values"]["done"]
    assert (done[:3], sorted(done[3:])) == ([1, 2, 3], [*given])
    assert (await sdk.threads.get(thread_id))["values"]["done"] == done
    history = await sdk.threads.get_history(thread_id, limit=100)
    parents = [each["parent_checkpoint_id"] for each in history]
    assert parents == [*(each["checkpoint_id"] for each in history[1:]), None]


async def test_invalid_updates_are_rejected(sdk):
    thread_id = await sdk.thread()
    with pytest.raises(Exception, match="has no assigned graph ID"):
        await sdk.threads.update_state(thread_id, {"text": 1})
    await sdk.runs.wait(thread_id, "echo", input={"text": 1})
    with rejected(400, "Node nobody does not exist"):
        await sdk.threads.update_state(thread_id, {"text": 1}, as_node="nobody")


async def test_unsupported_types_do_not_end_a_run_and_are_read_as_they_were_streamed(sdk):
    thread_id = await sdk.thread()
    *_, last = await collect(sdk.runs.stream(thread_id, "curious", input={"refused": True}, stream_mode="values"))
    assert last.data["found"] == {"wide": str(10**30), "keys": {"1j": "a", "?": "b"}}
    assert (await sdk.threads.get_state(thread_id))["values"] == last.data
    (run,) = await sdk.runs.list(thread_id)
    assert run["status"] == "success"
    *_, last = await collect(sdk.runs.stream(thread_id, "curious", input={"refused": False}, stream_mode="values"))
    found = last.data["found"]
    assert (found["deque"], found["duration"], found["pattern"], found["class"]) == ([1, 2], 86405.0, "a+", str(int))
    assert (await sdk.threads.get_state(thread_id))["values"]["found"] == {**found, "error": "ValueError('no')"}
