"""Benchmarks for ChatKit: streaming, and loading a long thread."""

import statistics
from typing import Any
from uuid import uuid4

from bench.clients import Client, Failed
from bench.rows import REPEAT, TALK, Bench, Row, Sample, percentile

_TEXT = b"content_part.text_delta"
_PATH = "/chatkit/tokens"
_COUNT = 2000


def _message(text: str) -> dict[str, Any]:
    return {"content": [{"type": "input_text", "text": text}], "attachments": [], "inference_options": {}}


async def _call(client: Client, operation: str, *, count: bytes = _TEXT, **params: Any) -> Any:
    return await client.ask("POST", _PATH, {"type": operation, "params": params}, count=count)


async def streaming(bench: Bench) -> list[Row]:
    """Stream unthrottled tokens over ChatKit and over the classic stream in turns.

    A ChatKit message cannot say how many tokens it wants, so an earlier run on each thread stores it in the state.
    """
    client = bench.ours.client
    ours: list[float] = []
    classic: list[float] = []
    for _ in range(3 * REPEAT):
        for rates, over_chatkit in ((classic, False), (ours, True)):
            thread = await client.thread()
            await client.stream("tokens", {**TALK, "count": 1}, thread)
            await client.ask("POST", f"/threads/{thread}/state", {"values": {"count": _COUNT}}, keep=True)
            if over_chatkit:
                streamed = await _call(client, "threads.add_user_message", thread_id=thread, input=_message("hi"))
            else:
                streamed = await client.tokens({"messages": "hi", "count": _COUNT}, thread)
            if streamed.events < _COUNT:
                raise Failed(f"only {streamed.events} of {_COUNT} tokens arrived")
            rates.append(_COUNT / streamed.seconds)
    share = statistics.median(mine / theirs for mine, theirs in zip(ours, classic, strict=True))
    return [
        Row("C1", "one stream of 2 000 tokens, ChatKit (bare: the classic stream)", "tokens/s", Sample.of(ours),
            Sample.of(classic), budget=">= 80 % of the classic stream", figure=f"{share:.0%}", passed=share >= 0.8),
    ]  # fmt: skip


async def long_thread(bench: Bench) -> list[Row]:
    """Load a thread of 400 messages, and a page of its items."""
    client, thread = bench.ours.client, str(uuid4())
    messages = [
        {"id": f"m{at}", "role": ("user", "assistant")[at % 2], "content": f"message {at}: " + "words " * 30}
        for at in range(399)
    ]
    await client.stream("tokens", {"messages": messages, "count": 20}, thread, if_not_exists="create")
    rows = []
    for row, operation in (("C2", "threads.get_by_id"), ("C3", "items.list")):
        found = []
        for _ in range(REPEAT):
            turn = []
            for _ in range(40):
                loaded = await _call(client, operation, count=b'"created_at"', thread_id=thread)
                if loaded.status != 200 or loaded.events < 20:
                    raise Failed(f"{operation}: only {loaded.events} items arrived")
                turn.append(loaded.seconds * 1000)
            found.append(percentile(turn, 0.5))
        sample = Sample.of(found)
        rows.append(
            Row(row, f"{operation} of 400 messages, p50", "ms", sample, budget="<= 10 ms",
                figure=f"{sample.median:.1f} ms", passed=sample.median <= 10)
        )  # fmt: skip
    return rows
