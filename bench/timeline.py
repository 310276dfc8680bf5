"""Benchmarks for the timeline: the last page of a long one, and following a stream of tokens."""

import asyncio
import statistics
import time
from collections.abc import Callable

from bench.clients import Client, Failed
from bench.rows import REPEAT, TALK, Bench, Row, Sample, percentile
from bench.servers import threadwire

BLOCKS = 10_000
READS = 40
RESTARTED = 7
TOKENS = 2000
_APPEND = b"event: append"


async def last_page(bench: Bench) -> list[Row]:
    """Read the last page of a timeline with 10 000 blocks."""
    client = bench.ours.client
    path = _last_page(await long_thread(client, BLOCKS))
    first = await _read(client, path)
    turns = [[await _read(client, path) for _ in range(READS)] for _ in range(REPEAT)]
    sample = Sample.of([percentile(turn, 0.5) for turn in turns])
    return [
        Row("B1", "last page of a 10 000-block timeline, p50", "ms", sample, budget="<= 10 ms",
            figure=f"{sample.median:.1f} ms", passed=sample.median <= 10, note=f"the first one: {first:.0f} ms"),
    ]  # fmt: skip


async def last_page_after_restart(bench: Bench) -> list[Row]:
    """Read the last pages of several such timelines, each for the first time since the server started."""
    data = bench.data / "restarted"
    data.mkdir()
    async with threadwire(data) as server:
        paths = [_last_page(await long_thread(server.client, BLOCKS)) for _ in range(RESTARTED)]
        for path in paths:
            await _read(server.client, path)
    async with threadwire(data) as server:
        await server.client.ask("GET", "/ok", keep=True)
        pages = Sample.of([await _read(server.client, path) for path in paths])
        earlier = Sample.of([await _read(server.client, f"{path}&before=m:m5000") for path in paths])
    return [
        Row("B1b", "the same after a restart, p50", "ms", pages, budget="<= 10 ms", figure=f"{pages.median:.1f} ms",
            passed=pages.median <= 10, note=f"the first earlier page, which needs all blocks: {earlier.median:.0f} ms"),
    ]  # fmt: skip


async def long_thread(client: Client, blocks: int) -> str:
    """Create a thread with that many messages."""
    thread = await client.thread()
    messages = [
        {"type": ("human", "ai")[at % 2], "id": f"m{at}", "content": f"message {at}"} for at in range(blocks - 1)
    ]
    await client.stream("tokens", {"messages": messages, "count": 1}, thread)
    return thread


def _last_page(thread: str) -> str:
    return f"/threads/{thread}/timeline?limit=50"


async def _read(client: Client, path: str) -> float:
    """Read a page, and return how many milliseconds that took."""
    read = await client.ask("GET", path, keep=True)
    if len(read.json()["blocks"]) != 50:
        raise Failed("the page is not full")
    return read.seconds * 1000


async def follow(bench: Bench) -> list[Row]:
    """Follow a timeline while tokens are streamed, compared with the classic stream of the same run."""
    client = bench.ours.client
    rates: list[float] = []
    classic: list[float] = []
    sizes: list[float] = []
    await _followed(client)
    for _ in range(2 * REPEAT):
        classic.append(TOKENS / (await client.tokens({**TALK, "count": TOKENS})).seconds)
        seconds, size = await _followed(client)
        rates.append(TOKENS / seconds)
        sizes.append(size / TOKENS)
    ours, other, bytes_each = Sample.of(rates), Sample.of(classic), Sample.of(sizes)
    share = statistics.median(map(float.__truediv__, rates, classic))
    return [
        Row("B2", "following a timeline, 2 000 tokens", "tokens/s", ours, budget=">= 80 % of the classic stream",
            figure=f"{share:.0%}", passed=share >= 0.8, note=f"classic: {other.median:,.0f} tokens/s"),
        Row("B3", "bytes per token, timeline", "B", bytes_each, budget="<= 130 B", figure=f"{bytes_each.median:.0f} B",
            passed=bytes_each.median <= 130),
    ]  # fmt: skip


async def _followed(client: Client) -> tuple[float, int]:
    """The seconds from the start of a run to its last token on the timeline, and the bytes of the stream."""
    thread = await client.thread()
    connection = await client.connection()
    stream = connection.send("GET", f"/threads/{thread}/timeline/stream", count=_APPEND)
    await _until(lambda: stream.size > 0)
    start = time.perf_counter()
    await client.start(thread, "tokens", {**TALK, "count": TOKENS})
    await _until(lambda: stream.events >= TOKENS - 1)  # the first token is part of the block
    stream.done.cancel()
    connection.close()
    return stream.last_event - start, stream.size


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - the client counts bytes and notifies no waiter
            await asyncio.sleep(0.001)
