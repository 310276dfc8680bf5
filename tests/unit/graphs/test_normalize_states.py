"""States can be had back from the entries made of them, whatever nodes did to them (spec/log.md, 6.5 - 6.8)."""

import operator
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from langgraph.graph import START, StateGraph
from normalizing import AT, Recording, normalizer

from threadwire.core.entries import Draft, Kind
from threadwire.core.fold import StateFold
from threadwire.core.json import dumps, native

pytestmark = pytest.mark.anyio

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
