"""Folds of whole threads: fed every entry once, shared by readers and subscribers, and cached within a limit."""

import asyncio
import threading

import pytest
from framing import data_only, joined

from threadwire.core.encoder import Message
from threadwire.core.entries import START, Entry, Kind
from threadwire.core.ids import Seq, ThreadId
from threadwire.core.records import FoldSnapshot
from threadwire.engine import projections, thread_folds
from threadwire.engine.followers import Follower, Followers
from threadwire.errors import InvalidCursor
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.samples import note, store_thread

pytestmark = pytest.mark.anyio

TIMEOUT = 5.0
SHORT = 0.02
NAME = "sum"


class Sum:
    """A fold that joins all notes of a thread."""

    created = 0

    def __init__(self) -> None:
        type(self).created += 1
        self.text = ""
        self.fed: list[int] = []

    @property
    def weight(self) -> int:
        return len(self.text)

    def snapshot(self) -> bytes:
        return self.text.encode()

    def restore(self, snapshot: bytes) -> None:
        if snapshot == b"unknown":
            raise ValueError("unknown")
        self.text = snapshot.decode()

    def feed(self, entry: Entry) -> list[Message]:
        assert entry.kind == Kind.CUSTOM
        self.fed.append(entry.seq)
        self.text += entry.data["value"]
        return [(b"", f"{entry.seq}={self.text};".encode())]


@pytest.fixture(autouse=True)
def _count_from_zero() -> None:
    Sum.created = 0


@pytest.fixture
async def thread_id(storage: Storage) -> ThreadId:
    return await store_thread(storage)


async def add(storage: Storage, thread_id: ThreadId, text: str) -> None:
    for each in text:
        await storage.log.append(thread_id, [note(each)]).wait()


async def current(followers: Followers, thread_id: ThreadId) -> Sum:
    return await followers.fold(thread_id, NAME, Sum, data_only)


async def follow(followers: Followers, thread_id: ThreadId, after: int = START) -> Follower:
    return await followers.follow_fold(thread_id, NAME, Sum, data_only, Seq(after))


async def available(follower: Follower) -> bytes:
    sent = b""
    while frames := joined(await follower.next(SHORT)):
        sent += frames
    return sent


async def test_a_fold_is_fed_only_what_is_new(storage: Storage, followers: Followers, thread_id: ThreadId) -> None:
    await add(storage, thread_id, "abc")
    assert (await current(followers, thread_id)).text == "abc"
    await add(storage, thread_id, "d")
    fold = await current(followers, thread_id)
    assert (fold.text, fold.fed) == ("abcd", [1, 2, 3, 4])
    assert Sum.created == 1


async def test_a_long_thread_is_read_in_pages(
    storage: Storage, followers: Followers, thread_id: ThreadId, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (projections, thread_folds):
        monkeypatch.setattr(module, "PAGE", 2)
    await add(storage, thread_id, "abcdefg")
    assert (await current(followers, thread_id)).fed == [1, 2, 3, 4, 5, 6, 7]
    assert (await current(Followers(storage), thread_id)).text == "abcdefg"
    with await follow(Followers(storage), thread_id, 4) as follower:
        assert await available(follower) == b"5=abcde;6=abcdef;7=abcdefg;"


async def test_subscribers_at_different_positions_share_one_fold(
    storage: Storage, followers: Followers, thread_id: ThreadId
) -> None:
    await add(storage, thread_id, "abc")
    with await follow(followers, thread_id) as first, await follow(followers, thread_id, 2) as second:
        assert await available(first) == b"1=a;2=ab;3=abc;"
        assert await available(second) == b"3=abc;"
        await add(storage, thread_id, "d")
        assert joined(await first.next(TIMEOUT)) == joined(await second.next(TIMEOUT)) == b"4=abcd;"
        assert (await current(followers, thread_id)).text == "abcd"
    assert Sum.created == 1


@pytest.mark.parametrize("after", range(4))
async def test_a_subscriber_behind_the_frames_gets_what_it_missed(
    storage: Storage, followers: Followers, thread_id: ThreadId, after: int
) -> None:
    """The fold was built for a page, so it has no frames. The subscriber shares it once it has caught up."""
    await add(storage, thread_id, "abc")
    await current(followers, thread_id)
    with await follow(followers, thread_id, after) as follower:
        assert await available(follower) == b"".join([b"1=a;", b"2=ab;", b"3=abc;"][after:])
        await add(storage, thread_id, "d")
        assert joined(await follower.next(TIMEOUT)) == b"4=abcd;"
    assert (await current(followers, thread_id)).fed == [1, 2, 3, 4]
    assert Sum.created == (2 if after < 3 else 1)


async def test_a_page_and_the_stream_after_it_have_no_gap(
    storage: Storage, followers: Followers, thread_id: ThreadId
) -> None:
    await add(storage, thread_id, "ab")
    fold = await current(followers, thread_id)
    position, shown = fold.fed[-1], fold.text
    await add(storage, thread_id, "c")
    await current(followers, thread_id)
    with await follow(followers, thread_id, position) as follower:
        assert (shown, await available(follower)) == ("ab", b"3=abc;")


async def test_a_position_beyond_the_log_is_rejected(
    storage: Storage, followers: Followers, thread_id: ThreadId
) -> None:
    await add(storage, thread_id, "a")
    with pytest.raises(InvalidCursor):
        await follow(followers, thread_id, 2)


async def test_the_least_recently_used_folds_are_dropped(
    storage: Storage, followers: Followers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_folds, "MAX_CACHED_BYTES", 10)
    threads = [await store_thread(storage) for _ in range(3)]
    for thread_id in threads:
        await add(storage, thread_id, "abcd")
    for thread_id in (threads[0], threads[1], threads[0], threads[2]):
        await current(followers, thread_id)
    assert Sum.created == 3

    await current(followers, threads[0])
    assert Sum.created == 3
    assert (await current(followers, threads[1])).text == "abcd"
    assert Sum.created == 4


async def test_a_fold_larger_than_the_cache_is_cached_alone(
    storage: Storage, followers: Followers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_folds, "MAX_CACHED_BYTES", 2)
    large, small = await store_thread(storage), await store_thread(storage)
    await add(storage, large, "abcd")
    for _ in range(2):
        await current(followers, large)
    assert Sum.created == 1
    await current(followers, small)
    await current(followers, large)
    assert Sum.created == 3


async def test_deleting_a_thread_ends_its_followers_and_drops_its_fold(
    storage: Storage, followers: Followers, thread_id: ThreadId
) -> None:
    await add(storage, thread_id, "a")
    with await follow(followers, thread_id) as follower:
        assert await available(follower) == b"1=a;"
        await storage.threads.delete(thread_id)
        followers.forget_thread(thread_id)
        assert await follower.next(TIMEOUT) is None
    assert (await current(followers, thread_id)).text == ""


# Snapshots


@pytest.fixture
def snapshot_every_three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_folds, "SNAPSHOT_EVERY", 3)


@pytest.mark.usefixtures("snapshot_every_three")
async def test_a_fold_is_restored_from_its_snapshot(
    storage: Storage, followers: Followers, thread_id: ThreadId
) -> None:
    """As after a restart: only what follows the snapshot is read."""
    await add(storage, thread_id, "abc")
    await current(followers, thread_id)
    await add(storage, thread_id, "de")
    await current(followers, thread_id)
    restored = await current(Followers(storage), thread_id)
    assert (restored.text, restored.fed) == ("abcde", [4, 5])


@pytest.mark.usefixtures("snapshot_every_three")
async def test_a_restored_fold_is_stored_again_when_the_log_has_grown(storage: Storage, thread_id: ThreadId) -> None:
    for text, position in (("abc", 3), ("de", 3), ("f", 6)):
        await add(storage, thread_id, text)
        await current(Followers(storage), thread_id)
        stored = await storage.fold_snapshots.get(thread_id, NAME)
        assert stored is not None
        assert stored.seq == position


@pytest.mark.usefixtures("snapshot_every_three")
@pytest.mark.parametrize("after", range(6))
async def test_a_subscriber_gets_the_same_with_a_snapshot_before_or_after_its_position(
    storage: Storage, followers: Followers, thread_id: ThreadId, after: int
) -> None:
    await add(storage, thread_id, "abc")
    await current(followers, thread_id)
    await add(storage, thread_id, "de")
    with await follow(Followers(storage), thread_id, after) as follower:
        frames = [b"1=a;", b"2=ab;", b"3=abc;", b"4=abcd;", b"5=abcde;"]
        assert await available(follower) == b"".join(frames[after:])


async def test_an_unknown_snapshot_is_ignored(storage: Storage, followers: Followers, thread_id: ThreadId) -> None:
    await add(storage, thread_id, "abc")
    await storage.fold_snapshots.put(thread_id, NAME, FoldSnapshot(Seq(2), b"unknown"))
    assert (await current(followers, thread_id)).fed == [1, 2, 3]


@pytest.mark.usefixtures("snapshot_every_three")
async def test_subscribers_store_snapshots_too(storage: Storage, followers: Followers, thread_id: ThreadId) -> None:
    with await follow(followers, thread_id) as follower:
        await add(storage, thread_id, "abc")
        assert await available(follower) == b"1=a;2=ab;3=abc;"
    stored = await storage.fold_snapshots.get(thread_id, NAME)
    assert stored == FoldSnapshot(Seq(3), b"abc")


async def test_a_fold_that_has_grown_much_is_stored_after_a_few_entries(
    storage: Storage, followers: Followers, thread_id: ThreadId, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_folds, "SNAPSHOT_BYTES", 4)
    for text, stored in (("abc", None), ("d", b"abcd"), ("e", b"abcd"), ("fgh", b"abcdefgh")):
        await add(storage, thread_id, text)
        await current(followers, thread_id)
        found = await storage.fold_snapshots.get(thread_id, NAME)
        assert (None if found is None else found.data) == stored


async def test_a_cancelled_reader_leaves_the_fold_whole(storage: Storage, thread_id: ThreadId) -> None:
    """Loading runs in another thread, which cannot be cancelled. The next reader waits for it."""
    await add(storage, thread_id, "abc")
    followers = Followers(storage)
    cancelled = asyncio.get_running_loop().create_task(current(followers, thread_id))
    await asyncio.sleep(0)
    cancelled.cancel()
    assert (await current(followers, thread_id)).fed == [1, 2, 3]
    assert cancelled.cancelled()


# Functions of the project


class SlowSum(Sum):
    """A fold that calls a slow function for the entry `s`."""

    started: threading.Event
    finish: threading.Event

    def calls_project_code(self, entry: Entry) -> bool:
        return bool(entry.data["value"] == "s")

    def feed(self, entry: Entry) -> list[Message]:
        if self.calls_project_code(entry):
            self.started.set()
            assert self.finish.wait(TIMEOUT)
        return super().feed(entry)


@pytest.fixture
def slow() -> type[SlowSum]:
    SlowSum.created, SlowSum.started, SlowSum.finish = 0, threading.Event(), threading.Event()
    return SlowSum


async def until_started(fold: type[SlowSum]) -> None:
    assert await asyncio.to_thread(fold.started.wait, TIMEOUT)


async def test_the_loop_is_free_while_a_function_of_the_project_runs(
    storage: Storage, followers: Followers, thread_id: ThreadId, slow: type[SlowSum]
) -> None:
    with await followers.follow_fold(thread_id, NAME, slow, data_only, START) as follower:
        await add(storage, thread_id, "asb")
        received = asyncio.get_running_loop().create_task(_received(follower, 3))
        await until_started(slow)
        read = asyncio.get_running_loop().create_task(followers.fold(thread_id, NAME, slow, data_only))
        await asyncio.sleep(0)
        assert not read.done()  # the fold belongs to the thread
        slow.finish.set()
        assert (await read).text == "asb"
        assert await received == b"1=a;2=as;3=asb;"


async def test_a_subscriber_that_leaves_meanwhile_takes_nothing_with_it(
    storage: Storage, followers: Followers, thread_id: ThreadId, slow: type[SlowSum]
) -> None:
    with await followers.follow_fold(thread_id, NAME, slow, data_only, START) as follower:
        await add(storage, thread_id, "asb")
        leaving = asyncio.get_running_loop().create_task(_received(follower, 3))
        await until_started(slow)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
    slow.finish.set()

    fold = await followers.fold(thread_id, NAME, slow, data_only)
    assert (fold.fed, slow.created) == ([1, 2, 3], 1)
    with await followers.follow_fold(thread_id, NAME, slow, data_only, START) as follower:
        assert await _received(follower, 3) == b"1=a;2=as;3=asb;"


async def _received(follower: Follower, entries: int) -> bytes:
    received = b""
    while received.count(b";") < entries:
        received += joined(await follower.next(TIMEOUT)) or b""
    return received


# Summaries


class SummarizedSum(Sum):
    def summary(self) -> bytes | None:
        return None if self.text.endswith(" ") else self.text[-2:].encode()


@pytest.fixture
def summarize_from_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_folds, "SUMMARIZE_FROM_ENTRIES", 2)


async def summarized(followers: Followers, thread_id: ThreadId) -> SummarizedSum:
    return await followers.fold(thread_id, NAME, SummarizedSum, data_only)


async def summary_of(storage: Storage, thread_id: ThreadId) -> bytes | None:
    """The summary that a restarted server finds."""
    return await Followers(storage).fold_summary(thread_id, NAME, data_only)


@pytest.mark.usefixtures("summarize_from_two")
async def test_a_summary_is_valid_until_the_log_grows(
    storage: Storage, followers: Followers, thread_id: ThreadId
) -> None:
    await add(storage, thread_id, "abc")
    assert await summary_of(storage, thread_id) is None
    await summarized(followers, thread_id)
    assert await summary_of(storage, thread_id) == b"bc"
    await add(storage, thread_id, "d")
    assert await summary_of(storage, thread_id) is None
    await summarized(followers, thread_id)
    assert await summary_of(storage, thread_id) == b"cd"


@pytest.mark.usefixtures("summarize_from_two")
async def test_a_short_log_and_a_fold_that_returns_none_have_no_summary(
    storage: Storage, followers: Followers, thread_id: ThreadId
) -> None:
    for text in ("a", "b "):
        await add(storage, thread_id, text)
        await summarized(followers, thread_id)
        assert await summary_of(storage, thread_id) is None


@pytest.mark.usefixtures("summarize_from_two")
async def test_the_fold_itself_is_used_once_it_is_loaded(
    storage: Storage, followers: Followers, thread_id: ThreadId
) -> None:
    await add(storage, thread_id, "abc")
    await summarized(followers, thread_id)
    assert await followers.fold_summary(thread_id, NAME, data_only) is None


@pytest.mark.usefixtures("summarize_from_two")
async def test_a_subscriber_that_waits_does_not_load_the_fold(
    storage: Storage, followers: Followers, thread_id: ThreadId
) -> None:
    await add(storage, thread_id, "abc")
    await summarized(followers, thread_id)
    restarted = Followers(storage)
    with await restarted.follow_fold(thread_id, NAME, SummarizedSum, data_only, Seq(3)) as follower:
        assert await available(follower) == b""
        assert await restarted.fold_summary(thread_id, NAME, data_only) == b"bc"
        await add(storage, thread_id, "d")
        assert await available(follower) == b"4=abcd;"
    assert await summary_of(storage, thread_id) == b"cd"
