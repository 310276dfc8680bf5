"""Watching a thread over many runs."""

import inspect
import re
from contextlib import asynccontextmanager
from itertools import pairwise

import anyio
import pytest
from clients import PATIENCE, fresh_id, has_begun, human, open_async

pytestmark = pytest.mark.anyio


class Listener:
    """What a thread's stream has said so far."""

    def __init__(self):
        self.parts = []
        self.over = False
        self._grew = anyio.Event()

    def add(self, part):
        self.parts.append(part)
        self._grew.set()

    def end(self):
        self.over = True
        self._grew.set()

    @property
    def said(self):
        return [(part.event, part.data) for part in self.parts]

    async def until(self, enough):
        """Wait until it has said enough."""
        with anyio.fail_after(PATIENCE):
            while not enough(self):
                self._grew = anyio.Event()
                await self._grew.wait()
        return self


@asynccontextmanager
async def listening(sdk, thread_id, **kwargs):
    """The SDK's own thread stream, read in the background. Afterwards the thread is deleted, which ends the stream: one
    that a thread of control waits for cannot be left otherwise."""
    listener, open_streams = Listener(), anyio.Event()

    async def listen():
        stream = sdk.threads.join_stream(thread_id, **kwargs)
        if inspect.isawaitable(stream):
            stream = await stream
        open_streams.set()
        async for part in stream:
            listener.add(part)
        listener.end()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        await open_streams.wait()
        yield listener
        if not listener.over:
            await sdk.threads.prune([thread_id])


def done(*runs):
    return lambda listener: (
        listener.said[-1:] == [run_done(runs[-1])] and all(run_done(run) in listener.said for run in runs)
    )


def run_done(run_id):
    return ("metadata", {"status": "run_done", "run_id": run_id})


def begun(run_id):
    return ("metadata", {"run_id": run_id, "attempt": 1})


async def ran(sdk, thread_id, graph="echo", **kwargs):
    """The id of a run that has ended."""
    kwargs.setdefault("input", {"text": 1})
    run = await sdk.runs.create(thread_id, graph, **kwargs)
    await sdk.runs.join(thread_id, run["run_id"])
    return run["run_id"]


async def test_a_thread_is_followed_from_one_run_to_the_next(sdk):
    thread_id = await sdk.thread()
    first = await ran(sdk, thread_id, stream_mode=["updates"])
    async with listening(sdk, thread_id, last_event_id="-") as listener:
        await listener.until(done(first))
        second = await ran(sdk, thread_id, input={"text": "two"})
        failed = await ran(sdk, thread_id, "fails", input={"text": "three"})
        await listener.until(done(failed))
    assert listener.said == [
        begun(first),
        ("updates", {"say_again": {"echoed": 1}}),
        run_done(first),
        begun(second),
        ("values", {"text": "two", "echoed": 1}),
        ("values", {"text": "two", "echoed": "two"}),
        run_done(second),
        begun(failed),
        ("values", {"text": "three", "echoed": "two"}),
        ("error", {"error": "ValueError", "message": "boom!"}),
        run_done(failed),
    ]


async def test_without_a_position_only_what_comes_is_shown(sdk):
    thread_id = await sdk.thread()
    await ran(sdk, thread_id)
    async with listening(sdk, thread_id) as listener:
        later = await ran(sdk, thread_id)
        await listener.until(done(later))
    assert listener.said[0] == begun(later)


@pytest.mark.parametrize("start", ["-", "-1", "0"])
async def test_the_start_has_three_names(sdk, start):
    thread_id = await sdk.thread()
    run_id = await ran(sdk, thread_id)
    async with listening(sdk, thread_id, last_event_id=start) as listener:
        await listener.until(done(run_id))
    assert listener.said[0] == begun(run_id)


@pytest.mark.parametrize(
    "modes",
    [["run_modes"], ["lifecycle"], ["lifecycle", "state_update"], ["run_modes", "state_update"]],
    ids="+".join,
)
async def test_one_who_comes_back_gets_exactly_what_he_missed(http, server, modes):
    """4.4: bytes, from every position, also in the middle of a run."""
    async with open_async(server.url) as sdk:
        thread_id = await sdk.thread()
        shown = {"stream_mode": ["values", "messages"], "stream_subgraphs": True}
        await ran(sdk, thread_id, "nested", input=human("hi"), **shown)
        await sdk.threads.update_state(thread_id, {"notes": ["by hand"]}, as_node="after")
        last = await ran(sdk, thread_id, "chat", input=human("again", "h2"), stream_mode=["messages-tuple", "updates"])
    whole = await frames_until(http, thread_id, modes, "-", f'"run_done","run_id":"{last}"')
    positions = [frame.rpartition(b"\r\nid: ")[2] for frame in whole[:-1] if b"\r\nid: " in frame]
    assert len(positions) >= 3
    for position in positions:
        at = next(at for at, frame in enumerate(whole) if frame.endswith(b"\r\nid: " + position))
        missed = await frames_until(http, thread_id, modes, position.decode(), f'"run_done","run_id":"{last}"')
        assert missed == whole[at + 1 :]


async def frames_until(http, thread_id, modes, position, end):
    """The frames from a position on, up to the one that says `end`: a thread's stream does not end by itself."""
    received = b""
    query, headers = {"stream_mode": modes}, {"last-event-id": position}
    async with http.stream("GET", f"/threads/{thread_id}/stream", params=query, headers=headers) as response:
        assert response.status_code == 200
        async for piece in response.aiter_raw():
            received += piece
            if end.encode() in received and received.endswith(b"\r\n\r\n"):
                break
    return received.split(b"\r\n\r\n")[:-1]


async def test_a_live_run_is_joined_in_the_middle(sdk, gate):
    thread_id = await sdk.thread()
    run = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)}, stream_mode=["values"])
    await has_begun(sdk, run)
    async with listening(sdk, thread_id) as listener:
        gate.touch()
        await listener.until(done(run["run_id"]))
    events = [event for event, _ in listener.said]
    assert events == ["values", "metadata"]
    assert listener.said[0][1]["steps"] == ["begun", "waited"]


async def test_queued_runs_follow_one_another(sdk, gate):
    thread_id = await sdk.thread()
    running = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)})
    queued = await sdk.runs.create(thread_id, "echo", input={"text": "queued"})
    stopped = await sdk.runs.create(thread_id, "echo", input={"text": "stopped"})
    async with listening(sdk, thread_id, last_event_id="-", stream_mode="lifecycle") as listener:
        await sdk.runs.cancel(thread_id, stopped["run_id"])
        await listener.until(lambda listener: run_done(stopped["run_id"]) in listener.said)
        gate.touch()
        await listener.until(done(queued["run_id"]))
    assert listener.said == [
        begun(running["run_id"]),
        run_done(stopped["run_id"]),
        run_done(running["run_id"]),
        begun(queued["run_id"]),
        run_done(queued["run_id"]),
    ]


async def test_the_lifecycle_is_beginnings_and_ends_alone(sdk):
    thread_id = await sdk.thread()
    runs = [await ran(sdk, thread_id), await ran(sdk, thread_id, "fails", input={})]
    async with listening(sdk, thread_id, last_event_id="-", stream_mode="lifecycle") as listener:
        await listener.until(done(*runs))
    assert listener.said == [begun(runs[0]), run_done(runs[0]), begun(runs[1]), run_done(runs[1])]


async def test_state_updates_tell_of_every_change_of_the_state(sdk, gate):
    thread_id = await sdk.thread()
    run_id = await ran(sdk, thread_id, input={"text": 1}, stream_mode=["custom"])
    async with listening(sdk, thread_id, last_event_id="-", stream_mode="state_update") as listener:
        moved = await sdk.threads.update_state(thread_id, {"text": "moved"})
        rolled = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)})
        await has_begun(sdk, rolled)
        await sdk.runs.cancel(thread_id, rolled["run_id"], wait=True, action="rollback")
        await sdk.threads.prune([thread_id], strategy="keep_latest")
        last = {"cause": "rollback", "run_id": rolled["run_id"]}
        await listener.until(lambda listener: ("state_update", last) in listener.said)
    assert {event for event, _ in listener.said} == {"state_update"}
    told = [data for _, data in listener.said]
    assert told[:3] == [
        {"values": {"text": 1}, "cause": "run", "run_id": run_id},
        {"values": {"text": 1, "echoed": 1}, "cause": "run", "run_id": run_id},
        {
            "values": {"text": "moved", "echoed": 1},
            "cause": "update",
            "checkpoint_id": moved["checkpoint_id"],
        },
    ]
    assert told[-1] == last


async def test_a_copy_and_supersteps_begin_with_their_state(sdk):
    source = await sdk.thread()
    await ran(sdk, source)
    copy = await sdk.threads.copy(source)
    steps = [{"updates": [{"values": {"text": "made"}, "as_node": "__start__"}]}]
    made = await sdk.threads.create(graph_id="echo", supersteps=steps)
    for thread, cause in ((copy, "copy"), (made, "supersteps")):
        async with listening(sdk, thread["thread_id"], last_event_id="-", stream_mode="state_update") as listener:
            await listener.until(lambda listener: listener.parts)
            state = await sdk.threads.get_state(thread["thread_id"])
        told = {"values": thread["values"], "cause": cause, "checkpoint_id": state["checkpoint_id"]}
        assert listener.said == [("state_update", told)]


async def test_modes_can_be_combined(sdk):
    thread_id = await sdk.thread()
    run_id = await ran(sdk, thread_id, stream_mode=["values"])
    modes = ["run_modes", "state_update", "lifecycle"]
    async with listening(sdk, thread_id, last_event_id="-", stream_mode=modes) as listener:
        await listener.until(done(run_id))
    events = [event for event, _ in listener.said]
    assert events == ["metadata", "state_update", "values", "state_update", "values", "metadata"]
    numbers = [int(part.id) for part in listener.parts]  # one that has none is given the one before it, by the SDK
    assert [now - before for before, now in pairwise(numbers)][::2] == [0, 0, numbers[-1] - numbers[-2]]


async def test_watchers_of_one_thread_see_the_same(sdk):
    thread_id = await sdk.thread()
    await ran(sdk, thread_id)
    async with (
        listening(sdk, thread_id) as now,
        listening(sdk, thread_id, last_event_id="-") as early,
        listening(sdk, thread_id) as too,
    ):
        run_id = await ran(sdk, thread_id, "chat", input=human("hi"), stream_mode=["messages-tuple", "values"])
        for listener in (now, early, too):
            await listener.until(done(run_id))
    assert now.said == too.said
    assert early.said[-len(now.said) :] == now.said
    assert early.said[0] != now.said[0]


async def test_the_stream_ends_with_its_thread(sdk):
    thread_id = await sdk.thread()
    run_id = await ran(sdk, thread_id)
    async with listening(sdk, thread_id, last_event_id="-") as listener:
        await listener.until(done(run_id))
        await sdk.threads.delete(thread_id)
        await listener.until(lambda listener: listener.over)


async def test_a_position_of_a_thread_that_was_deleted_is_refused_by_the_one_made_anew(sdk, http):
    """Or a page that had been further would be told nothing of what now happens."""
    thread_id = await sdk.thread()
    run_id = await ran(sdk, thread_id)
    async with listening(sdk, thread_id, last_event_id="-") as listener:  # which deletes it in the end
        await listener.until(done(run_id))
        position = listener.parts[-1].id
    await sdk.threads.create(thread_id=thread_id)
    answer = await http.get(f"/threads/{thread_id}/stream", headers={"Last-Event-ID": position})
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith(
        f"Invalid Last-Event-ID: {position} is beyond the last entry of this thread"
    )


async def test_what_cannot_be_followed_is_refused(sdk, http):
    thread_id, unknown = await sdk.thread(), fresh_id()

    async def answer(path, position=None):
        headers = {} if position is None else {"last-event-id": position}
        response = await http.get(path, headers=headers)
        return response.status_code, response.json()["detail"]

    assert await answer(f"/threads/{unknown}/stream") == (404, f"Thread with ID {unknown} not found")
    assert await answer("/threads/nope/stream") == (422, "Invalid thread ID: must be a UUID")
    for position in ("nope", "--", "1794784655149-0", "1" * 19, "1.5", "", "1", "999999"):
        status, detail = await answer(f"/threads/{thread_id}/stream", position)
        assert (status, detail[:21]) == (400, "Invalid Last-Event-ID"), position
    for query in ("stream_mode=nope", "stream_modes=values", 'stream_mode=["run_modes","nope"]'):
        status, detail = await answer(f"/threads/{thread_id}/stream?{query}")
        assert (status, detail) == (
            422,
            f"stream_mode: {re.search('nope|values', query)[0]!r} is not one of lifecycle, run_modes, state_update",
        )


async def test_at_the_last_position_what_follows_is_waited_for(sdk):
    thread_id = await sdk.thread()
    first = await ran(sdk, thread_id)
    async with listening(sdk, thread_id, last_event_id="-") as early:
        await early.until(done(first))
        end = int(early.parts[-1].id)
        async with listening(sdk, thread_id, last_event_id=str(end)) as listener:
            second = await ran(sdk, thread_id)
            await listener.until(done(second))
            assert all(int(part.id) > end for part in listener.parts)


async def test_an_idle_thread_shows_that_it_is_alive(http):
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
