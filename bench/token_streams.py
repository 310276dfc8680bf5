"""Streams of tokens over a protocol, in turns with bare streams."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from bench.rows import REPEAT, TALK, Bench, Sample


class Streamed(NamedTuple):
    seconds: float
    size: int


class ComparedStreams(NamedTuple):
    ours: Sample
    """Tokens per second."""
    bare: Sample
    """Tokens per second."""
    sizes: Sample
    """Bytes per token."""

    @property
    def share(self) -> float:
        return self.ours.median / self.bare.median


async def compare_streams(bench: Bench, count: int, stream: Callable[[], Awaitable[Streamed]]) -> ComparedStreams:
    """Measure streams of `count` unthrottled tokens. The first one is not measured."""
    await stream()
    ours: list[Streamed] = []
    bare: list[float] = []
    for _ in range(2 * REPEAT):
        bare.append((await bench.bare("tokens", inputs={**TALK, "count": count}, streams=1, at_once=False))["seconds"])
        ours.append(await stream())
    return ComparedStreams(
        Sample.of([count / each.seconds for each in ours]),
        Sample.of([count / seconds for seconds in bare]),
        Sample.of([each.size / count for each in ours]),
    )
