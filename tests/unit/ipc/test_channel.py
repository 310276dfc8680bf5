import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from threadwire.core.entries import Draft, Fence
from threadwire.core.records import Lease, QueueHint
from threadwire.errors import Conflict, ConnectionLost, RequestFailed
from threadwire.graphs.user_loop import UserLoop
from threadwire.ipc.channel import Channel
from threadwire.ipc.frames import FrameReader, encode, read_value, write_value
from threadwire.ipc.outbox import MAX_PENDING_BYTES

pytestmark = pytest.mark.anyio


@pytest.fixture
async def channels() -> Any:
    ours, theirs = socket.socketpair()
    one, other = Channel(ours), Channel(theirs)
    yield one, other
    one.close()
    other.close()


class Harmful:
    def __reduce__(self) -> Any:
        return os.system, ("false",)


async def echo(*arguments: Any) -> Any:
    return arguments


async def test_a_request_returns_records_with_their_types(channels: tuple[Channel, Channel]) -> None:
    one, other = channels
    other.on_request("echo", echo)
    one.open()
    other.open()
    sent = (
        Lease("w", 5),
        Fence("r", 1),
        Draft("custom", {"a": [1, None]}),
        QueueHint.WORK,
        {"x": b"\0", "s": "\ud800"},
    )
    assert await one.request("echo", *sent) == sent


async def test_the_error_of_a_handler_is_raised_and_others_become_request_failed(
    channels: tuple[Channel, Channel],
) -> None:
    one, other = channels

    async def fail(error: str) -> None:
        raise Conflict("taken") if error == "ours" else ZeroDivisionError("theirs")

    other.on_request("fail", fail)
    one.open()
    other.open()
    with pytest.raises(Conflict, match="taken"):
        await one.request("fail", "ours")
    with pytest.raises(RequestFailed, match="ZeroDivisionError: theirs"):
        await one.request("fail", "theirs")


async def test_a_type_that_is_not_ours_is_rejected_and_nothing_is_executed(channels: tuple[Channel, Channel]) -> None:
    one, other = channels
    other.on_request("echo", echo)
    one.open()
    other.open()
    with pytest.raises(RequestFailed, match=r"posix\.system"):
        await one.request("echo", Harmful())
    assert await one.request("echo", "still works") == ("still works",)


async def test_a_rejected_notification_ends_the_connection(channels: tuple[Channel, Channel]) -> None:
    one, other = channels
    one.open()
    other.open()
    one.notify("anything", Harmful())
    await asyncio.wait_for(other.wait_until_ended(), 20)


async def test_notifications_keep_their_order_however_large(channels: tuple[Channel, Channel]) -> None:
    one, other = channels
    received: list[int] = []
    done = asyncio.Event()

    def take(number: int, padding: bytes) -> None:
        received.append(number)
        if number == 499:
            done.set()

    other.on_notification("take", take)
    one.open()
    for number in range(500):
        one.notify("take", number, bytes(number * 7))
    assert one.is_full, "nobody has read yet"
    other.open()
    await asyncio.wait_for(one.wait_for_room(), 20)
    await asyncio.wait_for(done.wait(), 20)
    assert received == list(range(500))
    assert not one.is_full


async def test_a_side_that_pauses_makes_the_other_wait(channels: tuple[Channel, Channel]) -> None:
    one, other = channels
    room = asyncio.Event()

    async def wait() -> None:
        await room.wait()

    received: list[bytes] = []

    def take(data: bytes) -> None:
        received.append(data)
        other.pause_until(wait)

    other.on_notification("take", take)
    one.open()
    other.open()
    piece = bytes(MAX_PENDING_BYTES)
    while not one.is_full:
        one.notify("take", piece)
        await asyncio.sleep(0)
    waiting = asyncio.create_task(one.wait_for_room())
    await asyncio.sleep(0)
    assert not waiting.done()
    room.set()
    await asyncio.wait_for(waiting, 20)


async def test_requests_fail_when_the_other_side_ends(channels: tuple[Channel, Channel]) -> None:
    one, other = channels

    async def never() -> None:
        await asyncio.get_running_loop().create_future()

    other.on_request("never", never)
    one.open()
    other.open()
    request = asyncio.create_task(one.request("never"))
    await asyncio.sleep(0)
    other.close()
    with pytest.raises(ConnectionLost):
        await request
    with pytest.raises(ConnectionLost):
        await one.request("never")


@pytest.fixture
def user_loop() -> Iterator[UserLoop]:
    with UserLoop("test") as loop:
        yield loop


async def test_a_sync_request_on_another_event_loop_does_not_deadlock(
    channels: tuple[Channel, Channel], user_loop: UserLoop
) -> None:
    one, other = channels
    other.on_request("echo", echo)
    one.open()
    other.open()

    async def blocking() -> Any:
        one.notify("unknown")
        return one.request_blocking("echo", 1)

    async with asyncio.timeout(20):
        assert await user_loop.run(blocking) == (1,)


async def test_a_blocked_event_loop_holds_nothing_back(channels: tuple[Channel, Channel], user_loop: UserLoop) -> None:
    one, other = channels
    received: list[str] = []
    other.on_notification("take", received.append)
    other.on_request("echo", echo)
    one.open()
    other.open()
    unblock, blocked = threading.Event(), asyncio.Event()
    here = asyncio.get_running_loop()

    async def block() -> None:
        one.notify("take", "before")
        here.call_soon_threadsafe(blocked.set)
        unblock.wait(20)

    work = asyncio.create_task(user_loop.run(block))
    await blocked.wait()
    async with asyncio.timeout(20):
        assert await one.request("echo") == ()
    assert received == ["before"]
    unblock.set()
    await work


async def test_frames_are_found_however_the_bytes_are_split() -> None:
    frames = encode(1, 7, "first") + encode(2, 8, {"second": bytes(1000)})
    reader = FrameReader()
    found = [frame for position in range(len(frames)) for frame in reader.feed(frames[position : position + 1])]
    assert [(frame.kind, frame.number, frame.content()) for frame in found] == [
        (1, 7, "first"),
        (2, 8, {"second": bytes(1000)}),
    ]


async def test_a_value_can_be_sent_before_a_channel_is_opened() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        write_value(ours, {"lease": Lease("w", 1)})
        assert read_value(theirs) == {"lease": Lease("w", 1)}
        ours.close()
        with pytest.raises(ConnectionLost):
            read_value(theirs)
