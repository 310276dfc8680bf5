"""The measurements: one function for each row of the budget table, in order.

Every figure is measured several times, alternating between bare and Threadwire because machines are noisy, and reported
as the median. Where two turns follow each other closely, the ratio is computed per pair: a machine that is slow at that
time is slow for both.
"""

import asyncio
import contextlib
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from bench.clients import TOKEN, Client, Failed
from bench.dataset import fill
from bench.servers import Bare, Server, threadwire

REPEAT = 5
FEWER = 3
TURNS = 40
TALK = {"messages": "hi"}
MOST_PER_RUN = 3.0
"""Milliseconds per trivial run, 16 at a time, relative to a bare one: 450 runs/s where bare takes 0.74 ms."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One figure, measured several times."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> "Sample":
        return cls(tuple(values))

    @property
    def median(self) -> float:
        return statistics.median(self.values)


@dataclass(slots=True)
class Row:
    row: str
    work: str
    unit: str
    ours: Sample
    bare: Sample | None = None
    stock: Sample | None = None
    budget: str = ""
    """The required value, as text."""
    figure: str = ""
    """The measured value, in the terms of the budget."""
    passed: bool | None = None
    note: str = ""


@dataclass(slots=True)
class Bench:
    bare: Bare
    ours: Server
    stock_server: Server | None
    data: Path
    notes: list[str] = field(default_factory=list)

    async def stock(self, measure: Callable[[Server], Awaitable[float]], times: int = FEWER) -> Sample | None:
        if self.stock_server is None:
            return None
        self.stock_server.resume()
        self.stock_server.client.close()  # the server closes connections that were idle during the pause
        try:
            await self.stock_server.client.wait("trivial", {"text": "hi"})  # warm up after the pause
            return Sample.of([await measure(self.stock_server) for _ in range(times)])
        except Failed as failure:
            self.notes.append(f"stock: {failure}")
            return None
        finally:
            self.stock_server.pause()


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _of_bare(ours: Sample, bare: Sample) -> float:
    return ours.median / bare.median


def turn_by_turn(ours: Sample, bare: Sample) -> float:
    return statistics.median(mine / theirs for mine, theirs in zip(ours.values, bare.values, strict=True))


async def bare_trivial(bench: Bench) -> float:
    """The median milliseconds of 20 bare trivial runs."""
    each = (await bench.bare("trivial", times=20))["each"]
    return statistics.median(each) * 1000


def _at_best(ours: Sample, bare: Sample, best: Callable[..., float]) -> str:
    """The same ratio for the best turns. Other load only ever slows things down, so this one is more stable."""
    return f"best against best: {best(ours.values) / best(bare.values):.2f} of bare"


# -- 1, 2 and 7: tokens ----------------------------------------------------------------------------------------------


async def one_stream(bench: Bench) -> list[Row]:
    """Rows 1 and 7: the same streams give the token rate and the CPU time."""
    inputs = {**TALK, "count": 2000}
    turns, streams = 12, 2
    rates: dict[str, list[float]] = {"bare": [], "ours": []}
    cpus: dict[str, list[float]] = {"bare": [], "ours": []}
    await bench.ours.client.tokens(inputs)
    for _ in range(turns):
        for _ in range(streams):
            each = await bench.bare("tokens", inputs=inputs, streams=1, at_once=False)
            rates["bare"].append(2000 / each["seconds"])
            cpus["bare"].append(each["cpu"] / 2000 * 1e6)
        for _ in range(streams):
            before = bench.ours.cpu()
            rates["ours"].append(2000 / (await bench.ours.client.tokens(inputs)).seconds)
            cpus["ours"].append((bench.ours.cpu() - before) / 2000 * 1e6)
    ours, bare = Sample.of(rates["ours"]), Sample.of(rates["bare"])
    spent, alone = Sample.of(cpus["ours"]), Sample.of(cpus["bare"])

    async def stock(server: Server) -> float:
        return 2000 / (await server.client.tokens(inputs)).seconds

    share, added = _of_bare(ours, bare), spent.median - alone.median
    return [
        Row("1", "one stream, 2 000 tokens", "tokens/s", ours, bare, await bench.stock(stock),
            ">= 55 % of bare", f"{share:.0%}", share >= 0.55, _at_best(ours, bare, max)),
        Row("7", "CPU per token (row 1's work)", "µs", spent, alone, None, "<= 20 µs more", f"{added:.1f} µs more",
            added <= 20, f"least against least: {min(spent.values) - min(alone.values):.1f} µs more"),
    ]  # fmt: skip


async def summed_rate(client: Client, count: int) -> float:
    """Tokens per second of 20 concurrent streams."""
    await client.connections(20)
    start = time.perf_counter()
    done = await asyncio.gather(*(client.tokens({**TALK, "count": count}) for _ in range(20)))
    return 20 * count / (max(each.last for each in done) - start)


async def twenty_streams(bench: Bench) -> list[Row]:
    inputs = {**TALK, "count": 2000}
    ways: dict[bool, list[float]] = {False: [], True: []}
    ours: list[float] = []
    for _ in range(FEWER):
        for at_once, rates in ways.items():
            each = await bench.bare("tokens", inputs=inputs, streams=20, at_once=at_once)
            rates.append(each["tokens"] / each["seconds"])
        ours.append(await summed_rate(bench.ours.client, 2000))
    one_by_one, gathered = (Sample.of(rates) for rates in ways.values())
    bare = max(one_by_one, gathered, key=lambda sample: sample.median)
    sample = Sample.of(ours)
    share = _of_bare(sample, bare)

    async def stock(server: Server) -> float:
        return await summed_rate(server.client, 1000)

    return [
        Row("2", "20 concurrent streams, summed", "tokens/s", sample, bare, await bench.stock(stock, 1),
            ">= 35 % of bare", f"{share:.0%}", share >= 0.35,
            _at_best(sample, bare, max) + f"; bare {'one at a time' if bare is one_by_one else 'gathered'} is faster"
            f" ({one_by_one.median:,.0f} one at a time, {gathered.median:,.0f} gathered)"),
    ]  # fmt: skip


# -- 3 and 4: trivial runs -------------------------------------------------------------------------------------------


async def trivial_run(bench: Bench) -> list[Row]:
    inputs = {"text": "hi"}

    async def on_existing_thread(client: Client, times: int) -> float:
        return await median([await client.thread() for _ in range(times)], client)

    async def creating_thread(client: Client, times: int) -> float:
        return await median([None] * times, client)

    async def median(threads: Sequence[str | None], client: Client) -> float:
        done = [await client.stream("trivial", inputs, thread) for thread in threads]
        if any(each.events < 3 for each in done):  # the metadata, and the values before and after
            raise Failed("a trivial run did not send all events")
        return statistics.median(each.seconds for each in done) * 1000

    await on_existing_thread(bench.ours.client, 10)
    found: dict[str, list[float]] = {"bare": [], "existing": [], "creating": []}
    for _ in range(TURNS):
        found["bare"].append(await bare_trivial(bench))
        found["existing"].append(await on_existing_thread(bench.ours.client, 20))
        found["creating"].append(await creating_thread(bench.ours.client, 20))
    bare = Sample.of(found["bare"])
    rows = []
    for row, name, how, measure in (
        ("3", "existing", "on a new thread", on_existing_thread),
        ("3b", "creating", "if_not_exists=create", creating_thread),
    ):
        ours = Sample.of(found[name])

        async def stock(server: Server, measure: Callable[..., Awaitable[float]] = measure) -> float:
            return await measure(server.client, 1)

        times = turn_by_turn(ours, bare)
        rows.append(
            Row(row, f"trivial run, {how}, p50", "ms", ours, bare, await bench.stock(stock),
                "<= 5 x bare", f"{times:.1f} x", times <= 5, _at_best(ours, bare, min))
        )  # fmt: skip
    return rows


async def trivial_rate(client: Client, seconds: float, wrong: list[bytes] | None = None) -> float:
    """Trivial runs per second, 16 at a time. A response without the result fails the measurement; with `wrong`, it is
    added there and not counted."""
    await client.connections(16)
    done, start = 0, time.perf_counter()

    async def run_repeatedly() -> None:
        nonlocal done
        while time.perf_counter() - start < seconds:
            waited = await client.wait("trivial", {"text": "hi"})
            if b'"hi!"' in waited.body:
                done += 1
            elif wrong is not None:
                wrong.append(bytes(waited.body[:200]))
            else:
                raise Failed(f"a trivial run returned {bytes(waited.body[:200])!r}")

    await asyncio.gather(*(run_repeatedly() for _ in range(16)))
    return done / (time.perf_counter() - start)


async def trivial_runs(bench: Bench) -> list[Row]:
    await trivial_rate(bench.ours.client, 0.5)
    bare: list[float] = []
    rates: list[float] = []
    for _ in range(2 * REPEAT):
        bare.append(await bare_trivial(bench))
        rates.append(await trivial_rate(bench.ours.client, 1))
    ours = Sample.of(rates)
    # The rate that a machine reaches depends on its speed, which a bare run measures at the same time.
    times = turn_by_turn(Sample.of([1000 / each for each in rates]), Sample.of(bare))

    async def stock(server: Server) -> float:
        return await trivial_rate(server.client, 2)

    return [
        Row("4", "trivial runs, 16 at a time", "runs/s", ours, Sample.of([1000 / each for each in bare]),
            await bench.stock(stock, 2), f"<= {MOST_PER_RUN} x bare per run", f"{times:.2f} x", times <= MOST_PER_RUN,
            "bare: one at a time"),
    ]  # fmt: skip


# -- 5: super-steps --------------------------------------------------------------------------------------------------


async def step_rate(client: Client) -> float:
    """Super-steps per second of one run."""
    inputs, config = {"done": 0, "goal": 100}, {"recursion_limit": 110}
    streamed = await client.stream("steps", inputs, stream_mode="updates", config=config)
    if streamed.events < 100:
        raise Failed(f"only {streamed.events} of 100 steps arrived")
    return 100 / streamed.seconds


async def super_steps(bench: Bench) -> list[Row]:
    await step_rate(bench.ours.client)
    bare: list[float] = []
    ours: list[float] = []
    for _ in range(TURNS):
        bare.append(100 / (await bench.bare("steps", goal=100))["seconds"])
        ours.append(await step_rate(bench.ours.client))
    sample, base = Sample.of(ours), Sample.of(bare)
    share = turn_by_turn(sample, base)

    async def stock(server: Server) -> float:
        return await step_rate(server.client)

    return [
        Row("5", "100 super-steps, durable", "steps/s", sample, base, await bench.stock(stock),
            ">= 50 % of bare", f"{share:.0%}", share >= 0.5, _at_best(sample, base, max)),
    ]  # fmt: skip


# -- 6: many subscribers ---------------------------------------------------------------------------------------------


async def subscribers(bench: Bench) -> list[Row]:
    """At the rate of the budget, and at twice that: a run at 200 tokens/s cannot show that more is possible."""
    rows = []
    for row, pace, count in (("6", 200, 1000), ("6b", 400, 1200)):
        cpu: list[float] = []
        missed = ""
        try:
            ours = Sample.of([await fan_out(bench.ours, pace, count, cpu) for _ in range(FEWER if row == "6" else 2)])
        except Failed as failure:
            ours, missed = Sample.of([0.0]), str(failure)

        async def stock(server: Server, pace: int = pace) -> float:
            return await fan_out(server, pace, 200, [])

        rows.append(
            Row(row, f"100 subscribers of {pace} tokens/s", "events/s", ours, None,
                await bench.stock(stock, 1) if row == "6" else None,
                "all complete" if row == "6" else ">= 20 000/s",
                f"{'NOT complete' if missed else 'complete'}, {ours.median:,.0f}/s",
                not missed and (row == "6" or ours.median >= 20_000),
                missed or f"offered {100 * pace:,}/s; server at {statistics.median(cpu):.0%} of a core")
        )  # fmt: skip
    return rows


async def fan_out(server: Server, pace: int, count: int, cpu: list[float]) -> float:
    client = server.client
    await client.connections(100)
    thread = await client.thread()
    inputs = {**TALK, "count": count, "rate": pace, "delay": 1.0}
    run = await client.start(thread, "tokens", inputs, stream_mode=["messages-tuple"], stream_resumable=True)
    path = f"/threads/{thread}/runs/{run}/stream?stream_mode=messages-tuple"
    before, start = server.cpu(), time.perf_counter()
    joined = await asyncio.gather(*(client.ask("GET", path, count=TOKEN) for _ in range(100)))
    cpu.append((server.cpu() - before) / (time.perf_counter() - start))
    if short := [each.events for each in joined if each.events < count]:
        raise Failed(f"{len(short)} of 100 subscribers missed tokens, the worst got {min(short)} of {count}")
    first, last = min(each.first_event for each in joined), max(each.last_event for each in joined)
    return 100 * count / (last - first)


# -- L3: latency -----------------------------------------------------------------------------------------------------


_PACED = {**TALK, "count": 150, "rate": 50, "stamp": True}


async def token_latencies(client: Client) -> list[float]:
    """Milliseconds from each token of 20 runs to their clients."""
    await client.connections(20)
    done = await asyncio.gather(*(client.tokens(_PACED, stamps=True) for _ in range(20)))
    return [seconds * 1000 for one in done for seconds in one.latencies]


async def latency(bench: Bench) -> list[Row]:
    found: dict[str, list[list[float]]] = {"bare": [], "ours": []}
    for _ in range(FEWER):
        bare = await bench.bare("latency", inputs=_PACED, streams=20)
        found["bare"].append([seconds * 1000 for seconds in bare["each"]])
        found["ours"].append(await token_latencies(bench.ours.client))
    of_stock: list[float] = []

    async def stock(server: Server) -> float:
        of_stock.extend(await token_latencies(server.client))
        return 0.0

    await bench.stock(stock, 1)
    rows = []
    for row, share, most in (("L3", 0.5, 3.5), ("L3b", 0.99, 16)):
        ours = Sample.of([percentile(values, share) for values in found["ours"]])
        rows.append(
            Row(row, f"token to client, 20 runs x 50/s, p{share * 100:.0f}", "ms", ours,
                Sample.of([percentile(values, share) for values in found["bare"]]),
                Sample.of([percentile(of_stock, share)]) if of_stock else None,
                f"<= {most} ms", f"{ours.median:.1f} ms", ours.median <= most)
        )  # fmt: skip
    return rows


# -- L4: many concurrent runs ----------------------------------------------------------------------------------------


async def first_tokens(bench: Bench) -> list[Row]:
    """Runs that start together and then mostly wait for their model. None may wait for another one to end.

    The stock server is not measured: by default it executes one run at a time."""
    runs, inputs = 100, {**TALK, "count": 50, "rate": 25}

    async def each_run(client: Client) -> list[float]:
        await client.connections(runs)
        done = await asyncio.gather(*(client.tokens(inputs) for _ in range(runs)))
        return [(one.first_event - one.sent) * 1000 for one in done]

    await each_run(bench.ours.client)
    found = [await each_run(bench.ours.client) for _ in range(FEWER)]
    middle, slowest = (Sample.of([percentile(values, share) for values in found]) for share in (0.5, 0.99))
    work = f"first token of {runs} runs started together"
    return [
        Row("L4", f"{work}, p50", "ms", middle, figure=f"{middle.median:.0f} ms"),
        Row("L4b", f"{work}, p99", "ms", slowest,
            budget="<= 400 ms", figure=f"{slowest.median:.0f} ms", passed=slowest.median <= 400),
    ]  # fmt: skip


# -- 8: growth -------------------------------------------------------------------------------------------------------


async def growth(bench: Bench) -> list[Row]:
    """Each part uses its own server and file; the parts that mostly wait run concurrently."""
    if os.environ.get("THREADWIRE_STORAGE") == "memory":
        return []
    fast = await _file_growth(bench.data, {"count": 5000})
    slow, state, idle = await asyncio.gather(
        _file_growth(bench.data, {"count": 5000, "rate": 200}),
        _log_of_heavy_state(bench.data),
        _idle_streams(bench.data),
    )
    return [
        Row("8a", "file per token, unthrottled", "bytes", fast, None, None, "<= 200", f"{fast.median:.0f}",
            fast.median <= 200),
        Row("8b", "file per token, 200 tokens/s", "bytes", slow, None, None, "<= 200", f"{slow.median:.0f}",
            slow.median <= 200),
        Row("8c", "log of 100 steps over 1 MB + 400 messages", "MB", state, None, None, "< 5 MB",
            f"{state.median:.2f} MB", state.median < 5),
        Row("8d", "an idle stream's memory", "kB", idle, None, None, "<= 30 kB", f"{idle.median:.1f} kB",
            idle.median <= 30),
    ]  # fmt: skip


async def _file_growth(data: Path, inputs: dict[str, Any]) -> Sample:
    with tempfile.TemporaryDirectory(dir=data) as folder:
        sizes = []
        for count in (1, inputs["count"]):
            async with threadwire(Path(folder)) as server:
                await server.client.tokens({**TALK, **inputs, "count": count})
            sizes.append((Path(folder) / "threadwire.db").stat().st_size)
        return Sample.of([(sizes[1] - sizes[0]) / inputs["count"]])


async def _log_of_heavy_state(data: Path) -> Sample:
    with tempfile.TemporaryDirectory(dir=data) as folder:
        async with threadwire(Path(folder)) as server:
            inputs, config = {"done": 0, "goal": 100}, {"recursion_limit": 110}
            streamed = await server.client.stream("heavy", inputs, stream_mode="values", config=config)
            if streamed.events < 103:  # the metadata, the input, the loading and every step
                raise Failed(f"the heavy run sent only {streamed.events} events")
        copy = shutil.copy(Path(folder) / "threadwire.db", Path(folder) / "copy.db")
        with apsw.Connection(str(copy)) as db:
            return Sample.of([db.execute("SELECT sum(length(data)) FROM segments").get / 1e6])


async def _idle_streams(data: Path) -> Sample:
    with tempfile.TemporaryDirectory(dir=data) as folder:
        async with threadwire(Path(folder)) as server:
            return Sample.of([await idle_stream_kilobytes(server, 500)])


async def idle_stream_kilobytes(server: Server, count: int) -> float:
    """The memory that each of many streams takes while nothing happens."""
    client = server.client
    thread = await client.thread()
    run = await client.start(thread, "sleeper", {})
    path = f"/threads/{thread}/runs/{run}/stream"
    opened = [await client.connection() for _ in range(100)]
    waiting = [each.send("GET", path) for each in opened]  # warm up: the first streams allocate shared memory
    await asyncio.sleep(1)
    before = server.memory()
    opened += [await client.connection() for _ in range(count)]
    waiting += [each.send("GET", path) for each in opened[100:]]
    await asyncio.sleep(7)  # past the first heartbeat
    found = (server.memory() - before) / count / 1000
    if any(each.status != 200 for each in waiting):
        raise Failed("not every idle stream was opened")
    for each in opened:
        each.close()
    await asyncio.gather(*(each.done for each in waiting), return_exceptions=True)
    await client.ask("POST", f"/threads/{thread}/runs/{run}/cancel?wait=true", keep=True)
    return found


async def long_log(bench: Bench) -> list[Row]:
    """Join and append at the end of a short and of a long thread, alternating."""
    client = bench.ours.client
    found: dict[str, dict[int, list[float]]] = {
        "first byte of a join": {},
        "another trivial run": {},
        "another 1 000 tokens": {},
    }
    threads: dict[int, tuple[str, str]] = {}
    for length in (100, 50_000):
        thread = await client.thread()
        await client.tokens({**TALK, "count": length, "forget": True}, thread)
        run = await client.start(thread, "trivial", {"text": "hi"})
        await client.ask("GET", f"/threads/{thread}/runs/{run}/join", keep=True)
        threads[length] = thread, run
        for each in found.values():
            each[length] = []
    for turn in range(60):
        for length, (thread, run) in threads.items():
            path = f"/threads/{thread}/runs/{run}/stream"
            joined = await client.ask("GET", path, headers={"last-event-id": "-1"})
            found["first byte of a join"][length].append((joined.first - joined.sent) * 1000)
            ran = await client.stream("trivial", {"text": "hi"}, thread)
            found["another trivial run"][length].append(ran.seconds * 1000)
            if turn % 4 == 0:
                talked = await client.tokens({**TALK, "count": 1000, "forget": True}, thread)
                found["another 1 000 tokens"][length].append(talked.seconds * 1000)
    rows = []
    for letter, (what, times) in zip("efg", found.items(), strict=True):
        short, long = (statistics.median(times[length]) for length in (100, 50_000))
        # 1.5 times is well outside the noise of interleaved medians.
        rows.append(
            Row(f"8{letter}", f"{what}, after 50 000 entries", "ms", Sample.of(times[50_000]), None, None,
                "as after 100 (<= 1.5 x)", f"{long / short:.2f} x", long / short <= 1.5,
                f"after 100 entries: {short:.2f} ms")
        )  # fmt: skip
    return rows


# -- 9: many threads -------------------------------------------------------------------------------------------------

FEW_THREADS, MANY_THREADS = 100, 100_000
FEW_CHECKPOINTS, MANY_CHECKPOINTS = 10, 10_000


async def many_threads(bench: Bench) -> list[Row]:
    """Search threads and read a history, alternating between a server with few and one with many of them."""
    if os.environ.get("THREADWIRE_STORAGE") == "memory":
        return []
    searches: dict[str, dict[str, Any]] = {
        "a page of threads": {"sort_by": "updated_at"},
        "a page by graph": {"metadata": {"graph_id": "trivial"}, "sort_by": "updated_at"},
        "a page by user": {"metadata": {"user": "user-3"}},
        "a page by status": {"status": "interrupted"},
        "a page by graph and status": {"metadata": {"graph_id": "trivial"}, "status": "idle"},
    }
    found: dict[str, dict[str, list[float]]] = {}
    async with contextlib.AsyncExitStack() as stack:
        servers: dict[str, tuple[Client, str]] = {}
        sizes = {"few": (FEW_THREADS, FEW_CHECKPOINTS), "many": (MANY_THREADS, MANY_CHECKPOINTS)}
        for name, (threads, checkpoints) in sizes.items():
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=bench.data)))
            thread = await fill(folder, threads, checkpoints)
            servers[name] = (await stack.enter_async_context(threadwire(folder))).client, thread
        for _ in range(40):
            for name, (client, thread) in servers.items():
                for what, body in searches.items():
                    page = await client.ask("POST", "/threads/search", body, keep=True)
                    found.setdefault(what, {}).setdefault(name, []).append(page.seconds * 1000)
                page = await client.ask("POST", f"/threads/{thread}/history", {"limit": 10}, keep=True)
                if len(page.json()) != 10:
                    raise Failed("a page of the history was not full")
                found.setdefault("a page of a history", {}).setdefault(name, []).append(page.seconds * 1000)
    rows = []
    for letter, (what, times) in zip("abcdef", found.items(), strict=True):
        few, many = (statistics.median(times[name]) for name in ("few", "many"))
        # Twice is well outside the noise of interleaved medians.
        rows.append(
            Row(f"9{letter}", f"{what}, of 100 000 threads or 10 000 checkpoints", "ms", Sample.of(times["many"]), None,
                None, "as of 100 or 10 (<= 2 x)", f"{many / few:.2f} x", many / few <= 2, f"of few: {few:.2f} ms")
        )  # fmt: skip
    return rows


ROWS: dict[str, Callable[[Bench], Awaitable[list[Row]]]] = {
    "row1": one_stream,
    "row2": twenty_streams,
    "row3": trivial_run,
    "row4": trivial_runs,
    "row5": super_steps,
    "row6": subscribers,
    "latency": latency,
    "start": first_tokens,
    "long": long_log,
    "growth": growth,
    "threads": many_threads,
}
ALIASES = {"row7": "row1", "row8": "growth", "row9": "threads", "l3": "latency", "l4": "start"}
