"""A client that joins a foreign thread receives what it would receive for a thread that does not exist."""

from collections.abc import Callable, Coroutine, Hashable, Sequence
from typing import Any, TypeVar

import anyio
import pytest
from framing import data_only, joined

from threadwire.core.access_filter import AccessFilter, parse_access_filter
from threadwire.core.encoder import Framing, Message
from threadwire.core.entries import START, Entry, Json, Kind
from threadwire.core.ids import Seq, ThreadId
from threadwire.core.records import Run, Thread
from threadwire.core.users import User
from threadwire.engine.access import acting_as
from threadwire.engine.followers import Follower, Followers
from threadwire.engine.join import Joined, Joins
from threadwire.errors import InvalidCursor
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.samples import NOW, new_thread_id, note, store_thread

pytestmark = pytest.mark.anyio

SHORT = 0.02
T = TypeVar("T")


class Alice:
    async def filter_for(self, user: User, resource: str, action: str, value: dict[str, Any]) -> AccessFilter:
        return parse_access_filter({"owner": "alice"})


class Values:
    """Sends the values of custom entries."""

    def feed(self, entry: Entry) -> Sequence[Message]:
        return [(b"", f"{entry.data['value']}\n".encode())] if entry.kind == Kind.CUSTOM else []

    def joined(self, base: Json) -> Sequence[Message]:
        return []

    def reopened(self) -> Sequence[Message]:
        return []


class Vocabulary:
    options: Hashable = "values"
    framing: Framing = staticmethod(data_only)
    run_encoder: Callable[[], Values] = Values
    thread_encoder: Callable[[], Values] = Values

    def idle(self, thread: Thread | None, failed: Run | None = None) -> Sequence[Message]:
        return [(b"", b"no thread\n" if thread is None else b"idle\n")]

    def up_to_date(self, thread: Thread) -> Sequence[Message]:
        return [(b"", b"up to date\n")]


class JoinsOfAlice(Joins):
    async def until_idle(self, *arguments: Any) -> Joined:
        return await _as_alice(super().until_idle(*arguments))

    async def forever(self, *arguments: Any) -> Follower:
        return await _as_alice(super().forever(*arguments))

    async def thread_or_future(self, *arguments: Any) -> Follower:
        return await _as_alice(super().thread_or_future(*arguments))

    async def end_of(self, *arguments: Any) -> Seq:
        return await _as_alice(super().end_of(*arguments))


async def _as_alice(operation: Coroutine[Any, Any, T]) -> T:
    with acting_as(User(identity="alice", permissions=[]), Alice()):
        return await operation


@pytest.fixture
def joins(storage: Storage, followers: Followers, monkeypatch: pytest.MonkeyPatch) -> Joins:
    monkeypatch.setattr("threadwire.engine.followers.POLL", SHORT / 2)
    return JoinsOfAlice(storage, followers, lambda: NOW)


async def store(storage: Storage, owner: str, thread_id: ThreadId | None = None) -> ThreadId:
    stored = await store_thread(storage, thread_id=thread_id or new_thread_id(), metadata={"owner": owner})
    await storage.log.append(stored, [note("secret"), note("more")]).wait()
    return stored


async def received(follower: Follower) -> str:
    """Everything up to a pause."""
    sent = b""
    while frames := joined(await follower.next(SHORT)):
        sent += frames
    return sent.decode()


@pytest.mark.parametrize("cursor", [None, START, Seq(1)])
async def test_a_foreign_thread_is_shown_as_unknown(storage: Storage, joins: Joins, cursor: Seq | None) -> None:
    for thread_id in (await store(storage, "bob"), new_thread_id()):
        shown = await joins.until_idle(thread_id, Vocabulary(), cursor)
        assert (b"".join(shown.first), shown.rest) == (b"no thread\n", None)


@pytest.mark.parametrize("cursor", [None, START, Seq(1)])
async def test_nothing_of_a_foreign_thread_is_streamed(storage: Storage, joins: Joins, cursor: Seq | None) -> None:
    foreign = await store(storage, "bob")
    with await joins.forever(foreign, Vocabulary(), cursor) as follower:
        first = await received(follower)
        await storage.log.append(foreign, [note("later")]).wait()
        assert first + await received(follower) == ("no thread\n" if cursor is None else "")


async def test_the_thread_wire_waits_for_a_foreign_thread_as_for_an_unknown_one(storage: Storage, joins: Joins) -> None:
    foreign = await store(storage, "bob")
    with await joins.thread_or_future(foreign, "values", Values, data_only, START) as follower:
        assert await received(follower) == ""
        await storage.log.append(foreign, [note("later")]).wait()
        assert await received(follower) == ""
    for thread_id in (foreign, new_thread_id()):
        with pytest.raises(InvalidCursor):
            await joins.thread_or_future(thread_id, "values", Values, data_only, Seq(1))


async def test_the_log_of_a_foreign_thread_is_empty(storage: Storage, joins: Joins) -> None:
    own, foreign = await store(storage, "alice"), await store(storage, "bob")
    assert [await joins.end_of(each) for each in (own, foreign, new_thread_id())] == [2, 0, 0]
    with pytest.raises(InvalidCursor):
        await joins.past(foreign, Values(), data_only, Seq(1), Seq(2))
    with await joins.past(own, Values(), data_only, START, Seq(1)) as past:
        assert await received(past) == "secret\n"


@pytest.mark.parametrize(("owner", "streamed"), [("alice", "secret\nmore\n"), ("bob", "")])
async def test_a_thread_that_is_created_later_is_streamed_to_its_owner_only(
    storage: Storage, joins: Joins, owner: str, streamed: str
) -> None:
    thread_id = new_thread_id()
    forever = await joins.forever(thread_id, Vocabulary(), START)
    future = await joins.thread_or_future(thread_id, "values", Values, data_only, START)
    with forever, future:
        assert [await received(forever), await received(future)] == ["", ""]
        await store(storage, owner, thread_id)
        assert [await received(forever), await received(future)] == [streamed, streamed]


async def test_an_own_thread_is_streamed(storage: Storage, joins: Joins) -> None:
    own = await store(storage, "alice")
    with await joins.forever(own, Vocabulary(), START) as follower:
        assert await received(follower) == "secret\nmore\n"
    with anyio.fail_after(5):
        assert b"".join((await joins.until_idle(own, Vocabulary())).first) == b"idle\n"
