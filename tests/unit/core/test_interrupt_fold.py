"""The interrupts of a thread can be read from its log (spec/log.md, 6.10 - 6.18)."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadwire.core.entries import Entry, Kind, Namespace
from threadwire.core.ids import RunId, Seq
from threadwire.core.interrupts import Interrupt, InterruptFold


class Log:
    """A log that is folded as it is written."""

    def __init__(self) -> None:
        self.fold = InterruptFold()
        self.entries: list[Entry] = []

    def add(self, run: str | None, kind: str, data: Any, ns: Namespace = ()) -> Seq:
        seq = Seq(len(self.entries) + 1)
        self.entries.append(Entry(seq, None if run is None else RunId(run), int(run is not None), 0, ns, kind, data))
        self.fold.feed(self.entries[-1])
        return seq

    def start(self, run: str) -> None:
        self.add(run, Kind.RUN_STARTED, {"attempt": 1})

    def ask(self, run: str, *ids: str) -> Seq:
        return self.add(run, Kind.INPUT_REQUESTED, {"interrupts": interrupts(*ids)})

    def answer(self, run: str, by: str | None = "ada", via: str | None = "langgraph", **answers: Any) -> Seq:
        named = [{"id": interrupt_id, "response": response} for interrupt_id, response in answers.items()]
        return self.add(run, Kind.INPUT_ANSWERED, {"value": answers, "answers": named, "by": by, "via": via})

    def end(self, run: str, *pending: str, status: str = "success") -> Seq:
        listed = {"interrupts": interrupts(*pending)} if pending else {}
        return self.add(run, Kind.RUN_ENDED, {"status": status, **listed})

    def run_that_asks(self, run: str, *ids: str) -> Seq:
        self.start(run)
        asked = self.ask(run, *ids)
        self.end(run, *ids)
        return asked

    @property
    def pending(self) -> list[str]:
        return [each.interrupt_id for each in self.fold.pending]

    @property
    def statuses(self) -> list[tuple[str, str]]:
        return [(each.interrupt_id, each.status) for each in self.fold.interrupts]


def interrupts(*ids: str) -> list[dict[str, Any]]:
    return [{"id": each, "value": f"{each}?"} for each in ids]


@pytest.fixture
def log() -> Log:
    return Log()


def test_an_interrupt_is_pending_until_it_is_answered(log: Log) -> None:
    asked = log.run_that_asks("one", "a")
    assert log.fold.pending == [Interrupt("a", "a?", asked=asked)]

    log.start("two")
    answered = log.answer("two", a="yes")
    log.end("two")
    assert log.fold.pending == []
    assert log.fold.answered == [
        Interrupt(
            "a", "a?", asked=asked, status="answered", answered=answered, response="yes", by="ada", via="langgraph"
        )
    ]


def test_a_repeated_interrupt_is_one(log: Log) -> None:
    """The interrupts that remain after an answer are raised again."""
    log.run_that_asks("one", "a", "b")
    log.start("two")
    log.answer("two", a=1)
    log.ask("two", "b")
    log.end("two", "b")
    assert log.statuses == [("a", "answered"), ("b", "pending")]


def test_an_interrupt_that_is_asked_again_after_its_answer_is_another_one(log: Log) -> None:
    log.run_that_asks("one", "a")
    log.start("two")
    log.answer("two", a=1)
    asked = log.ask("two", "a")
    log.end("two", "a")
    assert log.statuses == [("a", "answered"), ("a", "pending")]
    assert log.fold.pending[0].asked == asked


def test_the_namespace_is_that_of_the_subgraph_that_asked(log: Log) -> None:
    """6.10"""
    log.start("one")
    update = {"value": {"__interrupt__": interrupts("a")}}
    log.add("one", Kind.UPDATES, update, ("outer:1", "inner:2"))
    log.add("one", Kind.UPDATES, update, ("outer:1",))
    assert log.pending == []
    log.ask("one", "a")
    assert [each.ns for each in log.fold.pending] == [("outer:1", "inner:2")]


@pytest.mark.parametrize("data", [{"value": [1]}, {"slim": {"node": ["key"]}}, {"value": {"node": None}}], ids=str)
def test_other_updates_of_a_subgraph_are_ignored(log: Log, data: Any) -> None:
    log.add("one", Kind.UPDATES, data, ("outer:1",))
    assert log.fold.interrupts == []


def test_the_end_of_a_successful_run_lists_exactly_what_is_pending(log: Log) -> None:
    """6.17"""
    log.run_that_asks("one", "a", "b")
    log.start("two")
    listed = log.end("two", "b", "c")
    assert log.statuses == [("a", "abandoned"), ("b", "pending"), ("c", "pending")]
    assert log.fold.pending[1] == Interrupt("c", "c?", asked=listed)


@pytest.mark.parametrize("status", ["error", "interrupted", "timeout"])
def test_no_other_end_changes_what_is_pending(log: Log, status: str) -> None:
    """6.17"""
    log.run_that_asks("one", "a", "b")
    log.start("two")
    log.answer("two", a=1)
    log.end("two", status=status)
    assert log.statuses == [("a", "answered"), ("b", "pending")]


def test_new_input_abandons_what_is_pending(log: Log) -> None:
    """6.15, 6.17"""
    log.run_that_asks("one", "a")
    log.start("two")
    log.add("two", Kind.CHECKPOINT, {"id": "c", "source": "input"}, ("inner:1",))
    assert log.pending == ["a"]
    log.add("two", Kind.CHECKPOINT, {"id": "c", "source": "input"})
    assert log.statuses == [("a", "abandoned")]


def test_a_rollback_restores_what_was_pending_and_answered(log: Log) -> None:
    """6.17"""
    log.run_that_asks("one", "a", "b")
    before = list(log.fold.interrupts)
    log.start("two")
    log.answer("two", a=1)
    log.ask("two", "c")
    log.start("two")
    log.add("two", Kind.STATE_RESET, {"cause": "rollback"})
    log.end("two", status="rolled_back")
    assert log.fold.interrupts == before


def test_a_run_that_is_rolled_back_before_it_starts_changes_nothing(log: Log) -> None:
    log.run_that_asks("one", "a")
    log.end("two", status="rolled_back")
    assert log.pending == ["a"]


def test_a_state_update_lists_exactly_what_is_pending(log: Log) -> None:
    """6.15, 6.17"""
    log.run_that_asks("one", "a", "b")
    log.add(None, Kind.STATE_RESET, {"cause": "update", "interrupts": interrupts("b")})
    assert log.statuses == [("a", "abandoned"), ("b", "pending")]
    log.add(None, Kind.STATE_RESET, {"cause": "update"})  # written before entries had the list
    log.add(None, Kind.STATE_RESET, {"cause": "prune"})
    assert log.pending == ["b"]


def test_the_interrupts_of_a_copied_thread_are_pending(log: Log) -> None:
    log.add(None, Kind.STATE_RESET, {"cause": "copy", "interrupts": interrupts("a")})
    assert log.pending == ["a"]


def test_an_answer_to_an_interrupt_that_the_log_does_not_have_is_recorded(log: Log) -> None:
    log.start("two")
    answers = [{"id": "a", "response": 1, "ns": ["outer:1"]}]
    answered = log.add("two", Kind.INPUT_ANSWERED, {"value": 1, "answers": answers, "by": None, "via": None})
    assert log.fold.answered == [Interrupt("a", ns=("outer:1",), status="answered", answered=answered, response=1)]


def test_the_last_answer_counts(log: Log) -> None:
    """6.16"""
    log.run_that_asks("one", "a")
    log.start("two")
    log.answer("two", a="rejected")
    log.end("two", status="error")
    log.start("three")
    log.answer("three", by="eve", via="ag-ui", a="accepted")
    [answered] = log.fold.answered
    assert (answered.response, answered.by, answered.via) == ("accepted", "eve", "ag-ui")


# -- logs without `answers` -------------------------------------------------------------------------------------------


def answer_of_old(log: Log, value: Any) -> Seq:
    log.start("two")
    return log.add("two", Kind.INPUT_ANSWERED, {"value": value})


def test_an_old_value_answers_the_only_pending_interrupt(log: Log) -> None:
    """6.18"""
    log.run_that_asks("one", "a")
    answered = answer_of_old(log, {"ok": True})
    assert [(each.response, each.answered, each.via) for each in log.fold.answered] == [({"ok": True}, answered, None)]


def test_an_old_map_answers_the_interrupts_that_it_names(log: Log) -> None:
    """6.18"""
    log.run_that_asks("one", "a", "b", "c")
    answer_of_old(log, {"c": 3, "a": 1})
    assert [(each.interrupt_id, each.response) for each in log.fold.answered] == [("a", 1), ("c", 3)]
    assert log.pending == ["b"]


@pytest.mark.parametrize("value", ["yes", {"a": 1, "z": 2}, {}], ids=str)
def test_an_old_value_that_names_no_interrupt_answers_those_that_the_run_leaves_behind(log: Log, value: Any) -> None:
    """6.18"""
    log.run_that_asks("one", "a", "b")
    answered = answer_of_old(log, value)
    assert log.pending == ["a", "b"]
    log.end("two", "b")
    assert log.statuses == [("a", "answered"), ("b", "pending")]
    assert (log.fold.answered[0].response, log.fold.answered[0].answered) == (None, answered)

    log.start("three")
    log.end("three")
    assert log.statuses == [("a", "answered"), ("b", "abandoned")]


# -- any log ----------------------------------------------------------------------------------------------------------

_IDS = st.sampled_from("abc")
_STEPS = st.one_of(
    st.tuples(st.just("start"), st.just(())),
    st.tuples(st.just("ask"), st.lists(_IDS, min_size=1, max_size=2, unique=True)),
    st.tuples(st.just("answer"), st.lists(_IDS, max_size=2, unique=True)),
    st.tuples(st.just("end"), st.lists(_IDS, max_size=2, unique=True)),
    st.tuples(st.just("roll back"), st.just(())),
    st.tuples(st.just("update"), st.lists(_IDS, max_size=2, unique=True)),
)


def logged(steps: Iterable[tuple[str, list[str]]]) -> Log:
    log, run = Log(), 1
    for step, ids in steps:
        match step:
            case "start":
                log.start(str(run))
            case "ask":
                log.ask(str(run), *ids)
            case "answer":
                log.answer(str(run), **dict.fromkeys(ids, 1))
            case "update":
                log.add(None, Kind.STATE_RESET, {"cause": "update", "interrupts": interrupts(*ids)})
            case _:
                log.end(str(run), *ids, status="success" if step == "end" else "rolled_back")
                run += 1
    return log


@given(st.lists(_STEPS, max_size=20))
def test_at_most_the_last_interrupt_of_an_id_is_pending(steps: list[tuple[str, list[str]]]) -> None:
    fold = logged(steps).fold
    last = {each.interrupt_id: each for each in fold.interrupts}
    assert all(each is last[each.interrupt_id] for each in fold.pending)


@given(st.lists(_STEPS, max_size=20), st.lists(_IDS, max_size=2, unique=True))
def test_after_a_successful_run_exactly_its_list_is_pending(steps: list[tuple[str, list[str]]], ids: list[str]) -> None:
    log = logged([*steps, ("end", ids)])
    assert sorted(log.pending) == sorted(ids)
