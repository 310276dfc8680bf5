"""Rows on PostgreSQL: how fast the fenced appends of one process are.

The server is started for the measurement, with its default durability: every commit is synced to disk.
"""

import asyncio
import sys
import time

from bench.rows import FEWER, Bench, Row, Sample
from bench.servers import ROOT
from threadwire.core.entries import Draft, Kind
from threadwire.core.ids import AssistantId, RunId, ThreadId, uuid7
from threadwire.core.records import Lease, NewRun
from threadwire.storage.abc import RunHandle, Storage
from threadwire.storage.postgres import open_postgres_storage

sys.path.insert(0, str(ROOT / "tests"))  # the tests start the same server
from services.postgres_server import running_postgres

RUNS = 50
ENTRIES = 1000
BUDGET = 30_000
_TOKEN = [0, "a token of usual length "]


async def append(bench: Bench) -> list[Row]:
    """Row D1: the entries per second that fifty runs append at once."""
    with running_postgres(durable=True) as server:
        async with open_postgres_storage(await server.create_database()) as storage:
            handles = [await _started(storage) for _ in range(RUNS)]
            await _append_all(handles)
            rates = Sample.of([await _append_all(handles) for _ in range(FEWER)])
    return [
        Row("D1", f"append on PostgreSQL, {RUNS} runs, fenced", "entries/s", rates,
            budget=f">= {BUDGET:,}".replace(",", " "), figure=f"{max(rates.values):.0f} at best",
            passed=max(rates.values) >= BUDGET, note="the best turn, because other load only ever slows things down"),
    ]  # fmt: skip


async def _started(storage: Storage) -> RunHandle:
    new = NewRun(RunId(uuid7()), ThreadId(uuid7()), AssistantId(uuid7()), "agent", 0, 0, create_thread=True)
    accepted = await storage.runs.accept(new, claim=Lease("bench", 600_000))
    return storage.handle(accepted.run)


async def _append_all(handles: list[RunHandle]) -> float:
    start = time.perf_counter()
    await asyncio.gather(*map(_append, handles))
    return len(handles) * ENTRIES / (time.perf_counter() - start)


async def _append(handle: RunHandle) -> None:
    draft = Draft(Kind.MESSAGES, _TOKEN)
    for _ in range(ENTRIES):
        handle.append([draft])
        if handle.queue_full:
            await handle.wait_for_room()
    await handle.flush()
