"""Benchmarks for the timeline in a browser: painting a long thread from the cache, and what a token costs the page."""

import asyncio
import json
from shutil import which

from bench.clients import Failed
from bench.rows import Bench, Row, Sample
from bench.servers import HERE
from bench.timeline import long_thread

BLOCKS = 2000


async def long_page(bench: Bench) -> list[Row]:
    """A page that shows all 2 000 blocks of a thread. Needs Node, the built packages of `js/` and Chromium."""
    if which("node") is None:
        bench.notes.append("browser: Node is not installed")
        return []
    client = bench.ours.client
    thread = await long_thread(client, BLOCKS)
    try:
        measured = await _measure(client.url, thread)
    except Failed as failure:
        bench.notes.append(f"browser: {failure}")
        return []
    paint, token = Sample.of(measured["paint"]), Sample.of(measured["perToken"])
    return [
        Row("B4", "page with 2 000 blocks, painted from the cache", "ms", paint, figure=f"{paint.median:.0f} ms"),
        Row(
            "B5",
            "main-thread time per token, 2 000 blocks, 200 tokens/s",
            "µs",
            token,
            figure=f"{token.median:,.0f} µs",
        ),
    ]


async def _measure(url: str, thread: str) -> dict[str, list[float]]:
    process = await asyncio.create_subprocess_exec(
        "node", str(HERE / "browser" / "measure.js"), url, thread, str(BLOCKS),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    printed, error = await process.communicate()
    if process.returncode:
        raise Failed(_first_error(error.decode()))
    measured: dict[str, list[float]] = json.loads(printed)
    return measured


def _first_error(printed: str) -> str:
    """The message of the error that Node has printed with its source line and a stack."""
    return next((line for line in printed.splitlines() if "Error" in line), "the page could not be measured")
