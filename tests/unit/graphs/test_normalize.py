"""What LangGraph streams can be had back from the entries made of it (spec/log.md, section 6)."""

import json
import operator
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Interrupt

from threadwire.core.entries import Draft, Json, Kind, Namespace
from threadwire.core.fold import StateFold
from threadwire.core.json import dumps, native
from threadwire.graphs.config import load_config
from threadwire.graphs.execution import ALWAYS
from threadwire.graphs.normalize import LARGE_UPDATE, Normalizer
from threadwire.graphs.registry import GraphRegistry, load_registry

pytestmark = pytest.mark.anyio

AT = 1_700_000_000_000
HELLO = {"messages": [{"role": "user", "content": "hello there", "id": "user-1"}]}
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
    "blocking": {"seconds": 0},
    "steps": {"count": 5},
    "private": {"question": "why?"},
    "functional": {"number": 21},
    "factory": {"text": "world"},
    "approve": {"topic": "tests"},
    "approve_many": {},
    "everything": HELLO,
}

Part = tuple[Namespace, str, Any]


PROJECT = load_config(Path(__file__).parents[2] / "graphs" / "langgraph.json")


@pytest.fixture(scope="module")
def registry() -> GraphRegistry:
    return load_registry(PROJECT)


def normalizer(*asked: str) -> Normalizer:
    return Normalizer(frozenset(asked), {"thread_id": "t"})


class Recording:
    """A graph's stream as it came, and the entries made of each part, made the moment it came."""

    def __init__(self, *asked: str) -> None:
        self.normalizer = normalizer(*asked)
        self.entries: list[Draft] = []
        self.states: list[tuple[bytes, bytes]] = []
        """What each `values` part was, beside what the entries up to it add up to."""
        self.chunks: list[tuple[Json, Json]] = []
        self._folds: dict[Namespace, StateFold] = {}

    async def run(self, graph: Any, given: Any, config: dict[str, Any] | None = None) -> None:
        async for ns, mode, part in graph.astream(given, config, stream_mode=list(ALWAYS), subgraphs=True):
            drafts = self.normalizer.feed(ns, mode, part, AT)
            self.entries += drafts
            if mode == "values":
                [entry] = drafts
                fold = self._folds.setdefault(ns, StateFold())
                fold.apply(native(entry.data))
                self.states.append((dumps(part), fold.dumps()))
            if mode == "messages":
                self.chunks.append((native(part[0]), native(part[1])))

    async def run_of(self, registry: GraphRegistry, graph_id: str, given: Any) -> "Recording":
        async with registry.open(graph_id, {}) as graph:
            saved = graph.copy(update={"checkpointer": InMemorySaver()})
            with suppress(ValueError):  # the one that `fails` raises
                await self.run(saved, given, {"configurable": {"thread_id": "t"}})
        return self

    def of(self, kind: Kind) -> list[Draft]:
        return [entry for entry in self.entries if entry.kind == kind]


def rebuilt(entries: Iterable[Draft]) -> list[tuple[Json, Json]]:
    """Every chunk and whole message with its metadata, by 6.1 - 6.3 alone."""
    known: dict[int, tuple[Json, Json]] = {}
    shown = []
    for entry in entries:
        data = native(entry.data)
        if isinstance(data, list):
            index, change = data[0], {"content": data[1]}
        elif "patch" in data:
            index, change = data["i"], data["patch"]
        else:
            index, change = data["i"], {}
            assert index == len(known), "messages are counted from 0"
            known[index] = data.get("chunk") or data["message"], data["meta"]
        message, meta = known[index]
        known[index] = {**message, **change}, meta
        shown.append(known[index])
    return shown


def exact(value: Any) -> str:
    """JSON in which 1 and true differ, but the order of keys does not matter."""
    return json.dumps(value, sort_keys=True)


# -- real streams -----------------------------------------------------------------------------------------------------


async def test_these_are_all_the_graphs_of_the_file(registry: GraphRegistry) -> None:
    """The other files have the same few steps in other clothes."""
    graphs = PROJECT.graphs.items()
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


@pytest.mark.parametrize("graph_id", ["chat", "tools", "nested", "everything"])
async def test_the_messages_of_every_graph_can_be_had_back(graph_id: str, registry: GraphRegistry) -> None:
    """6.1 - 6.3"""
    recording = await Recording().run_of(registry, graph_id, INPUTS[graph_id])

    streamed = [entry for entry in recording.of(Kind.MESSAGES) if not _for_root(entry)]
    again = [_for_root(entry) for entry in recording.of(Kind.MESSAGES)]
    shown = [message for message, root in zip(rebuilt(recording.of(Kind.MESSAGES)), again, strict=True) if not root]
    assert len(shown) == len(streamed)
    assert [exact(each) for each in shown] == [exact(each) for each in recording.chunks]


async def test_a_token_is_stored_as_its_text_alone(registry: GraphRegistry) -> None:
    """6.2, 6.4"""
    recording = await Recording().run_of(registry, "chat", HELLO)

    declared, *tokens, last = (entry.data for entry in recording.of(Kind.MESSAGES))
    assert declared["chunk"]["content"] == "You"
    assert tokens == [[0, " said:"], [0, " hello"], [0, " there"]]
    assert set(last["patch"]) == {"content", "usage_metadata", "chunk_position"}


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


# -- messages of a subgraph, at the root ------------------------------------------------------------------------------


def _for_root(entry: Draft) -> bool:
    return isinstance(entry.data, dict) and entry.data.get("root", False)


async def test_a_message_streamed_in_a_subgraph_is_told_whole_when_its_node_returns_it(
    registry: GraphRegistry,
) -> None:
    """6.4a"""
    recording = await Recording().run_of(registry, "nested", HELLO)

    [whole] = [entry for entry in recording.of(Kind.MESSAGES) if _for_root(entry)]
    update = next(entry for entry in recording.of(Kind.UPDATES) if not entry.ns and "inner" in entry.data["value"])
    assert recording.entries.index(whole) == recording.entries.index(update) - 1
    assert (whole.ns, whole.data["message"]["content"]) == ((), "You said: hello there")
    assert whole.data["meta"]["langgraph_node"] == "inner"
    streamed = {entry.data["chunk"]["id"] for entry in recording.of(Kind.MESSAGES) if "chunk" in entry.data}
    assert streamed == {whole.data["message"]["id"]}


async def test_the_metadata_of_such_a_message_is_what_langgraph_gives_to_a_root_node(
    registry: GraphRegistry,
) -> None:
    class Talk(TypedDict):
        messages: list[Any]

    def inner(state: Talk) -> Talk:
        return {"messages": [AIMessage("hello", id="m")]}

    graph = StateGraph(Talk).add_node("inner", inner).add_edge(START, "inner").compile()
    own = Recording()
    await own.run(graph, {"messages": []})
    nested = await Recording().run_of(registry, "nested", HELLO)

    [said] = own.of(Kind.MESSAGES)
    [whole] = [entry for entry in nested.of(Kind.MESSAGES) if _for_root(entry)]
    ours = {key for key in whole.data["meta"] if key.startswith("langgraph_")}
    assert ours == {key for key in said.data["meta"] if key.startswith("langgraph_")}
    assert whole.data["meta"]["langgraph_step"] == 2  # `before` was the first
    task = next(entry.data for entry in nested.of(Kind.TASK) if entry.data["name"] == "inner" and not entry.ns)
    assert whole.data["meta"]["langgraph_triggers"] == task["triggers"]
    assert whole.data["meta"]["langgraph_checkpoint_ns"] == f"inner:{task['id']}"


@pytest.mark.parametrize("graph_id", ["chat", "tools"])
async def test_a_message_streamed_at_the_root_is_not_told_again(graph_id: str, registry: GraphRegistry) -> None:
    """6.4a"""
    recording = await Recording().run_of(registry, graph_id, HELLO)
    assert not any(_for_root(entry) for entry in recording.of(Kind.MESSAGES))


def test_a_message_nobody_streamed_below_is_not_told_again() -> None:
    """6.4a"""
    fed = normalizer()
    fed.feed(("inner:1",), "messages", (AIMessageChunk("streamed", id="below"), {}), AT)
    update = {"inner": {"messages": [AIMessage("streamed", id="below"), HumanMessage("given", id="other")]}}

    first, second = fed.feed((), "updates", update, AT), fed.feed((), "updates", update, AT)

    assert [entry.data["message"]["id"] for entry in first if entry.kind == Kind.MESSAGES] == ["below"]
    assert [entry.kind for entry in second] == [Kind.UPDATES]


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


# -- states, by property ----------------------------------------------------------------------------------------------

leaves = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0]) | st.text("ab", max_size=2)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from("abcd")


class Story:
    """A state that nodes change the ways nodes do, told to a normalizer as LangGraph tells it."""

    def __init__(self, data: st.DataObject) -> None:
        self._draw = data.draw
        self._state: dict[str, Any] = {}
        self._normalizer = normalizer()
        self._fold = StateFold()

    def step(self) -> None:
        moves = [self._sets, self._forgets, self._appends, self._splices, self._reorders_keys]
        if self._having(list):
            moves += [self._reorders, self._mutates_list]
        if self._having(dict):
            moves += [self._mutates_dict]
        if any(_objects(value) for value in self._state.values()):
            moves += [self._mutates_element, self._merges]
        update = self._draw(st.sampled_from(moves))()
        if update is not None:
            self._normalizer.feed((), "updates", {"node": update}, AT)
        [entry] = self._normalizer.feed((), "values", dict(self._state), AT)
        self._fold.apply(native(entry.data))
        assert self._fold.dumps() == dumps(self._state)

    def _having(self, kind: type) -> list[str]:
        return [key for key, value in self._state.items() if type(value) is kind]

    def _sets(self) -> Any:
        update = self._draw(st.dictionaries(NAMES, values, max_size=2))
        self._state.update(update)
        return update

    def _forgets(self) -> Any:
        self._state.pop(self._draw(NAMES), None)
        return self._draw(st.none() | st.just({}))

    def _reorders_keys(self) -> None:
        self._state = {key: self._state[key] for key in self._draw(st.permutations(list(self._state)))}

    def _appends(self) -> Any:
        """A reducer makes a new list of the old elements and those of the update."""
        key, items = self._draw(NAMES), self._draw(st.lists(values, max_size=3))
        old = self._state.get(key)
        self._state[key] = [*old, *items] if type(old) is list else items
        return {key: items}

    def _splices(self) -> Any:
        key, items = self._draw(NAMES), self._draw(st.lists(values, max_size=3))
        old = list(self._state[key]) if type(self._state.get(key)) is list else []
        at = self._draw(st.integers(0, len(old)))
        old[at : at + self._draw(st.integers(0, len(old)))] = items
        self._state[key] = old
        return {key: old}

    def _reorders(self) -> Any:
        key = self._draw(st.sampled_from(self._having(list)))
        self._state[key] = self._draw(st.permutations(self._state[key]))
        return [{key: self._state[key]}]

    def _mutates_list(self) -> Any:
        key = self._draw(st.sampled_from(self._having(list)))
        if self._draw(st.booleans()):
            self._state[key].insert(self._draw(st.integers(0, len(self._state[key]))), self._draw(values))
        else:
            del self._state[key][: self._draw(st.integers(0, 2))]
        return {key: self._state[key]}

    def _mutates_dict(self) -> Any:
        key = self._draw(st.sampled_from(self._having(dict)))
        self._state[key][self._draw(st.sampled_from("xyz"))] = self._draw(values)
        return {key: self._state[key]}

    def _mutates_element(self) -> Any:
        """A node changes one element in place and returns it; the reducer puts it where it was."""
        key = self._draw(st.sampled_from([key for key, value in self._state.items() if _objects(value)]))
        element = self._draw(st.sampled_from(_objects(self._state[key])))
        element["x"] = self._draw(values)
        self._state[key] = list(self._state[key])
        return {key: [element]}

    def _merges(self) -> Any:
        """A reducer puts an update into the element it belongs to, in place."""
        key = self._draw(st.sampled_from([key for key, value in self._state.items() if _objects(value)]))
        change = {"y": self._draw(values)}
        self._draw(st.sampled_from(_objects(self._state[key]))).update(change)
        return {key: [change]}


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if type(item) is dict] if type(value) is list else []


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_whatever_nodes_do_to_a_state_it_can_be_had_back(data: st.DataObject) -> None:
    """6.5 - 6.7"""
    story = Story(data)
    for _ in range(data.draw(st.integers(1, 8))):
        story.step()


@settings(max_examples=50, deadline=None)
@given(st.lists(values | st.dictionaries(NAMES, values), min_size=1, max_size=5))
def test_a_state_may_be_anything_and_change_into_anything(history: list[Any]) -> None:
    """6.8"""
    assert folds(history) == [dumps(state) for state in history]


def folds(history: Sequence[Any]) -> list[bytes]:
    fed, fold, shown = normalizer(), StateFold(), []
    for state in history:
        fed.feed((), "updates", {"node": state}, AT)
        [entry] = fed.feed((), "values", state, AT)
        fold.apply(native(entry.data))
        shown.append(fold.dumps())
    return shown


@pytest.mark.parametrize("key", [True, None, 1, 1.5], ids=repr)
def test_a_key_that_is_no_text_is_told_as_json_tells_it(key: Any) -> None:
    """An entrypoint may return any dictionary (6.6)."""
    history = [{key: [1]}, {key: [1, 2]}, {"other": 0, key: [1, 2]}, {"other": 0}]
    assert folds(history) == [dumps(state) for state in history]


def test_a_list_that_grew_is_told_as_what_was_added() -> None:
    """6.6"""
    fed, grown = normalizer(), [{"n": number} for number in range(100)]
    fed.feed((), "values", {"a": grown, "b": 1}, AT)
    fed.feed((), "updates", {"node": {"a": [added := {"n": 100}]}}, AT)

    [entry] = fed.feed((), "values", {"a": [*grown, added], "b": 1}, AT)

    assert entry.data == {"splice": {"a": [100, 0, [{"n": 100}]]}}


def test_a_state_that_did_not_change_is_told_by_nothing() -> None:
    """6.5: the entry stands for the part all the same"""
    fed, state = normalizer(), {"a": [{"n": 1}], "b": {"c": 1}, "d": "text"}
    fed.feed((), "values", state, AT)

    [entry] = fed.feed((), "values", dict(state), AT)

    assert entry == Draft(Kind.STATE, {}, (), AT)


def test_namespaces_are_told_apart() -> None:
    fed = normalizer()
    fed.feed((), "values", {"a": 1}, AT)

    [entry] = fed.feed(("inner:1",), "values", {"a": 1}, AT)

    assert entry == Draft(Kind.STATE, {"full": True, "set": {"a": 1}, "keys": ["a"]}, ("inner:1",), AT)


def test_messages_given_as_dictionaries_are_told_as_what_was_added() -> None:
    """6.6: their reducer makes new messages of them, and leaves the old ones alone"""
    fed, spoken = normalizer(), [AIMessage(str(number), id=f"m-{number}") for number in range(3)]
    fed.feed((), "values", {"messages": spoken[:2]}, AT)
    fed.feed((), "updates", {"node": {"messages": [{"role": "ai", "content": "2", "id": "m-2"}]}}, AT)

    [entry] = fed.feed((), "values", {"messages": spoken}, AT)

    assert entry.data == {"splice": {"messages": [2, 0, [native(spoken[2])]]}}


async def test_what_a_reducer_changes_in_place_is_told() -> None:
    """A reducer may merge an update into the element it belongs to, and return the list it was given."""

    def merge(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
        merged = {item["id"]: item for item in old}
        for item in new:
            merged.setdefault(item["id"], {}).update(item)
        return list(merged.values())

    class Jobs(TypedDict):
        jobs: Annotated[list[dict[str, Any]], merge]
        log: Annotated[list[str], operator.add]

    def finish(state: Jobs) -> Jobs:
        return {"jobs": [{"id": 1, "done": True}], "log": ["finished"]}

    graph = StateGraph(Jobs).add_node("finish", finish).add_edge(START, "finish").compile()
    recording = Recording()
    await recording.run(graph, {"jobs": [{"id": 1, "done": False}, {"id": 2, "done": False}], "log": []})

    assert [shown for _, shown in recording.states] == [came for came, _ in recording.states]


# -- messages, by property --------------------------------------------------------------------------------------------

texts = st.text("ab ü🙂\n", max_size=4)
details = st.dictionaries(st.sampled_from(["model", "finish", "probs"]), st.integers(0, 2) | texts | st.lists(texts))
blocks = st.fixed_dictionaries({"type": st.just("text"), "text": texts, "index": st.integers(0, 1)})
calls = st.fixed_dictionaries(
    {
        "name": st.none() | st.just("add"),
        "args": st.sampled_from(["", '{"a"', ": 1}", "{}"]),
        "id": st.none() | st.just("call-1"),
        "index": st.integers(0, 1),
        "type": st.just("tool_call_chunk"),
    }
)
usages = st.builds(
    lambda read, written: {"input_tokens": read, "output_tokens": written, "total_tokens": read + written},
    st.integers(0, 3),
    st.integers(0, 3),
)
plain = st.builds(dict, content=texts)
rich = st.fixed_dictionaries(
    {"content": texts | st.lists(texts | blocks, max_size=2)},
    optional={
        "tool_call_chunks": st.lists(calls, max_size=2),
        "usage_metadata": st.none() | usages,
        "response_metadata": details,
        "additional_kwargs": details,
        "name": st.none() | st.just("agent"),
        "chunk_position": st.none() | st.just("last"),
    },
)
streams = st.lists(st.tuples(st.integers(0, 2), plain | rich), min_size=1, max_size=12)


@settings(max_examples=100, deadline=None)
@given(streams)
def test_whatever_chunks_come_they_can_be_had_back(stream: list[tuple[int, dict[str, Any]]]) -> None:
    """6.1 - 6.3, for messages that come at the same time"""
    fed, entries, came = normalizer(), [], []
    metas = [{"langgraph_node": f"model-{number}"} for number in range(3)]
    for number, fields in stream:
        chunk = AIMessageChunk(**fields, id=f"m-{number}")
        entries += fed.feed((), "messages", (chunk, metas[number]), AT)
        came.append((native(chunk), metas[number]))

    assert [exact(each) for each in rebuilt(entries)] == [exact(each) for each in came]


@settings(max_examples=50, deadline=None)
@given(st.lists(texts, min_size=2, max_size=8), details, st.lists(calls, max_size=1))
def test_chunks_that_differ_in_text_alone_are_stored_as_their_text(
    pieces: list[str], metadata: dict[str, Any], called: list[Any]
) -> None:
    """6.2, 6.4"""
    fed, meta = normalizer(), {"langgraph_node": "model"}
    entries = [
        entry
        for text in pieces
        for entry in fed.feed(
            (),
            "messages",
            (AIMessageChunk(text, id="m", response_metadata=metadata, tool_call_chunks=called), meta),
            AT,
        )
    ]
    assert [entry.data for entry in entries[1:]] == [[0, text] for text in pieces[1:]]


def test_a_message_sent_again_with_other_metadata_is_declared_again() -> None:
    """6.1"""
    fed, chunk = normalizer(), AIMessageChunk("hello", id="m")
    [first] = fed.feed((), "messages", (chunk, {"langgraph_step": 1}), AT)
    [again] = fed.feed((), "messages", (chunk, {"langgraph_step": 2}), AT)

    assert (first.data["i"], again.data["i"]) == (0, 1)
    assert again.data["meta"] == {"langgraph_step": 2}


def test_a_whole_message_is_declared_as_one() -> None:
    """6.1"""
    message = AIMessage("hello", id="m")
    [entry] = normalizer().feed((), "messages", (message, {"langgraph_node": "model"}), AT)
    assert entry.data == {"i": 0, "message": native(message), "meta": {"langgraph_node": "model"}}
