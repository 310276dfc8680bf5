"""Streaming a thread over many runs."""

import inspect
import re
from contextlib import asynccontextmanager
from itertools import pairwise

import anyio
import pytest
from clients import TIMEOUT, eventually, fresh_id, human, open_async, wait_for_start

pytestmark = pytest.mark.anyio


class Listener:
    """The parts of a thread's stream received so far."""

    def __init__(self):
        self.parts = []
        self.ended = False
        self._grew = anyio.Event()

    def add(self, part):
        self.parts.append(part)
        self._grew.set()

    def end(self):
        self.ended = True
        self._grew.set()

    @property
    def events(self):
        return [(part.event, part.data) for part in self.parts]

    async def until(self, enough):
        """Wait until enough parts have been received."""
        with anyio.fail_after(TIMEOUT):
            while not enough(self):
                self._grew = anyio.Event()
                await self._grew.wait()
        return self


@asynccontextmanager
async def listening(sdk, thread_id, **kwargs):
    """Read the SDK's thread stream in the background. On exit the thread is deleted, which ends the stream: a stream
    that an OS thread is reading cannot be left otherwise."""
    listener = Listener()
    request = ("GET", f"/threads/{thread_id}/stream")
    earlier = sdk.requests.count(request)

    async def listen():
        stream = sdk.threads.join_stream(thread_id, **kwargs)
        if inspect.isawaitable(stream):
            stream = await stream
        async for part in stream:
            listener.add(part)
        listener.end()

    async def is_requested():
        return sdk.requests.count(request) > earlier

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        await eventually(is_requested)  # the sync client sends the request when the first part is read
        await sdk.threads.get(thread_id)  # a round trip later, the server has read it
        try:
            yield listener
        finally:
            with anyio.CancelScope(shield=True):
                if not listener.ended:
                    await sdk.threads.prune([thread_id])


def all_done(*runs):
    return lambda listener: (
        listener.events[-1:] == [run_done(runs[-1])] and all(run_done(run) in listener.events for run in runs)
    )


def run_done(run_id):
    return ("metadata", {"status": "run_done", "run_id": run_id})


def run_started(run_id):
    return ("metadata", {"run_id": run_id, "attempt": 1})


async def finished_run(sdk, thread_id, graph="echo", **kwargs):
    """Execute a run and return its id."""
    kwargs.setdefault("input", {"text": 1})
    run = await sdk.runs.create(thread_id, graph, **kwargs)
    await sdk.runs.join(thread_id, run["run_id"])
    return run["run_id"]


async def test_a_thread_is_followed_from_one_run_to_the_next(sdk):
    thread_id = await sdk.thread()
    first = await finished_run(sdk, thread_id, stream_mode=["updates"])
    async with listening(sdk, thread_id, last_event_id="-") as listener:
        await listener.until(all_done(first))
        second = await finished_run(sdk, thread_id, input={"text": "two"})
        failed = await finished_run(sdk, thread_id, "fails", input={"text": "three"})
        await listener.until(all_done(failed))
    assert listener.events == [
        run_started(first),
        ("updates", {"say_again": {"echoed": 1}}),
        run_done(first),
        run_started(second),
        ("values", {"text": "two", "echoed": 1}),
        ("values", {"text": "two", "echoed": "two"}),
        run_done(second),
        run_started(failed),
        ("values", {"text": "three", "echoed": "two"}),
        ("error", {"error": "ValueError", "message": "boom!"}),
        run_done(failed),
    ]


async def test_without_a_position_only_new_events_are_sent(sdk):
    thread_id = await sdk.thread()
    await finished_run(sdk, thread_id)
    async with listening(sdk, thread_id) as listener:
        later = await finished_run(sdk, thread_id)
        await listener.until(all_done(later))
    assert listener.events[0] == run_started(later)


@pytest.mark.parametrize("start", ["-", "-1", "0"])
async def test_the_start_has_three_forms(sdk, start):
    thread_id = await sdk.thread()
    run_id = await finished_run(sdk, thread_id)
    async with listening(sdk, thread_id, last_event_id=start) as listener:
        await listener.until(all_done(run_id))
    assert listener.events[0] == run_started(run_id)


@pytest.mark.parametrize(
    "modes",
    [["run_modes"], ["lifecycle"], ["lifecycle", "state_update"], ["run_modes", "state_update"]],
    ids="+".join,
)
async def test_a_client_that_reconnects_receives_exactly_what_it_missed(http, server, modes):
    """Spec 4.4: the same bytes, from every position, also in the middle of a run."""
    async with open_async(server.url) as sdk:
        thread_id = await sdk.thread()
        options = {"stream_mode": ["values", "messages"], "stream_subgraphs": True}
        await finished_run(sdk, thread_id, "nested", input=human("hi"), **options)
        await sdk.threads.update_state(thread_id, {"notes": ["updated"]}, as_node="after")
        last = await finished_run(
            sdk, thread_id, "chat", input=human("again", "h2"), stream_mode=["messages-tuple", "updates"]
        )
    whole = await frames_until(http, thread_id, modes, "-", f'"run_done","run_id":"{last}"')
    positions = [frame.rpartition(b"\r\nid: ")[2] for frame in whole[:-1] if b"\r\nid: " in frame]
    assert len(positions) >= 3
    for position in positions:
        at = next(at for at, frame in enumerate(whole) if frame.endswith(b"\r\nid: " + position))
        missed = await frames_until(http, thread_id, modes, position.decode(), f'"run_done","run_id":"{last}"')
        assert missed == whole[at + 1 :]


async def frames_until(http, thread_id, modes, position, end):
    """Return the frames from a position up to the one that contains `end`: a thread's stream does not end."""
    received = b""
    query, headers = {"stream_mode": modes}, {"last-event-id": position}
    async with http.stream("GET", f"/threads/{thread_id}/stream", params=query, headers=headers) as response:
        assert response.status_code == 200
        async for piece in response.aiter_raw():
            received += piece
            if end.encode() in received and received.endswith(b"\r\n\r\n"):
                break
    return received.split(b"\r\n\r\n")[:-1]


async def test_a_running_run_is_joined_in_the_middle(sdk, gate):
    thread_id = await sdk.thread()
    run = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)}, stream_mode=["values"])
    await wait_for_start(sdk, run)
    async with listening(sdk, thread_id) as listener:
        gate.touch()
        await listener.until(all_done(run["run_id"]))
    events = [event for event, _ in listener.events]
    assert events == ["values", "metadata"]
    assert listener.events[0][1]["steps"] == ["begun", "waited"]


async def test_queued_runs_are_sent_one_after_the_other(sdk, gate):
    thread_id = await sdk.thread()
    running = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)})
    queued = await sdk.runs.create(thread_id, "echo", input={"text": "queued"})
    stopped = await sdk.runs.create(thread_id, "echo", input={"text": "stopped"})
    async with listening(sdk, thread_id, last_event_id="-", stream_mode="lifecycle") as listener:
        await sdk.runs.cancel(thread_id, stopped["run_id"])
        await listener.until(lambda listener: run_done(stopped["run_id"]) in listener.events)
        gate.touch()
        await listener.until(all_done(queued["run_id"]))
    assert listener.events == [
        run_started(running["run_id"]),
        run_done(stopped["run_id"]),
        run_done(running["run_id"]),
        run_started(queued["run_id"]),
        run_done(queued["run_id"]),
    ]


async def test_the_lifecycle_mode_sends_only_starts_and_ends(sdk):
    thread_id = await sdk.thread()
    runs = [await finished_run(sdk, thread_id), await finished_run(sdk, thread_id, "fails", input={})]
    async with listening(sdk, thread_id, last_event_id="-", stream_mode="lifecycle") as listener:
        await listener.until(all_done(*runs))
    assert listener.events == [run_started(runs[0]), run_done(runs[0]), run_started(runs[1]), run_done(runs[1])]


async def test_state_updates_report_every_change_of_the_state(sdk, gate):
    thread_id = await sdk.thread()
    run_id = await finished_run(sdk, thread_id, input={"text": 1}, stream_mode=["custom"])
    async with listening(sdk, thread_id, last_event_id="-", stream_mode="state_update") as listener:
        moved = await sdk.threads.update_state(thread_id, {"text": "moved"})
        rolled = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)})
        await wait_for_start(sdk, rolled)
        await sdk.runs.cancel(thread_id, rolled["run_id"], wait=True, action="rollback")
        await sdk.threads.prune([thread_id], strategy="keep_latest")
        last = {"cause": "rollback", "run_id": rolled["run_id"]}
        await listener.until(lambda listener: ("state_update", last) in listener.events)
    assert {event for event, _ in listener.events} == {"state_update"}
    updates = [data for _, data in listener.events]
    assert updates[:3] == [
        {"values": {"text": 1}, "cause": "run", "run_id": run_id},
        {"values": {"text": 1, "echoed": 1}, "cause": "run", "run_id": run_id},
        {
            "values": {"text": "moved", "echoed": 1},
            "cause": "update",
            "checkpoint_id": moved["checkpoint_id"],
        },
    ]
    assert updates[-1] == last


async def test_copies_and_supersteps_start_with_their_state(sdk):
    source = await sdk.thread()
    await finished_run(sdk, source)
    copy = await sdk.threads.copy(source)
    steps = [{"updates": [{"values": {"text": "created"}, "as_node": "__start__"}]}]
    created = await sdk.threads.create(graph_id="echo", supersteps=steps)
    for thread, cause in ((copy, "copy"), (created, "supersteps")):
        async with listening(sdk, thread["thread_id"], last_event_id="-", stream_mode="state_update") as listener:
            await listener.until(lambda listener: listener.parts)
            state = await sdk.threads.get_state(thread["thread_id"])
        update = {"values": thread["values"], "cause": cause, "checkpoint_id": state["checkpoint_id"]}
        assert listener.events == [("state_update", update)]


async def test_modes_can_be_combined(sdk):
    thread_id = await sdk.thread()
    run_id = await finished_run(sdk, thread_id, stream_mode=["values"])
    modes = ["run_modes", "state_update", "lifecycle"]
    async with listening(sdk, thread_id, last_event_id="-", stream_mode=modes) as listener:
        await listener.until(all_done(run_id))
    events = [event for event, _ in listener.events]
    assert events == ["metadata", "state_update", "values", "state_update", "values", "metadata"]
    numbers = [int(part.id) for part in listener.parts]  # the SDK gives a part without an id that of the part before it
    assert [now - before for before, now in pairwise(numbers)][::2] == [0, 0, numbers[-1] - numbers[-2]]


async def test_all_subscribers_of_a_thread_receive_the_same_events(sdk):
    thread_id = await sdk.thread()
    await finished_run(sdk, thread_id)
    async with (
        listening(sdk, thread_id) as live,
        listening(sdk, thread_id, last_event_id="-") as early,
        listening(sdk, thread_id) as other,
    ):
        run_id = await finished_run(sdk, thread_id, "chat", input=human("hi"), stream_mode=["messages-tuple", "values"])
        for listener in (live, early, other):
            await listener.until(all_done(run_id))
    assert live.events == other.events
    assert early.events[-len(live.events) :] == live.events
    assert early.events[0] != live.events[0]


async def test_the_stream_ends_with_its_thread(sdk):
    thread_id = await sdk.thread()
    run_id = await finished_run(sdk, thread_id)
    async with listening(sdk, thread_id, last_event_id="-") as listener:
        await listener.until(all_done(run_id))
        await sdk.threads.delete(thread_id)
        await listener.until(lambda listener: listener.ended)


async def test_a_position_of_a_deleted_thread_is_rejected_by_a_new_one_with_its_id(sdk, http):
    """Otherwise a client with a later position would receive nothing of the new thread."""
    thread_id = await sdk.thread()
    run_id = await finished_run(sdk, thread_id)
    async with listening(sdk, thread_id, last_event_id="-") as listener:  # deletes the thread on exit
        await listener.until(all_done(run_id))
        position = listener.parts[-1].id
    await sdk.threads.create(thread_id=thread_id)
    response = await http.get(f"/threads/{thread_id}/stream", headers={"Last-Event-ID": position})
    assert response.status_code == 400
    assert response.json()["detail"].startswith(
        f"Invalid Last-Event-ID: {position} is beyond the last entry of this thread"
    )


async def test_invalid_requests_are_rejected(sdk, http):
    thread_id, unknown = await sdk.thread(), fresh_id()

    async def get(path, position=None):
        headers = {} if position is None else {"last-event-id": position}
        response = await http.get(path, headers=headers)
        return response.status_code, response.json()["detail"]

    assert await get(f"/threads/{unknown}/stream") == (404, f"Thread with ID {unknown} not found")
    assert await get("/threads/nope/stream") == (422, "Invalid thread ID: must be a UUID")
    for position in ("nope", "--", "1794784655149-0", "1" * 19, "1.5", "", "1", "999999"):
        status, detail = await get(f"/threads/{thread_id}/stream", position)
        assert (status, detail[:21]) == (400, "Invalid Last-Event-ID"), position
    for query in ("stream_mode=nope", "stream_modes=values", 'stream_mode=["run_modes","nope"]'):
        status, detail = await get(f"/threads/{thread_id}/stream?{query}")
        assert (status, detail) == (
            422,
            f"stream_mode: {re.search('nope|values', query)[0]!r} is not one of lifecycle, run_modes, state_update",
        )


async def test_a_stream_from_the_last_position_waits_for_new_events(sdk):
    thread_id = await sdk.thread()
    first = await finished_run(sdk, thread_id)
    async with listening(sdk, thread_id, last_event_id="-") as early:
        await early.until(all_done(first))
        end = int(early.parts[-1].id)
        async with listening(sdk, thread_id, last_event_id=str(end)) as listener:
            second = await finished_run(sdk, thread_id)
            await listener.until(all_done(second))
            assert all(int(part.id) > end for part in listener.parts)


async def test_the_stream_of_an_idle_thread_sends_heartbeats(http):
    thread = (await http.post("/threads", json={})).json()
    received = b""
    with anyio.fail_after(20):
        async with http.stream("GET", f"/threads/{thread['thread_id']}/stream") as response:
            assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
            assert response.headers["cache-control"] == "no-store"
            assert response.headers["x-accel-buffering"] == "no"
            async for piece in response.aiter_raw():
                received += piece
                break
    assert received == b": heartbeat\r\n\r\n"
