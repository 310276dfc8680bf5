"""Cancelling runs: by request and by disconnecting."""

from contextlib import aclosing

import anyio
import pytest
from clients import TIMEOUT, collect, event_names, eventually, rejected, wait_for_start, wait_for_status

pytestmark = pytest.mark.anyio

OVER = (
    "No matching runs to cancel. Please verify the thread ID and run IDs are correct, and the runs haven't been deleted"
    " or completed."
)
USER_INTERRUPT = {
    "error": "UserInterrupt",
    "message": "interrupt requested via POST /threads/{thread_id}/runs/{run_id}/cancel",
}


async def started_run(sdk, gate, graph="slow", **kwargs):
    thread_id = await sdk.thread()
    run = await sdk.runs.create(thread_id, graph, input={"until": str(gate)}, **kwargs)
    await wait_for_start(sdk, run)
    return thread_id, run["run_id"]


async def wait_for_row_count(sdk, thread_id, count):
    async def check():
        return len(await sdk.runs.list(thread_id)) == count

    await eventually(check)


async def test_an_interrupted_run_keeps_its_progress(sdk, gate):
    thread_id, run_id = await started_run(sdk, gate)
    await sdk.runs.cancel(thread_id, run_id, wait=True)
    assert (await sdk.runs.get(thread_id, run_id))["status"] == "interrupted"
    thread = await sdk.threads.get(thread_id)
    assert (thread["status"], thread["error"]) == ("interrupted", USER_INTERRUPT)
    assert thread["values"]["steps"] == ["begun"]
    state = await sdk.threads.get_state(thread_id)
    assert (state["next"], [task["error"] for task in state["tasks"]]) == (["wait"], [None])
    gate.touch()
    assert (await sdk.runs.wait(thread_id, "slow", input=None))["steps"] == ["begun", "waited"]


async def test_cancelling_without_waiting_stops_the_run_eventually(sdk, gate):
    thread_id, run_id = await started_run(sdk, gate)
    await sdk.runs.cancel(thread_id, run_id)
    await wait_for_status(sdk, {"thread_id": thread_id, "run_id": run_id}, "interrupted")
    assert await sdk.runs.join(thread_id, run_id) == {}


async def test_a_rolled_back_run_leaves_no_trace(sdk, gate):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "slow", input={"seconds": 0})
    before = await sdk.threads.get_history(thread_id)
    run = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)})
    await wait_for_start(sdk, run)
    await sdk.runs.cancel(thread_id, run["run_id"], wait=True, action="rollback")
    with rejected(404, "Not Found"):
        await sdk.runs.get(thread_id, run["run_id"])
    assert await sdk.threads.get_history(thread_id) == before
    thread = await sdk.threads.get(thread_id)
    assert (thread["status"], thread["values"]) == ("idle", before[0]["values"])
    assert len(await sdk.runs.list(thread_id)) == 1


async def test_rolling_back_a_run_of_another_graph_restores_the_thread(sdk, gate):
    """Its interrupt is still open and can be answered."""
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "approve", input={"topic": "x"})
    before, state = await sdk.threads.get(thread_id), await sdk.threads.get_state(thread_id)
    run = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)})
    await wait_for_start(sdk, run)
    await sdk.runs.cancel(thread_id, run["run_id"], wait=True, action="rollback")
    thread = await sdk.threads.get(thread_id)
    for key in ("status", "metadata", "values", "interrupts"):
        assert thread[key] == before[key]
    assert await sdk.threads.get_state(thread_id) == state
    assert (await sdk.runs.wait(thread_id, "approve", command={"resume": True}))["answer"] is True


async def test_rolling_back_without_waiting_removes_the_run_eventually(sdk, gate):
    thread_id, run_id = await started_run(sdk, gate)
    await sdk.runs.cancel(thread_id, run_id, action="rollback")
    await wait_for_row_count(sdk, thread_id, 0)
    assert await sdk.threads.get_history(thread_id) == []
    assert (await sdk.threads.get(thread_id))["status"] == "idle"


@pytest.mark.parametrize("action", ["interrupt", "rollback"])
async def test_the_stream_of_a_cancelled_run_ends_without_an_error(sdk, gate, action):
    thread_id = await sdk.thread()
    parts = []

    async def watch():
        parts.extend(
            await collect(sdk.runs.stream(thread_id, "slow", input={"until": str(gate)}, stream_mode="updates"))
        )

    with anyio.fail_after(TIMEOUT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await wait_for_row_count(sdk, thread_id, 1)
            (run,) = await sdk.runs.list(thread_id)
            await wait_for_start(sdk, run)
            await sdk.runs.cancel(thread_id, run["run_id"], wait=True, action=action)
    assert event_names(parts) == ["metadata", "updates"]
    assert [path for _, path in sdk.requests if path.endswith("/stream")] == [f"/threads/{thread_id}/runs/stream"]


async def test_a_queued_run_is_cancelled_immediately(sdk, gate):
    thread_id, first = await started_run(sdk, gate)
    second = await sdk.runs.create(thread_id, "echo", input={"text": 1})
    await sdk.runs.cancel(thread_id, second["run_id"], wait=True)
    assert (await sdk.runs.get(thread_id, second["run_id"]))["status"] == "interrupted"
    assert (await sdk.runs.get(thread_id, first))["status"] == "running"
    gate.touch()
    assert (await sdk.runs.join(thread_id, first))["steps"] == ["begun", "waited"]


async def test_a_cancelled_sync_node_does_not_delay_the_response(sdk, gate):
    thread_id, run_id = await started_run(sdk, gate, "slow_sync")
    with anyio.fail_after(TIMEOUT):
        await sdk.runs.cancel(thread_id, run_id, wait=True)
    assert (await sdk.runs.get(thread_id, run_id))["status"] == "interrupted"


async def test_a_finished_run_cannot_be_cancelled(sdk):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "echo", input={})
    (run,) = await sdk.runs.list(thread_id)
    for action in ("interrupt", "rollback"):
        with rejected(404, OVER):
            await sdk.runs.cancel(thread_id, run["run_id"], action=action)


async def test_cancelling_responds_like_the_stock_server(sdk, http, gate):
    thread_id, run_id = await started_run(sdk, gate)
    soon = await http.post(f"/threads/{thread_id}/runs/{run_id}/cancel", params={"wait": 0})
    assert (soon.status_code, soon.content) == (202, b"")
    thread_id, run_id = await started_run(sdk, gate)
    done = await http.post(f"/threads/{thread_id}/runs/{run_id}/cancel", params={"wait": 1, "action": "interrupt"})
    assert (done.status_code, done.json()) == (200, {})
    assert done.headers["location"] == f"/threads/{thread_id}/runs/{run_id}/join"
    invalid = await http.post(f"/threads/{thread_id}/runs/{run_id}/cancel", params={"action": "explode"})
    assert invalid.status_code == 422


@pytest.mark.parametrize("start", ["stream", "join_stream"])
async def test_a_disconnecting_client_cancels_its_run_on_request(sdk, gate, start):
    thread_id = await sdk.thread()
    if start == "stream":
        stream = sdk.runs.stream(thread_id, "slow", input={"until": str(gate)}, on_disconnect="cancel")
    else:
        run = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)})
        stream = sdk.runs.join_stream(thread_id, run["run_id"], cancel_on_disconnect=True, last_event_id="-1")
    async with aclosing(stream) as parts:
        async for part in parts:
            if part.event == "values":
                break
    (run,) = await sdk.runs.list(thread_id)
    await wait_for_status(sdk, run, "interrupted")


async def test_a_run_continues_by_default_when_its_client_disconnects(sdk, gate):
    thread_id = await sdk.thread()
    for kwargs in ({}, {"on_disconnect": "continue"}):
        gate.unlink(missing_ok=True)
        stream = sdk.runs.stream(thread_id, "slow", input={"until": str(gate)}, **kwargs)
        async with aclosing(stream) as parts:
            async for part in parts:
                run_id = part.data["run_id"]
                break
        assert (await sdk.runs.get(thread_id, run_id))["status"] in ("pending", "running")
        gate.touch()
        await wait_for_status(sdk, {"thread_id": thread_id, "run_id": run_id}, "success")


async def test_a_client_that_stops_waiting_cancels_its_run_on_request(sdk, http, gate):
    thread_id = await sdk.thread()
    body = {"assistant_id": "slow", "input": {"until": str(gate)}, "on_disconnect": "cancel"}
    async with http.stream("POST", f"/threads/{thread_id}/runs/wait", json=body) as response:
        assert response.status_code == 200
    (run,) = await sdk.runs.list(thread_id)
    await wait_for_status(sdk, run, "interrupted")


async def test_a_cancelled_run_is_replayed_without_an_error(sdk, gate):
    thread_id, run_id = await started_run(sdk, gate, stream_mode="updates")
    await sdk.runs.cancel(thread_id, run_id, wait=True)
    assert event_names(await collect(sdk.runs.join_stream(thread_id, run_id, last_event_id="-1"))) == [
        "metadata",
        "updates",
    ]
