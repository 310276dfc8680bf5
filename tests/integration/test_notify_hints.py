"""Hints over the NOTIFY of a real PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from services.fixtures import postgres_server as postgres_server
from services.hint_receiver import Received
from services.postgres_server import PostgresServer
from threadwire.core.ids import Seq, ThreadId
from threadwire.core.records import QueueHint
from threadwire.storage.postgres.hints import HintTransport, SegmentHint, unknown_growth
from threadwire.storage.postgres.notify_hints import open_notify_hints

pytestmark = pytest.mark.anyio

ONE, TWO = ThreadId("one"), ThreadId('a " \n\ud800 é')


@asynccontextmanager
async def process(server: PostgresServer) -> AsyncIterator[tuple[HintTransport, Received]]:
    """A process that watches two threads."""
    received = Received()
    async with open_notify_hints(server.dsn(), received) as hints:
        hints.watch(ONE)
        hints.watch(TWO)
        yield hints, received


def hint(thread_id: ThreadId, first: int, size: int = 100) -> SegmentHint:
    return SegmentHint(thread_id, Seq(first), 3, b"\x00\xff" * (size // 2))


async def test_small_segments_reach_every_other_process(postgres_server: PostgresServer) -> None:
    async with process(postgres_server) as (sender, own), process(postgres_server) as (_, received):
        sent = [hint(ONE, 1), hint(TWO, 1), hint(ONE, 4), unknown_growth(ONE)]
        sender.publish(sent, QueueHint.WORK)
        await received.wait_for(lambda: bool(received.queue))
        assert received.segments == sent
        assert received.queue == [QueueHint.WORK]
        assert own.segments == []


async def test_a_process_gets_the_segments_of_the_threads_that_it_watches(postgres_server: PostgresServer) -> None:
    async with process(postgres_server) as (sender, _), process(postgres_server) as (hints, received):
        hints.unwatch(TWO)
        sender.publish([hint(TWO, 1), hint(ThreadId("three"), 1), hint(ONE, 1)], QueueHint.WORK)
        await received.wait_for(lambda: bool(received.queue))
        assert received.segments == [hint(ONE, 1)]


async def test_what_does_not_fit_into_one_notification_is_divided(postgres_server: PostgresServer) -> None:
    async with process(postgres_server) as (sender, _), process(postgres_server) as (_, received):
        sent = [hint(ONE, first, 3000) for first in range(1, 31, 3)]
        sender.publish(sent)
        await received.wait_for(lambda: len(received.segments) == len(sent))
        assert received.segments == sent


async def test_a_large_segment_is_left_to_the_table(postgres_server: PostgresServer) -> None:
    async with process(postgres_server) as (sender, _), process(postgres_server) as (_, received):
        large = hint(ONE, 1, 20_000)
        sender.publish([large, hint(ONE, 4)])
        await received.wait_for(lambda: len(received.segments) == 2)
        assert received.segments == [replace(large, segment=b""), hint(ONE, 4)]


async def test_of_many_segments_only_the_threads_are_sent(postgres_server: PostgresServer) -> None:
    async with process(postgres_server) as (sender, _), process(postgres_server) as (_, received):
        sender.publish([hint(thread_id, first, 2000) for first in range(1, 60, 3) for thread_id in (ONE, TWO)])
        await received.wait_for(lambda: len(received.segments) == 2)
        await asyncio.sleep(0)
        assert {each.thread_id: each for each in received.segments} == {
            ONE: unknown_growth(ONE),
            TWO: unknown_growth(TWO),
        }
