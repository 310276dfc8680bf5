"""What LangGraph streams can be had back from the entries made of it (spec/log.md, section 6)."""

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, Interrupt
from normalizing import AT, HELLO, Recording, normalizer

from threadwire.core.entries import Draft, Kind, Namespace
from threadwire.core.json import native
from threadwire.graphs.config import ProjectConfig
from threadwire.graphs.normalize import LARGE_UPDATE
from threadwire.graphs.registry import GraphRegistry

pytestmark = pytest.mark.anyio

INPUTS: dict[str, Any] = {
    "echo": {"text": [1, {"a": None}]},
    "chat": HELLO,
    "tools": HELLO,
    "asks_page": HELLO,
    "showcase": HELLO,
    "nested": HELLO,
    "fails": {"text": "hello"},
    "slow": {"seconds": 0},
    "slow_sync": {"seconds": 0},
    "slow_below": {"seconds": 0},
    "stubborn": {"seconds": 0},
    "blocking": {"seconds": 0},
    "steps": {"count": 5},
    "private": {"question": "why?"},
    "functional": {"number": 21},
    "curious": {"refused": True},
    "factory": {"text": "world"},
    "approve": {"topic": "tests"},
    "approve_many": {},
    "everything": HELLO,
}


# -- real streams -----------------------------------------------------------------------------------------------------


async def test_these_are_all_the_graphs_of_the_file(project: ProjectConfig, registry: GraphRegistry) -> None:
    """The other files have the same few steps in other clothes."""
    graphs = project.graphs.items()
    assert sorted(INPUTS) == sorted(graph_id for graph_id, source in graphs if source.location == "./agents.py")
    assert registry.failures() == {}


@pytest.mark.parametrize("graph_id", INPUTS)
async def test_the_states_of_every_graph_can_be_had_back_with_their_keys_in_order(
    graph_id: str, registry: GraphRegistry
) -> None:
    """6.5 - 6.8"""
    recording = await Recording().run_of(registry, graph_id, INPUTS[graph_id])

    assert recording.states
    assert [shown for _, shown in recording.states] == [came for came, _ in recording.states]


@pytest.mark.parametrize("graph_id", INPUTS)
async def test_the_first_state_of_every_namespace_is_full_and_no_later_one(
    graph_id: str, registry: GraphRegistry
) -> None:
    """4.6, 6.7"""
    recording = await Recording().run_of(registry, graph_id, INPUTS[graph_id])

    full: dict[Namespace, list[bool]] = {}
    for entry in recording.of(Kind.STATE):
        full.setdefault(entry.ns, []).append(entry.data.get("full", False))
    assert all(each == [True] + [False] * (len(each) - 1) for each in full.values())


async def test_every_part_of_one_step_is_told_in_its_place(registry: GraphRegistry) -> None:
    recording = await Recording().run_of(registry, "echo", {"text": "hello"})

    assert [entry.kind for entry in recording.entries] == [
        *(Kind.CHECKPOINT, Kind.STATE, Kind.CHECKPOINT),
        *(Kind.TASK, Kind.UPDATES, Kind.TASK),
        *(Kind.STATE, Kind.CHECKPOINT),
    ]
    begun, ended = (entry.data for entry in recording.of(Kind.TASK))
    assert begun == {"id": begun["id"], "name": "say_again", "triggers": ["branch:to:say_again"]}
    assert ended == {"id": begun["id"], "name": "say_again", "ended": True}
    assert [entry.data["next"] for entry in recording.of(Kind.CHECKPOINT)] == [["__start__"], ["say_again"], []]
    assert native(recording.normalizer.last_values) == {"text": "hello", "echoed": "hello"}


@pytest.mark.parametrize("mode", ["tasks", "checkpoints"])
async def test_tasks_and_checkpoints_are_told_in_full_only_when_asked_for(mode: str, registry: GraphRegistry) -> None:
    plain = await Recording().run_of(registry, "echo", {"text": "hello"})
    asked = await Recording(mode).run_of(registry, "echo", {"text": "hello"})

    slim = asked.of(Kind(mode.removesuffix("s")))
    assert plain.of(Kind(mode)) == []
    assert len(asked.of(Kind(mode))) == len(slim) > 0


async def test_what_a_failing_node_raised_is_told_with_its_task(registry: GraphRegistry) -> None:
    recording = await Recording().run_of(registry, "fails", {"text": "hello"})

    assert "boom!" in str(recording.of(Kind.TASK)[-1].data["error"])


async def test_what_a_node_writes_is_told_where_it_was_written(registry: GraphRegistry) -> None:
    recording = await Recording().run_of(registry, "nested", HELLO)

    before, inside, after = recording.of(Kind.CUSTOM)
    assert [entry.data["value"]["at"] for entry in (before, inside, after)] == ["before", "inside", "after"]
    assert (before.ns, after.ns) == ((), ())
    assert [part.split(":")[0] for part in inside.ns] == ["inner"]


async def test_tools_leave_entries_that_name_their_call(registry: GraphRegistry) -> None:
    recording = await Recording().run_of(registry, "tools", HELLO)

    started, finished = (entry.data for entry in recording.of(Kind.TOOL))
    assert (started["event"], started["tool_call_id"], started["tool_name"]) == ("tool-started", "call-1", "add")
    assert (finished["event"], finished["tool_call_id"]) == ("tool-finished", "call-1")
    assert finished["output"]["content"] == "42"


async def test_every_kind_of_tool_event_is_passed_on() -> None:
    events = ["tool-started", "tool-output-delta", "tool-finished", "tool-error"]
    fed = normalizer()

    drafts = [fed.feed(("inner:1",), "tools", {"event": event, "tool_call_id": "c"}, AT) for event in events]

    assert drafts == [(Draft(Kind.TOOL, {"event": event, "tool_call_id": "c"}, ("inner:1",), AT),) for event in events]


async def test_every_entry_carries_the_moment_it_was_given(registry: GraphRegistry) -> None:
    """1.5"""
    recording = await Recording("tasks", "checkpoints", "updates").run_of(registry, "everything", HELLO)
    assert {entry.at for entry in recording.entries} == {AT}


# -- asking -----------------------------------------------------------------------------------------------------------


async def test_a_question_is_told_before_the_update_that_says_so(registry: GraphRegistry) -> None:
    recording = await Recording().run_of(registry, "approve", {"topic": "tests"})

    [asked], [update] = recording.of(Kind.INPUT_REQUESTED), recording.of(Kind.UPDATES)
    assert recording.entries.index(asked) == recording.entries.index(update) - 1
    [question] = asked.data["interrupts"]
    assert question["value"] == {"question": "ok?", "topic": "tests"}
    assert update.data == {"value": {"__interrupt__": [question]}}
    assert recording.normalizer.pending == {recording.of(Kind.TASK)[-1].data["id"]: [question]}


async def test_a_question_is_asked_once_however_deep_it_was_asked(registry: GraphRegistry) -> None:
    recording = await Recording().run_of(registry, "approve_many", {})

    asked = recording.of(Kind.INPUT_REQUESTED)
    assert {entry.ns for entry in asked} == {()}
    questions = [each["value"] for entry in asked for each in entry.data["interrupts"]]
    assert sorted(questions) == ["deep?", "left?", "right?"]
    pending = [each["value"] for interrupts in recording.normalizer.pending.values() for each in interrupts]
    assert sorted(pending) == ["deep?", "left?", "right?"]


async def test_nothing_is_pending_after_the_answer(registry: GraphRegistry) -> None:
    async with registry.open("approve", {}) as graph:
        saved = graph.copy(update={"checkpointer": InMemorySaver()})
        config = {"configurable": {"thread_id": "t"}}
        await Recording().run(saved, {"topic": "tests"}, config)
        answered = Recording()
        await answered.run(saved, Command(resume="yes"), config)

    assert answered.normalizer.pending == {}
    assert answered.of(Kind.INPUT_REQUESTED) == []
    assert answered.states[-1][1] == b'{"topic":"tests","answer":"yes","done":true}'


def test_a_question_of_a_subgraph_is_only_an_update_there() -> None:
    drafts = normalizer().feed(("inner:1",), "updates", {"__interrupt__": (Interrupt("deep?", id="i"),)}, AT)
    assert [draft.kind for draft in drafts] == [Kind.UPDATES]


# -- updates ----------------------------------------------------------------------------------------------------------

LARGE = {"node": {"text": "x" * LARGE_UPDATE, "more": 1}, "empty": None}


def test_a_large_update_nobody_asked_for_is_its_keys() -> None:
    [entry] = normalizer().feed((), "updates", LARGE, AT)
    assert entry.data == {"slim": {"node": ["text", "more"], "empty": []}}


def test_a_large_update_somebody_asked_for_is_whole() -> None:
    [entry] = normalizer("updates").feed((), "updates", LARGE, AT)
    assert entry.data == {"value": LARGE}


def test_a_small_update_is_always_whole() -> None:
    [entry] = normalizer().feed((), "updates", {"node": {"text": "x"}}, AT)
    assert entry.data == {"value": {"node": {"text": "x"}}}
