"""Joining a run that another client started, or rejoining one."""

import anyio
import pytest
from clients import TIMEOUT, collect, event_names, eventually, human, wait_for_start

pytestmark = pytest.mark.anyio

ALL = ["values", "updates", "messages-tuple", "custom"]


async def finished(sdk, mode=ALL, **kwargs):
    """Return a finished run with many events, and the parts of its own stream."""
    thread_id = await sdk.thread()
    parts = await collect(
        sdk.runs.stream(
            thread_id, "nested", input=human("hello again"), stream_mode=mode, stream_resumable=True, **kwargs
        )
    )
    return thread_id, parts[0].data["run_id"], parts


async def test_every_event_has_an_id_and_ids_increase(sdk):
    _, _, parts = await finished(sdk, stream_subgraphs=True)
    ids = [int(part.id) for part in parts]
    assert ids == sorted(set(ids))


@pytest.mark.parametrize("start", ["-1", "0"])
async def test_a_finished_run_is_replayed_from_the_start(sdk, start):
    thread_id, run_id, parts = await finished(sdk, stream_subgraphs=True)
    assert await collect(sdk.runs.join_stream(thread_id, run_id, last_event_id=start)) == parts


async def test_a_run_can_be_resumed_from_every_event(sdk):
    thread_id, run_id, parts = await finished(sdk, stream_subgraphs=True)
    for position in range(len(parts)):
        rest = await collect(sdk.runs.join_stream(thread_id, run_id, last_event_id=parts[position].id))
        assert rest == parts[position + 1 :]


async def test_accumulated_messages_are_resumed_with_their_content(sdk):
    thread_id, run_id, parts = await finished(sdk, mode="messages", stream_subgraphs=True)
    partial = [part for part in parts if part.event.startswith("messages/partial")][2]
    rest = await collect(sdk.runs.join_stream(thread_id, run_id, last_event_id=partial.id))
    assert rest == parts[parts.index(partial) + 1 :]


async def test_a_finished_run_joined_without_an_id_sends_nothing(sdk):
    thread_id, run_id, _ = await finished(sdk)
    assert await collect(sdk.runs.join_stream(thread_id, run_id)) == []


async def test_a_run_can_be_joined_in_a_mode_it_was_not_started_with(sdk, http):
    thread_id, run_id, _ = await finished(sdk, mode="values")
    parts = await collect(
        sdk.runs.join_stream(thread_id, run_id, last_event_id="-1", stream_mode=["updates", "custom"])
    )
    assert set(event_names(parts)) == {"metadata", "updates", "custom"}
    at = f"/threads/{thread_id}/runs/{run_id}/stream"
    repeated = await http.get(at, params={"stream_mode": ["updates", "custom"]}, headers={"Last-Event-ID": "-1"})
    in_json = await http.get(at, params={"stream_mode": '["updates","custom"]'}, headers={"Last-Event-ID": "-1"})
    assert repeated.text == in_json.text
    assert "event: custom" in in_json.text


async def test_a_live_run_joined_without_an_id_is_streamed_from_now_on(sdk, gate):
    thread_id = await sdk.thread()
    run = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)}, stream_mode=["values", "updates"])
    await wait_for_start(sdk, run)
    parts = []

    async def watch():
        parts.extend(await collect(sdk.runs.join_stream(thread_id, run["run_id"])))

    with anyio.fail_after(TIMEOUT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await _wait_until_joined(sdk, thread_id, run["run_id"])
            gate.touch()
    assert [(part.event, part.data.get("steps") or part.data) for part in parts] == [
        ("updates", {"wait": {"steps": ["waited"]}}),
        ("values", ["begun", "waited"]),
    ]


async def test_a_live_run_is_replayed_and_then_followed_to_its_end(sdk, gate):
    thread_id = await sdk.thread()
    run = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)}, stream_mode="updates")
    await wait_for_start(sdk, run)
    parts = []
    with anyio.fail_after(TIMEOUT):
        async for part in sdk.runs.join_stream(thread_id, run["run_id"], last_event_id="-1"):
            parts.append(part)
            if part.data == {"begin": {"steps": ["begun"]}}:
                gate.touch()
    assert [part.data for part in parts] == [
        {"run_id": run["run_id"], "attempt": 1},
        {"begin": {"steps": ["begun"]}},
        {"wait": {"steps": ["waited"]}},
    ]


async def test_all_subscribers_of_a_run_receive_the_same_events(sdk):
    thread_id = await sdk.thread()
    run = await sdk.runs.create(
        thread_id, "chat", input={**human("a b c d e f g"), "delay": 0.02}, stream_mode="messages-tuple"
    )
    seen = {}

    async def watch(name):
        seen[name] = await collect(sdk.runs.join_stream(thread_id, run["run_id"], last_event_id="0"))

    with anyio.fail_after(TIMEOUT):
        async with anyio.create_task_group() as tasks:
            for name in range(5):
                tasks.start_soon(watch, name)
    assert "".join(part.data[0]["content"] for part in seen[0][1:]) == "You said: a b c d e f g"
    assert all(parts == seen[0] for parts in seen.values())


async def test_a_run_continues_when_a_client_leaves_its_stream(sdk, gate):
    thread_id = await sdk.thread()
    run = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)})
    async for part in sdk.runs.join_stream(thread_id, run["run_id"], last_event_id="-1"):
        assert part.event == "metadata"
        break
    gate.touch()
    assert (await sdk.runs.join(thread_id, run["run_id"]))["steps"] == ["begun", "waited"]


async def test_a_malformed_position_is_rejected(sdk, http):
    thread_id, run_id, _ = await finished(sdk)
    for malformed in ("abc", "-2", "1.5", "9" * 19, "1e3", "0x10"):
        response = await http.get(f"/threads/{thread_id}/runs/{run_id}/stream", headers={"Last-Event-ID": malformed})
        assert response.status_code == 400
        assert response.json() == {"detail": f"Invalid Last-Event-ID: {malformed!r} is not a sequence number"}


async def test_a_position_that_was_never_issued_is_rejected(sdk, http):
    """An empty stream would look like a run without output."""
    thread_id, run_id, _ = await finished(sdk)
    queued = await sdk.runs.create(thread_id, "echo", input={"text": "later"}, after_seconds=1000)
    for path in (
        f"/threads/{thread_id}/runs/{run_id}",
        f"/threads/{thread_id}/runs/{queued['run_id']}",
        f"/runs/{run_id}",
    ):
        response = await http.get(f"{path}/stream", headers={"Last-Event-ID": "999999999"})
        assert response.status_code == 400
        assert response.json()["detail"].startswith(
            "Invalid Last-Event-ID: 999999999 is beyond the last entry of this thread"
        )


async def test_a_position_after_the_run_but_within_the_thread_returns_nothing(sdk):
    thread_id, run_id, _ = await finished(sdk)
    last = (await collect(sdk.runs.stream(thread_id, "echo", input={"text": "more"})))[-1].id
    assert await collect(sdk.runs.join_stream(thread_id, run_id, last_event_id=last)) == []


async def test_an_unknown_mode_is_rejected(sdk, http):
    thread_id, run_id, _ = await finished(sdk)
    response = await http.get(f"/threads/{thread_id}/runs/{run_id}/stream", params={"stream_mode": "nonsense"})
    assert response.status_code == 422
    assert response.json()["detail"].startswith("stream_mode: 'nonsense' is not one of")


async def _wait_until_joined(sdk, thread_id, run_id):
    """Wait until the join request has been sent and handled: later requests on another connection follow it."""

    async def requested():
        return ("GET", f"/threads/{thread_id}/runs/{run_id}/stream") in sdk.requests

    await eventually(requested)
    for _ in range(5):
        await sdk.runs.get(thread_id, run_id)
