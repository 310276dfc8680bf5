"""Benchmarks for threads: creating and getting them, and reading the state of a long conversation."""

import asyncio
import statistics
import time
from uuid import uuid4

from bench.clients import Client, Failed
from bench.rows import Bench, Row, Sample, bare_trivial, turn_by_turn
from bench.servers import Server

TURNS = 10
CLIENTS = 16
MESSAGES = 400
READS = 8
"""Threads per turn, and reads of each after the first."""


async def per_pair(client: Client, seconds: float) -> float:
    """Milliseconds to create and get a thread, with all clients at work."""
    await client.connections(CLIENTS)
    done, start = 0, time.perf_counter()

    async def repeat() -> None:
        nonlocal done
        while time.perf_counter() - start < seconds:
            thread = await client.thread()
            got = await client.ask("GET", f"/threads/{thread}", keep=True)
            if got.json()["thread_id"] != thread:
                raise Failed("another thread was returned")
            done += 1

    await asyncio.gather(*(repeat() for _ in range(CLIENTS)))
    return (time.perf_counter() - start) / done * 1000


async def create_and_get(bench: Bench) -> list[Row]:
    await per_pair(bench.ours.client, 0.5)
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(TURNS):
        bare.append(await bare_trivial(bench))
        ours.append(await per_pair(bench.ours.client, 0.5))

    async def stock(server: Server) -> float:
        return await per_pair(server.client, 1)

    sample, base = Sample.of(ours), Sample.of(bare)
    times = turn_by_turn(sample, base)
    return [
        Row("T1", f"create and get a thread, {CLIENTS} clients, per pair", "ms", sample, base, await bench.stock(stock),
            "<= 0.7 x a bare trivial run", f"{times:.2f} x", times <= 0.7,
            f"{1000 / sample.median:,.0f} pairs/s"),
    ]  # fmt: skip


async def state_of_long_thread(bench: Bench) -> list[Row]:
    """Read the state of new threads: the first read is cold, the others are warm."""
    cold: list[float] = []
    warm: list[float] = []
    bare: list[float] = []
    await _read_states(bench.ours.client)
    for _ in range(TURNS):
        bare.append(await bare_trivial(bench))
        first, others = await _read_states(bench.ours.client)
        cold.append(first)
        warm.append(others)
    of_stock: list[float] = []

    async def stock(server: Server) -> float:
        of_stock.extend(await _read_states(server.client, threads=2))
        return 0.0

    await bench.stock(stock, 1)
    base = Sample.of(bare)
    rows = []
    for row, name, sample, theirs, most in (
        ("T2", "warm", Sample.of(warm), of_stock[1:], 3),
        ("T2b", "cold", Sample.of(cold), of_stock[:1], 6),
    ):
        times = turn_by_turn(sample, base)
        rows.append(
            Row(row, f"state of a {MESSAGES}-message thread, {name}, p50", "ms", sample, base,
                Sample.of(theirs) if theirs else None, f"<= {most} x a bare trivial run", f"{times:.1f} x",
                times <= most)
        )  # fmt: skip
    return rows


async def _read_states(client: Client, threads: int = READS) -> tuple[float, float]:
    """The median milliseconds of the first read of a thread, and of the following ones."""
    messages = [
        {"type": ("human", "ai")[at % 2], "id": str(uuid4()), "content": f"message {at}: " + "words " * 30}
        for at in range(MESSAGES - 1)
    ]
    first: list[float] = []
    others: list[float] = []
    for _ in range(threads):
        thread = await client.thread()
        await client.stream("tokens", {"messages": messages, "count": 20}, thread)
        for at in range(1 + READS):
            read = await client.ask("GET", f"/threads/{thread}/state", keep=True)
            if (found := len(read.json()["values"]["messages"])) != MESSAGES:
                raise Failed(f"only {found} of {MESSAGES} messages were read")
            (others if at else first).append(read.seconds * 1000)
    return statistics.median(first), statistics.median(others)
