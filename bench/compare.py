"""Compare the speed of this source with that of older ones: `python -m bench.compare OLD_TREE...`

Each tree is the root of a checkout. All of them run with the same packages and are driven by the same client. The
servers take turns at each row, in an order that changes. The ratio is that of two neighbouring turns, so a machine that
is slow at that time is slow for both.

BENCH_TURNS is the number of turns, 10 by default. BENCH_ROWS limits the rows, e.g. to "1 4".
"""

import os
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import uvloop

from bench.ag_ui import stream_tokens
from bench.rows import TALK, fan_out, step_rate, summed_rate, trivial_rate
from bench.servers import ROOT, Server, threadwire

TURNS = int(os.environ.get("BENCH_TURNS", "10"))

Measure = Callable[[Server], Awaitable[float]]


async def _one_stream(server: Server) -> float:
    done = [await server.client.tokens({**TALK, "count": 2000}) for _ in range(3)]
    return 2000 / statistics.median(each.seconds for each in done)


async def _twenty_streams(server: Server) -> float:
    return await summed_rate(server.client, 1000)


async def _trivial_run(server: Server) -> float:
    threads = [await server.client.thread() for _ in range(40)]
    done = [await server.client.stream("trivial", {"text": "hi"}, thread) for thread in threads]
    return 1 / statistics.median(each.seconds for each in done)


async def _trivial_runs(server: Server) -> float:
    return await trivial_rate(server.client, 2)


async def _super_steps(server: Server) -> float:
    return statistics.median([await step_rate(server.client) for _ in range(3)])


async def _subscribers(server: Server) -> float:
    """At a pace that no server keeps up with, so that the rate shows what it can do."""
    return await fan_out(server, 2000, 800, [])


async def _ag_ui_stream(server: Server) -> float:
    done = [await stream_tokens(server.client, 2000) for _ in range(3)]
    return 2000 / statistics.median(each.seconds for each in done)


MEASURES: dict[str, tuple[str, Measure]] = {
    "1": ("one stream, tokens/s", _one_stream),
    "2": ("20 streams, tokens/s", _twenty_streams),
    "3": ("trivial run, 1/p50", _trivial_run),
    "4": ("trivial runs/s, 16 at a time", _trivial_runs),
    "5": ("super-steps/s", _super_steps),
    "6": ("100 subscribers, events/s", _subscribers),
    "P3": ("one AG-UI stream, tokens/s", _ag_ui_stream),
}
ROWS = os.environ.get("BENCH_ROWS", " ".join(MEASURES)).split()


async def compare(trees: list[Path]) -> None:
    async with AsyncExitStack() as stack:
        servers: list[Server] = []
        for tree in trees:
            data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-compare-")))
            servers.append(await stack.enter_async_context(threadwire(data, tree=tree)))
            for row in ROWS:  # the first turn is slower
                await MEASURES[row][1](servers[-1])
        found: dict[Path, dict[str, list[float]]] = {tree: {row: [] for row in ROWS} for tree in trees}
        pairs = list(zip(trees, servers, strict=True))
        for turn in range(TURNS):
            for row in ROWS:
                for tree, server in pairs if turn % 2 else reversed(pairs):
                    found[tree][row].append(await MEASURES[row][1](server))
            print(f"turn {turn + 1} of {TURNS}, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    _print_ratios(trees, found)


def _print_ratios(trees: list[Path], found: dict[Path, dict[str, list[float]]]) -> None:
    new, *older = trees
    for row in ROWS:
        rates = found[new][row]
        line = f"{row:>2}  {MEASURES[row][0]:<30} {statistics.median(rates):>10,.0f}"
        for tree in older:
            before = found[tree][row]
            ratios = [now / then for now, then in zip(rates, before, strict=True)]
            line += f"  | {tree.name}: {statistics.median(before):>9,.0f}, ratio {statistics.median(ratios):.2f}"
            line += f" ({min(ratios):.2f}-{max(ratios):.2f})"
        print(line)


def main() -> None:
    older = [Path(each).resolve() for each in sys.argv[1:]]
    if not older or not all((tree / "src" / "threadwire").is_dir() for tree in older):
        raise SystemExit("Give the roots of one or more checkouts to compare with.")
    uvloop.run(compare([ROOT, *older]))


if __name__ == "__main__":
    main()
