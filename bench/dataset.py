"""Fills a data directory with many threads, as on a server that has been running for a long time."""

import asyncio
import random
from pathlib import Path
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.base.id import uuid6

from bench.graphs import trivial
from threadwire.core.ids import ThreadId, assistant_id_of, uuid7
from threadwire.core.records import Thread
from threadwire.storage.sqlite import open_sqlite_storage

START = 1_700_000_000_000
BATCH = 500


async def fill(directory: Path, threads: int, checkpoints: int) -> ThreadId:
    """Store `threads` threads, and one more with that many `checkpoints`; return the id of the last one."""
    rng = random.Random(threads)
    async with open_sqlite_storage(directory) as storage:
        for first in range(0, threads, BATCH):
            batch = range(first, min(first + BATCH, threads))
            await asyncio.gather(*(storage.threads.create(_a_thread(at, threads, rng)) for at in batch))
        thread = _a_thread(0, 1, rng)
        await storage.threads.create(thread)
        await _save(storage.checkpoints.saver(), thread.thread_id, checkpoints)
    return thread.thread_id


def _a_thread(at: int, of: int, rng: random.Random) -> Thread:
    graph_id = "trivial" if at % 10 else "tokens"
    return Thread(
        thread_id=ThreadId(uuid7()),
        created_at=START + at,
        updated_at=START + rng.randrange(of),
        state_updated_at=START + rng.randrange(of),
        status=rng.choices(["idle", "interrupted", "error"], [90, 9, 1])[0],  # type: ignore[arg-type]
        metadata={"graph_id": graph_id, "assistant_id": assistant_id_of(graph_id), "user": f"user-{at // 20}"},
        config={"configurable": {}},
        values={"messages": [{"type": "human", "content": "word " * 100, "id": str(uuid4())}]},
    )


async def _save(saver: BaseCheckpointSaver[str], thread_id: ThreadId, count: int) -> None:
    """Execute one run, then store its last checkpoint `count` more times."""
    config: RunnableConfig = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    await trivial.copy(update={"checkpointer": saver}).ainvoke({"text": "hi"}, config)
    last = await saver.aget_tuple(config)
    assert last is not None
    at = last.config
    for _ in range(count):
        at = await saver.aput(at, {**last.checkpoint, "id": str(uuid6(clock_seq=-2))}, last.metadata, {})
