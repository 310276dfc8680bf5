"""Benchmarks for auth: the same requests with and without it."""

import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.auth import TOKEN
from bench.rows import Bench, Row, Sample, trivial_rate
from bench.servers import Server, threadwire
from bench.thread_rows import CLIENTS, per_pair

TURNS = 20
MOST = 1.15


async def with_auth(bench: Bench) -> list[Row]:
    headers = {"authorization": f"Bearer {TOKEN}"}
    with tempfile.TemporaryDirectory() as folder:
        async with threadwire(Path(folder) / "data", "langgraph-auth.json", headers) as server:
            return [
                await _compared("A1", f"create and get a thread with auth, {CLIENTS} clients, per pair", _pair,
                                server, bench.ours),
                await _compared("A2", "trivial runs with auth, per run", _run, server, bench.ours),
            ]  # fmt: skip


async def _pair(server: Server) -> float:
    return await per_pair(server.client, 0.5)


async def _run(server: Server) -> float:
    return 1000 / await trivial_rate(server.client, 0.5)


async def _compared(
    row: str, work: str, measure: Callable[[Server], Awaitable[float]], server: Server, without_auth: Server
) -> Row:
    """Measure both servers in turns, so that other load on the machine slows both alike."""
    ours: list[float] = []
    without: list[float] = []
    cpu: list[float] = []
    await measure(server)
    await measure(without_auth)
    for _ in range(TURNS):
        milliseconds, before = await _with_cpu(without_auth, measure)
        without.append(milliseconds)
        milliseconds, after = await _with_cpu(server, measure)
        ours.append(milliseconds)
        cpu.append(after / before)
    times = statistics.median(one / other for one, other in zip(ours, without, strict=True))
    note = f"the column `bare` is Threadwire without auth. CPU of the server: {statistics.median(cpu):.2f} x"
    return Row(row, work, "ms", Sample.of(ours), Sample.of(without), None, f"<= {MOST} x without auth",
               f"{times:.2f} x", times <= MOST, note)  # fmt: skip


async def _with_cpu(server: Server, measure: Callable[[Server], Awaitable[float]]) -> tuple[float, float]:
    """Return the measured milliseconds per unit of work, and the CPU time of the server for the same unit: the
    milliseconds, multiplied by the share of the time in which the server was busy."""
    cpu, start = server.cpu(), time.perf_counter()
    milliseconds = await measure(server)
    return milliseconds, milliseconds * (server.cpu() - cpu) / (time.perf_counter() - start)
