"""What a submitted widget does, by the state of its interrupt and by the active runs."""

from typing import Any

import pytest

from threadwire.core.ids import AssistantId, RunId, Seq, ThreadId
from threadwire.core.records import Run
from threadwire.errors import Invalid
from threadwire.protocols.timeline.decode import Submission
from threadwire.protocols.timeline.submissions import Plan, Rejection, plan_submission

ID, OTHER = "a" * 32, "b" * 32
COMPLETED = {"phase": "completed", "completed": True, "outcome": "answered", "respondedAt": 1}


def block(interrupt_id: str = ID, **fields: Any) -> dict[str, Any]:
    return {"id": f"i:{interrupt_id}", "interruptId": interrupt_id, "completed": False, "runId": "asking", **fields}


def run(run_id: str = "answering", **kwargs: Any) -> Run:
    return Run(RunId(run_id), ThreadId("t"), AssistantId("a"), "g", "running", 5, 5, 5, Seq(1), kwargs=kwargs, via="x")


def plan(body: dict[str, Any], at: dict[str, Any], *active: Run, open_ids: tuple[str, ...] = (ID,)) -> Plan | Rejection:
    return plan_submission(Submission.model_validate(body), at, open_ids, active)


def test_an_open_interrupt_is_frozen() -> None:
    assert plan({}, block()) == Plan(freezes=True)


def test_an_open_interrupt_is_answered_by_its_id_and_frozen() -> None:
    planned = plan({"resume": True, "response": None}, block())
    assert planned == Plan(command={"resume": {ID: None}}, starts_run=True, freezes=True)


@pytest.mark.parametrize(("value", "frozen"), [(1, True), (None, False), ([1], [1.5]), ({"a": 1}, {"a": 1, "b": 2})])
def test_another_frozen_value_is_rejected(value: Any, frozen: Any) -> None:
    rejected = plan({"frozenValue": value}, block(**COMPLETED, frozenValue=frozen))
    assert isinstance(rejected, Rejection)
    assert rejected.block["frozenValue"] == frozen


def test_a_value_is_added_to_an_interrupt_that_was_answered_without_one() -> None:
    answered = block(**COMPLETED, response=1, completedRunId="r")
    assert plan({"frozenValue": None}, answered) == Plan(freezes=True)
    repeated = {"frozenValue": 1, "resume": True, "response": 1}
    assert plan(repeated, answered) == Plan(freezes=True, answered_by="r")


def test_the_answer_of_a_run_that_has_not_started_counts() -> None:
    for resume in ({ID: "yes"}, "yes"):
        answering = run(command={"resume": resume})
        same = plan({"resume": True, "response": "yes"}, block(), answering)
        assert same == Plan(freezes=True, answered_by="answering")
        rejected = plan({"resume": True, "response": "no"}, block(), answering)
        assert isinstance(rejected, Rejection)
        assert (rejected.block["response"], rejected.block["respondedVia"]) == ("yes", "x")


def test_the_answer_to_another_interrupt_does_not_count() -> None:
    body, both = {"resume": True, "response": "no"}, (ID, OTHER)
    for resume in ({OTHER: "yes"}, "which one?"):
        planned = plan(body, block(), run(command={"resume": resume}), open_ids=both)
        assert isinstance(planned, Plan)
        assert planned.starts_run


def test_a_frozen_interrupt_can_be_answered() -> None:
    planned = plan({"resume": True, "response": 1}, block(**COMPLETED, frozenValue="view"), open_ids=())
    assert planned == Plan(command={"resume": {ID: 1}}, starts_run=True)


@pytest.mark.parametrize("outcome", ["abandoned", "cancelled"])
def test_an_interrupt_that_no_longer_waits_cannot_be_answered(outcome: str) -> None:
    over = block(**{**COMPLETED, "outcome": outcome})
    assert isinstance(plan({"resume": True, "response": 1}, over, run(command={"resume": 1}), open_ids=()), Rejection)


def test_a_run_with_input_abandons_the_interrupt() -> None:
    assert isinstance(plan({"resume": True, "response": 1}, block(), run(input={"text": 1})), Rejection)


def test_the_run_that_asked_may_still_be_ending() -> None:
    planned = plan({"resume": True, "response": 1}, block(), run("asking", input={"text": 1}))
    assert isinstance(planned, Plan)
    assert planned.starts_run


def test_a_breakpoint_is_continued_once() -> None:
    paused = block("bp:1", breakpoint=True)
    assert plan({"resume": True}, paused) == Plan(starts_run=True, freezes=True)
    assert plan({"resume": True}, paused | COMPLETED) == Plan()
    continuing = plan({"resume": True}, paused, run("continuing", input=None))
    assert continuing == Plan(freezes=True, answered_by="continuing")


def test_an_answer_is_required() -> None:
    with pytest.raises(Invalid, match="response: required"):
        plan({"resume": True}, block())


def test_an_interrupt_without_an_id_of_its_own_is_answered_only_alone() -> None:
    anonymous = block("anon:1")
    body = {"resume": True, "response": 1}
    planned = plan(body, anonymous, open_ids=("anon:1",))
    assert planned == Plan(command={"resume": 1}, starts_run=True, freezes=True)
    with pytest.raises(Invalid, match="only while no other is open"):
        plan(body, anonymous, open_ids=("anon:1", ID))
