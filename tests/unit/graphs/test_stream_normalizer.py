"""LangGraph's stream can be reconstructed from its entries (spec/log.md, section 6)."""

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, Interrupt
from recordings import AT, HELLO, Recording, normalizer

from threadwire.core.entries import Draft, Kind, Namespace
from threadwire.core.json import native
from threadwire.graphs.config import ProjectConfig
from threadwire.graphs.registry import GraphRegistry
from threadwire.graphs.stream_normalizer import LARGE_UPDATE

pytestmark = [pytest.mark.anyio, pytest.mark.every_version]

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
    "slow_approval": {"seconds": 0},
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


async def test_inputs_cover_every_graph_of_the_file(project: ProjectConfig, registry: GraphRegistry) -> None:
    """The graphs of the other files consist of the same steps."""
    graphs = project.graphs.items()
    assert sorted(INPUTS) == sorted(graph_id for graph_id, source in graphs if source.location == "./agents.py")
    assert registry.failures() == {}


@pytest.mark.parametrize("graph_id", INPUTS)
async def test_states_can_be_reconstructed_with_their_keys_in_order(graph_id: str, registry: GraphRegistry) -> None:
    """6.5 - 6.8"""
    recording = await Recording().run_graph(registry, graph_id, INPUTS[graph_id])

    assert recording.states
    assert [folded for _, folded in recording.states] == [streamed for streamed, _ in recording.states]


@pytest.mark.parametrize("graph_id", INPUTS)
async def test_only_the_first_state_of_each_namespace_is_full(graph_id: str, registry: GraphRegistry) -> None:
    """4.6, 6.7"""
    recording = await Recording().run_graph(registry, graph_id, INPUTS[graph_id])

    full: dict[Namespace, list[bool]] = {}
    for entry in recording.of(Kind.STATE):
        full.setdefault(entry.ns, []).append(entry.data.get("full", False))
    assert all(each == [True] + [False] * (len(each) - 1) for each in full.values())


async def test_entries_of_one_step_are_in_order(registry: GraphRegistry) -> None:
    recording = await Recording().run_graph(registry, "echo", {"text": "hello"})

    assert [entry.kind for entry in recording.entries] == [
        *(Kind.CHECKPOINT, Kind.STATE, Kind.CHECKPOINT),
        *(Kind.TASK, Kind.UPDATES, Kind.TASK),
        *(Kind.STATE, Kind.CHECKPOINT),
    ]
    started, ended = (entry.data for entry in recording.of(Kind.TASK))
    assert started == {"id": started["id"], "name": "say_again", "triggers": ["branch:to:say_again"]}
    assert ended == {"id": started["id"], "name": "say_again", "ended": True}
    assert [entry.data["next"] for entry in recording.of(Kind.CHECKPOINT)] == [["__start__"], ["say_again"], []]
    assert native(recording.normalizer.last_values) == {"text": "hello", "echoed": "hello"}


@pytest.mark.parametrize(
    ("task_input", "call_id"),
    [
        ({"__type": "tool_call_with_context", "tool_call": {"id": "call-1", "name": "add"}, "state": {}}, "call-1"),
        ([{"id": "call-1", "name": "add"}], "call-1"),
        ([{"id": "call-1", "name": "add"}, {"id": "call-2", "name": "add"}], None),
        ({"tool_call": {"id": 1}}, None),
        ({"tool_call": "add"}, None),
        ([], None),
        ("call-1", None),
    ],
)
def test_a_task_names_the_tool_call_that_it_executes(task_input: Any, call_id: str | None) -> None:
    part = {"id": "t", "name": "tools", "input": task_input, "triggers": ["__pregel_push"]}
    (entry,) = normalizer().feed((), "tasks", part, AT)
    assert entry.data.get("tool_call_id") == call_id
    assert ("tool_call_id" in entry.data) == (call_id is not None)


@pytest.mark.parametrize("mode", ["tasks", "checkpoints"])
async def test_tasks_and_checkpoints_are_recorded_in_full_only_on_request(mode: str, registry: GraphRegistry) -> None:
    default = await Recording().run_graph(registry, "echo", {"text": "hello"})
    requested = await Recording(mode).run_graph(registry, "echo", {"text": "hello"})

    slim = requested.of(Kind(mode.removesuffix("s")))
    assert default.of(Kind(mode)) == []
    assert len(requested.of(Kind(mode))) == len(slim) > 0


async def test_error_of_a_failing_node_is_recorded_with_its_task(registry: GraphRegistry) -> None:
    recording = await Recording().run_graph(registry, "fails", {"text": "hello"})

    assert "boom!" in str(recording.of(Kind.TASK)[-1].data["error"])


async def test_custom_data_is_recorded_with_its_namespace(registry: GraphRegistry) -> None:
    recording = await Recording().run_graph(registry, "nested", HELLO)

    before, inside, after = recording.of(Kind.CUSTOM)
    assert [entry.data["value"]["at"] for entry in (before, inside, after)] == ["before", "inside", "after"]
    assert (before.ns, after.ns) == ((), ())
    assert [part.split(":")[0] for part in inside.ns] == ["inner"]


@pytest.mark.needs("langgraph", "1.2")
async def test_tool_entries_contain_the_id_of_the_call(registry: GraphRegistry) -> None:
    recording = await Recording().run_graph(registry, "tools", HELLO)

    started, finished = (entry.data for entry in recording.of(Kind.TOOL))
    assert (started["event"], started["tool_call_id"], started["tool_name"]) == ("tool-started", "call-1", "add")
    assert (finished["event"], finished["tool_call_id"]) == ("tool-finished", "call-1")
    assert finished["output"]["content"] == "42"


async def test_every_kind_of_tool_event_is_recorded() -> None:
    events = ["tool-started", "tool-output-delta", "tool-finished", "tool-error"]
    fed = normalizer()

    drafts = [fed.feed(("inner:1",), "tools", {"event": event, "tool_call_id": "c"}, AT) for event in events]

    assert drafts == [(Draft(Kind.TOOL, {"event": event, "tool_call_id": "c"}, ("inner:1",), AT),) for event in events]


async def test_every_entry_has_the_given_timestamp(registry: GraphRegistry) -> None:
    """1.5"""
    recording = await Recording("tasks", "checkpoints", "updates").run_graph(registry, "everything", HELLO)
    assert {entry.at for entry in recording.entries} == {AT}


# -- interrupts -------------------------------------------------------------------------------------------------------


async def test_interrupt_is_recorded_before_its_update(registry: GraphRegistry) -> None:
    recording = await Recording().run_graph(registry, "approve", {"topic": "tests"})

    [requested], [update] = recording.of(Kind.INPUT_REQUESTED), recording.of(Kind.UPDATES)
    assert recording.entries.index(requested) == recording.entries.index(update) - 1
    [interrupt] = requested.data["interrupts"]
    assert interrupt["value"] == {"question": "ok?", "topic": "tests"}
    assert update.data == {"value": {"__interrupt__": [interrupt]}}
    assert recording.normalizer.pending == {recording.of(Kind.TASK)[-1].data["id"]: [interrupt]}


async def test_nested_interrupt_is_recorded_once_at_the_root(registry: GraphRegistry) -> None:
    recording = await Recording().run_graph(registry, "approve_many", {})

    requested = recording.of(Kind.INPUT_REQUESTED)
    assert {entry.ns for entry in requested} == {()}
    values = [each["value"] for entry in requested for each in entry.data["interrupts"]]
    assert sorted(values) == ["deep?", "left?", "right?"]
    pending = [each["value"] for interrupts in recording.normalizer.pending.values() for each in interrupts]
    assert sorted(pending) == ["deep?", "left?", "right?"]


async def test_nothing_is_pending_after_the_answer(registry: GraphRegistry) -> None:
    async with registry.open("approve", {}) as graph:
        bound = graph.copy(update={"checkpointer": InMemorySaver()})
        config = {"configurable": {"thread_id": "t"}}
        await Recording().run(bound, {"topic": "tests"}, config)
        answered = Recording()
        await answered.run(bound, Command(resume="yes"), config)

    assert answered.normalizer.pending == {}
    assert answered.of(Kind.INPUT_REQUESTED) == []
    assert answered.states[-1][1] == b'{"topic":"tests","answer":"yes","done":true}'


def test_interrupt_part_of_a_subgraph_is_recorded_as_an_update_only() -> None:
    drafts = normalizer().feed(("inner:1",), "updates", {"__interrupt__": (Interrupt("deep?", id="i"),)}, AT)
    assert [draft.kind for draft in drafts] == [Kind.UPDATES]


# -- updates ----------------------------------------------------------------------------------------------------------

LARGE = {"node": {"text": "x" * LARGE_UPDATE, "more": 1}, "empty": None}


def test_large_update_is_stored_as_its_keys_by_default() -> None:
    [entry] = normalizer().feed((), "updates", LARGE, AT)
    assert entry.data == {"slim": {"node": ["text", "more"], "empty": []}}


def test_large_update_is_stored_whole_on_request() -> None:
    [entry] = normalizer("updates").feed((), "updates", LARGE, AT)
    assert entry.data == {"value": LARGE}


def test_small_update_is_always_stored_whole() -> None:
    [entry] = normalizer().feed((), "updates", {"node": {"text": "x"}}, AT)
    assert entry.data == {"value": {"node": {"text": "x"}}}
