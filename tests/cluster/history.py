"""What the tables contain after the faults of a cluster."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import asyncpg
from log_checker import check_logs, whole_log

from threadwire.core.entries import Entry, Kind
from threadwire.core.ids import RunId, ThreadId
from threadwire.storage.postgres import open_postgres_storage
from threadwire.storage.postgres.id_keys import name_of


@dataclass(frozen=True)
class History:
    entries: int
    violations: list[str]
    """What contradicts spec/log.md."""
    recoveries: list[float]
    """For each attempt that follows a lost one, the seconds without an entry of the run."""
    strays: list[str]
    """Checkpoints of runs that do not exist, or that were written to a thread of another run."""


async def read_history(database: str) -> History:
    """Check every log of a database that no process uses."""
    thread_ids = await _thread_ids(database)
    async with open_postgres_storage(database) as storage:
        entries, violations = await check_logs(storage, thread_ids)
        recoveries = [each for thread_id in thread_ids for each in recovery_times(await whole_log(storage, thread_id))]
    return History(entries, violations, recoveries, await _strays(database))


async def _thread_ids(database: str) -> list[ThreadId]:
    connection = await asyncpg.connect(database)
    try:
        return [ThreadId(name_of(key)) for (key,) in await connection.fetch("SELECT thread FROM thread_heads")]
    finally:
        await connection.close()


async def _strays(database: str) -> list[str]:
    connection = await asyncpg.connect(database)
    try:
        rows = await connection.fetch(
            "SELECT c.checkpoint FROM checkpoints AS c JOIN runs AS r ON r.run = c.run WHERE r.thread <> c.thread"
        )
        return [checkpoint for (checkpoint,) in rows]
    finally:
        await connection.close()


def recovery_times(entries: Sequence[Entry]) -> Iterable[float]:
    """The seconds from the last sign of life of an attempt to the start of the next one. An attempt that was released
    is followed by the next one immediately, and counts as well."""
    of_runs: dict[RunId, list[Entry]] = {}
    for entry in entries:
        if entry.run_id is not None:
            of_runs.setdefault(entry.run_id, []).append(entry)
    for of_run in of_runs.values():
        for before, after in pairwise(of_run):
            if after.kind == Kind.RUN_STARTED and after.attempt == 2:
                yield (after.at - before.at) / 1000
