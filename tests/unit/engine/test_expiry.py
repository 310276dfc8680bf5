"""Threads that have outlived their ttl."""

from collections.abc import AsyncIterator

import anyio
import pytest

from threadwire.core.entries import START
from threadwire.core.ids import ThreadId
from threadwire.core.records import ThreadQuery, Ttl
from threadwire.engine.checkpointing import Checkpointing
from threadwire.engine.expiry import Expiry, ExpirySweeper
from threadwire.engine.follow import Followers
from threadwire.errors import StorageError
from threadwire.storage.abc import Storage
from threadwire.storage.memory import open_memory_storage
from threadwire.testing.conformance.samples import NOW, accept, keep_thread, note

pytestmark = pytest.mark.anyio

MINUTE = 60_000


class Time:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now


@pytest.fixture
async def storage() -> AsyncIterator[Storage]:
    async with open_memory_storage() as storage:
        yield storage


@pytest.fixture
def time() -> Time:
    return Time()


def sweeper(storage: Storage, time: Time, **expiry: object) -> ExpirySweeper:
    return ExpirySweeper(storage, Checkpointing(storage), Followers(storage), Expiry(**expiry), time)  # type: ignore[arg-type]


async def left(storage: Storage) -> set[ThreadId]:
    return {thread.thread_id for thread in await storage.threads.search(ThreadQuery())}


async def test_what_is_due_is_removed_and_nothing_else(storage: Storage, time: Time) -> None:
    forever, long, _ = [await keep_thread(storage, ttl=ttl) for ttl in (None, Ttl(5), Ttl(1))]
    sweep = sweeper(storage, time).sweep
    assert await sweep() == 0
    time.now += MINUTE
    assert await sweep() == 1
    assert await left(storage) == {forever, long}
    time.now += 10**12
    assert await sweep() == 1
    assert await left(storage) == {forever}


async def test_a_thread_with_a_run_under_way_is_left_alone(storage: Storage, time: Time) -> None:
    thread_id = await keep_thread(storage, ttl=Ttl(1))
    run = await accept(storage, thread_id)
    time.now += 10**9
    assert await sweeper(storage, time).sweep() == 0
    await storage.runs.cancel(run.run_id, "interrupt", time.now)
    assert await sweeper(storage, time).sweep() == 0
    time.now += MINUTE
    assert await sweeper(storage, time).sweep() == 1


async def test_a_sweep_deals_with_so_many_at_a_time(storage: Storage, time: Time) -> None:
    for _ in range(5):
        await keep_thread(storage, ttl=Ttl(1))
    time.now += MINUTE
    some = sweeper(storage, time, sweep_limit=2)
    assert [await some.sweep() for _ in range(4)] == [2, 2, 1, 0]


async def test_whoever_watches_a_removed_thread_is_told(storage: Storage, time: Time) -> None:
    class Shown:
        def feed(self, entry: object) -> bytes:
            return b"x"

    followers = Followers(storage)
    thread_id = await keep_thread(storage, ttl=Ttl(1))
    kept = await keep_thread(storage, ttl=Ttl(1, "keep_latest"))
    for each in (thread_id, kept):
        await storage.log.append(each, [note("x")]).wait()
    gone = await followers.follow_thread(thread_id, "shown", Shown, START)
    stays = await followers.follow_thread(kept, "shown", Shown, START)
    time.now += MINUTE
    assert await ExpirySweeper(storage, Checkpointing(storage), followers, Expiry(), time).sweep() == 2
    with gone, stays:
        assert await gone.next(5) is None
        assert await stays.next(5) == b"x"


async def test_it_sweeps_at_once_and_again(storage: Storage, time: Time) -> None:
    working = sweeper(storage, time, sweep_minutes=0.0001)
    await keep_thread(storage, ttl=Ttl(1))
    time.now += MINUTE
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(working.work)
            for _ in range(2):
                while await left(storage):  # noqa: ASYNC110 - there is no event to wait on
                    await anyio.sleep(0.001)
                await keep_thread(storage, ttl=Ttl(1), updated_at=time.now - MINUTE)
            tasks.cancel_scope.cancel()


async def test_a_sweep_that_fails_is_not_the_last(
    storage: Storage, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    async def refuse(now: int, limit: int) -> list[ThreadId]:
        nonlocal asked
        asked += 1
        if asked == 3:
            tasks.cancel_scope.cancel()
        raise StorageError("The disk is full.")

    monkeypatch.setattr(storage.threads, "due", refuse)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sweeper(storage, time, sweep_minutes=0.0001).work)
    assert asked == 3
