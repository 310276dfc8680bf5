"""Worker processes: how much more two of them do, and what the communication between processes costs.

The client only counts frames, so that its own CPU time stays small; the notes report it.
"""

import asyncio
import resource
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from bench.clients import Client
from bench.rows import FEWER, TALK, Bench, Row, Sample, percentile, trivial_rate, turn_by_turn
from bench.servers import Server, threadwire

STREAMS = 20
TOKENS = 2000
TRIVIAL = {"text": "hi"}
_WITHOUT = "bare: the same without workers"


async def worker_processes(bench: Bench) -> list[Row]:
    """Rows K1 to K5, with one and two worker processes beside a server without any."""
    async with AsyncExitStack() as stack:
        servers: dict[int, Server] = {}
        for count in (1, 2):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-workers-"))
            servers[count] = await stack.enter_async_context(threadwire(Path(folder), workers=count))
            await _wait_until_ready(servers[count].client, count)
        return [
            *await _twenty_streams(bench, servers),
            await _beside(bench, servers[2], "K3", "trivial run, 2 workers, p50", _trivial_run),
            await _beside(bench, servers[2], "K4", "token latency, 2 workers, p50", _token_latency),
            await _trivial_runs(bench, servers[2]),
        ]


async def _wait_until_ready(client: Client, count: int) -> None:
    """Wait until all workers are ready, then execute a few runs, so that their startup is not measured."""
    wanted = f'threadwire_workers{{state="ready"}} {count}'.encode()
    while True:
        if wanted in (await client.ask("GET", "/metrics", keep=True)).body:
            break
        await asyncio.sleep(0.1)
    await asyncio.gather(*(client.wait("trivial", TRIVIAL) for _ in range(STREAMS)))


async def _twenty_streams(bench: Bench, servers: dict[int, Server]) -> list[Row]:
    inputs = {**TALK, "count": TOKENS}
    bare: list[float] = []
    rates: dict[int, list[float]] = {count: [] for count in servers}
    spent: dict[int, list[float]] = {count: [] for count in servers}
    for _ in range(FEWER):
        each = await bench.bare("tokens", inputs=inputs, streams=STREAMS, at_once=False)
        bare.append(each["tokens"] / each["seconds"])
        for count, server in servers.items():
            cpu, start = _own_cpu(), time.perf_counter()
            await server.client.connections(STREAMS)
            done = await asyncio.gather(*(server.client.tokens(inputs) for _ in range(STREAMS)))
            seconds = max(each.last for each in done) - start
            rates[count].append(STREAMS * TOKENS / seconds)
            spent[count].append((_own_cpu() - cpu) / seconds)
    alone = Sample.of(bare)
    rows = []
    for row, count, least in (("K1", 1, None), ("K2", 2, 1.1)):
        ours = Sample.of(rates[count])
        share = ours.median / alone.median
        rows.append(
            Row(row, f"20 concurrent streams, {count} worker{'s' * (count > 1)}", "tokens/s", ours, alone, None,
                "" if least is None else f">= {least:.0%} of bare", f"{share:.0%}",
                None if least is None else share >= least,
                f"the client used {statistics.median(spent[count]):.0%} of a core")
        )  # fmt: skip
    return rows


async def _beside(
    bench: Bench, server: Server, row: str, work: str, measure: Callable[[Client], Awaitable[float]]
) -> Row:
    ours, without = await _in_turns(bench, server, measure)
    return Row(row, work, "ms", ours, without, None, "", f"{turn_by_turn(ours, without):.2f} x", None, _WITHOUT)


async def _trivial_runs(bench: Bench, server: Server) -> Row:
    ours, without = await _in_turns(bench, server, partial(trivial_rate, seconds=1))
    times = turn_by_turn(ours, without)
    return Row("K5", "trivial runs, 16 at a time, 2 workers", "runs/s", ours, without, None,
               ">= 1.25 x without workers", f"{times:.2f} x", times >= 1.25, _WITHOUT)  # fmt: skip


async def _in_turns(
    bench: Bench, server: Server, measure: Callable[[Client], Awaitable[float]]
) -> tuple[Sample, Sample]:
    """Measure the server with workers and the one without. The latter is in the column `bare`."""
    ours, without = [], []
    for _ in range(2 * FEWER):
        without.append(await measure(bench.ours.client))
        ours.append(await measure(server.client))
    return Sample.of(ours), Sample.of(without)


async def _trivial_run(client: Client) -> float:
    threads = [await client.thread() for _ in range(20)]
    return statistics.median([(await client.stream("trivial", TRIVIAL, each)).seconds for each in threads]) * 1000


async def _token_latency(client: Client) -> float:
    inputs = {**TALK, "count": 100, "rate": 50, "stamp": True}
    await client.connections(STREAMS)
    done = await asyncio.gather(*(client.tokens(inputs, stamps=True) for _ in range(STREAMS)))
    return percentile([seconds * 1000 for one in done for seconds in one.latencies], 0.5)


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
