"""What is open at a position of a run."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from threadwire.core.entries import Namespace
from threadwire.core.open_parts import Key, OpenParts, Part, PartChange, PartStarted


def started(name: str, task_id: str = "1", **more: Any) -> dict[str, Any]:
    return {"id": task_id, "name": name, **more}


def ended(name: str, task_id: str = "1", **more: Any) -> dict[str, Any]:
    return {"id": task_id, "name": name, "ended": True, **more}


def keys(changes: list[PartChange]) -> list[Key]:
    return [change.part.key for change in changes]


def is_open(parts: OpenParts) -> list[Key]:
    return [part.key for part in parts]


def test_a_task_is_a_step() -> None:
    parts = OpenParts()

    assert keys(parts.task((), started("model"))) == [("step", "/model")]
    assert is_open(parts) == [("step", "/model")]
    assert keys(parts.task((), ended("model"))) == [("step", "/model")]
    assert is_open(parts) == []


def test_concurrent_tasks_with_the_same_name_are_one_step() -> None:
    parts = OpenParts()
    parts.task((), started("tool", "1"))

    assert parts.task((), started("tool", "2")) == []
    assert parts.task((), ended("tool", "1")) == []
    assert keys(parts.task((), ended("tool", "2"))) == [("step", "/tool")]


def test_tasks_of_langgraph_itself_are_not_steps() -> None:
    parts = OpenParts()

    assert parts.task((), started("__start__")) == []
    assert parts.task((), ended("__start__")) == []


def test_a_subgraph_starts_with_its_first_entry_and_after_those_around_it() -> None:
    parts = OpenParts()

    assert keys(parts.enter(("a:1", "b:2"))) == [("subgraph", "a:1"), ("subgraph", "a:1|b:2")]
    assert parts.enter(("a:1", "b:2")) == []
    assert [part.name for part in parts] == ["a", "b"]


def test_the_end_of_a_task_closes_what_it_and_its_subgraphs_left_open_inner_first() -> None:
    parts = OpenParts()
    parts.task((), started("a"))
    parts.enter(("a:1", "b:2"))
    parts.task(("a:1",), started("b", "2"))
    parts.open(Part("text", "m", ("a:1",), task="x"))
    parts.open(Part("reasoning", "m", ("a:1", "b:2")))
    parts.open(Part("call", "c", (), task="1"))
    parts.open(Part("text", "other", (), task="3"))

    assert keys(parts.task((), ended("a"))) == [
        ("text", "m"),
        ("call", "c"),
        ("reasoning", "m"),
        ("step", "a:1/b"),
        ("subgraph", "a:1|b:2"),
        ("subgraph", "a:1"),
        ("step", "/a"),
    ]
    assert is_open(parts) == [("text", "other")]


def test_a_subgraph_that_has_ended_is_not_opened_again_by_a_late_entry() -> None:
    parts = OpenParts()
    parts.enter(("a:1",))
    parts.task((), ended("a"))

    assert parts.enter(("a:1",)) == []


def test_the_next_attempt_enters_its_subgraphs_again() -> None:
    parts = OpenParts()
    parts.enter(("a:1",))

    assert keys(parts.close_all()) == [("subgraph", "a:1")]
    assert keys(parts.enter(("a:1",))) == [("subgraph", "a:1")]


def test_closing_a_part_that_is_not_open_changes_nothing() -> None:
    parts = OpenParts()
    part = Part("text", "m", ())
    parts.open(part)

    assert part.is_open
    assert keys(parts.close(part.key)) == [part.key]
    assert not part.is_open
    assert parts.close(part.key) == []


namespaces = st.sampled_from([(), ("a:1",), ("a:1", "b:2"), ("c:3",)])
tasks = st.sampled_from([("a", "1"), ("b", "2"), ("c", "3"), ("c", "4")])
actions = st.lists(
    st.tuples(st.just("enter"), namespaces, tasks)
    | st.tuples(st.just("start"), namespaces, tasks)
    | st.tuples(st.just("end"), namespaces, tasks)
    | st.tuples(st.just("text"), namespaces, tasks),
    max_size=15,
)


def applied(parts: OpenParts, action: str, ns: Namespace, task: tuple[str, str]) -> list[PartChange]:
    name, task_id = task
    match action:
        case "enter":
            return parts.enter(ns)
        case "start":
            return parts.task(ns, started(name, task_id))
        case "end":
            return parts.task(ns, ended(name, task_id))
        case _:
            part = Part("text", f"{ns}{task}", ns, task=task_id)
            return [] if parts.get(part.key) else [parts.open(part)]


@settings(max_examples=100, deadline=None)
@given(actions)
def test_what_started_and_has_not_ended_is_open_at_every_position(
    steps: list[tuple[str, Namespace, tuple[str, str]]],
) -> None:
    parts = OpenParts()
    expected: list[Key] = []
    for step in steps:
        for change in applied(parts, *step):
            if isinstance(change, PartStarted):
                expected.append(change.part.key)
            else:
                expected.remove(change.part.key)
        assert is_open(parts) == expected
    assert sorted(keys(parts.close_all())) == sorted(expected)
    assert is_open(parts) == []
