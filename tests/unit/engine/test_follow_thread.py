"""Following a thread across many runs: every entry once, in order, with the encoder primed for runs in progress."""

from dataclasses import replace

import pytest
from framing import data_only, joined

from threadwire.core.encoder import Message
from threadwire.core.entries import START, Draft, Entry, Kind
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import Ending, Run
from threadwire.engine import entry_readers
from threadwire.engine.followers import Follower, Followers, Preamble
from threadwire.errors import InvalidCursor
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.samples import LEASE, NOW, accept, note, start, store_thread, write

pytestmark = pytest.mark.anyio

TIMEOUT = 5.0
SHORT = 0.02
OPTIONS = "options"


@pytest.fixture
async def thread_id(storage: Storage) -> ThreadId:
    return await store_thread(storage)


class CountingEncoder:
    """An encoder that numbers the custom entries of each run, and records what it was fed."""

    def __init__(self) -> None:
        self.fed: list[int] = []
        self.counts: dict[object, int] = {}

    def feed(self, entry: Entry) -> list[Message]:
        self.fed.append(entry.seq)
        if entry.kind != Kind.CUSTOM:
            return []
        self.counts[entry.run_id] = self.counts.get(entry.run_id, 0) + 1
        return [(b"", f"{entry.seq}:{entry.data['value']}#{self.counts[entry.run_id]}\n".encode())]


class EncoderFactory:
    def __init__(self) -> None:
        self.created: list[CountingEncoder] = []

    def __call__(self) -> CountingEncoder:
        self.created.append(CountingEncoder())
        return self.created[-1]


async def finish(storage: Storage, run: Run) -> None:
    assert await storage.handle(run).finish(Ending("success"), NOW)


async def all_available(follower: Follower) -> bytes:
    """Everything available now."""
    sent = b""
    with follower:
        while frames := joined(await follower.next(SHORT)):
            sent += frames
    return sent


async def test_a_thread_is_followed_across_its_runs(
    storage: Storage, thread_id: ThreadId, followers: Followers
) -> None:
    for word in "ab":
        run = await start(storage, thread_id)
        await write(storage, run, word, word)
        await finish(storage, run)
        await storage.log.append(thread_id, [note("outside")]).wait()

    follower = await followers.follow_thread(thread_id, OPTIONS, EncoderFactory(), data_only, START)

    assert await all_available(follower) == b"2:a#1\n3:a#2\n5:outside#1\n7:b#1\n8:b#2\n10:outside#2\n"


async def test_without_a_position_only_new_entries_are_sent(
    storage: Storage, thread_id: ThreadId, followers: Followers
) -> None:
    await storage.log.append(thread_id, [note("old")]).wait()

    with await followers.follow_thread(thread_id, OPTIONS, EncoderFactory(), data_only, None) as follower:
        assert joined(await follower.next(SHORT)) == b""
        await storage.log.append(thread_id, [note("new")]).wait()
        assert joined(await follower.next(TIMEOUT)) == b"2:new#1\n"


async def test_a_follower_continues_after_a_run_has_ended(
    storage: Storage, thread_id: ThreadId, followers: Followers
) -> None:
    with await followers.follow_thread(thread_id, OPTIONS, EncoderFactory(), data_only, START) as follower:
        for word in "ab":
            run = await start(storage, thread_id)
            await write(storage, run, word)
            await finish(storage, run)
            frames = joined(await follower.next(TIMEOUT))
            assert frames is not None
            assert f":{word}#1".encode() in frames
            assert joined(await follower.next(SHORT)) == b""
            assert not follower.finished


async def test_a_follower_that_resumes_within_a_run_gets_the_same_frames_as_an_uninterrupted_one(
    storage: Storage, thread_id: ThreadId, followers: Followers
) -> None:
    """4.4, 4.5a: the encoder counts, so it must have been fed the earlier entries."""
    early = await start(storage, thread_id)
    await write(storage, early, *"abc")
    await finish(storage, early)
    run = await start(storage, thread_id)
    await write(storage, run, *"de")
    await accept(storage, thread_id)
    await write(storage, run, *"fg")
    whole = await all_available(await followers.follow_thread(thread_id, "whole", EncoderFactory(), data_only, START))

    for position in range(await storage.log.last(thread_id) + 1):
        fresh = Followers(storage)
        rest = await all_available(
            await fresh.follow_thread(thread_id, OPTIONS, EncoderFactory(), data_only, Seq(position))
        )
        assert rest == b"".join(
            line + b"\n" for line in whole.split(b"\n")[:-1] if int(line.partition(b":")[0]) > position
        )


async def test_only_runs_in_progress_are_fed_from_their_start(
    storage: Storage, thread_id: ThreadId, followers: Followers
) -> None:
    """3.5: the number of entries fed does not grow with the thread."""
    for _ in range(5):
        run = await start(storage, thread_id)
        await write(storage, run, *"abc")
        await finish(storage, run)
    run = await start(storage, thread_id)
    await write(storage, run, *"de")
    position = await storage.log.last(thread_id)
    await write(storage, run, "f")

    factory = EncoderFactory()
    await all_available(await followers.follow_thread(thread_id, OPTIONS, factory, data_only, position))

    assert factory.created[0].fed == [run.queued_seq, run.queued_seq + 1, run.queued_seq + 2, position + 1]


async def test_a_rolled_back_run_is_fed_from_its_start_too(
    storage: Storage, thread_id: ThreadId, followers: Followers
) -> None:
    """5.9: its row was deleted, its entries were not."""
    run = await start(storage, thread_id)
    await write(storage, run, *"ab")
    position = await storage.log.last(thread_id)
    await write(storage, run, "c")
    await storage.handle(run).finish(Ending("interrupted", rollback=True), NOW)

    assert (
        await all_available(await followers.follow_thread(thread_id, OPTIONS, EncoderFactory(), data_only, position))
        == b"4:c#3\n"
    )


async def test_priming_reads_page_by_page(
    storage: Storage, thread_id: ThreadId, followers: Followers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry_readers, "PAGE", 3)
    run = await start(storage, thread_id)
    await write(storage, run, *range(10))
    position = await storage.log.last(thread_id)
    await write(storage, run, "last")

    assert (
        await all_available(await followers.follow_thread(thread_id, OPTIONS, EncoderFactory(), data_only, position))
        == b"12:last#11\n"
    )


async def test_followers_at_different_positions_share_one_encoder_where_possible(
    storage: Storage, thread_id: ThreadId, followers: Followers
) -> None:
    await storage.log.append(thread_id, [note("a")]).wait()
    factory = EncoderFactory()
    first = await followers.follow_thread(thread_id, OPTIONS, factory, data_only, None)
    with first:
        await storage.log.append(thread_id, [note("b"), note("c")]).wait()
        later = [
            await followers.follow_thread(thread_id, OPTIONS, factory, data_only, Seq(position))
            for position in (1, 2, 3)
        ]
        assert joined(await first.next(TIMEOUT)) == b"2:b#1\n3:c#2\n"
        assert [await all_available(each) for each in later] == [b"2:b#1\n3:c#2\n", b"3:c#2\n", b""]
        assert len(factory.created) == 1
        earlier = await followers.follow_thread(thread_id, OPTIONS, factory, data_only, START)
        assert await all_available(earlier) == b"1:a#1\n2:b#2\n3:c#3\n"
        assert len(factory.created) == 2


async def test_a_follower_that_has_caught_up_joins_the_shared_projection(
    storage: Storage, thread_id: ThreadId, followers: Followers
) -> None:
    await storage.log.append(thread_id, [note("a")]).wait()
    factory = EncoderFactory()
    with (
        await followers.follow_thread(thread_id, OPTIONS, factory, data_only, None) as now,
        await followers.follow_thread(thread_id, OPTIONS, factory, data_only, START) as earlier,
    ):
        assert joined(await earlier.next(TIMEOUT)) == b"1:a#1\n"
        assert joined(await earlier.next(SHORT)) == b""
        await storage.log.append(thread_id, [Draft(Kind.CUSTOM, {"value": "b"})]).wait()
        assert joined(await now.next(TIMEOUT)) == b"2:b#1\n"
        assert joined(await earlier.next(TIMEOUT)) == b"2:b#1\n"  # the shared frame
    assert [encoder.fed for encoder in factory.created] == [[2], [1]]


async def test_a_position_beyond_the_end_is_rejected(
    storage: Storage, thread_id: ThreadId, followers: Followers
) -> None:
    await storage.log.append(thread_id, [note("a"), note("b")]).wait()
    with pytest.raises(InvalidCursor, match="3 is beyond the last entry of this thread, 2"):
        await followers.follow_thread(thread_id, OPTIONS, EncoderFactory(), data_only, Seq(3))
    with await followers.follow_thread(thread_id, OPTIONS, EncoderFactory(), data_only, Seq(2)) as follower:
        assert joined(await follower.next(SHORT)) == b""
        await storage.log.append(thread_id, [note("c")]).wait()
        assert joined(await follower.next(TIMEOUT)) == b"3:c#1\n"


async def test_followers_of_a_forgotten_thread_and_of_its_runs_finish(
    storage: Storage, thread_id: ThreadId, followers: Followers
) -> None:
    run = await start(storage, thread_id)
    await write(storage, run, "a")
    with (
        await followers.follow_thread(thread_id, OPTIONS, EncoderFactory(), data_only, START) as of_thread,
        followers.follow(run, OPTIONS, EncoderFactory(), data_only, START) as of_run,
    ):
        for follower in (of_thread, of_run):
            assert joined(await follower.next(TIMEOUT)) == b"2:a#1\n"
        await storage.threads.delete(thread_id)
        followers.forget_thread(thread_id)
        for follower in (of_thread, of_run):
            assert joined(await follower.next(TIMEOUT)) is None
            assert follower.finished


async def test_a_follower_detects_that_its_thread_was_deleted(
    storage: Storage, thread_id: ThreadId, followers: Followers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if another process had deleted it."""
    monkeypatch.setattr("threadwire.engine.followers.POLL", SHORT)
    await storage.log.append(thread_id, [note("a")]).wait()
    with await followers.follow_thread(thread_id, OPTIONS, EncoderFactory(), data_only, START) as follower:
        assert joined(await follower.next(TIMEOUT)) == b"1:a#1\n"
        await storage.threads.delete(thread_id)
        assert joined(await follower.next(TIMEOUT)) is None


async def test_a_thread_created_again_under_the_same_id_is_followed_from_its_start(
    storage: Storage, thread_id: ThreadId, followers: Followers
) -> None:
    await storage.log.append(thread_id, [note("old"), note("old")]).wait()
    await all_available(await followers.follow_thread(thread_id, OPTIONS, EncoderFactory(), data_only, START))
    await storage.threads.delete(thread_id)
    followers.forget_thread(thread_id)
    await store_thread(storage, thread_id=thread_id)
    await storage.log.append(thread_id, [note("new")]).wait()
    assert (
        await all_available(await followers.follow_thread(thread_id, OPTIONS, EncoderFactory(), data_only, START))
        == b"1:new#1\n"
    )


async def test_a_cancelled_reader_loses_nothing(storage: Storage, thread_id: ThreadId) -> None:
    """Even if it was cancelled while the encoder was being primed."""
    run = await start(storage, thread_id)
    await write(storage, run, *"abc")
    position = await storage.log.last(thread_id)
    await write(storage, run, "d")

    class Interrupted(Exception):
        pass

    class InterruptedLog:
        """A log whose n-th read is interrupted."""

        def __init__(self, at: int) -> None:
            self.left = at

        def __getattr__(self, name: str) -> object:
            return getattr(storage.log, name)

        async def read(self, *args: object, **kwargs: object) -> object:
            self.left -= 1
            if self.left == 0:
                raise Interrupted
            return await storage.log.read(*args, **kwargs)  # type: ignore[arg-type]

    for at in (1, 2, 3):
        followers = Followers(replace(storage, log=InterruptedLog(at)))  # type: ignore[type-var]
        with await followers.follow_thread(thread_id, OPTIONS, EncoderFactory(), data_only, position) as follower:
            sent = b""
            while not sent:
                try:
                    sent = joined(await follower.next(TIMEOUT)) or b""
                except Interrupted:
                    continue
            assert sent == b"5:d#4\n"


async def test_the_stream_of_a_temporary_thread_ends_with_its_run(storage: Storage, followers: Followers) -> None:
    """5.10"""
    thread_id = await store_thread(storage)
    run = await start(storage, thread_id, temporary=True)
    await write(storage, run, "a")
    unshared = await followers.follow_thread_unshared(thread_id, CountingEncoder(), data_only, START)
    with await followers.follow_thread(thread_id, OPTIONS, EncoderFactory(), data_only, START) as shared, unshared:
        await finish(storage, run)
        for follower in (shared, unshared):
            assert joined(await follower.next(TIMEOUT)) == b"2:a#1\n"
            assert follower.finished
            assert joined(await follower.next(TIMEOUT)) is None

    await store_thread(storage, thread_id=thread_id)
    with await followers.follow_thread(thread_id, OPTIONS, EncoderFactory(), data_only, None) as fresh:
        await storage.log.append(thread_id, [note("new")]).wait()
        assert b":new#1\n" in (joined(await fresh.next(TIMEOUT)) or b"")


# -- with the caller's own encoder -------------------------------------------------------------------------------------


def preamble(encoder: CountingEncoder, run_id: RunId | None) -> Preamble:
    """Frames with the number of entries of each run so far."""
    return Preamble(run_id, lambda: [f"counts {list(encoder.counts.values())}\n".encode()])


async def test_the_preamble_is_sent_after_the_encoder_was_primed_with_the_run_in_progress(
    storage: Storage, thread_id: ThreadId, followers: Followers
) -> None:
    early = await start(storage, thread_id)
    await write(storage, early, *"ab")
    await finish(storage, early)
    run = await start(storage, thread_id)
    await write(storage, run, *"cd")
    position = await storage.log.last(thread_id)
    await write(storage, run, "e")

    encoder = CountingEncoder()
    with await followers.follow_thread_unshared(
        thread_id, encoder, data_only, position, preamble=preamble(encoder, run.run_id)
    ) as follower:
        assert joined(await follower.next(TIMEOUT)) == b"counts [2]\n"
        assert joined(await follower.next(TIMEOUT)) == b"8:e#3\n"
        await write(storage, run, "f")
        assert joined(await follower.next(TIMEOUT)) == b"9:f#4\n"
        assert not follower.finished
    assert encoder.fed == [run.queued_seq, 6, 7, 8, 9]


async def test_the_preamble_is_sent_immediately_if_no_run_is_in_progress(
    storage: Storage, thread_id: ThreadId, followers: Followers
) -> None:
    encoder = CountingEncoder()
    with await followers.follow_thread_unshared(
        thread_id, encoder, data_only, START, preamble=preamble(encoder, None)
    ) as follower:
        assert joined(await follower.next(TIMEOUT)) == b"counts []\n"
        assert joined(await follower.next(SHORT)) == b""


async def test_the_preamble_may_be_empty(storage: Storage, thread_id: ThreadId, followers: Followers) -> None:
    await storage.log.append(thread_id, [note("a")]).wait()
    with await followers.follow_thread_unshared(
        thread_id, CountingEncoder(), data_only, START, preamble=Preamble(None, lambda: [])
    ) as follower:
        assert joined(await follower.next(TIMEOUT)) == b"1:a#1\n"


@pytest.mark.parametrize("position", range(7))
async def test_following_can_end_at_a_position_or_with_a_run(
    storage: Storage, thread_id: ThreadId, followers: Followers, position: int
) -> None:
    first = await start(storage, thread_id)
    await write(storage, first, *"ab")
    second = await accept(storage, thread_id)
    await finish(storage, first)
    [second] = await storage.runs.claim(1, LEASE, now=NOW)
    await write(storage, second, "c")
    await finish(storage, second)
    await storage.log.append(thread_id, [note("later")]).wait()
    whole = [b"2:a#1\n", b"3:b#2\n", b"6:c#1\n"]
    expected = b"".join(line for line in whole if int(line[:1]) > position)

    for end in ({"until": second.run_id}, {"upto": Seq(7)}):
        sent = b""
        with await followers.follow_thread_unshared(
            thread_id, CountingEncoder(), data_only, Seq(position), **end
        ) as follower:  # type: ignore[arg-type]
            while (frames := joined(await follower.next(TIMEOUT))) is not None:
                sent += frames
            assert follower.finished
        assert sent == expected


async def test_an_unshared_follower_detects_that_the_thread_was_deleted(
    storage: Storage, thread_id: ThreadId, followers: Followers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With and without entries."""
    monkeypatch.setattr("threadwire.engine.followers.POLL", SHORT)
    other = await store_thread(storage)
    await storage.log.append(thread_id, [note("a")]).wait()
    for each in (thread_id, other):
        with await followers.follow_thread_unshared(
            each, CountingEncoder(), data_only, await storage.log.last(each)
        ) as follower:
            assert joined(await follower.next(3 * SHORT)) == b""
            await storage.threads.delete(each)
            assert joined(await follower.next(TIMEOUT)) is None
            assert follower.finished


async def test_an_unshared_follower_beyond_the_end_waits_for_later_entries(
    storage: Storage, thread_id: ThreadId, followers: Followers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadwire.engine.followers.POLL", SHORT)
    with await followers.follow_thread_unshared(thread_id, CountingEncoder(), data_only, Seq(2)) as follower:
        await storage.log.append(thread_id, [note("a"), note("b")]).wait()
        assert joined(await follower.next(3 * SHORT)) == b""
        await storage.log.append(thread_id, [note("c")]).wait()
        assert joined(await follower.next(TIMEOUT)) == b"3:c#3\n"
