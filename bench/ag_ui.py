"""Benchmarks for AG-UI: connecting, attaching to a live run, and the size of its events."""

import asyncio
from typing import Any
from uuid import uuid4

from bench.clients import Client, Failed
from bench.rows import FEWER, REPEAT, TALK, Bench, Row, Sample, percentile
from bench.token_streams import Streamed, compare_streams

_TEXT = b'"type":"TEXT_MESSAGE_CONTENT"'


def _run_input(thread: str, **more: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"messages": [], "state": {}, "tools": [], "context": []}
    return {"threadId": thread, "runId": str(uuid4()), **empty, **more}


async def stream_tokens(client: Client, count: int, **options: Any) -> Any:
    inputs = _run_input(str(uuid4()), messages=[{"id": "u", "role": "user", "content": "hi"}], state={"count": count})
    return await client.ask("POST", "/ag-ui/tokens", inputs, count=_TEXT, **options)


def _percentiles(row: str, work: str, found: list[list[float]]) -> list[Row]:
    rows = []
    for letter, name, share in (("", "p50", 0.5), ("b", "p99", 0.99)):
        sample = Sample.of([percentile(each, share) for each in found])
        rows.append(
            Row(row + letter, f"{work}, {name}", "ms", sample,
                budget="<= 100 ms", figure=f"{sample.median:.1f} ms", passed=sample.median <= 100)
        )  # fmt: skip
    return rows


async def connect_to_idle_thread(bench: Bench) -> list[Row]:
    """Connect to an idle thread with 400 messages."""
    client, thread = bench.ours.client, str(uuid4())
    messages = [
        {"id": f"m{at}", "role": ("user", "assistant")[at % 2], "content": f"message {at}: " + "words " * 30}
        for at in range(399)
    ]
    await client.ask("POST", "/ag-ui/tokens", _run_input(thread, messages=messages, state={"count": 20}))
    found: list[list[float]] = []
    for _ in range(REPEAT):
        turn = []
        for _ in range(40):
            shown = await client.ask("POST", "/ag-ui/tokens/connect", _run_input(thread), count=b'"role":')
            if shown.events != 400:
                raise Failed(f"only {shown.events} of 400 messages arrived")
            turn.append(shown.seconds * 1000)
        found.append(turn)
    return _percentiles("P1", "connect to 400 messages", found)


async def attach_to_live_run(bench: Bench) -> list[Row]:
    """Measure the delay from creating a token to a client that attached to the run but did not start it."""
    client = bench.ours.client
    found: list[list[float]] = []
    for _ in range(FEWER):
        await client.connections(21)

        async def watch() -> list[float]:
            thread = await client.thread()
            inputs = {**TALK, "count": 150, "rate": 50, "stamp": True, "delay": 0.3}
            await client.start(thread, "tokens", inputs)
            seen = await client.ask("POST", "/ag-ui/tokens/connect", _run_input(thread), stamps=True)
            return list(seen.latencies[:150])  # the final snapshot repeats the tokens

        watched = await asyncio.gather(*(watch() for _ in range(20)))
        found.append([1000 * each for latencies in watched for each in latencies])
    return _percentiles("P2", "delay of an attached run", found)


async def streaming(bench: Bench) -> list[Row]:
    """Stream unthrottled tokens: measure tokens per second, and bytes per token on the wire."""
    count = 2000

    async def stream() -> Streamed:
        streamed = await stream_tokens(bench.ours.client, count)
        if streamed.events < count:
            raise Failed(f"only {streamed.events} of {count} tokens arrived")
        return Streamed(streamed.seconds, streamed.size)

    streams = await compare_streams(bench, count, stream)
    peer = await bench.bare("ag_ui", count=count)
    rows = [
        Row("P3", "one stream of 2 000 tokens, AG-UI", "tokens/s", streams.ours, streams.bare,
            figure=f"{streams.share:.0%} of bare"),
        Row("P4", "bytes per token, AG-UI", "B", streams.sizes, figure=f"{streams.sizes.median:.0f} B"),
    ]  # fmt: skip
    if peer["bytes"] is not None:
        rows[1].note = (
            f"ag-ui-langgraph: {peer['bytes'] / count:,.0f} B, and {count / peer['seconds']:,.0f} tokens/s in process,"
            " without a server"
        )
    return rows
