"""Benchmark for the thread wire: one stream of tokens, with the subscription of a page."""

import asyncio
from functools import partial
from uuid import uuid4

from bench.clients import Client, Failed
from bench.rows import TALK, Bench, Row
from bench.token_streams import Streamed, compare_streams

_TEXT = b'"type":"text-delta"'
_PAGE = {
    "channels": ["values", "checkpoints", "lifecycle", "input", "messages", "tools"],
    "namespaces": [[]],
    "depth": 1,
}
_TIMEOUT = 60.0


async def _tokens(client: Client, count: int) -> Streamed:
    """A stream from `run.start` to the last token. The stream itself never ends."""
    thread = str(uuid4())
    stream, commands = await client.connection(), await client.connection()
    received = stream.send("POST", f"/threads/{thread}/stream/events", _PAGE, count=_TEXT)
    while not received.status:  # noqa: ASYNC110 - the connection counts what arrives, and notifies no waiter
        await asyncio.sleep(0.001)
    params = {"assistant_id": "tokens", "input": {**TALK, "count": count}}
    started = commands.send("POST", f"/threads/{thread}/commands", {"id": 1, "method": "run.start", "params": params})
    try:
        async with asyncio.timeout(_TIMEOUT):
            while received.events < count:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
    except TimeoutError:
        raise Failed(f"only {received.events} of {count} tokens arrived") from None
    finally:
        received.done.cancel()  # nothing awaits the end of the stream
        stream.close()
        commands.close()
    return Streamed(received.last_event - started.sent, received.size)


async def streaming(bench: Bench) -> list[Row]:
    count = 2000
    streams = await compare_streams(bench, count, partial(_tokens, bench.ours.client, count))
    return [
        Row("W1", "one stream of 2 000 tokens, thread wire", "tokens/s", streams.ours, streams.bare,
            budget=">= 70 % of bare", figure=f"{streams.share:.0%} of bare", passed=streams.share >= 0.7,
            note=f"{streams.sizes.median:.0f} B per token"),
    ]  # fmt: skip
