import time

import pytest
from clients import GRAPHS, collect, data_of, eventually, fresh_id, human, rejected, wait_for_start, wait_for_status

pytestmark = pytest.mark.anyio


def invalid_assistant(name):
    known = ", ".join(GRAPHS)
    return (
        f"Invalid assistant: '{name}'. Must be either:\n- A valid assistant UUID, or\n"
        f"- One of the registered graphs: {known}"
    )


async def test_wait_returns_the_final_values(sdk):
    thread_id = await sdk.thread()
    assert await sdk.runs.wait(thread_id, "echo", input={"text": "hi"}) == {"text": "hi", "echoed": "hi"}


async def test_wait_returns_only_the_output_schema(sdk):
    thread_id = await sdk.thread()
    output = {"answer": "concluded after thinking about why"}
    assert await sdk.runs.wait(thread_id, "private", input={"question": "why"}) == output
    (run,) = await sdk.runs.list(thread_id)
    assert await sdk.runs.join(thread_id, run["run_id"]) == output


async def test_an_entrypoint_receives_its_previous_output(sdk):
    thread_id = await sdk.thread()
    first = await sdk.runs.wait(thread_id, "functional", input={"number": 2})
    assert first == {"doubled": 4, "previous": None}
    second = await sdk.runs.wait(thread_id, "functional", input={"number": 3})
    assert second == {"doubled": 6, "previous": first}


@pytest.mark.needs("langgraph-sdk", "0.4.14")
async def test_wait_returns_an_error_with_status_200(sdk, http):
    thread_id = await sdk.thread()
    error = {"error": "ValueError", "message": "boom!"}
    assert await sdk.runs.wait(thread_id, "fails", input={}, raise_error=False) == {"__error__": error}
    with pytest.raises(Exception, match="ValueError: boom!"):
        await sdk.runs.wait(thread_id, "fails", input={})
    response = await http.post(f"/threads/{thread_id}/runs/wait", json={"assistant_id": "fails"})
    assert (response.status_code, response.json()) == (200, {"__error__": error})
    for run in await sdk.runs.list(thread_id):
        assert run["status"] == "error"
        assert await sdk.runs.join(thread_id, run["run_id"]) == {"__error__": error}


async def test_a_background_run_has_the_shape_clients_expect(sdk):
    thread_id = await sdk.thread()
    created = await sdk.runs.create(thread_id, "echo", input={"text": 1}, metadata={"my": "run"})
    assert created["status"] == "pending"
    run = await wait_for_status(sdk, created, "success")
    assert set(run) == {
        "run_id",
        "thread_id",
        "assistant_id",
        "metadata",
        "status",
        "kwargs",
        "multitask_strategy",
        "created_at",
        "updated_at",
        "langsmith_session_name",
    }
    assert run["run_id"] == created["run_id"]
    assert run["thread_id"] == thread_id
    assert run["assistant_id"] == "046b5dc7-2108-582c-9c6c-31d556d138f0"
    assert run["metadata"]["my"] == "run"
    assert run["metadata"]["graph_id"] == "echo"
    assert run["multitask_strategy"] == "enqueue"
    assert run["kwargs"]["input"] == {"text": 1}
    assert run["kwargs"]["stream_mode"] == ["values"]
    assert run["kwargs"]["durability"] == "async"
    assert await sdk.runs.join(thread_id, run["run_id"]) == {"text": 1, "echoed": 1}


async def test_join_waits_for_a_run_to_end(sdk, gate):
    thread_id = await sdk.thread()
    run = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)})
    await wait_for_start(sdk, run)
    gate.touch()
    assert (await sdk.runs.join(thread_id, run["run_id"]))["steps"] == ["begun", "waited"]
    assert (await sdk.runs.get(thread_id, run["run_id"]))["status"] == "success"


async def test_runs_are_listed_newest_first_in_pages_and_by_status(sdk):
    thread_id = await sdk.thread()
    for number in range(3):
        await sdk.runs.wait(thread_id, "echo", input={"text": number})
    await sdk.runs.wait(thread_id, "fails", input={}, raise_error=False)
    runs = await sdk.runs.list(thread_id)
    assert [run["kwargs"]["input"] for run in runs] == [{}, {"text": 2}, {"text": 1}, {"text": 0}]
    assert await sdk.runs.list(thread_id, limit=2, offset=1) == runs[1:3]
    assert await sdk.runs.list(thread_id, status="error") == runs[:1]
    assert await sdk.runs.list(thread_id, status="success") == runs[1:]
    assert await sdk.runs.list(thread_id, status="running") == []
    assert await sdk.runs.list(thread_id, limit=1, select=["run_id", "status"]) == [
        {"run_id": runs[0]["run_id"], "status": "error"}
    ]


async def test_an_unknown_field_or_status_is_rejected(sdk, http):
    thread_id = await sdk.thread()
    for given in ({"select": "zzz"}, {"select": '["run_id", "zzz"]'}, {"status": "asleep"}, {"limit": "0"}):
        response = await http.get(f"/threads/{thread_id}/runs", params=given)
        assert response.status_code == 422
        assert next(iter(given)) in response.json()["detail"]


async def test_fields_can_be_selected_with_a_json_array(sdk, http):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "echo", input={"text": 1})
    listed = await http.get(f"/threads/{thread_id}/runs", params={"select": '["status"]'})
    assert listed.json() == [{"status": "success"}]


async def test_a_deleted_run_leaves_its_state(sdk):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "echo", input={"text": 1})
    (run,) = await sdk.runs.list(thread_id)
    await sdk.runs.delete(thread_id, run["run_id"])
    with rejected(404, "Not Found"):
        await sdk.runs.get(thread_id, run["run_id"])
    assert await sdk.runs.list(thread_id) == []
    assert (await sdk.threads.get_state(thread_id))["values"]["echoed"] == 1


async def test_deleting_a_running_run_stops_it(sdk, gate):
    thread_id = await sdk.thread()
    run = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)})
    await wait_for_start(sdk, run)
    await sdk.runs.delete(thread_id, run["run_id"])
    assert await sdk.runs.list(thread_id) == []
    assert (await sdk.threads.get(thread_id))["status"] != "busy"


async def test_an_assistant_is_named_by_its_id_or_its_graph(sdk):
    thread_id = await sdk.thread()
    for name in ("echo", "046b5dc7-2108-582c-9c6c-31d556d138f0"):
        assert (await sdk.runs.wait(thread_id, name, input={"text": name}))["echoed"] == name


async def test_configuration_reaches_the_graph(sdk):
    thread_id = await sdk.thread()
    config = {"configurable": {"greeting": "good day"}, "recursion_limit": 5, "tags": ["mine"]}
    assert (await sdk.runs.wait(thread_id, "factory", input={"text": "you"}, config=config))["echoed"] == "good day you"
    failed = await sdk.runs.wait(
        thread_id, "steps", input={"count": 9}, config={"recursion_limit": 3}, raise_error=False
    )
    assert failed["__error__"]["error"] == "GraphRecursionError"


async def test_a_run_on_an_unknown_thread_is_rejected_or_creates_it(sdk):
    missing = fresh_id()
    for start in (sdk.runs.wait, sdk.runs.create):
        with rejected(404, "Thread or assistant not found."):
            await start(missing, "echo", input={})
    with rejected(404, "Thread or assistant not found."):
        await collect(sdk.runs.stream(missing, "echo", input={}))
    created_values = await sdk.runs.wait(missing, "echo", input={"text": 1}, if_not_exists="create")
    assert created_values["echoed"] == 1
    assert (await sdk.threads.get(missing))["metadata"]["graph_id"] == "echo"


async def test_an_unknown_assistant_is_rejected(sdk):
    thread_id = await sdk.thread()
    for start in (sdk.runs.wait, sdk.runs.create):
        with rejected(422, invalid_assistant("nobody")):
            await start(thread_id, "nobody", input={})
        with rejected(404, "Thread or assistant not found."):
            await start(thread_id, fresh_id(), input={})
    assert await sdk.runs.list(thread_id) == []


async def test_an_unknown_run_is_not_found(sdk):
    thread_id, other = await sdk.thread(), await sdk.thread()
    await sdk.runs.wait(other, "echo", input={})
    (elsewhere,) = await sdk.runs.list(other)
    for run_id in (fresh_id(), elsewhere["run_id"]):
        for call in (sdk.runs.get, sdk.runs.join):
            with rejected(404, "Not Found"):
                await call(thread_id, run_id)
        with rejected(404, "Run not found"):
            await sdk.runs.delete(thread_id, run_id)
        with rejected(404, "Not Found"):
            await collect(sdk.runs.join_stream(thread_id, run_id))
        with rejected(404, "No runs found to cancel."):
            await sdk.runs.cancel(thread_id, run_id)
    with rejected(422, "Invalid run ID: must be a UUID"):
        await sdk.runs.get(thread_id, "abc")


async def test_a_run_can_be_delayed(sdk):
    thread_id = await sdk.thread()
    started = time.monotonic()
    run = await sdk.runs.create(thread_id, "echo", input={"text": 1}, after_seconds=1)
    assert (await sdk.runs.get(thread_id, run["run_id"]))["status"] == "pending"
    await sdk.runs.join(thread_id, run["run_id"])
    assert 1 <= time.monotonic() - started < 4


async def test_wait_lasts_until_a_delayed_run_has_ended(sdk):
    thread_id = await sdk.thread()
    started = time.monotonic()
    assert (await sdk.runs.wait(thread_id, "echo", input={"text": 1}, after_seconds=1))["echoed"] == 1
    assert time.monotonic() - started >= 1


async def test_a_delayed_run_continues_from_the_state_of_runs_that_overtook_it(sdk):
    thread_id = await sdk.thread()
    delayed = await sdk.runs.create(thread_id, "chat", input=human("later", "h2"), after_seconds=1)
    await sdk.runs.wait(thread_id, "chat", input=human("now", "h1"))
    before = (await sdk.threads.get_state(thread_id))["checkpoint"]["checkpoint_id"]
    values = await sdk.runs.join(thread_id, delayed["run_id"])
    assert [each["content"] for each in values["messages"]] == ["now", "You said: now", "later", "You said: later"]
    history = await sdk.threads.get_history(thread_id, limit=100)
    assert before in [(each["parent_checkpoint"] or {}).get("checkpoint_id") for each in history]


async def test_a_delayed_run_is_cancelled_before_it_starts(sdk):
    thread_id = await sdk.thread()
    run = await sdk.runs.create(thread_id, "echo", input={"text": 1}, after_seconds=300)
    await sdk.runs.cancel(thread_id, run["run_id"], wait=True)
    assert (await sdk.runs.get(thread_id, run["run_id"]))["status"] == "interrupted"
    assert (await sdk.threads.get(thread_id))["values"] is None


async def test_feedback_keys_are_stored_and_have_no_effect(sdk):
    thread_id = await sdk.thread()
    parts = await collect(sdk.runs.stream(thread_id, "echo", input={"text": 1}, feedback_keys=["good"]))
    stored = await sdk.runs.get(thread_id, data_of(parts, "metadata")[0]["run_id"])
    assert stored["kwargs"]["feedback_keys"] == ["good"]


@pytest.mark.filterwarnings("ignore:`checkpoint_during` is deprecated")
@pytest.mark.parametrize(("during", "count"), [(True, 5), (False, 1)])
async def test_the_deprecated_form_of_durability_is_accepted(sdk, during, count):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "steps", input={"count": 3}, checkpoint_during=during)
    assert len(await sdk.threads.get_history(thread_id)) == count
    (run,) = await sdk.runs.list(thread_id)
    assert run["kwargs"]["checkpoint_during"] is during


@pytest.mark.parametrize("durability", ["sync", "async"])
async def test_a_durable_run_keeps_every_checkpoint(sdk, durability):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "steps", input={"count": 3}, durability=durability)
    assert [each["metadata"]["step"] for each in await sdk.threads.get_history(thread_id)] == [3, 2, 1, 0, -1]


async def test_durability_exit_keeps_only_the_last_checkpoint(sdk):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "steps", input={"count": 3}, durability="exit")
    (checkpoint,) = await sdk.threads.get_history(thread_id)
    assert checkpoint["values"]["done"] == [1, 2, 3]


async def test_a_conversation_continues_over_several_runs(sdk):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "chat", input=human("one", "h1"))
    values = await sdk.runs.wait(thread_id, "chat", input=human("two", "h2"))
    assert [(each["type"], each["content"]) for each in values["messages"]] == [
        ("human", "one"),
        ("ai", "You said: one"),
        ("human", "two"),
        ("ai", "You said: two"),
    ]


async def test_many_threads_run_at_the_same_time(sdk, gate):
    runs = [await sdk.runs.create(await sdk.thread(), "slow", input={"until": str(gate)}) for _ in range(20)]
    for run in runs:
        await wait_for_start(sdk, run)
    gate.touch()
    for run in runs:
        await wait_for_status(sdk, run, "success")


async def test_the_thread_is_up_to_date_when_wait_returns(sdk):
    """Also in lists: a client that has waited for a run must not see the thread as it was before."""
    for number in range(20):
        thread_id = await sdk.thread()
        await sdk.runs.wait(thread_id, "echo", input={"text": number})
        thread = await sdk.threads.get(thread_id)
        assert (thread["status"], thread["values"]) == ("idle", {"text": number, "echoed": number})
        assert (await sdk.runs.list(thread_id))[0]["status"] == "success"


async def test_a_sync_node_does_not_delay_other_runs(sdk, gate):
    slow = await sdk.runs.create(await sdk.thread(), "slow_sync", input={"until": str(gate)})
    await wait_for_start(sdk, slow)
    assert await sdk.runs.wait(await sdk.thread(), "echo", input={"text": 1}) == {"text": 1, "echoed": 1}
    gate.touch()

    async def has_ended():
        return (await sdk.runs.get(slow["thread_id"], slow["run_id"]))["status"] == "success"

    await eventually(has_ended)
