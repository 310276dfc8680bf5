"""Hints over a real Redis: what arrives, what is missed, and that losing Redis loses nothing else."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from services.fault_proxy import FaultProxy, fault_proxy
from services.fixtures import redis_server as redis_server
from services.hint_receiver import WITHIN, Received
from services.redis_server import RedisServer, running_redis
from threadwire.core.ids import Seq, ThreadId
from threadwire.core.records import QueueHint
from threadwire.errors import ConfigError
from threadwire.storage.postgres.hints import HintTransport, SegmentHint
from threadwire.storage.postgres.redis_hints import MAX_QUEUED, MAX_SEGMENT_BYTES, open_redis_hints

pytestmark = pytest.mark.anyio

ONE, TWO = ThreadId("one"), ThreadId("two")
MOMENTS = 12
"""Turns of the event loop in which a command that was given in the first one is certainly sent."""


@asynccontextmanager
async def process(url: str, deployment: str = "d") -> AsyncIterator[tuple[HintTransport, Received]]:
    received = Received()
    async with open_redis_hints(url, deployment, received) as hints:
        yield hints, received


async def watch(hints: HintTransport, received: Received, thread_id: ThreadId) -> None:
    """Watch a thread, and wait until the subscription has taken effect."""
    hints.watch(thread_id)
    await received.wait_for(lambda: thread_id in received.watched)
    received.segments.clear()


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(int(WITHIN / 0.01)):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


async def connected(hints: HintTransport, *, wanted: bool = True) -> None:
    await until(lambda: hints.is_connected == wanted)


def hint(thread_id: ThreadId, first: int, segment: bytes = b"\x00\xffbytes") -> SegmentHint:
    return SegmentHint(thread_id, Seq(first), 3, segment)


async def test_a_segment_reaches_the_watchers_of_its_thread(redis_server: RedisServer) -> None:
    async with process(redis_server.url) as (sender, _), process(redis_server.url) as (hints, received):
        await watch(hints, received, ONE)
        sender.publish([hint(TWO, 1), hint(ONE, 1), hint(ONE, 4)])
        await received.wait_for(lambda: len(received.segments) == 2)
        assert received.segments == [hint(ONE, 1), hint(ONE, 4)]
        assert sender.missed == hints.missed == 0


async def test_a_process_that_no_longer_watches_receives_nothing(redis_server: RedisServer) -> None:
    async with process(redis_server.url) as (sender, _), process(redis_server.url) as (hints, received):
        await watch(hints, received, ONE)
        hints.unwatch(ONE)
        await watch(hints, received, TWO)  # subscribed after the other subscription has ended
        sender.publish([hint(ONE, 1), hint(TWO, 1)])
        await received.wait_for(lambda: bool(received.segments))
        assert received.segments == [hint(TWO, 1)]


async def test_any_thread_id_is_a_channel(redis_server: RedisServer) -> None:
    odd = ThreadId("a:b \n*?\ud800 é")
    async with process(redis_server.url) as (hints, received):
        await watch(hints, received, odd)
        hints.publish([hint(odd, 7)])
        await received.wait_for(lambda: bool(received.segments))
        assert received.segments == [hint(odd, 7)]


async def test_the_queue_reaches_every_process(redis_server: RedisServer) -> None:
    async with process(redis_server.url) as (hints, one), process(redis_server.url) as (other, two):
        await watch(hints, one, ONE)
        await watch(other, two, ONE)
        hints.publish([], QueueHint.WORK | QueueHint.STOPS)
        for received in (one, two):
            await received.wait_for(lambda received=received: bool(received.queue))
            assert received.queue == [QueueHint.WORK | QueueHint.STOPS]


async def test_deployments_that_share_a_redis_do_not_mix(redis_server: RedisServer) -> None:
    async with process(redis_server.url, "a") as (sender, _), process(redis_server.url, "b") as (hints, received):
        await watch(hints, received, ONE)
        sender.publish([hint(ONE, 1)], QueueHint.WORK)
        hints.publish([hint(ONE, 2)], QueueHint.STOPS)
        await received.wait_for(lambda: bool(received.queue))
        assert (received.segments, received.queue) == ([hint(ONE, 2)], [QueueHint.STOPS])


async def test_a_large_segment_is_announced_without_its_bytes(redis_server: RedisServer) -> None:
    async with process(redis_server.url) as (hints, received):
        await watch(hints, received, ONE)
        hints.publish([hint(ONE, 1, b"x" * (MAX_SEGMENT_BYTES + 1))])
        await received.wait_for(lambda: bool(received.segments))
        assert received.segments == [hint(ONE, 1, b"")]


async def test_messages_of_other_programs_only_wake_watchers(redis_server: RedisServer) -> None:
    async with process(redis_server.url) as (hints, received):
        await watch(hints, received, ONE)
        client = hints._client  # type: ignore[attr-defined]
        await client.publish("threadwire:d:thread:one", b"short")
        await client.publish("threadwire:d:queue", b"nonsense")
        await received.wait_for(lambda: bool(received.segments and received.queue))
        assert received.segments == [SegmentHint(ONE, Seq(0), 0, b"")]
        assert received.queue == [QueueHint.WORK | QueueHint.STOPS]


@pytest.fixture
def proxy(redis_server: RedisServer) -> "FaultProxy":
    with fault_proxy(redis_server.port) as running:
        yield running


@pytest.mark.parametrize("fault", ["cut", "stall"])
async def test_after_an_outage_everything_is_reported_as_missed_and_hints_arrive_again(
    redis_server: RedisServer, proxy: FaultProxy, fault: str
) -> None:
    async with process(redis_server.url_at(proxy.port)) as (hints, received):
        await watch(hints, received, ONE)
        (proxy.cut if fault == "cut" else proxy.stall)()
        await connected(hints, wanted=False)
        proxy.mend()
        await received.wait_for(lambda: received.times_missed == 1)
        await connected(hints)
        await received.wait_for(lambda: received.watched == [ONE, ONE])
        hints.publish([hint(ONE, 9)])
        await received.wait_for(lambda: hint(ONE, 9) in received.segments)


async def test_hints_are_dropped_and_counted_while_redis_is_unreachable(
    redis_server: RedisServer, proxy: FaultProxy
) -> None:
    async with process(redis_server.url_at(proxy.port)) as (hints, received):
        await watch(hints, received, ONE)
        proxy.cut()
        hints.publish([hint(ONE, 1)])
        await connected(hints, wanted=False)
        hints.publish([hint(ONE, 2)] * (MAX_QUEUED + 1))
        await until(lambda: hints.missed > MAX_QUEUED)
        assert received.segments == []


@pytest.mark.parametrize("command", ["subscribe", "publish"])
async def test_closing_ends_at_every_moment_of_a_command(redis_server: RedisServer, command: str) -> None:
    """Before Python 3.12, `asyncio.wait_for`, which redis-py uses for every command, suppresses a cancellation that
    arrives after the command was sent and before its caller continues."""
    for moment in range(MOMENTS):
        async with asyncio.timeout(WITHIN), process(redis_server.url) as (hints, received):
            await watch(hints, received, ONE)
            hints.watch(TWO) if command == "subscribe" else hints.publish([hint(TWO, 1)])
            for _ in range(moment):
                await asyncio.sleep(0)


async def test_hints_arrive_again_at_whatever_moment_of_a_command_the_connection_is_lost(
    redis_server: RedisServer,
) -> None:
    async with process(redis_server.url) as (hints, received):
        for moment in range(MOMENTS):
            await connected(hints)
            await watch(hints, received, ONE)
            hints.watch(thread := ThreadId(f"at moment {moment}"))
            for _ in range(moment):
                await asyncio.sleep(0)
            hints._receiving.connection._writer.transport.abort()  # type: ignore[attr-defined]
            await connected(hints, wanted=False)
            received.watched.clear()
            await received.wait_for(lambda thread=thread: thread in received.watched)


async def test_the_server_starts_without_redis_and_finds_it_later() -> None:
    with running_redis() as server:
        server.kill()
        async with process(server.url) as (hints, received):
            hints.watch(ONE)
            await asyncio.sleep(0)
            assert not hints.is_connected
            server.start()
            await connected(hints)
            await received.wait_for(lambda: received.watched == [ONE])


@pytest.mark.parametrize("url", ["http://127.0.0.1", "redis://127.0.0.1:port", "nonsense"])
async def test_an_invalid_address_is_reported_in_one_line(url: str) -> None:
    with pytest.raises(ConfigError, match="is not the address of a Redis"):
        async with process(url):
            pass
