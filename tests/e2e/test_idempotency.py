"""A request with an `Idempotency-Key` can be sent again: it starts one run. Another request cannot use its key."""

import pytest
from clients import collect, fresh_id, rejected

pytestmark = pytest.mark.anyio

ANOTHER = "This Idempotency-Key was already used for a different request."


@pytest.fixture
def key() -> dict[str, str]:
    return {"Idempotency-Key": fresh_id()}


async def test_a_repeated_request_returns_the_run_of_the_first(sdk, key):
    thread_id = await sdk.thread()
    first = await sdk.runs.create(thread_id, "echo", input={"text": 1}, headers=key)
    again = await sdk.runs.create(thread_id, "echo", input={"text": 1}, headers=key)
    assert again["run_id"] == first["run_id"]
    other = await sdk.runs.create(thread_id, "echo", input={"text": 1}, headers={"Idempotency-Key": fresh_id()})
    assert other["run_id"] != first["run_id"]
    assert len(await sdk.runs.list(thread_id)) == 2


async def test_a_repeated_wait_returns_the_outcome_and_a_repeated_stream_the_stream(sdk, key):
    thread_id, arguments = await sdk.thread(), {"input": {"text": 1}}
    for _ in range(2):
        assert await sdk.runs.wait(thread_id, "echo", **arguments, headers=key) == {"text": 1, "echoed": 1}
    streamed = {"Idempotency-Key": fresh_id()}
    parts = [await collect(sdk.runs.stream(thread_id, "echo", **arguments, headers=streamed)) for _ in range(2)]
    assert parts[0] == parts[1]
    assert len(await sdk.runs.list(thread_id)) == 2


async def test_a_repeated_stateless_run_is_the_same_run(sdk, key):
    first = await sdk.runs.create(None, "echo", input={"text": 1}, headers=key)
    again = await sdk.runs.create(None, "echo", input={"text": 1}, headers=key)
    assert (again["run_id"], again["thread_id"]) == (first["run_id"], first["thread_id"])


async def test_equivalent_requests_are_the_same_request(http, key):
    thread_id = (await http.post("/threads", json={})).json()["thread_id"]
    bodies = (
        b'{"assistant_id":"echo","input":{"a":1,"b":2}}',
        b'{ "input": {"b": 2, "a": 1}, "assistant_id": "echo" }',
        b'{"assistant_id":"echo","input":{"a":1,"b":2},"on_disconnect":"continue","unknown":5}',
    )
    paths = (thread_id, thread_id.upper(), thread_id.replace("-", ""))
    run_ids = {
        (await http.post(f"/threads/{path}/runs", content=body, headers=key)).json()["run_id"]
        for body, path in zip(bodies, paths, strict=True)
    }
    assert len(run_ids) == 1


async def test_another_body_is_another_request(sdk, key):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "echo", input={"text": 1}, headers=key)
    for other in (
        {"input": {"text": 2}},
        {"input": {"text": 1}, "metadata": {"a": 1}},
        {"input": {"text": 1}, "after_seconds": 1},
        {"command": {"update": {"text": 1}}},
    ):
        with rejected(422, ANOTHER):
            await sdk.runs.wait(thread_id, "echo", **other, headers=key)
    with rejected(422, ANOTHER):
        await sdk.runs.wait(thread_id, "chat", input={"text": 1}, headers=key)
    assert len(await sdk.runs.list(thread_id)) == 1


async def test_another_thread_is_another_request(sdk, key):
    mine, theirs = await sdk.thread(), await sdk.thread()
    await sdk.runs.wait(mine, "echo", input={"text": 1}, headers=key)
    with rejected(422, ANOTHER):
        await sdk.runs.wait(theirs, "echo", input={"text": 1}, headers=key)
    with rejected(422, ANOTHER):
        await sdk.runs.wait(None, "echo", input={"text": 1}, headers=key)
    assert await sdk.runs.list(theirs) == []


async def test_another_kind_of_response_is_another_request(sdk, key):
    thread_id, arguments = await sdk.thread(), {"assistant_id": "echo", "input": {"text": 1}, "headers": key}
    await sdk.runs.create(thread_id, **arguments)
    with rejected(422, ANOTHER):
        await sdk.runs.wait(thread_id, **arguments)
    with rejected(422, ANOTHER):
        await collect(sdk.runs.stream(thread_id, **arguments))
    assert len(await sdk.runs.list(thread_id)) == 1


async def test_an_empty_key_counts_as_missing(http):
    thread_id = (await http.post("/threads", json={})).json()["thread_id"]
    for number in range(2):
        body = {"assistant_id": "echo", "input": {"text": number}}
        response = await http.post(f"/threads/{thread_id}/runs/wait", json=body, headers={"Idempotency-Key": ""})
        assert response.json() == {"text": number, "echoed": number}
    assert len((await http.get(f"/threads/{thread_id}/runs")).json()) == 2


async def test_a_batch_is_one_request(http, key):
    batch = [{"assistant_id": "echo", "input": {"text": number}} for number in range(3)]
    first = (await http.post("/runs/batch", json=batch, headers=key)).json()
    again = (await http.post("/runs/batch", json=batch, headers=key)).json()
    assert [run["run_id"] for run in first] == [run["run_id"] for run in again]
    assert len({run["run_id"] for run in first}) == 3
    for other in ([*batch, batch[0]], batch[:2], batch[::-1]):
        response = await http.post("/runs/batch", json=other, headers=key)
        assert (response.status_code, response.json()["detail"]) == (422, ANOTHER)


async def test_a_key_that_is_too_long_is_rejected(http):
    headers = {"Idempotency-Key": "k" * 256}
    response = await http.post("/runs", json={"assistant_id": "echo"}, headers=headers)
    assert response.status_code == 422
    assert response.json()["detail"].startswith("idempotency-key: ")
