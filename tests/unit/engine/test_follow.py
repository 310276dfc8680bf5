"""Following a run: everything once, in order, from any position, however many watch and however slow they are."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

import anyio
import pytest

from threadwire.core.entries import START, Draft, Entry, Kind
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import Ending, Run
from threadwire.engine import follow
from threadwire.engine.follow import Follower, Followers
from threadwire.storage.abc import Log, Storage, Wakeup
from threadwire.testing.conformance.samples import NOW, accept, start_on_new_thread, write

pytestmark = pytest.mark.anyio

SOON = 5.0
SILENCE = 0.02
OPTIONS = "shown"


@pytest.fixture
async def run(storage: Storage) -> Run:
    return await start_on_new_thread(storage)


class Counting:
    """Makes encoders that show what was written, a line each, and counts what they are fed."""

    def __init__(self) -> None:
        self.made = 0
        self.fed: list[int] = []

    def __call__(self) -> "Counting":
        self.made += 1
        return self

    def feed(self, entry: Entry) -> bytes:
        self.fed.append(entry.seq)
        return shown(entry)


def shown(entry: Entry) -> bytes:
    return b"%d:%s\n" % (entry.seq, str(entry.data["value"]).encode()) if entry.kind == Kind.CUSTOM else b""


async def finish(storage: Storage, run: Run) -> None:
    assert await storage.runs.finish(run.fence, Ending("success"), NOW)


async def all_of(follower: Follower) -> bytes:
    """Everything up to the end of the run."""
    sent = b""
    with anyio.fail_after(SOON), follower:
        while (frames := await follower.next(SOON)) is not None:
            sent += frames
    return sent


async def log_of(storage: Storage, run: Run, after: Seq = START) -> bytes:
    return b"".join(map(shown, await storage.log.read(run.thread_id, after, run_id=run.run_id)))


# -- one watcher ------------------------------------------------------------------------------------------------------


async def test_a_follower_gets_what_was_written_before_it_came(
    storage: Storage, run: Run, followers: Followers
) -> None:
    await write(storage, run, "a", "b")

    with followers.follow(run, OPTIONS, Counting(), START) as follower:
        assert await follower.next(SOON) == b"2:a\n3:b\n"


async def test_a_follower_is_woken_by_an_append(storage: Storage, run: Run, followers: Followers) -> None:
    """3.2, 3.3"""
    got = []

    async def watch(follower: Follower) -> None:
        got.append(await follower.next(SOON))

    with anyio.fail_after(SOON), followers.follow(run, OPTIONS, Counting(), START) as follower:
        assert await follower.next(SILENCE) == b""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch, follower)
            await anyio.wait_all_tasks_blocked()
            await write(storage, run, "a")
    assert got == [b"2:a\n"]


async def test_nothing_between_watching_and_reading_is_missed(storage: Storage, run: Run, followers: Followers) -> None:
    """3.2"""
    with followers.follow(run, OPTIONS, Counting(), START) as follower:
        await write(storage, run, "a")
        assert await follower.next(SOON) == b"2:a\n"


async def test_silence_is_told_as_nothing_and_is_no_end(storage: Storage, run: Run, followers: Followers) -> None:
    with followers.follow(run, OPTIONS, Counting(), START) as follower:
        assert await follower.next(SILENCE) == b""
        assert await follower.next(SILENCE) == b""
        await write(storage, run, "a")
        assert await follower.next(SOON) == b"2:a\n"
        assert await follower.next(SILENCE) == b""


async def test_a_silence_longer_than_the_poll_is_told_too(
    run: Run, followers: Followers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "POLL", SILENCE / 2)
    with anyio.fail_after(20 * SILENCE), followers.follow(run, OPTIONS, Counting(), START) as follower:
        assert await follower.next(SILENCE) == b""


async def test_what_a_follower_is_not_shown_is_silence_to_it(storage: Storage, run: Run, followers: Followers) -> None:
    """A client that watches the values alone needs its heartbeats while tokens pour in."""

    async def keep_talking() -> None:
        while True:
            await storage.log.append(run.thread_id, [Draft(Kind.MESSAGES, [0, "x"])], run.fence).wait()
            await anyio.sleep(0.005)

    with anyio.fail_after(1), followers.follow(run, OPTIONS, Counting(), START) as follower:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep_talking)
            assert await follower.next(0.2) == b""
            tasks.cancel_scope.cancel()


async def test_a_follower_sees_the_end(storage: Storage, run: Run, followers: Followers) -> None:
    """5.3"""
    await write(storage, run, "a")
    await finish(storage, run)

    with followers.follow(run, OPTIONS, Counting(), START) as follower:
        assert await follower.next(SOON) == b"2:a\n"
        assert await follower.next(SOON) is None
        assert await follower.next(SOON) is None


async def test_a_follower_that_waits_is_told_of_the_end(storage: Storage, run: Run, followers: Followers) -> None:
    got = []

    async def watch(follower: Follower) -> None:
        got.append(await follower.next(SOON))

    with anyio.fail_after(SOON), followers.follow(run, OPTIONS, Counting(), START) as follower:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch, follower)
            await anyio.wait_all_tasks_blocked()
            await finish(storage, run)
    assert got == [None]


async def test_a_follower_that_left_off_gets_what_came_after(storage: Storage, run: Run, followers: Followers) -> None:
    """4.4"""
    await write(storage, run, *"abcdef")
    await finish(storage, run)
    whole = await storage.log.read(run.thread_id, START)

    for entry in whole:
        assert await all_of(followers.follow(run, OPTIONS, Counting(), entry.seq)) == await log_of(
            storage, run, entry.seq
        )


async def test_a_follower_sees_its_own_run_alone(storage: Storage, run: Run, followers: Followers) -> None:
    queued = await accept(storage, run.thread_id)
    await write(storage, run, "first")
    await finish(storage, run)
    [second] = await storage.runs.claim(1, now=NOW)
    assert second.run_id == queued.run_id
    await write(storage, second, "second")
    await finish(storage, second)

    assert re.sub(rb"\d+:", b"", await all_of(followers.follow(run, OPTIONS, Counting(), START))) == b"first\n"
    assert re.sub(rb"\d+:", b"", await all_of(followers.follow(second, OPTIONS, Counting(), START))) == b"second\n"


async def test_what_is_handed_over_at_once_is_bounded(
    storage: Storage, run: Run, followers: Followers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "SEND_AT_MOST", 8)
    await write(storage, run, *"abcd")

    with followers.follow(run, OPTIONS, Counting(), START) as follower:
        assert [await follower.next(SOON) for _ in range(2)] == [b"2:a\n3:b\n", b"4:c\n5:d\n"]


# -- many watchers ----------------------------------------------------------------------------------------------------


async def test_each_entry_is_encoded_once_for_all_who_see_the_same(
    storage: Storage, run: Run, followers: Followers
) -> None:
    counting, results = Counting(), []

    async def watch() -> None:
        results.append(await all_of(followers.follow(run, OPTIONS, counting, START)))

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(watch)
        for number in range(10):
            await anyio.wait_all_tasks_blocked()
            await write(storage, run, number)
        await finish(storage, run)

    assert results == [await log_of(storage, run)] * 20
    assert counting.made == 1
    assert counting.fed == list(range(1, 13))


async def test_those_who_see_different_things_have_encoders_of_their_own(
    storage: Storage, run: Run, followers: Followers
) -> None:
    counting = Counting()
    await finish(storage, run)

    for options in ("these", "those", "these"):
        await all_of(followers.follow(run, options, counting, START))

    assert counting.made == 2


class DistantLog:
    """A log whose reading takes a moment, as a database's does."""

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


async def test_those_who_ask_while_another_reads_lose_nothing(storage: Storage, run: Run) -> None:
    followers, results = Followers(replace(storage, log=DistantLog(storage.log))), []  # type: ignore[type-var]
    await write(storage, run, *"abc")
    await finish(storage, run)

    async def watch() -> None:
        results.append(await all_of(followers.follow(run, OPTIONS, Counting(), START)))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        tasks.start_soon(watch)

    assert results == [await log_of(storage, run)] * 2


async def test_those_who_ask_while_another_reads_wait_for_nothing_else(storage: Storage, run: Run) -> None:
    followers, results = Followers(replace(storage, log=DistantLog(storage.log))), []  # type: ignore[type-var]
    await write(storage, run, *"abc")

    async def watch() -> None:
        with followers.follow(run, OPTIONS, Counting(), START) as follower:
            results.append(await follower.next(SILENCE))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        tasks.start_soon(watch)

    assert results == [await log_of(storage, run)] * 2


# -- those who fall behind --------------------------------------------------------------------------------------------


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little is kept, and little handed over at once."""
    monkeypatch.setattr(follow, "KEEP_FRAMES", 60)
    monkeypatch.setattr(follow, "SEND_AT_MOST", 10)
    monkeypatch.setattr(follow, "SMALL_PAGE", 7)


@pytest.mark.usefixtures("forgetful")
async def test_a_follower_that_falls_behind_what_is_kept_loses_nothing(
    storage: Storage, run: Run, followers: Followers
) -> None:
    """4.4, 4.5"""
    counting = Counting()
    slow, fast = (followers.follow(run, OPTIONS, counting, START) for _ in range(2))
    with slow, fast:
        await write(storage, run, "first")
        got = await slow.next(SOON)
        for number in range(100):
            await write(storage, run, number)
            assert await fast.next(SOON)
        assert counting.made == 1
        for number in range(100, 110):
            await write(storage, run, number)
            got += await slow.next(SOON) or b""
        await finish(storage, run)
        while (frames := await slow.next(SOON)) is not None:
            got += frames

    assert got == await log_of(storage, run)
    assert counting.made == 2


@pytest.mark.usefixtures("forgetful")
async def test_one_who_comes_late_reads_what_is_no_longer_kept_from_the_log(
    storage: Storage, run: Run, followers: Followers
) -> None:
    early = Counting()
    await write(storage, run, *range(100))
    await finish(storage, run)
    whole = await all_of(followers.follow(run, OPTIONS, early, START))

    for after in (0, 1, 40, 99, 101):
        late = await all_of(followers.follow(run, OPTIONS, Counting(), Seq(after)))
        assert late == await log_of(storage, run, Seq(after))
    assert whole == await log_of(storage, run)


@pytest.mark.usefixtures("forgetful")
async def test_what_is_read_from_the_log_is_handed_over_in_small_pieces_too(
    storage: Storage, run: Run, followers: Followers
) -> None:
    await write(storage, run, *"abcdefgh")
    await all_kept(followers.follow(run, OPTIONS, Counting(), START))
    for _ in range(2):
        await write(storage, run, *range(100))
        await all_kept(followers.follow(run, OPTIONS, Counting(), START))

    with followers.follow(run, OPTIONS, Counting(), START) as late:
        assert [await late.next(SOON) for _ in range(3)] == [
            b"2:a\n3:b\n4:c\n",
            b"5:d\n6:e\n7:f\n",
            b"8:g\n9:h\n10:0\n",
        ]


@pytest.mark.usefixtures("forgetful")
async def test_one_who_reads_from_the_log_goes_on_live(storage: Storage, run: Run, followers: Followers) -> None:
    results: list[bytes] = []

    async def watch() -> None:
        results.append(await all_of(followers.follow(run, OPTIONS, Counting(), START)))

    with followers.follow(run, OPTIONS, Counting(), START) as ahead:
        for number in range(50):
            await write(storage, run, number)
            await ahead.next(SOON)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        for number in range(50, 60):
            await anyio.wait_all_tasks_blocked()
            await write(storage, run, number)
        await finish(storage, run)

    assert results == [await log_of(storage, run)]


@pytest.mark.usefixtures("forgetful")
async def test_silence_and_the_end_are_told_also_to_one_who_reads_from_the_log(
    storage: Storage, run: Run, followers: Followers
) -> None:
    await write(storage, run, *range(100))
    await all_kept(followers.follow(run, OPTIONS, Counting(), START))

    with followers.follow(run, OPTIONS, Counting(), START) as late:
        while await late.next(SILENCE):
            pass
        assert await late.next(SILENCE) == b""
        await finish(storage, run)
        assert await late.next(SOON) is None


async def all_kept(follower: Follower) -> bytes:
    """Everything there is by now."""
    sent = b""
    with follower:
        while frames := await follower.next(SILENCE):
            sent += frames
    return sent


# -- what is kept -----------------------------------------------------------------------------------------------------


async def test_a_forgotten_run_is_encoded_anew(storage: Storage, run: Run, followers: Followers) -> None:
    counting = Counting()
    await write(storage, run, "a")
    await finish(storage, run)
    before = await all_of(followers.follow(run, OPTIONS, counting, START))

    followers.forget(run.run_id)

    assert await all_of(followers.follow(run, OPTIONS, counting, START)) == before
    assert counting.made == 2


async def test_forgetting_one_run_keeps_the_others(storage: Storage, run: Run, followers: Followers) -> None:
    other, counting = await start_on_new_thread(storage), Counting()
    for each in (run, other):
        await finish(storage, each)
        await all_of(followers.follow(each, OPTIONS, counting, START))

    followers.forget(other.run_id)
    await all_of(followers.follow(run, OPTIONS, counting, START))

    assert counting.made == 2


async def test_one_who_watches_goes_on_though_his_run_was_forgotten(
    storage: Storage, run: Run, followers: Followers
) -> None:
    with followers.follow(run, OPTIONS, Counting(), START) as follower:
        followers.forget(run.run_id)
        await write(storage, run, "a")
        assert await follower.next(SOON) == b"2:a\n"


async def test_what_was_not_used_for_longest_makes_room(
    storage: Storage, followers: Followers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "KEEP_PROJECTIONS", 2)
    runs = [await start_on_new_thread(storage) for _ in range(3)]
    made: dict[str, Counting] = {run.run_id: Counting() for run in runs}

    def visit(run: Run) -> Callable[[], object]:
        return followers.follow(run, OPTIONS, made[run.run_id], START).__enter__

    first, second, third = runs
    for each in (first, second, first, third, first, second):
        visit(each)

    assert [made[run.run_id].made for run in runs] == [1, 2, 1]
