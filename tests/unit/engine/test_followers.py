"""Following a run: every frame once, in order, from any position, with many subscribers and slow ones."""

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

import anyio
import anyio.lowlevel
import pytest
from framing import data_only, joined

from threadwire.core.encoder import Message
from threadwire.core.entries import START, Draft, Entry, Kind
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import Ending, Run
from threadwire.engine import projections
from threadwire.engine.followers import Follower, Followers
from threadwire.storage.abc import Log, Storage, Wakeup
from threadwire.testing.conformance.samples import LEASE, NOW, accept, start_on_new_thread, write

pytestmark = pytest.mark.anyio

TIMEOUT = 5.0
SHORT = 0.02
OPTIONS = "options"


@pytest.fixture
async def run(storage: Storage) -> Run:
    return await start_on_new_thread(storage)


class CountingEncoder:
    """An encoder, and a factory that returns it: one line per custom entry. Records what it is fed."""

    def __init__(self) -> None:
        self.created = 0
        self.fed: list[int] = []

    def __call__(self) -> "CountingEncoder":
        self.created += 1
        return self

    def feed(self, entry: Entry) -> list[Message]:
        self.fed.append(entry.seq)
        return [(b"", frame_of(entry))] if entry.kind == Kind.CUSTOM else []


def frame_of(entry: Entry) -> bytes:
    return b"%d:%s\n" % (entry.seq, str(entry.data["value"]).encode()) if entry.kind == Kind.CUSTOM else b""


async def finish(storage: Storage, run: Run) -> None:
    assert await storage.handle(run).finish(Ending("success"), NOW)


async def all_of(follower: Follower) -> bytes:
    """Everything up to the end of the run."""
    sent = b""
    with anyio.fail_after(TIMEOUT), follower:
        while (frames := joined(await follower.next(TIMEOUT))) is not None:
            sent += frames
    return sent


async def log_of(storage: Storage, run: Run, after: Seq = START) -> bytes:
    return b"".join(map(frame_of, await storage.log.read(run.thread_id, after, run_id=run.run_id)))


# -- one follower -----------------------------------------------------------------------------------------------------


async def test_a_follower_gets_entries_written_before_it_joined(
    storage: Storage, run: Run, followers: Followers
) -> None:
    await write(storage, run, "a", "b")

    with followers.follow(run, OPTIONS, CountingEncoder(), data_only, START) as follower:
        assert joined(await follower.next(TIMEOUT)) == b"2:a\n3:b\n"


async def test_a_follower_is_woken_by_an_append(storage: Storage, run: Run, followers: Followers) -> None:
    """3.2, 3.3"""
    received = []

    async def watch(follower: Follower) -> None:
        received.append(joined(await follower.next(TIMEOUT)))

    with anyio.fail_after(TIMEOUT), followers.follow(run, OPTIONS, CountingEncoder(), data_only, START) as follower:
        assert joined(await follower.next(SHORT)) == b""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch, follower)
            await anyio.wait_all_tasks_blocked()
            await write(storage, run, "a")
    assert received == [b"2:a\n"]


async def test_no_entry_between_watching_and_reading_is_missed(
    storage: Storage, run: Run, followers: Followers
) -> None:
    """3.2"""
    with followers.follow(run, OPTIONS, CountingEncoder(), data_only, START) as follower:
        await write(storage, run, "a")
        assert joined(await follower.next(TIMEOUT)) == b"2:a\n"


async def test_a_timeout_returns_empty_bytes_and_is_not_the_end(
    storage: Storage, run: Run, followers: Followers
) -> None:
    with followers.follow(run, OPTIONS, CountingEncoder(), data_only, START) as follower:
        assert joined(await follower.next(SHORT)) == b""
        assert joined(await follower.next(SHORT)) == b""
        await write(storage, run, "a")
        assert joined(await follower.next(TIMEOUT)) == b"2:a\n"
        assert joined(await follower.next(SHORT)) == b""


async def test_a_timeout_longer_than_the_poll_interval_is_respected(
    run: Run, followers: Followers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadwire.engine.followers.POLL", SHORT / 2)
    with anyio.fail_after(20 * SHORT), followers.follow(run, OPTIONS, CountingEncoder(), data_only, START) as follower:
        assert joined(await follower.next(SHORT)) == b""


async def test_entries_without_frames_do_not_extend_the_timeout(
    storage: Storage, run: Run, followers: Followers
) -> None:
    """A client that follows only `values` needs its heartbeats while tokens are being written."""

    async def write_tokens() -> None:
        while True:
            await storage.handle(run).append([Draft(Kind.MESSAGES, [0, "x"])]).wait()
            await anyio.sleep(0.005)

    with anyio.fail_after(1), followers.follow(run, OPTIONS, CountingEncoder(), data_only, START) as follower:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write_tokens)
            assert joined(await follower.next(0.2)) == b""
            tasks.cancel_scope.cancel()


async def test_a_follower_sees_the_end(storage: Storage, run: Run, followers: Followers) -> None:
    """5.3"""
    await write(storage, run, "a")
    await finish(storage, run)

    with followers.follow(run, OPTIONS, CountingEncoder(), data_only, START) as follower:
        assert joined(await follower.next(TIMEOUT)) == b"2:a\n"
        assert joined(await follower.next(TIMEOUT)) is None
        assert joined(await follower.next(TIMEOUT)) is None


async def test_a_waiting_follower_is_woken_by_the_end(storage: Storage, run: Run, followers: Followers) -> None:
    received = []

    async def watch(follower: Follower) -> None:
        received.append(joined(await follower.next(TIMEOUT)))

    with anyio.fail_after(TIMEOUT), followers.follow(run, OPTIONS, CountingEncoder(), data_only, START) as follower:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch, follower)
            await anyio.wait_all_tasks_blocked()
            await finish(storage, run)
    assert received == [None]


async def test_a_follower_that_resumes_gets_the_rest(storage: Storage, run: Run, followers: Followers) -> None:
    """4.4"""
    await write(storage, run, *"abcdef")
    await finish(storage, run)
    whole = await storage.log.read(run.thread_id, START)

    for entry in whole:
        assert await all_of(followers.follow(run, OPTIONS, CountingEncoder(), data_only, entry.seq)) == await log_of(
            storage, run, entry.seq
        )


async def test_a_follower_sees_only_its_own_run(storage: Storage, run: Run, followers: Followers) -> None:
    queued = await accept(storage, run.thread_id)
    await write(storage, run, "first")
    await finish(storage, run)
    [second] = await storage.runs.claim(1, LEASE, now=NOW)
    assert second.run_id == queued.run_id
    await write(storage, second, "second")
    await finish(storage, second)

    assert (
        re.sub(rb"\d+:", b"", await all_of(followers.follow(run, OPTIONS, CountingEncoder(), data_only, START)))
        == b"first\n"
    )
    assert (
        re.sub(rb"\d+:", b"", await all_of(followers.follow(second, OPTIONS, CountingEncoder(), data_only, START)))
        == b"second\n"
    )


async def test_the_size_of_one_result_is_bounded(
    storage: Storage, run: Run, followers: Followers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projections, "MAX_SEND_BYTES", 8)
    await write(storage, run, *"abcd")

    with followers.follow(run, OPTIONS, CountingEncoder(), data_only, START) as follower:
        assert [joined(await follower.next(TIMEOUT)) for _ in range(2)] == [b"2:a\n3:b\n", b"4:c\n5:d\n"]


async def test_the_frames_of_each_entry_are_one_item(storage: Storage, run: Run, followers: Followers) -> None:
    await write(storage, run, "a", "b")

    with followers.follow(run, OPTIONS, CountingEncoder(), data_only, START) as follower:
        assert await follower.next(TIMEOUT) == [b"2:a\n", b"3:b\n"]


# -- many followers ---------------------------------------------------------------------------------------------------


async def test_followers_with_the_same_options_and_different_framings_get_different_frames(
    storage: Storage, run: Run, followers: Followers
) -> None:
    def with_id(messages: Sequence[Message], seq: Seq | None) -> bytes:
        return b"%d = " % (seq or 0) + data_only(messages, seq)

    await write(storage, run, "a")
    await finish(storage, run)

    for framing, expected in ((data_only, b"2:a\n"), (with_id, b"2 = 2:a\n")):
        assert await all_of(followers.follow(run, OPTIONS, CountingEncoder(), framing, START)) == expected


async def test_each_entry_is_encoded_once_for_followers_with_the_same_options(
    storage: Storage, run: Run, followers: Followers
) -> None:
    encoder, results = CountingEncoder(), []

    async def watch() -> None:
        results.append(await all_of(followers.follow(run, OPTIONS, encoder, data_only, START)))

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(watch)
        for number in range(10):
            await anyio.wait_all_tasks_blocked()
            await write(storage, run, number)
        await finish(storage, run)

    assert results == [await log_of(storage, run)] * 20
    assert encoder.created == 1
    assert encoder.fed == list(range(1, 13))


async def test_followers_with_different_options_have_separate_encoders(
    storage: Storage, run: Run, followers: Followers
) -> None:
    encoder = CountingEncoder()
    await finish(storage, run)

    for options in ("a", "b", "a"):
        await all_of(followers.follow(run, options, encoder, data_only, START))

    assert encoder.created == 2


class SlowLog:
    """A log whose reads yield to other tasks, as a database's do."""

    def __init__(self, log: Log) -> None:
        self._log = log

    async def read(
        self, thread_id: ThreadId, after: Seq, *, limit: int = 1000, run_id: RunId | None = None
    ) -> list[Entry]:
        entries = await self._log.read(thread_id, after, limit=limit, run_id=run_id)
        await anyio.lowlevel.checkpoint()
        return entries

    def watch(self, thread_id: ThreadId) -> AbstractContextManager[Wakeup]:
        return self._log.watch(thread_id)


async def test_concurrent_reads_of_a_projection_lose_nothing(storage: Storage, run: Run) -> None:
    followers, results = Followers(replace(storage, log=SlowLog(storage.log))), []  # type: ignore[type-var]
    await write(storage, run, *"abc")
    await finish(storage, run)

    async def watch() -> None:
        results.append(await all_of(followers.follow(run, OPTIONS, CountingEncoder(), data_only, START)))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        tasks.start_soon(watch)

    assert results == [await log_of(storage, run)] * 2


async def test_concurrent_reads_of_a_projection_do_not_wait_for_further_entries(storage: Storage, run: Run) -> None:
    followers, results = Followers(replace(storage, log=SlowLog(storage.log))), []  # type: ignore[type-var]
    await write(storage, run, *"abc")

    async def watch() -> None:
        with followers.follow(run, OPTIONS, CountingEncoder(), data_only, START) as follower:
            results.append(joined(await follower.next(SHORT)))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        tasks.start_soon(watch)

    assert results == [await log_of(storage, run)] * 2


# -- followers that lag ----------------------------------------------------------------------------------------------


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few frames are retained, and few returned at a time."""
    monkeypatch.setattr(projections, "MAX_RETAINED_BYTES", 60)
    monkeypatch.setattr(projections, "MAX_SEND_BYTES", 10)
    monkeypatch.setattr(projections, "SMALL_PAGE", 7)


@pytest.mark.usefixtures("small_limits")
async def test_a_follower_behind_the_retained_frames_loses_nothing(
    storage: Storage, run: Run, followers: Followers
) -> None:
    """4.4, 4.5"""
    encoder = CountingEncoder()
    slow, fast = (followers.follow(run, OPTIONS, encoder, data_only, START) for _ in range(2))
    with slow, fast:
        await write(storage, run, "first")
        received = joined(await slow.next(TIMEOUT))
        for number in range(100):
            await write(storage, run, number)
            assert joined(await fast.next(TIMEOUT))
        assert encoder.created == 1
        for number in range(100, 110):
            await write(storage, run, number)
            received += joined(await slow.next(TIMEOUT)) or b""
        await finish(storage, run)
        while (frames := joined(await slow.next(TIMEOUT))) is not None:
            received += frames

    assert received == await log_of(storage, run)
    assert encoder.created == 2


@pytest.mark.usefixtures("small_limits")
async def test_a_late_follower_reads_dropped_frames_from_the_log(
    storage: Storage, run: Run, followers: Followers
) -> None:
    first = CountingEncoder()
    await write(storage, run, *range(100))
    await finish(storage, run)
    whole = await all_of(followers.follow(run, OPTIONS, first, data_only, START))

    for after in (0, 1, 40, 99, 101):
        late = await all_of(followers.follow(run, OPTIONS, CountingEncoder(), data_only, Seq(after)))
        assert late == await log_of(storage, run, Seq(after))
    assert whole == await log_of(storage, run)


@pytest.mark.usefixtures("small_limits")
async def test_the_size_of_one_result_is_bounded_in_a_replay_too(
    storage: Storage, run: Run, followers: Followers
) -> None:
    await write(storage, run, *"abcdefgh")
    await all_available(followers.follow(run, OPTIONS, CountingEncoder(), data_only, START))
    for _ in range(2):
        await write(storage, run, *range(100))
        await all_available(followers.follow(run, OPTIONS, CountingEncoder(), data_only, START))

    with followers.follow(run, OPTIONS, CountingEncoder(), data_only, START) as late:
        assert [joined(await late.next(TIMEOUT)) for _ in range(3)] == [
            b"2:a\n3:b\n4:c\n",
            b"5:d\n6:e\n7:f\n",
            b"8:g\n9:h\n10:0\n",
        ]


@pytest.mark.usefixtures("small_limits")
async def test_a_replay_continues_live(storage: Storage, run: Run, followers: Followers) -> None:
    results: list[bytes] = []

    async def watch() -> None:
        results.append(await all_of(followers.follow(run, OPTIONS, CountingEncoder(), data_only, START)))

    with followers.follow(run, OPTIONS, CountingEncoder(), data_only, START) as ahead:
        for number in range(50):
            await write(storage, run, number)
            joined(await ahead.next(TIMEOUT))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        for number in range(50, 60):
            await anyio.wait_all_tasks_blocked()
            await write(storage, run, number)
        await finish(storage, run)

    assert results == [await log_of(storage, run)]


@pytest.mark.usefixtures("small_limits")
async def test_timeouts_and_the_end_are_reported_in_a_replay_too(
    storage: Storage, run: Run, followers: Followers
) -> None:
    await write(storage, run, *range(100))
    await all_available(followers.follow(run, OPTIONS, CountingEncoder(), data_only, START))

    with followers.follow(run, OPTIONS, CountingEncoder(), data_only, START) as late:
        while joined(await late.next(SHORT)):
            pass
        assert joined(await late.next(SHORT)) == b""
        await finish(storage, run)
        assert joined(await late.next(TIMEOUT)) is None


async def all_available(follower: Follower) -> bytes:
    """Everything available now."""
    sent = b""
    with follower:
        while frames := joined(await follower.next(SHORT)):
            sent += frames
    return sent


# -- the cache -------------------------------------------------------------------------------------------------------


async def test_a_forgotten_run_is_encoded_again(storage: Storage, run: Run, followers: Followers) -> None:
    encoder = CountingEncoder()
    await write(storage, run, "a")
    await finish(storage, run)
    before = await all_of(followers.follow(run, OPTIONS, encoder, data_only, START))

    followers.forget(run.run_id)

    assert await all_of(followers.follow(run, OPTIONS, encoder, data_only, START)) == before
    assert encoder.created == 2


async def test_forgetting_one_run_keeps_the_others(storage: Storage, run: Run, followers: Followers) -> None:
    other, encoder = await start_on_new_thread(storage), CountingEncoder()
    for each in (run, other):
        await finish(storage, each)
        await all_of(followers.follow(each, OPTIONS, encoder, data_only, START))

    followers.forget(other.run_id)
    await all_of(followers.follow(run, OPTIONS, encoder, data_only, START))

    assert encoder.created == 2


async def test_a_follower_of_a_forgotten_run_continues(storage: Storage, run: Run, followers: Followers) -> None:
    with followers.follow(run, OPTIONS, CountingEncoder(), data_only, START) as follower:
        followers.forget(run.run_id)
        await write(storage, run, "a")
        assert joined(await follower.next(TIMEOUT)) == b"2:a\n"


async def test_the_least_recently_used_projection_is_evicted(
    storage: Storage, followers: Followers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadwire.engine.followers.MAX_PROJECTIONS", 2)
    runs = [await start_on_new_thread(storage) for _ in range(3)]
    encoders: dict[str, CountingEncoder] = {run.run_id: CountingEncoder() for run in runs}

    def visit(run: Run) -> Callable[[], object]:
        return followers.follow(run, OPTIONS, encoders[run.run_id], data_only, START).__enter__

    first, second, third = runs
    for each in (first, second, first, third, first, second):
        visit(each)

    assert [encoders[run.run_id].created for run in runs] == [1, 2, 1]


async def test_projections_are_evicted_until_their_frames_fit(
    storage: Storage, followers: Followers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadwire.engine.followers.MAX_CACHED_BYTES", 20)
    runs, encoder = [await start_on_new_thread(storage) for _ in range(3)], CountingEncoder()
    for run in runs:
        await write(storage, run, "0123456")
        with followers.follow(run, OPTIONS, encoder, data_only, START) as follower:
            await follower.next(TIMEOUT)

    for created, run in ((3, runs[2]), (3, runs[1]), (4, runs[0])):
        with followers.follow(run, OPTIONS, encoder, data_only, START) as follower:
            assert joined(await follower.next(TIMEOUT)) == b"2:0123456\n"
        assert encoder.created == created


# -- large entries, and unused projections ----------------------------------------------------------------------------


async def test_others_run_between_two_large_entries(
    storage: Storage, run: Run, followers: Followers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projections, "MAX_ENCODED_BYTES", 100)
    await write(storage, run, "small", "large" * 30, "large" * 30, "small", "large" * 30)
    await finish(storage, run)
    encoder = CountingEncoder()
    fed: list[int] = []

    async def observe() -> None:
        while True:
            fed.append(len(encoder.fed))
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(observe)
        assert await all_of(followers.follow(run, OPTIONS, encoder, data_only, START)) == await log_of(storage, run)
        tasks.cancel_scope.cancel()
    assert {3, 4, 6} <= set(fed)


async def test_projection_that_was_not_used_for_a_while_is_dropped(
    storage: Storage, run: Run, followers: Followers
) -> None:
    encoder = CountingEncoder()
    await write(storage, run, "one")
    with followers.follow(run, OPTIONS, encoder, data_only, START) as follower:
        await follower.next(TIMEOUT)
        for _ in range(3):
            followers.drop_unused()  # it has a subscriber
        followers.follow(run, OPTIONS, encoder, data_only, START)
        assert encoder.created == 1
    followers.drop_unused()
    followers.follow(run, OPTIONS, encoder, data_only, START)
    assert encoder.created == 1
    followers.drop_unused()
    followers.drop_unused()
    followers.follow(run, OPTIONS, encoder, data_only, START)
    assert encoder.created == 2
