"""Threads whose TTL has expired."""

from collections.abc import AsyncIterator

import anyio
import pytest
from framing import data_only, joined

from threadwire.core.encoder import Message
from threadwire.core.entries import START
from threadwire.core.ids import ThreadId
from threadwire.core.records import ThreadQuery, Ttl
from threadwire.engine.checkpoints import ThreadCheckpoints
from threadwire.engine.expiry import Expiry, ExpirySweeper
from threadwire.engine.followers import Followers
from threadwire.engine.thread_deletions import ThreadDeletions
from threadwire.errors import StorageError
from threadwire.storage.abc import Storage
from threadwire.storage.memory import open_memory_storage
from threadwire.testing.conformance.samples import NOW, accept, note, store_thread

pytestmark = pytest.mark.anyio

MINUTE = 60_000


class FakeClock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now


@pytest.fixture
async def storage() -> AsyncIterator[Storage]:
    async with open_memory_storage() as storage:
        yield storage


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def sweeper(storage: Storage, clock: FakeClock, **expiry: object) -> ExpirySweeper:
    settings = Expiry(**expiry)  # type: ignore[arg-type]
    return ExpirySweeper(storage, ThreadCheckpoints(storage), Followers(storage), ThreadDeletions(), settings, clock)


async def remaining(storage: Storage) -> set[ThreadId]:
    return {thread.thread_id for thread in await storage.threads.search(ThreadQuery())}


async def test_only_due_threads_are_deleted(storage: Storage, clock: FakeClock) -> None:
    forever, long, _ = [await store_thread(storage, ttl=ttl) for ttl in (None, Ttl(5), Ttl(1))]
    sweep = sweeper(storage, clock).sweep
    assert await sweep() == 0
    clock.now += MINUTE
    assert await sweep() == 1
    assert await remaining(storage) == {forever, long}
    clock.now += 10**12
    assert await sweep() == 1
    assert await remaining(storage) == {forever}


async def test_deleted_threads_are_reported_and_pruned_ones_are_not(storage: Storage, clock: FakeClock) -> None:
    deleted = await store_thread(storage, ttl=Ttl(1))
    await store_thread(storage, ttl=Ttl(1, "keep_latest"))
    reported: list[ThreadId] = []
    deletions = ThreadDeletions()

    async def report(thread_id: ThreadId) -> None:
        reported.append(thread_id)
        raise OSError("the disk is gone")

    deletions.on_delete("replaced", report)
    deletions.on_delete("replaced", report)
    clock.now += MINUTE

    sweeper = ExpirySweeper(storage, ThreadCheckpoints(storage), Followers(storage), deletions, Expiry(), clock)

    assert await sweeper.sweep() == 2
    assert reported == [deleted]


async def test_a_thread_with_an_active_run_does_not_expire(storage: Storage, clock: FakeClock) -> None:
    thread_id = await store_thread(storage, ttl=Ttl(1))
    run = await accept(storage, thread_id)
    clock.now += 10**9
    assert await sweeper(storage, clock).sweep() == 0
    await storage.runs.cancel(run.run_id, "interrupt", clock.now)
    assert await sweeper(storage, clock).sweep() == 0
    clock.now += MINUTE
    assert await sweeper(storage, clock).sweep() == 1


async def test_a_sweep_expires_at_most_its_limit(storage: Storage, clock: FakeClock) -> None:
    for _ in range(5):
        await store_thread(storage, ttl=Ttl(1))
    clock.now += MINUTE
    limited = sweeper(storage, clock, sweep_limit=2)
    assert [await limited.sweep() for _ in range(4)] == [2, 2, 1, 0]


async def test_followers_of_an_expired_thread_finish(storage: Storage, clock: FakeClock) -> None:
    class ConstantEncoder:
        def feed(self, entry: object) -> list[Message]:
            return [(b"", b"x")]

    followers = Followers(storage)
    thread_id = await store_thread(storage, ttl=Ttl(1))
    pruned = await store_thread(storage, ttl=Ttl(1, "keep_latest"))
    for each in (thread_id, pruned):
        await storage.log.append(each, [note("x")]).wait()
    of_deleted = await followers.follow_thread(thread_id, "options", ConstantEncoder, data_only, START)
    of_pruned = await followers.follow_thread(pruned, "options", ConstantEncoder, data_only, START)
    clock.now += MINUTE
    assert (
        await ExpirySweeper(storage, ThreadCheckpoints(storage), followers, ThreadDeletions(), Expiry(), clock).sweep()
        == 2
    )
    with of_deleted, of_pruned:
        assert joined(await of_deleted.next(5)) is None
        assert joined(await of_pruned.next(5)) == b"x"


async def test_the_first_sweep_is_immediate_and_others_follow(storage: Storage, clock: FakeClock) -> None:
    periodic = sweeper(storage, clock, sweep_minutes=0.0001)
    await store_thread(storage, ttl=Ttl(1))
    clock.now += MINUTE
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(periodic.work)
            for _ in range(2):
                while await remaining(storage):  # noqa: ASYNC110 - there is no event to wait on
                    await anyio.sleep(0.001)
                await store_thread(storage, ttl=Ttl(1), updated_at=clock.now - MINUTE)
            tasks.cancel_scope.cancel()


async def test_sweeps_continue_after_a_failed_sweep(
    storage: Storage, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    async def fail(now: int, limit: int) -> list[ThreadId]:
        nonlocal calls
        calls += 1
        if calls == 3:
            tasks.cancel_scope.cancel()
        raise StorageError("The disk is full.")

    monkeypatch.setattr(storage.threads, "due", fail)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sweeper(storage, clock, sweep_minutes=0.0001).work)
    assert calls == 3
