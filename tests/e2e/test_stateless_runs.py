"""Stateless runs: each has a temporary thread, which is deleted with the run."""

import httpx
import pytest
from clients import collect, data_of, event_names, eventually, fresh_id, human, rejected

from threadwire.testing.server import running_server

pytestmark = pytest.mark.anyio


async def run_by_id(sdk, run_id):
    return await sdk.http.get(f"/runs/{run_id}")


async def wait_for_run(sdk, run_id, status):
    async def check():
        run = await run_by_id(sdk, run_id)
        return run if run["status"] == status else None

    return await eventually(check)


async def test_wait_returns_the_final_values(sdk):
    assert await sdk.runs.wait(None, "echo", input={"text": "hi"}) == {"text": "hi", "echoed": "hi"}
    assert await sdk.runs.wait(None, "private", input={"question": "why"}) == {
        "answer": "concluded after thinking about why"
    }


async def test_wait_returns_an_error(sdk):
    error = {"error": "ValueError", "message": "boom!"}
    assert await sdk.runs.wait(None, "fails", input={}, raise_error=False) == {"__error__": error}


async def test_wait_returns_an_interrupt(sdk):
    interrupted = await sdk.runs.wait(None, "approve", input={"text": "go"})
    assert interrupted["__interrupt__"]


async def test_a_stream_is_complete(sdk):
    created = []
    stream = sdk.runs.stream(
        None, "chat", input=human("hello"), stream_mode=["messages-tuple", "values"], on_run_created=created.append
    )
    parts = await collect(stream)
    assert event_names(parts)[0] == "metadata"
    assert "".join(chunk["content"] for chunk, _ in data_of(parts, "messages")) == "You said: hello"
    assert [each["content"] for each in data_of(parts, "values")[-1]["messages"]] == ["hello", "You said: hello"]
    (run,) = created
    assert run["run_id"] == data_of(parts, "metadata")[0]["run_id"]
    assert sdk.requests == [("POST", "/runs/stream")]  # the client did not reconnect


async def test_the_headers_contain_the_address_of_the_run(http):
    body = {"assistant_id": "echo", "input": {"text": 1}}
    created = await http.post("/runs", json=body)
    run_id = created.json()["run_id"]
    assert created.headers["content-location"] == f"/runs/{run_id}"
    streamed = await http.post("/runs/stream", json=body)
    path = streamed.headers["content-location"]
    assert path.startswith("/runs/")
    assert streamed.headers["location"] == f"{path}/stream"
    waited = await http.post("/runs/wait", json=body)
    path = waited.headers["content-location"]
    assert path.startswith("/threads/")
    assert waited.headers["location"] == f"{path}/join"
    for found in (f"{path}/join", f"/runs/{run_id}/join", streamed.headers["location"]):
        assert (await http.get(found)).status_code == 200


async def test_a_background_run_has_the_shape_clients_expect(sdk):
    created = await sdk.runs.create(None, "echo", input={"text": 1}, metadata={"my": "run"})
    assert created["status"] == "pending"
    assert created["kwargs"]["temporary"] is True
    assert created["metadata"]["my"] == "run"
    run = await wait_for_run(sdk, created["run_id"], "success")
    assert set(run) == set(created)
    assert run["thread_id"] == created["thread_id"]


async def test_the_temporary_thread_is_deleted_and_the_run_stays_readable(sdk):
    created = await sdk.runs.create(None, "echo", input={"text": 1})
    await wait_for_run(sdk, created["run_id"], "success")
    thread_id, run_id = created["thread_id"], created["run_id"]
    with rejected(404, f"Thread with ID {thread_id} not found"):
        await sdk.threads.get(thread_id)
    with rejected(404, f"Thread with ID {thread_id} not found"):
        await sdk.threads.get_state(thread_id)
    with rejected(404, f"Thread with ID {thread_id} not found"):
        await sdk.runs.list(thread_id)
    with rejected(404, "Thread or assistant not found."):
        await sdk.runs.create(thread_id, "echo", input={})
    assert await sdk.threads.search(ids=[thread_id]) == []
    assert await sdk.runs.join(thread_id, run_id) == {"text": 1, "echoed": 1}
    assert event_names(await collect(sdk.runs.join_stream(thread_id, run_id, last_event_id="-1"))) == [
        "metadata", "values", "values",
    ]  # fmt: skip


async def test_a_thread_is_kept_on_request(sdk):
    created = await sdk.runs.create(None, "echo", input={"text": 1}, on_completion="keep")
    assert created["kwargs"]["temporary"] is False
    assert await sdk.runs.join(created["thread_id"], created["run_id"]) == {"text": 1, "echoed": 1}
    thread = await sdk.threads.get(created["thread_id"])
    assert (thread["status"], thread["values"]["echoed"]) == ("idle", 1)
    assert thread["metadata"]["graph_id"] == "echo"


async def test_a_stream_is_resumed_by_the_id_of_its_run_alone(http):
    whole = await http.post(
        "/runs/stream", json={"assistant_id": "chat", "input": human("hello"), "stream_mode": "messages-tuple"}
    )
    path = whole.headers["location"]
    again = await http.get(path, headers={"Last-Event-ID": "-1"})
    assert again.content == whole.content
    frames = whole.content.split(b"\r\n\r\n")[:-1]
    middle = frames[3]
    after = middle.rpartition(b"id: ")[2].decode()
    rest = await http.get(path, headers={"Last-Event-ID": after})
    assert rest.content == b"".join(frame + b"\r\n\r\n" for frame in frames[4:])
    assert (await http.get(path, headers={"Last-Event-ID": "nonsense"})).status_code == 400
    values = await http.get(path, headers={"Last-Event-ID": "-1"}, params={"stream_mode": "values"})
    assert b"event: values" in values.content


async def test_a_stateless_run_is_cancelled_by_its_id_alone(sdk, gate, http):
    created = await sdk.runs.create(None, "slow", input={"until": str(gate)})
    await wait_for_run(sdk, created["run_id"], "running")
    cancelled = await http.post(f"/runs/{created['run_id']}/cancel", params={"wait": 1})
    assert (cancelled.status_code, cancelled.json()) == (200, {})
    assert (await run_by_id(sdk, created["run_id"]))["status"] == "interrupted"
    with rejected(404, f"Thread with ID {created['thread_id']} not found"):
        await sdk.threads.get(created["thread_id"])


async def test_a_stateless_run_is_cancelled_on_disconnect_on_request(sdk, gate, http):
    body = {"assistant_id": "slow", "input": {"until": str(gate)}, "on_disconnect": "cancel"}
    async with http.stream("POST", "/runs/stream", json=body) as response:
        run_id = response.headers["content-location"].rpartition("/")[2]
        await wait_for_run(sdk, run_id, "running")
    await wait_for_run(sdk, run_id, "interrupted")


async def test_a_stateless_run_is_deleted_by_its_id_alone(sdk, http):
    created = await sdk.runs.create(None, "echo", input={"text": 1})
    await wait_for_run(sdk, created["run_id"], "success")
    assert (await http.delete(f"/runs/{created['run_id']}")).status_code == 204
    with rejected(404, "Not Found"):
        await run_by_id(sdk, created["run_id"])


async def test_a_run_of_a_thread_is_found_by_its_id_alone(sdk):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "echo", input={"text": 1})
    (run,) = await sdk.runs.list(thread_id)
    assert await run_by_id(sdk, run["run_id"]) == run
    assert await sdk.http.get(f"/runs/{run['run_id']}/join") == {"text": 1, "echoed": 1}


async def test_an_unknown_run_is_not_found(http):
    for method, path, detail in [
        ("GET", "", "Not Found"),
        ("GET", "/join", "Not Found"),
        ("GET", "/stream", "Not Found"),
        ("DELETE", "", "Run not found"),
        ("POST", "/cancel", "No runs found to cancel."),
    ]:
        response = await http.request(method, f"/runs/{fresh_id()}{path}")
        assert (response.status_code, response.json()) == (404, {"detail": detail})
        response = await http.request(method, f"/runs/abc{path}")
        assert (response.status_code, response.json()) == (422, {"detail": "Invalid run ID: must be a UUID"})


async def test_a_resume_needs_a_thread(sdk):
    for start in (sdk.runs.wait, sdk.runs.create):
        with rejected(400, "You must provide a thread_id when resuming."):
            await start(None, "approve", command={"resume": "yes"})
    with rejected(400, "You must provide a thread_id when resuming."):
        await collect(sdk.runs.stream(None, "approve", command={"resume": "yes"}))


async def test_a_command_without_a_resume_needs_no_thread(sdk):
    assert (await sdk.runs.wait(None, "echo", command={"update": {"text": 5}, "goto": "say_again"}))["echoed"] == 5


async def test_invalid_runs_are_rejected(sdk, http):
    for start in (sdk.runs.wait, sdk.runs.create):
        with pytest.raises(Exception, match="Invalid assistant: 'nobody'"):
            await start(None, "nobody", input={})
        with rejected(404, "Thread or assistant not found."):
            await start(None, fresh_id(), input={})
        with pytest.raises(Exception, match="on_completion"):
            await start(None, "echo", input={}, on_completion="burn")


async def test_delayed_stateless_runs_are_waited_for_and_cancelled(sdk, http):
    assert (await sdk.runs.wait(None, "echo", input={"text": 1}, after_seconds=1))["echoed"] == 1
    later = await sdk.runs.create(None, "echo", input={"text": 1}, after_seconds=300)
    assert (await run_by_id(sdk, later["run_id"]))["status"] == "pending"
    assert (await http.post(f"/runs/{later['run_id']}/cancel", params={"wait": 1})).status_code == 200
    assert (await run_by_id(sdk, later["run_id"]))["status"] == "interrupted"
    with rejected(404, f"Thread with ID {later['thread_id']} not found"):
        await sdk.threads.get(later["thread_id"])


# -- batches ----------------------------------------------------------------------------------------------------------


async def test_a_batch_starts_all_its_runs(sdk):
    thread_id = await sdk.thread()
    runs = await sdk.runs.create_batch(
        [
            {"assistant_id": "echo", "input": {"text": 1}, "metadata": {"number": 1}},
            {"assistant_id": "echo", "input": {"text": 2}, "on_completion": "keep"},
            {"assistant_id": "echo", "input": {"text": 3}, "thread_id": thread_id},
        ]
    )
    assert [run["kwargs"]["temporary"] for run in runs] == [True, False, False]
    assert runs[0]["metadata"]["number"] == 1
    assert runs[2]["thread_id"] == thread_id
    for number, run in enumerate(runs, 1):
        assert await sdk.http.get(f"/runs/{run['run_id']}/join") == {"text": number, "echoed": number}
    assert (await sdk.threads.get(runs[1]["thread_id"]))["values"]["echoed"] == 2
    assert [run["run_id"] for run in await sdk.runs.list(thread_id)] == [runs[2]["run_id"]]


async def test_a_batch_with_an_invalid_run_starts_none(sdk):
    thread_id = await sdk.thread()
    good = {"assistant_id": "echo", "input": {}, "thread_id": thread_id}
    with pytest.raises(Exception, match="Invalid assistant: 'nobody'"):
        await sdk.runs.create_batch([good, {"assistant_id": "nobody"}])
    with rejected(404, "Thread or assistant not found."):
        await sdk.runs.create_batch([good, {"assistant_id": "echo", "thread_id": fresh_id()}])
    with rejected(422, "Invalid thread ID: must be a UUID"):
        await sdk.runs.create_batch([good, {"assistant_id": "echo", "thread_id": "abc"}])
    with rejected(400, "You must provide a thread_id when resuming."):
        await sdk.runs.create_batch([good, {"assistant_id": "echo", "command": {"resume": 1}}])
    assert await sdk.runs.list(thread_id) == []


async def test_a_batch_must_be_a_list_of_runs(http):
    for body in ([], {}, [5], [{}], "runs"):
        assert (await http.post("/runs/batch", json=body)).status_code == 422


async def test_a_repeated_batch_returns_the_same_runs(sdk):
    batch = [{"assistant_id": "echo", "input": {"text": number}} for number in range(3)]
    headers = {"Idempotency-Key": fresh_id()}
    first = await sdk.runs.create_batch(batch, headers=headers)
    again = await sdk.runs.create_batch(batch, headers=headers)
    assert [run["run_id"] for run in again] == [run["run_id"] for run in first]


# -- sweeping ---------------------------------------------------------------------------------------------------------


async def test_temporary_threads_are_swept_also_after_a_crash(project, tmp_path):
    with running_server(project, tmp_path / "data") as server:
        async with httpx.AsyncClient(timeout=30) as http:
            waited = await http.post(f"{server.url}/runs/wait", json={"assistant_id": "echo", "input": {"text": 1}})
            path = waited.headers["content-location"]
            assert (await http.get(f"{server.url}{path}")).status_code == 200
            server.kill()
            server.env["THREADWIRE_KEEP_TEMPORARY_SECONDS"] = "0"
            server.start()

            async def swept():
                return (await http.get(f"{server.url}{path}")).status_code == 404

            await eventually(swept)
            assert (await http.get(f"{server.url}{path}/stream")).status_code == 404
