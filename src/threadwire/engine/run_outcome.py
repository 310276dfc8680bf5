"""Wait for a run to end, and build the result that the client receives."""

from threadwire.core.entries import Entry, Json, Kind
from threadwire.core.ids import Seq
from threadwire.core.records import Run
from threadwire.core.state_fold import JsonState
from threadwire.engine.entry_readers import PAGE
from threadwire.engine.followers import POLL
from threadwire.storage.abc import Storage


async def wait_for_outcome(storage: Storage, run: Run) -> Json:
    """Wait for a run to end. Return its last values, an error, or `{}` if it was cancelled."""
    state, cursor = JsonState(), Seq(run.queued_seq - 1)
    waited = False
    with storage.log.watch(run.thread_id) as wakeup:
        while True:
            entries = await storage.log.read(run.thread_id, cursor, limit=PAGE, run_id=run.run_id)
            for entry in entries:
                if entry.kind == Kind.STATE and not entry.ns:
                    state.apply(entry.data)
                elif entry.kind == Kind.RUN_ENDED:
                    return _outcome(entry, state)
            if entries:
                cursor, waited = entries[-1].seq, False
            elif waited and await _was_deleted(storage, run, cursor):
                return {"__error__": {"error": "NotFound", "message": "The thread was deleted."}}
            else:
                await wakeup.wait(POLL)
                waited = True


async def _was_deleted(storage: Storage, run: Run, cursor: Seq) -> bool:
    """Whether a run has neither a row nor entries after `cursor`. A rolled-back run has no row, but it has a final
    entry."""
    return await storage.runs.get(run.run_id) is None and not await storage.log.read(
        run.thread_id, cursor, limit=1, run_id=run.run_id
    )


def _outcome(ended: Entry, state: JsonState) -> Json:
    if ended.data["status"] in ("error", "timeout"):
        return {"__error__": ended.data["error"]}
    if ended.data["status"] in ("interrupted", "rolled_back"):
        return {}
    values = state.value()
    if "interrupts" in ended.data and isinstance(values, dict):
        # LangGraph's last values name one interrupt, or none after a partial answer. The final entry names all.
        return {**values, "__interrupt__": ended.data["interrupts"]}
    return values
