"""User-provided checkpointers and stores, and an embedding function. `SAVER_DATA` is a folder."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.base import Op, Result
from langgraph.store.memory import InMemoryStore

from threadwire.storage.sqlite import open_sqlite_storage

WORDS = ("tea", "coffee", "rain")


async def embed(texts: Sequence[str]) -> list[list[float]]:
    if any("wrong" in text for text in texts):
        return [[1.0, 2.0] for _ in texts]
    await asyncio.sleep(0)
    return [[*(float(text.count(word)) for word in WORDS), 0.125] for text in texts]


@asynccontextmanager
async def durable_saver() -> AsyncIterator[Any]:
    """A checkpointer bound to the loop that opens it, with its own database."""
    async with open_sqlite_storage(Path(os.environ["SAVER_DATA"])) as storage:
        yield storage.checkpoints.saver(durability="sync")


def forgetful_saver() -> InMemorySaver:
    """A checkpointer that cannot delete the checkpoints of a run."""
    return InMemorySaver()


class LoopBoundStore(InMemoryStore):
    """Usable only on the loop that opened it, like a store over a connection pool."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.get_running_loop()

    async def abatch(self, ops: Any) -> list[Result]:
        assert asyncio.get_running_loop() is self.loop
        operations: list[Op] = list(ops)
        if any(getattr(op, "key", None) == "broken" for op in operations):
            raise OSError("the store is out of order")
        return await super().abatch(operations)


async def make_store() -> LoopBoundStore:
    return LoopBoundStore()


def broken_saver() -> Any:
    raise OSError("no such database")
