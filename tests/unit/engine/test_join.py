"""Joining a thread: which messages a client gets first, where its stream continues, and when it ends."""

from collections.abc import Callable, Hashable, Sequence
from functools import partial

import anyio
import pytest
from framing import data_only, joined

from threadwire.core.encoder import Framing, Message
from threadwire.core.entries import Entry, Json, Kind
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import Ending, Run, StateSummary, Thread
from threadwire.engine.followers import Follower, Followers
from threadwire.engine.join import Joined, Joins
from threadwire.errors import InvalidCursor
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.samples import (
    NOW,
    accept,
    claim_run,
    new_thread_id,
    note,
    start,
    store_thread,
    the_thread,
    write,
)

pytestmark = pytest.mark.anyio

TIMEOUT = 5.0
SHORT = 0.02
VALUES = {"n": 1}


def line(text: str) -> Message:
    return b"", f"{text}\n".encode()


class RunCounter:
    """Numbers the custom entries of a run."""

    def __init__(self) -> None:
        self.count = 0

    def feed(self, entry: Entry) -> Sequence[Message]:
        match entry.kind:
            case Kind.CUSTOM:
                self.count += 1
                return [line(f"{entry.data['value']}#{self.count}")]
            case Kind.RUN_QUEUED:
                return [line("queued")]
            case Kind.RUN_ENDED:
                return [line("ended")]
            case _:
                return []

    def joined(self, base: Json) -> Sequence[Message]:
        return [line(f"joined after {self.count}, before {base}")]

    def reopened(self) -> Sequence[Message]:
        return [line(f"reopened after {self.count}")]

    def deleted(self) -> Sequence[Message]:
        return [line("deleted")]


class ThreadCounter:
    """Numbers the custom entries of each run."""

    def __init__(self) -> None:
        self.runs: dict[RunId | None, RunCounter] = {}

    def feed(self, entry: Entry) -> Sequence[Message]:
        messages = self.runs.setdefault(entry.run_id, RunCounter()).feed(entry)
        if entry.kind == Kind.RUN_ENDED:
            del self.runs[entry.run_id]
        return messages

    def joined(self, base: Json) -> Sequence[Message]:
        return [message for run in self.runs.values() for message in run.joined(base)]

    def reopened(self) -> Sequence[Message]:
        return [message for run in self.runs.values() for message in run.reopened()]


class Counting:
    """A protocol that counts."""

    options: Hashable = "counting"
    framing: Framing = staticmethod(data_only)
    run_encoder: Callable[[], RunCounter] = RunCounter
    thread_encoder: Callable[[], ThreadCounter] = ThreadCounter

    def idle(self, thread: Thread | None, failed: Run | None = None) -> Sequence[Message]:
        shown = "no thread" if thread is None else f"idle with {thread.values}"
        return [line(shown if failed is None else f"{shown} after {failed.error}")]

    def up_to_date(self, thread: Thread) -> Sequence[Message]:
        return [line("up to date")]


@pytest.fixture
def joins(storage: Storage, followers: Followers) -> Joins:
    return Joins(storage, followers, lambda: NOW)


@pytest.fixture
async def thread_id(storage: Storage) -> ThreadId:
    return await store_thread(storage, values=VALUES)


async def finish(storage: Storage, run: Run) -> None:
    assert await storage.handle(run).finish(Ending("success"), NOW)


async def finished_run(storage: Storage, thread_id: ThreadId, *values: str) -> Run:
    run = await start(storage, thread_id)
    await write(storage, run, *values)
    await finish(storage, run)
    return run


async def text_of(follower: Follower | None) -> str:
    """Everything up to the end."""
    assert follower is not None
    sent = b""
    with anyio.fail_after(TIMEOUT), follower:
        while (frames := joined(await follower.next(TIMEOUT))) is not None:
            sent += frames
    return sent.decode()


def first_of(joined_thread: Joined) -> str:
    return b"".join(joined_thread.first).decode()


async def next_text(follower: Follower, timeout: float = TIMEOUT) -> str | None:
    frames = joined(await follower.next(timeout))
    return None if frames is None else frames.decode()


# -- to the end of the active run -------------------------------------------------------------------------------------


async def test_an_idle_thread_is_shown_as_it_is(storage: Storage, joins: Joins, thread_id: ThreadId) -> None:
    await finished_run(storage, thread_id, "a")
    seen = await joins.until_idle(thread_id, Counting())
    assert (first_of(seen), seen.rest) == (f"idle with {VALUES}\n", None)


async def test_a_thread_that_does_not_exist_is_shown_as_such(joins: Joins) -> None:
    for cursor in (None, Seq(3)):
        seen = await joins.until_idle(new_thread_id(), Counting(), cursor)
        assert (first_of(seen), seen.rest) == ("no thread\n", None)


async def test_a_running_run_is_joined_in_the_middle_and_followed_to_its_end(
    storage: Storage, joins: Joins, thread_id: ThreadId
) -> None:
    await finished_run(storage, thread_id, "before")
    run = await start(storage, thread_id)
    await write(storage, run, "a", "b")

    seen = await joins.until_idle(thread_id, Counting())
    await write(storage, run, "c")
    await finish(storage, run)
    await finished_run(storage, thread_id, "after")

    assert first_of(seen) == f"joined after 2, before {VALUES}\n"
    assert await text_of(seen.rest) == "c#3\nended\n"


async def test_a_queued_run_is_joined_before_it_starts(storage: Storage, joins: Joins, thread_id: ThreadId) -> None:
    queued = await accept(storage, thread_id)

    seen = await joins.until_idle(thread_id, Counting())
    run = await claim_run(storage, queued.run_id)
    await write(storage, run, "a")
    await finish(storage, run)

    assert first_of(seen) == f"joined after 0, before {VALUES}\n"
    assert await text_of(seen.rest) == "a#1\nended\n"


async def test_a_cursor_beyond_the_end_is_ignored(storage: Storage, joins: Joins, thread_id: ThreadId) -> None:
    """4.3a"""
    await finished_run(storage, thread_id, "a")
    newest = await storage.log.last(thread_id)
    assert first_of(await joins.until_idle(thread_id, Counting(), Seq(newest + 1))) == f"idle with {VALUES}\n"


async def test_a_client_that_has_everything_is_up_to_date(storage: Storage, joins: Joins, thread_id: ThreadId) -> None:
    await finished_run(storage, thread_id, "a")
    seen = await joins.until_idle(thread_id, Counting(), await storage.log.last(thread_id))
    assert (first_of(seen), seen.rest) == ("up to date\n", None)


async def test_a_client_resumes_within_the_active_run(storage: Storage, joins: Joins, thread_id: ThreadId) -> None:
    run = await start(storage, thread_id)
    await write(storage, run, "a", "b", "c")

    seen = await joins.until_idle(thread_id, Counting(), Seq(run.queued_seq + 1))
    await finish(storage, run)

    assert first_of(seen) == "reopened after 1\n"
    assert await text_of(seen.rest) == "b#2\nc#3\nended\n"


async def test_a_client_resumes_within_a_run_that_has_ended_and_sees_later_runs_too(
    storage: Storage, joins: Joins, thread_id: ThreadId
) -> None:
    first = await finished_run(storage, thread_id, "a", "b")
    await finished_run(storage, thread_id, "c")

    seen = await joins.until_idle(thread_id, Counting(), Seq(first.queued_seq + 1))

    assert seen.first == []
    assert await text_of(seen.rest) == "reopened after 1\nb#2\nended\nqueued\nc#1\nended\n"


async def test_a_client_that_resumes_between_runs_sees_all_runs_up_to_the_end_of_the_active_one(
    storage: Storage, joins: Joins, thread_id: ThreadId
) -> None:
    await finished_run(storage, thread_id, "a")
    cursor = await storage.log.last(thread_id)
    await finished_run(storage, thread_id, "b")
    run = await start(storage, thread_id)
    await write(storage, run, "c")

    seen = await joins.until_idle(thread_id, Counting(), cursor)
    await write(storage, run, "d")
    await finish(storage, run)
    await finished_run(storage, thread_id, "after")

    assert seen.first == []
    assert await text_of(seen.rest) == "queued\nb#1\nended\nqueued\nc#1\nd#2\nended\n"


async def test_a_client_that_resumes_before_the_active_run_sees_all_of_it(
    storage: Storage, joins: Joins, thread_id: ThreadId
) -> None:
    await finished_run(storage, thread_id, "a")
    cursor = await storage.log.last(thread_id)
    run = await start(storage, thread_id)
    await write(storage, run, "b")

    seen = await joins.until_idle(thread_id, Counting(), cursor)
    await finish(storage, run)

    assert seen.first == []
    assert await text_of(seen.rest) == "queued\nb#1\nended\n"


# -- forever ----------------------------------------------------------------------------------------------------------


async def test_an_idle_thread_is_shown_and_then_followed_over_its_runs(
    storage: Storage, joins: Joins, thread_id: ThreadId
) -> None:
    await finished_run(storage, thread_id, "before")
    with await joins.forever(thread_id, Counting()) as follower:
        assert await next_text(follower) == f"idle with {VALUES}\n"
        for value in "ab":
            await finished_run(storage, thread_id, value)
            assert await next_text(follower) == f"queued\n{value}#1\nended\n"
        assert await next_text(follower, SHORT) == ""
        assert not follower.finished


async def test_a_running_run_is_joined_in_the_middle_and_its_thread_followed(
    storage: Storage, joins: Joins, thread_id: ThreadId
) -> None:
    run = await start(storage, thread_id)
    await write(storage, run, "a")
    with await joins.forever(thread_id, Counting()) as follower:
        assert await next_text(follower) == f"joined after 1, before {VALUES}\n"
        await write(storage, run, "b")
        await finish(storage, run)
        assert await next_text(follower) == "b#2\nended\n"
        assert not follower.finished


async def test_a_cursor_is_followed_by_what_comes_after_it(storage: Storage, joins: Joins, thread_id: ThreadId) -> None:
    run = await start(storage, thread_id)
    await write(storage, run, "a", "b")
    with await joins.forever(thread_id, Counting(), Seq(run.queued_seq + 1)) as follower:
        assert await next_text(follower) == "b#2\n"


async def test_a_thread_that_does_not_exist_yet_is_followed_from_its_creation(storage: Storage, joins: Joins) -> None:
    thread_id = new_thread_id()
    received: list[str | None] = []

    async def read(follower: Follower) -> None:
        received.append(await next_text(follower))

    with anyio.fail_after(TIMEOUT), await joins.forever(thread_id, Counting()) as follower:
        assert await next_text(follower) == "no thread\n"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, follower)
            await anyio.wait_all_tasks_blocked()
            await store_thread(storage, thread_id=thread_id)
            await storage.log.append(thread_id, [note("a")]).wait()
    assert received == ["a#1\n"]


@pytest.mark.parametrize("entries", [0, 1])
async def test_a_stream_of_a_thread_that_did_not_exist_ends_only_when_the_thread_is_deleted(
    storage: Storage, joins: Joins, monkeypatch: pytest.MonkeyPatch, entries: int
) -> None:
    monkeypatch.setattr("threadwire.engine.followers.POLL", SHORT / 2)
    thread_id = new_thread_id()
    with await joins.forever(thread_id, Counting()) as follower:
        assert await next_text(follower) == "no thread\n"
        assert await next_text(follower, 3 * SHORT) == ""
        await store_thread(storage, thread_id=thread_id)
        if entries:
            await storage.log.append(thread_id, [note("a")]).wait()
            assert await next_text(follower) == "a#1\n"
        assert await next_text(follower, 3 * SHORT) == ""
        await storage.threads.delete(thread_id)
        assert await next_text(follower) is None
        assert follower.finished


# -- one run or thread, without what was before -----------------------------------------------------------------------


async def test_a_stream_starts_at_the_cursor_or_now(storage: Storage, joins: Joins, thread_id: ThreadId) -> None:
    run = await start(storage, thread_id)
    await write(storage, run, "a")
    cursor = Seq(run.queued_seq)
    follow_run = partial(joins.run, run, "options", RunCounter, data_only)
    follow_thread = partial(joins.thread, thread_id, "options", ThreadCounter, data_only)

    for join in (follow_run, follow_thread):
        with await join(cursor) as resumed, await join(None) as fresh:
            assert await next_text(resumed) == "a#1\n"
            assert await next_text(fresh, SHORT) == ""


async def test_a_cursor_that_was_never_issued_is_rejected(storage: Storage, joins: Joins, thread_id: ThreadId) -> None:
    """4.3a"""
    run = await start(storage, thread_id)
    with pytest.raises(InvalidCursor):
        await joins.run(run, "options", RunCounter, data_only, Seq(2))
    with pytest.raises(InvalidCursor):
        await joins.thread(thread_id, "options", ThreadCounter, data_only, Seq(2))


# -- now --------------------------------------------------------------------------------------------------------------


async def test_a_thread_can_be_inspected_while_a_run_is_active_and_after_it(
    storage: Storage, joins: Joins, thread_id: ThreadId
) -> None:
    run = await start(storage, thread_id)
    await write(storage, run, "a", "b")
    thread = await the_thread(storage, thread_id)

    shown, encoder = await joins.now(thread, RunCounter)
    assert encoder is not None
    assert (shown, encoder.count) == (thread, 2)

    await finish(storage, run)
    shown, encoder = await joins.now(thread, RunCounter)
    assert (shown, encoder) == (thread, None)


# -- failed runs and deleted threads -----------------------------------------------------------------------------------


async def test_an_idle_thread_is_shown_with_its_failed_run(storage: Storage, joins: Joins, thread_id: ThreadId) -> None:
    run = await start(storage, thread_id)
    await storage.handle(run).finish(Ending("error", error="kaboom", summary=StateSummary("error", VALUES)), NOW)

    assert first_of(await joins.until_idle(thread_id, Counting())) == f"idle with {VALUES} after kaboom\n"
    with await joins.forever(thread_id, Counting()) as follower:
        assert await next_text(follower) == f"idle with {VALUES} after kaboom\n"


async def test_a_failed_run_is_not_shown_once_another_has_succeeded(
    storage: Storage, joins: Joins, thread_id: ThreadId
) -> None:
    run = await start(storage, thread_id)
    await storage.handle(run).finish(Ending("error", error="kaboom", summary=StateSummary("error", VALUES)), NOW)
    run = await start(storage, thread_id)
    await storage.handle(run).finish(Ending("success", summary=StateSummary("idle", VALUES)), NOW)

    assert first_of(await joins.until_idle(thread_id, Counting())) == f"idle with {VALUES}\n"


async def test_deleting_the_thread_of_an_active_run_is_the_last_thing_its_subscriber_receives(
    storage: Storage, followers: Followers, joins: Joins, thread_id: ThreadId
) -> None:
    await write(storage, await start(storage, thread_id), "a")
    rest = (await joins.until_idle(thread_id, Counting())).rest
    assert rest is not None

    with rest:
        await storage.threads.delete(thread_id)
        followers.forget_thread(thread_id)

        assert await next_text(rest) == "deleted\n"
        assert rest.finished
        assert await next_text(rest) is None


async def test_deleting_a_thread_is_not_reported_after_the_end_of_its_run(
    storage: Storage, followers: Followers, joins: Joins, thread_id: ThreadId
) -> None:
    run = await start(storage, thread_id)
    rest = (await joins.until_idle(thread_id, Counting())).rest
    assert rest is not None

    with rest:
        await finish(storage, run)
        assert await next_text(rest) == "ended\n"
        await storage.threads.delete(thread_id)
        followers.forget_thread(thread_id)

        assert rest.finished
        assert await next_text(rest) is None
