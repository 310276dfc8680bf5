"""What a submitted widget does: freeze its interrupt, and with `resume` answer it.

The first answer wins. Repeating a request changes nothing. A different answer is rejected, and the response contains
the answer that won.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from threadwire.core.entries import Json
from threadwire.core.records import Run
from threadwire.core.timeline import Block
from threadwire.core.timeline.state import same_json
from threadwire.errors import Invalid
from threadwire.graphs.langgraph_private.answers import is_answer_map
from threadwire.protocols.timeline.decode import Submission


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do for a request that is accepted."""

    command: Json = None
    starts_run: bool = False
    freezes: bool = False
    answered_by: str | None = None
    """The run that already has this answer."""


@dataclass(frozen=True, slots=True)
class Rejection:
    reason: str
    block: Block
    """The interrupt with the answer that won."""


def plan_submission(
    submission: Submission, block: Block, open_ids: Sequence[str], active: Sequence[Run]
) -> Plan | Rejection:
    """Decide what a request does, given the interrupt's block, the ids of all open interrupts, and the active runs."""
    known, run_id = _with_answer_on_its_way(block, open_ids, active)
    if submission.frozen is not None and "frozenValue" in known:
        if not same_json(known["frozenValue"], submission.frozen[0]):
            return Rejection("This interrupt was submitted with another frozen value", known)
    freezes = not block["completed"] or (submission.frozen is not None and "frozenValue" not in block)
    if not submission.resume:
        return Plan(freezes=freezes)
    if "response" in known:
        if submission.has_response and same_json(known["response"], submission.response):
            return Plan(freezes=freezes, answered_by=run_id)
        return Rejection("This interrupt was already answered", known)
    if block.get("breakpoint") and block["completed"]:
        return Plan(freezes=freezes, answered_by=run_id)
    if not _has_no_response(block):
        return Rejection("This interrupt no longer waits for an answer", known)
    if any(_takes_input(run) and run.run_id != block.get("runId") for run in active):
        return Rejection("Another run is active on this thread, and will continue without an answer", known)
    if block.get("breakpoint"):  # every run without input continues from it
        continuing = next((run.run_id for run in active), None)
        return Plan(starts_run=continuing is None, freezes=freezes, answered_by=continuing)
    return Plan(command=_command(submission, block, open_ids), starts_run=True, freezes=freezes)


def _with_answer_on_its_way(block: Block, open_ids: Sequence[str], active: Iterable[Run]) -> tuple[Block, str | None]:
    """The block with its answer, and the run that carries the answer. The log records an answer when its run starts."""
    for run in active if _has_no_response(block) else ():
        answer = _answer_of(run, block["interruptId"], open_ids)
        if answer is not None:
            via = {} if run.via is None else {"respondedVia": run.via}
            return {**block, "response": answer[0], "respondedAt": run.created_at, **via}, run.run_id
    return block, block.get("completedRunId")


def _answer_of(run: Run, interrupt_id: str, open_ids: Sequence[str]) -> tuple[Json] | None:
    if (resume := run.resume) is None:
        return None
    if is_answer_map(resume):
        return (resume[interrupt_id],) if interrupt_id in resume else None
    return (resume,) if set(open_ids) <= {interrupt_id} else None


def _has_no_response(block: Block) -> bool:
    """Whether an interrupt is open, or was only frozen."""
    if not block["completed"]:
        return True
    return block["outcome"] == "answered" and "completedRunId" not in block and "response" not in block


def _takes_input(run: Run) -> bool:
    return run.kwargs.get("input") is not None


def _command(submission: Submission, block: Block, open_ids: Sequence[str]) -> Json:
    if not submission.has_response:
        raise Invalid("response: required with `resume: true`")
    interrupt_id = block["interruptId"]
    by_id = {interrupt_id: submission.response}
    if is_answer_map(by_id):
        return {"resume": by_id}
    if [each for each in open_ids if each != interrupt_id]:
        raise Invalid(f"Interrupt {interrupt_id[:200]!r} can be answered only while no other is open")
    return {"resume": submission.response}
