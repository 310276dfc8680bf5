"""Submitting the widget of an interrupt: decide, freeze the widget, answer the graph.

The entry that freezes the widget and the run that carries the answer are written in one transaction.
"""

from dataclasses import dataclass

from threadwire.core.entries import Draft, Json
from threadwire.core.ids import Seq, ThreadId
from threadwire.core.timeline import Block
from threadwire.engine.lifecycle import Engine
from threadwire.engine.runs import StartRun, run_kwargs
from threadwire.engine.threads import graph_not_assigned, graph_of
from threadwire.errors import NotFound
from threadwire.protocols.timeline.decode import Submission
from threadwire.protocols.timeline.submissions import Rejection, plan_submission
from threadwire.protocols.timeline.timelines import current


@dataclass(frozen=True, slots=True)
class Submitted:
    block: Block
    seq: Seq
    run_id: str | None

    def as_json(self) -> dict[str, Json]:
        run = {} if self.run_id is None else {"runId": self.run_id}
        return {"interrupt": self.block, "seq": self.seq, **run}


async def submit(
    engine: Engine, thread_id: ThreadId, interrupt_id: str, submission: Submission
) -> Submitted | Rejection:
    async with engine.widgets.one_at_a_time(thread_id):
        await engine.external_changes.record(thread_id)
        # Read the runs first: an answer that is recorded between the two reads must not be missing from both.
        active = await engine.runs.all_active(thread_id)
        block, _ = await _newest(engine, thread_id, interrupt_id)
        asked = (await current(engine, thread_id)).timeline.open_interrupts()
        open_ids = [each["interruptId"] for each in asked]
        plan = plan_submission(submission, block, open_ids, active)
        if isinstance(plan, Rejection):
            return plan
        run_id = plan.answered_by
        frozen = (engine.widgets.frozen(block["interruptId"], submission.frozen),) if plan.freezes else ()
        if plan.starts_run:
            run_id = await _resume(engine, thread_id, plan.command, frozen)
        elif frozen:
            await engine.widgets.freeze(thread_id, *frozen)
        now, seq = await _newest(engine, thread_id, interrupt_id)
        return Submitted(now, seq, run_id)


async def _newest(engine: Engine, thread_id: ThreadId, interrupt_id: str) -> tuple[Block, Seq]:
    fold = await current(engine, thread_id)
    if (block := fold.timeline.interrupt(interrupt_id)) is None:
        raise NotFound(f"Interrupt {interrupt_id[:200]!r} is not in this timeline")
    return block, fold.timeline.seq


async def _resume(engine: Engine, thread_id: ThreadId, command: Json, frozen: tuple[Draft, ...]) -> str:
    """Accept the run that carries the answer, together with the entry that freezes the widget."""
    metadata = (await engine.threads.get(thread_id)).metadata
    graph_id = graph_of(metadata)
    if graph_id is None:
        raise graph_not_assigned(thread_id)
    run = await engine.runs.start(
        StartRun(
            assistant=str(metadata.get("assistant_id") or graph_id),
            thread_id=thread_id,
            kwargs=run_kwargs(config={}, command=command, subgraphs=True, resumable=True),
            via="timeline",
            preceding=frozen,
        )
    )
    return run.run_id
