"""Submitting the widget of an interrupt: decide, answer the graph, freeze the widget.

The answer is accepted first. Should the server fail before the widget is frozen, the graph has the answer, and
repeating the request freezes the widget.
"""

from dataclasses import dataclass

from threadwire.core.entries import Json
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
        # The runs first: an answer that is recorded in between is then in the timeline, and not in neither.
        active = await engine.runs.all_active(thread_id)
        block, _ = await _newest(engine, thread_id, interrupt_id)
        asked = (await current(engine, thread_id)).timeline.open_interrupts()
        open_ids = [each["interruptId"] for each in asked]
        plan = plan_submission(submission, block, open_ids, active)
        if isinstance(plan, Rejection):
            return plan
        run_id = await _resume(engine, thread_id, plan.command) if plan.starts_run else plan.answered_by
        if plan.freezes:
            await _freeze(engine, thread_id, block, submission)
        now, seq = await _newest(engine, thread_id, interrupt_id)
        return Submitted(now, seq, run_id)


async def _newest(engine: Engine, thread_id: ThreadId, interrupt_id: str) -> tuple[Block, Seq]:
    fold = await current(engine, thread_id)
    if (block := fold.timeline.interrupt(interrupt_id)) is None:
        raise NotFound(f"Interrupt {interrupt_id[:200]!r} is not in this timeline")
    return block, fold.timeline.seq


async def _resume(engine: Engine, thread_id: ThreadId, command: Json) -> str:
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
        )
    )
    return run.run_id


async def _freeze(engine: Engine, thread_id: ThreadId, block: Block, submission: Submission) -> None:
    """Freeze the block that the client submitted. If the graph has asked again meanwhile, under the same id, the entry
    would freeze that question."""
    newest, _ = await _newest(engine, thread_id, block["interruptId"])
    if newest["id"] == block["id"]:
        await engine.widgets.freeze(thread_id, block["interruptId"], submission.frozen)
