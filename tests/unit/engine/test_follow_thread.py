"""Following a thread over many runs: every entry once, in order, and the encoder primed with the runs that go on."""

from dataclasses import replace

import pytest

from threadwire.core.entries import START, Draft, Entry, Kind
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import Ending, Run
from threadwire.engine import follow
from threadwire.engine.follow import Arrival, Follower, Followers
from threadwire.errors import InvalidCursor
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.samples import NOW, accept, keep_thread, note, start, write

pytestmark = pytest.mark.anyio

SOON = 5.0
SILENCE = 0.02
OPTIONS = "shown"


@pytest.fixture
async def thread_id(storage: Storage) -> ThreadId:
    return await keep_thread(storage)


class Counting:
    """An encoder that shows for each run how often it has spoken, and keeps what it was fed."""

    made: list["Counting"]

    def __init__(self) -> None:
        self.fed: list[int] = []
        self.spoken: dict[object, int] = {}

    def feed(self, entry: Entry) -> bytes:
        self.fed.append(entry.seq)
        if entry.kind != Kind.CUSTOM:
            return b""
        self.spoken[entry.run_id] = self.spoken.get(entry.run_id, 0) + 1
        return f"{entry.seq}:{entry.data['value']}#{self.spoken[entry.run_id]}\n".encode()


class Maker:
    def __init__(self) -> None:
        self.made: list[Counting] = []

    def __call__(self) -> Counting:
        self.made.append(Counting())
        return self.made[-1]


async def finish(storage: Storage, run: Run) -> None:
    assert await storage.runs.finish(run.fence, Ending("success"), NOW)


async def everything(follower: Follower) -> bytes:
    """What there is by now."""
    sent = b""
    with follower:
        while frames := await follower.next(SILENCE):
            sent += frames
    return sent


async def test_a_thread_is_followed_over_its_runs(storage: Storage, thread_id: ThreadId, followers: Followers) -> None:
    for word in "ab":
        run = await start(storage, thread_id)
        await write(storage, run, word, word)
        await finish(storage, run)
        await storage.log.append(thread_id, [note("outside")]).wait()

    follower = await followers.follow_thread(thread_id, OPTIONS, Maker(), START)

    assert await everything(follower) == b"2:a#1\n3:a#2\n5:outside#1\n7:b#1\n8:b#2\n10:outside#2\n"


async def test_without_a_position_only_what_comes_is_shown(
    storage: Storage, thread_id: ThreadId, followers: Followers
) -> None:
    await storage.log.append(thread_id, [note("old")]).wait()

    with await followers.follow_thread(thread_id, OPTIONS, Maker(), None) as follower:
        assert await follower.next(SILENCE) == b""
        await storage.log.append(thread_id, [note("new")]).wait()
        assert await follower.next(SOON) == b"2:new#1\n"


async def test_it_goes_on_after_a_run_has_ended(storage: Storage, thread_id: ThreadId, followers: Followers) -> None:
    with await followers.follow_thread(thread_id, OPTIONS, Maker(), START) as follower:
        for word in "ab":
            run = await start(storage, thread_id)
            await write(storage, run, word)
            await finish(storage, run)
            frames = await follower.next(SOON)
            assert frames is not None
            assert f":{word}#1".encode() in frames
            assert await follower.next(SILENCE) == b""
            assert not follower.finished


async def test_one_who_left_off_in_a_run_gets_what_came_after_as_if_he_had_stayed(
    storage: Storage, thread_id: ThreadId, followers: Followers
) -> None:
    """4.4, 4.5a: the encoder counts, so it must have been fed what was said before."""
    early = await start(storage, thread_id)
    await write(storage, early, *"abc")
    await finish(storage, early)
    run = await start(storage, thread_id)
    await write(storage, run, *"de")
    await accept(storage, thread_id)
    await write(storage, run, *"fg")
    whole = await everything(await followers.follow_thread(thread_id, "whole", Maker(), START))

    for position in range(await storage.log.last(thread_id) + 1):
        anew = Followers(storage)
        maker = Maker()
        missed = await everything(await anew.follow_thread(thread_id, OPTIONS, maker, Seq(position)))
        assert missed == b"".join(
            line + b"\n" for line in whole.split(b"\n")[:-1] if int(line.partition(b":")[0]) > position
        )


async def test_only_runs_that_go_on_are_fed_from_their_beginning(
    storage: Storage, thread_id: ThreadId, followers: Followers
) -> None:
    """3.5: what is fed does not grow with the thread."""
    for _ in range(5):
        run = await start(storage, thread_id)
        await write(storage, run, *"abc")
        await finish(storage, run)
    run = await start(storage, thread_id)
    await write(storage, run, *"de")
    position = await storage.log.last(thread_id)
    await write(storage, run, "f")

    maker = Maker()
    await everything(await followers.follow_thread(thread_id, OPTIONS, maker, position))

    assert maker.made[0].fed == [run.queued_seq, run.queued_seq + 1, run.queued_seq + 2, position + 1]


async def test_a_run_that_was_rolled_back_is_fed_from_its_beginning_too(
    storage: Storage, thread_id: ThreadId, followers: Followers
) -> None:
    """5.9: its row is gone, its entries are not."""
    run = await start(storage, thread_id)
    await write(storage, run, *"ab")
    position = await storage.log.last(thread_id)
    await write(storage, run, "c")
    await storage.runs.finish(run.fence, Ending("interrupted", rollback=True), NOW)

    assert await everything(await followers.follow_thread(thread_id, OPTIONS, Maker(), position)) == b"4:c#3\n"


async def test_priming_reads_page_by_page(
    storage: Storage, thread_id: ThreadId, followers: Followers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "PAGE", 3)
    run = await start(storage, thread_id)
    await write(storage, run, *range(10))
    position = await storage.log.last(thread_id)
    await write(storage, run, "last")

    assert await everything(await followers.follow_thread(thread_id, OPTIONS, Maker(), position)) == b"12:last#11\n"


async def test_watchers_at_different_places_share_one_encoder_where_they_can(
    storage: Storage, thread_id: ThreadId, followers: Followers
) -> None:
    await storage.log.append(thread_id, [note("a")]).wait()
    maker = Maker()
    first = await followers.follow_thread(thread_id, OPTIONS, maker, None)
    with first:
        await storage.log.append(thread_id, [note("b"), note("c")]).wait()
        later = [await followers.follow_thread(thread_id, OPTIONS, maker, Seq(position)) for position in (1, 2, 3)]
        assert await first.next(SOON) == b"2:b#1\n3:c#2\n"
        assert [await everything(each) for each in later] == [b"2:b#1\n3:c#2\n", b"3:c#2\n", b""]
        assert len(maker.made) == 1
        earlier = await followers.follow_thread(thread_id, OPTIONS, maker, START)
        assert await everything(earlier) == b"1:a#1\n2:b#2\n3:c#3\n"
        assert len(maker.made) == 2


async def test_one_who_has_caught_up_joins_the_others(
    storage: Storage, thread_id: ThreadId, followers: Followers
) -> None:
    await storage.log.append(thread_id, [note("a")]).wait()
    maker = Maker()
    with (
        await followers.follow_thread(thread_id, OPTIONS, maker, None) as now,
        await followers.follow_thread(thread_id, OPTIONS, maker, START) as earlier,
    ):
        assert await earlier.next(SOON) == b"1:a#1\n"
        assert await earlier.next(SILENCE) == b""
        await storage.log.append(thread_id, [Draft(Kind.CUSTOM, {"value": "b"})]).wait()
        assert await now.next(SOON) == b"2:b#1\n"
        assert await earlier.next(SOON) == b"2:b#1\n"  # as the others see it
    assert [encoder.fed for encoder in maker.made] == [[2], [1]]


async def test_a_position_beyond_the_end_is_refused(
    storage: Storage, thread_id: ThreadId, followers: Followers
) -> None:
    await storage.log.append(thread_id, [note("a"), note("b")]).wait()
    with pytest.raises(InvalidCursor, match="3 was never given on this thread, whose last is 2"):
        await followers.follow_thread(thread_id, OPTIONS, Maker(), Seq(3))
    with await followers.follow_thread(thread_id, OPTIONS, Maker(), Seq(2)) as follower:
        assert await follower.next(SILENCE) == b""
        await storage.log.append(thread_id, [note("c")]).wait()
        assert await follower.next(SOON) == b"3:c#1\n"


async def test_followers_of_a_forgotten_thread_and_of_its_runs_come_to_an_end(
    storage: Storage, thread_id: ThreadId, followers: Followers
) -> None:
    run = await start(storage, thread_id)
    await write(storage, run, "a")
    with (
        await followers.follow_thread(thread_id, OPTIONS, Maker(), START) as of_thread,
        followers.follow(run, OPTIONS, Maker(), START) as of_run,
    ):
        for follower in (of_thread, of_run):
            assert await follower.next(SOON) == b"2:a#1\n"
        await storage.threads.delete(thread_id)
        followers.forget_thread(thread_id)
        for follower in (of_thread, of_run):
            assert await follower.next(SOON) is None
            assert follower.finished


async def test_a_follower_finds_out_by_itself_that_its_thread_is_gone(
    storage: Storage, thread_id: ThreadId, followers: Followers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when another process has deleted it."""
    monkeypatch.setattr(follow, "POLL", SILENCE)
    await storage.log.append(thread_id, [note("a")]).wait()
    with await followers.follow_thread(thread_id, OPTIONS, Maker(), START) as follower:
        assert await follower.next(SOON) == b"1:a#1\n"
        await storage.threads.delete(thread_id)
        assert await follower.next(SOON) is None


async def test_a_thread_made_again_under_the_same_id_is_followed_anew(
    storage: Storage, thread_id: ThreadId, followers: Followers
) -> None:
    await storage.log.append(thread_id, [note("old"), note("old")]).wait()
    await everything(await followers.follow_thread(thread_id, OPTIONS, Maker(), START))
    await storage.threads.delete(thread_id)
    followers.forget_thread(thread_id)
    await keep_thread(storage, thread_id=thread_id)
    await storage.log.append(thread_id, [note("new")]).wait()
    assert await everything(await followers.follow_thread(thread_id, OPTIONS, Maker(), START)) == b"1:new#1\n"


async def test_a_cancelled_reader_loses_nothing(storage: Storage, thread_id: ThreadId) -> None:
    """Also if it was cancelled while the encoder was being primed."""
    run = await start(storage, thread_id)
    await write(storage, run, *"abc")
    position = await storage.log.last(thread_id)
    await write(storage, run, "d")

    class Interrupted(Exception):
        pass

    class Halting:
        """A log that is interrupted once, at the n-th reading."""

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
        followers = Followers(replace(storage, log=Halting(at)))  # type: ignore[type-var]
        with await followers.follow_thread(thread_id, OPTIONS, Maker(), position) as follower:
            sent = b""
            while not sent:
                try:
                    sent = await follower.next(SOON) or b""
                except Interrupted:
                    continue
            assert sent == b"5:d#4\n"


async def test_the_stream_of_a_thread_ends_when_its_last_run_takes_the_thread_with_it(
    storage: Storage, followers: Followers
) -> None:
    """5.10"""
    thread_id = await keep_thread(storage)
    run = await start(storage, thread_id, temporary=True)
    await write(storage, run, "a")
    alone = await followers.follow_thread_alone(thread_id, Counting(), START)
    with await followers.follow_thread(thread_id, OPTIONS, Maker(), START) as sharing, alone:
        await finish(storage, run)
        for follower in (sharing, alone):
            assert await follower.next(SOON) == b"2:a#1\n"
            assert follower.finished
            assert await follower.next(SOON) is None

    await keep_thread(storage, thread_id=thread_id)
    with await followers.follow_thread(thread_id, OPTIONS, Maker(), None) as anew:
        await storage.log.append(thread_id, [note("new")]).wait()
        assert b":new#1\n" in (await anew.next(SOON) or b"")


# -- with an encoder of one's own --------------------------------------------------------------------------------------


def arriving(encoder: Counting, run_id: RunId | None) -> Arrival:
    """Who comes is told how often each run has spoken."""
    return Arrival(run_id, lambda: f"spoken {list(encoder.spoken.values())}\n".encode())


async def test_one_who_arrives_is_greeted_once_the_encoder_knows_the_run_he_comes_into(
    storage: Storage, thread_id: ThreadId, followers: Followers
) -> None:
    early = await start(storage, thread_id)
    await write(storage, early, *"ab")
    await finish(storage, early)
    run = await start(storage, thread_id)
    await write(storage, run, *"cd")
    position = await storage.log.last(thread_id)
    await write(storage, run, "e")

    encoder = Counting()
    with await followers.follow_thread_alone(
        thread_id, encoder, position, arrival=arriving(encoder, run.run_id)
    ) as follower:
        assert await follower.next(SOON) == b"spoken [2]\n"
        assert await follower.next(SOON) == b"8:e#3\n"
        await write(storage, run, "f")
        assert await follower.next(SOON) == b"9:f#4\n"
        assert not follower.finished
    assert encoder.fed == [run.queued_seq, 6, 7, 8, 9]


async def test_one_who_arrives_at_rest_is_greeted_at_once(
    storage: Storage, thread_id: ThreadId, followers: Followers
) -> None:
    encoder = Counting()
    with await followers.follow_thread_alone(thread_id, encoder, START, arrival=arriving(encoder, None)) as follower:
        assert await follower.next(SOON) == b"spoken []\n"
        assert await follower.next(SILENCE) == b""


async def test_a_greeting_may_be_empty(storage: Storage, thread_id: ThreadId, followers: Followers) -> None:
    await storage.log.append(thread_id, [note("a")]).wait()
    with await followers.follow_thread_alone(
        thread_id, Counting(), START, arrival=Arrival(None, lambda: b"")
    ) as follower:
        assert await follower.next(SOON) == b"1:a#1\n"


@pytest.mark.parametrize("position", range(7))
async def test_following_may_end_at_a_position_or_with_a_run(
    storage: Storage, thread_id: ThreadId, followers: Followers, position: int
) -> None:
    first = await start(storage, thread_id)
    await write(storage, first, *"ab")
    second = await accept(storage, thread_id)
    await finish(storage, first)
    [second] = await storage.runs.claim(1, now=NOW)
    await write(storage, second, "c")
    await finish(storage, second)
    await storage.log.append(thread_id, [note("later")]).wait()
    whole = [b"2:a#1\n", b"3:b#2\n", b"6:c#1\n"]
    wanted = b"".join(line for line in whole if int(line[:1]) > position)

    for end in ({"until": second.run_id}, {"upto": Seq(7)}):
        sent = b""
        with await followers.follow_thread_alone(thread_id, Counting(), Seq(position), **end) as follower:  # type: ignore[arg-type]
            while (frames := await follower.next(SOON)) is not None:
                sent += frames
            assert follower.finished
        assert sent == wanted


async def test_one_who_follows_alone_finds_out_that_the_thread_is_gone(
    storage: Storage, thread_id: ThreadId, followers: Followers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether or not it had entries."""
    monkeypatch.setattr(follow, "POLL", SILENCE)
    other = await keep_thread(storage)
    await storage.log.append(thread_id, [note("a")]).wait()
    for each in (thread_id, other):
        with await followers.follow_thread_alone(each, Counting(), await storage.log.last(each)) as follower:
            assert await follower.next(3 * SILENCE) == b""
            await storage.threads.delete(each)
            assert await follower.next(SOON) is None
            assert follower.finished


async def test_one_who_follows_alone_from_beyond_the_end_waits_for_what_lies_beyond(
    storage: Storage, thread_id: ThreadId, followers: Followers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "POLL", SILENCE)
    with await followers.follow_thread_alone(thread_id, Counting(), Seq(2)) as follower:
        await storage.log.append(thread_id, [note("a"), note("b")]).wait()
        assert await follower.next(3 * SILENCE) == b""
        await storage.log.append(thread_id, [note("c")]).wait()
        assert await follower.next(SOON) == b"3:c#3\n"
