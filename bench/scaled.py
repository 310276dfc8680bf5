"""The scaled setup: one API process and two workers on PostgreSQL, with and without Redis. With Redis, langhost is
measured after it, on the same PostgreSQL and Redis. All servers of the measurement are started here, on loopback, and
end with it."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

from bench.clients import Client, Failed
from bench.rows import FEWER, Bench, Row, Sample, idle_stream_kilobytes, percentile, token_latencies, trivial_rate
from bench.servers import ROOT, Server, langhost, langhost_command, process_on_postgres

sys.path.append(str(ROOT / "tests"))  # the servers that the tests use

from services.postgres_server import PostgresServer, running_postgres
from services.redis_server import RedisServer, running_redis

WORKERS = 2
IDLE_STREAMS = 1000
_POSTGRES = {"shared_buffers": "256MB"}
_LANGHOST_WITHIN = 240
"""Seconds. A peer that hangs must not stop the benchmark."""


class Speed(NamedTuple):
    rates: Sequence[float]
    """Trivial runs per second."""
    latencies: Sequence[Sequence[float]]
    """The milliseconds of each token, for each turn."""

    def rate(self) -> Sample:
        return Sample.of(self.rates)

    def latency(self, share: float) -> Sample:
        return Sample.of([percentile(values, share) for values in self.latencies])


@asynccontextmanager
async def scaled(postgres: PostgresServer, redis: RedisServer | None) -> AsyncIterator[Server]:
    async with AsyncExitStack() as stack:
        dsn = await postgres.create_database()
        stack.push_async_callback(postgres.drop_database, dsn)  # what is measured next must not wait for its vacuum
        env = {"THREADWIRE_STORAGE": dsn}
        if redis is not None:
            env["THREADWIRE_REDIS"] = redis.url
        api = await stack.enter_async_context(process_on_postgres("api", env))
        for _ in range(WORKERS):
            await stack.enter_async_context(process_on_postgres("worker", env))
        yield api


async def scaled_rows(bench: Bench) -> list[Row]:
    with running_postgres(durable=True, settings=_POSTGRES) as postgres, running_redis() as redis:
        async with scaled(postgres, redis) as api:
            ours = Speed(await _rates(api.client), await _latencies(api.client))
            idle = await _idle(api)
        peer = await _speed_of_langhost(bench, postgres, redis)
    with running_postgres(durable=True, settings=_POSTGRES) as postgres:
        async with scaled(postgres, None) as api:
            without_redis = Speed([], await _latencies(api.client))
    return [
        _trivial_runs(ours, peer),
        *_latency_rows("D3", "with Redis", ours, peer),
        *_latency_rows("D4", "without Redis", without_redis, None),
        idle,
    ]


async def _rates(client: Client) -> list[float]:
    await trivial_rate(client, 1)
    return [await trivial_rate(client, 2) for _ in range(FEWER)]


async def _latencies(client: Client) -> list[list[float]]:
    return [await token_latencies(client) for _ in range(FEWER)]


async def _speed_of_langhost(bench: Bench, postgres: PostgresServer, redis: RedisServer) -> Speed | None:
    """None if it is not installed or fails."""
    if (command := langhost_command()) is None:
        return None
    try:
        async with asyncio.timeout(_LANGHOST_WITHIN):
            async with langhost(command, await postgres.create_database(), redis.url, WORKERS) as server:
                return await _measured_with_failures(server.client, bench.notes)
    except (Failed, OSError) as failure:  # also a timeout
        bench.notes.append(f"langhost: {failure!r}")
        return None


async def _measured_with_failures(client: Client, notes: list[str]) -> Speed:
    """The figures of a peer some of whose responses are incomplete: with several processes, langhost sometimes returns
    the values before the last step. These runs are reported, but they are no reason to leave out the others."""
    wrong: list[bytes] = []
    # The first answer came from one process. The others are ready a little later, and only new connections reach them.
    await trivial_rate(client, 5, wrong)
    client.close()
    wrong.clear()
    rates = [await trivial_rate(client, 2, wrong) for _ in range(FEWER)]
    if wrong:
        notes.append(f"langhost: {len(wrong)} trivial runs are not counted, because they returned {wrong[0]!r}")
    latencies: list[list[float]] = []
    for _ in range(FEWER):
        try:
            latencies.append(await token_latencies(client))
        except Failed as failure:
            notes.append(f"langhost: a turn is left out: {failure}")
    if not latencies:
        raise Failed("no turn was complete")
    return Speed(rates, latencies)


def _trivial_runs(speed: Speed, peer: Speed | None) -> Row:
    ours = speed.rate()
    return Row(
        "D2", f"trivial runs on PostgreSQL, {WORKERS} workers", "runs/s", ours, None, peer.rate() if peer else None,
        ">= 150/s", f"{ours.median:.0f}/s", ours.median >= 150, _named(peer),
    )  # fmt: skip


def _latency_rows(row: str, how: str, speed: Speed, peer: Speed | None) -> list[Row]:
    rows = []
    for suffix, share, most in (("", 0.5, 12), ("b", 0.99, 40)):
        ours = speed.latency(share)
        rows.append(
            Row(f"{row}{suffix}", f"token to client across processes {how}, 20 runs x 50/s, p{share * 100:.0f}", "ms",
                ours, None, peer.latency(share) if peer else None, f"<= {most} ms", f"{ours.median:.1f} ms",
                ours.median <= most, _named(peer))
        )  # fmt: skip
    return rows


def _named(peer: Speed | None) -> str:
    return f"stock: langhost with {WORKERS} processes, on the same PostgreSQL and Redis" if peer else ""


async def _idle(api: Server) -> Row:
    ours = Sample.of([await idle_stream_kilobytes(api, IDLE_STREAMS)])
    return Row(
        "D5", f"{IDLE_STREAMS} idle streams on PostgreSQL, memory of one", "kB", ours, None, None, "<= 30 kB",
        f"{ours.median:.1f} kB", ours.median <= 30,
    )  # fmt: skip
