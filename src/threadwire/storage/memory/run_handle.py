from collections.abc import Sequence

from threadwire.core.entries import Draft
from threadwire.core.records import COMMITTED, Commit, Durability, Ending, Run
from threadwire.errors import Fenced
from threadwire.storage.memory.checkpoints import FencedSaver
from threadwire.storage.memory.runs import MemoryRuns
from threadwire.storage.memory.tables import Tables


class MemoryRunHandle:
    queue_full = False

    def __init__(self, run: Run, tables: Tables, runs: MemoryRuns) -> None:
        self.run = run
        self._tables = tables
        self._runs = runs

    def append(self, drafts: Sequence[Draft]) -> Commit:
        run = self.run
        with self._tables.lock:
            holder = self._tables.holder(run.fence)
            if holder is None or holder.thread_id != run.thread_id:
                raise Fenced
            self._tables.write(run.thread_id, drafts, run.fence)
            return COMMITTED

    async def wait_for_room(self) -> None:
        return None

    def saver(self, durability: Durability = "async") -> FencedSaver:
        return FencedSaver(self._tables, self.run.fence)

    async def flush(self) -> None:
        return None

    async def finish(self, ending: Ending, now: int, *, force: bool = False) -> bool:
        return self._runs.finish(self.run.fence, ending, now, force=force)

    async def release(self, now: int) -> bool:
        return self._runs.release(self.run.fence, now)
