"""Data of temporary runs is deleted when it is old enough and has no readers."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from framing import data_only, joined
from langgraph.checkpoint.memory import InMemorySaver

from threadwire.core.encoder import Encoder, Message
from threadwire.core.entries import START, Entry
from threadwire.core.records import Ending, Run
from threadwire.engine.checkpoints import ThreadCheckpoints
from threadwire.engine.followers import Followers
from threadwire.engine.temporary_threads import TemporaryThreadSweeper
from threadwire.graphs.custom_persistence import CustomSaver
from threadwire.graphs.user_loop import UserLoop
from threadwire.storage.abc import Storage
from threadwire.storage.memory import open_memory_storage
from threadwire.testing.conformance.samples import NOW, a_run, claim_run, new_thread_id, run_log, write

pytestmark = pytest.mark.anyio

KEEP = 120


class DotEncoder(Encoder):
    def feed(self, entry: Entry) -> list[Message]:
        return [(b"", b".")]


@pytest.fixture
async def storage() -> AsyncIterator[Storage]:
    async with open_memory_storage() as storage:
        yield storage


@pytest.fixture
def loop() -> Iterator[UserLoop]:
    with UserLoop("test") as loop:
        yield loop


def sweeper_at(seconds: float, storage: Storage, followers: Followers, saver: Any = None) -> TemporaryThreadSweeper:
    """A sweeper the given number of seconds after the runs ended."""
    checkpoints = ThreadCheckpoints(storage, saver)
    return TemporaryThreadSweeper(storage, checkpoints, followers, lambda: NOW + round(seconds * 1000), keep=KEEP)


async def ended_run(storage: Storage) -> Run:
    new = a_run(new_thread_id(), create_thread=True, temporary=True)
    await storage.runs.accept(new)
    run = await claim_run(storage, new.run_id)
    await write(storage, run, "said")
    await storage.handle(run).finish(Ending("success"), NOW)
    return run


async def test_the_log_is_retained_for_a_while(storage: Storage) -> None:
    run = await ended_run(storage)
    followers = Followers(storage)
    assert await sweeper_at(KEEP, storage, followers).sweep() == 0
    assert len(await run_log(storage, run)) == 3
    assert await sweeper_at(KEEP + 1, storage, followers).sweep() == 1
    assert await run_log(storage, run) == []


async def test_a_log_that_is_being_read_is_not_swept(storage: Storage) -> None:
    followed, other = await ended_run(storage), await ended_run(storage)
    followers = Followers(storage)
    with followers.follow(followed, "options", DotEncoder, data_only, START) as follower:
        assert await sweeper_at(KEEP * 9, storage, followers).sweep() == 1
        assert await run_log(storage, other) == []
        assert joined(await follower.next(1)) == b"..."
    assert await sweeper_at(KEEP * 9, storage, followers).sweep() == 1
    assert await run_log(storage, followed) == []


async def test_checkpoints_are_deleted_from_a_custom_checkpointer(storage: Storage, loop: UserLoop) -> None:
    class RecordingSaver(InMemorySaver):
        deleted: list[str] = []  # noqa: RUF012 - one instance

        async def adelete_thread(self, thread_id: str) -> None:
            self.deleted.append(thread_id)

    saver, run = RecordingSaver(), await ended_run(storage)
    assert await sweeper_at(KEEP + 1, storage, Followers(storage), CustomSaver(saver, loop)).sweep() == 1
    assert saver.deleted == [run.thread_id]


async def test_a_failed_deletion_is_retried_and_does_not_delay_others(storage: Storage, loop: UserLoop) -> None:
    bad, good = await ended_run(storage), await ended_run(storage)

    class Failing(InMemorySaver):
        fails = True

        async def adelete_thread(self, thread_id: str) -> None:
            if self.fails and thread_id == bad.thread_id:
                raise OSError("unreachable")

    saver = Failing()
    sweeper = sweeper_at(KEEP + 1, storage, Followers(storage), CustomSaver(saver, loop))
    assert await sweeper.sweep() == 1
    assert await run_log(storage, good) == []
    assert len(await run_log(storage, bad)) == 3
    saver.fails = False
    assert await sweeper.sweep() == 1
    assert await run_log(storage, bad) == []
