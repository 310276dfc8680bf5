"""The rows of runs, and how they are found."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from asyncpg import Record

from threadwire.core.access_filter import EVERYTHING, AccessFilter
from threadwire.core.ids import AssistantId, RunId, Seq, ThreadId
from threadwire.core.records import Run
from threadwire.storage.postgres.access_terms import RUN_SEARCH, Bindings, and_allows
from threadwire.storage.postgres.connections import Connection
from threadwire.storage.postgres.id_keys import key_of, name_of
from threadwire.storage.postgres.json_columns import from_text, to_text
from threadwire.storage.postgres.text_columns import escaped, escaped_or_null, unescaped, unescaped_or_none

COLUMNS = """run, thread, assistant, graph_id, status, created_at, updated_at, due_at, queued_seq, multitask, attempt,
  crashes, cancel, metadata, kwargs, error, ended_seq, idempotency_key, request_digest, temporary, webhook,
  started_at, owner, via"""
RUNS = f"SELECT {COLUMNS} FROM runs"
_INSERT = f"""
INSERT INTO runs ({COLUMNS}, first, thread_was, worker, leased_until, idempotency_digest)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0, NULL, $12, $13, NULL, NULL, $14, $15, $16, $17, $18, $19, $20,
        $21, $22, $23, clock_timestamp() + $24 * interval '1 millisecond', $25)
"""


async def find_run(db: Connection, run_id: RunId, access: AccessFilter = EVERYTHING) -> Run | None:
    bindings = Bindings([key_of(run_id)])
    row = await db.fetchrow(f"{RUNS} WHERE run = $1{and_allows(RUN_SEARCH, access, bindings)}", *bindings)
    return None if row is None else run_of(row)


async def thread_of(db: Connection, run_id: RunId) -> ThreadId | None:
    key: bytes | None = await db.fetchval("SELECT thread FROM runs WHERE run = $1", key_of(run_id))
    return None if key is None else ThreadId(name_of(key))


async def insert_run(
    db: Connection, run: Run, previous: str | None, *, first: bool, worker: str | None, milliseconds: int | None
) -> None:
    await db.execute(
        _INSERT,
        key_of(run.run_id),
        key_of(run.thread_id),
        key_of(run.assistant_id),
        escaped(run.graph_id),
        run.status,
        run.created_at,
        run.updated_at,
        run.due_at,
        run.queued_seq,
        run.multitask_strategy,
        run.attempt,
        to_text(run.metadata),
        to_text(run.kwargs),
        escaped_or_null(run.idempotency_key),
        run.request_digest,
        run.temporary,
        escaped_or_null(run.webhook),
        run.started_at,
        escaped_or_null(run.owner),
        escaped_or_null(run.via),
        first,
        previous,
        worker,
        milliseconds,
        None if run.idempotency_key is None else idempotency_digest(run.owner, run.idempotency_key),
    )


def idempotency_digest(owner: str | None, key: str) -> bytes:
    return sha256(to_text([owner, key]).encode()).digest()


async def remove_run(db: Connection, run_id: RunId) -> None:
    await db.execute("DELETE FROM runs WHERE run = $1", key_of(run_id))


async def fetch_runs(db: Connection, sql: str, bindings: Sequence[Any] = ()) -> list[Run]:
    return [run_of(row) for row in await db.fetch(sql, *bindings)]


def run_of(row: Record) -> Run:
    ended_seq = row["ended_seq"]
    return Run(
        run_id=RunId(name_of(row["run"])),
        thread_id=ThreadId(name_of(row["thread"])),
        assistant_id=AssistantId(name_of(row["assistant"])),
        graph_id=unescaped(row["graph_id"]),
        status=row["status"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        due_at=row["due_at"],
        queued_seq=Seq(row["queued_seq"]),
        multitask_strategy=row["multitask"],
        attempt=row["attempt"],
        crashes=row["crashes"],
        cancel=row["cancel"],
        metadata=from_text(row["metadata"]),
        kwargs=from_text(row["kwargs"]),
        error=from_text(row["error"]),
        ended_seq=None if ended_seq is None else Seq(ended_seq),
        idempotency_key=unescaped_or_none(row["idempotency_key"]),
        request_digest=row["request_digest"],
        temporary=row["temporary"],
        webhook=unescaped_or_none(row["webhook"]),
        started_at=row["started_at"],
        owner=unescaped_or_none(row["owner"]),
        via=unescaped_or_none(row["via"]),
    )
