"""States can be reconstructed from their entries, whatever nodes do to them (spec/log.md, 6.5 - 6.8)."""

import operator
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from langgraph.graph import START, StateGraph
from recordings import AT, Recording, normalizer

from threadwire.core.entries import Draft, Kind
from threadwire.core.json import dumps, native
from threadwire.core.state_fold import JsonState

pytestmark = [pytest.mark.anyio, pytest.mark.every_version]

leaves = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0]) | st.text("ab", max_size=2)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from("abcd")


class Story:
    """A state that is changed in the ways nodes do, and fed to a normalizer as LangGraph does."""

    def __init__(self, data: st.DataObject) -> None:
        self._draw = data.draw
        self._state: dict[str, Any] = {}
        self._normalizer = normalizer()
        self._fold = JsonState()

    def step(self) -> None:
        changes = [self._set, self._delete, self._append, self._splice, self._reorder_keys]
        if self._keys_of(list):
            changes += [self._reorder, self._mutate_list]
        if self._keys_of(dict):
            changes += [self._mutate_dict]
        if any(_dicts(value) for value in self._state.values()):
            changes += [self._mutate_element, self._merge]
        update = self._draw(st.sampled_from(changes))()
        if update is not None:
            self._normalizer.feed((), "updates", {"node": update}, AT)
        [entry] = self._normalizer.feed((), "values", dict(self._state), AT)
        self._fold.apply(native(entry.data))
        assert self._fold.dumps() == dumps(self._state)

    def _keys_of(self, kind: type) -> list[str]:
        return [key for key, value in self._state.items() if type(value) is kind]

    def _set(self) -> Any:
        update = self._draw(st.dictionaries(NAMES, values, max_size=2))
        self._state.update(update)
        return update

    def _delete(self) -> Any:
        self._state.pop(self._draw(NAMES), None)
        return self._draw(st.none() | st.just({}))

    def _reorder_keys(self) -> None:
        self._state = {key: self._state[key] for key in self._draw(st.permutations(list(self._state)))}

    def _append(self) -> Any:
        """A reducer creates a new list from the old elements and those of the update."""
        key, items = self._draw(NAMES), self._draw(st.lists(values, max_size=3))
        old = self._state.get(key)
        self._state[key] = [*old, *items] if type(old) is list else items
        return {key: items}

    def _splice(self) -> Any:
        key, items = self._draw(NAMES), self._draw(st.lists(values, max_size=3))
        old = list(self._state[key]) if type(self._state.get(key)) is list else []
        at = self._draw(st.integers(0, len(old)))
        old[at : at + self._draw(st.integers(0, len(old)))] = items
        self._state[key] = old
        return {key: old}

    def _reorder(self) -> Any:
        key = self._draw(st.sampled_from(self._keys_of(list)))
        self._state[key] = self._draw(st.permutations(self._state[key]))
        return [{key: self._state[key]}]

    def _mutate_list(self) -> Any:
        key = self._draw(st.sampled_from(self._keys_of(list)))
        if self._draw(st.booleans()):
            self._state[key].insert(self._draw(st.integers(0, len(self._state[key]))), self._draw(values))
        else:
            del self._state[key][: self._draw(st.integers(0, 2))]
        return {key: self._state[key]}

    def _mutate_dict(self) -> Any:
        key = self._draw(st.sampled_from(self._keys_of(dict)))
        self._state[key][self._draw(st.sampled_from("xyz"))] = self._draw(values)
        return {key: self._state[key]}

    def _mutate_element(self) -> Any:
        """A node changes one element in place and returns it; the reducer keeps its position."""
        key = self._draw(st.sampled_from([key for key, value in self._state.items() if _dicts(value)]))
        element = self._draw(st.sampled_from(_dicts(self._state[key])))
        element["x"] = self._draw(values)
        self._state[key] = list(self._state[key])
        return {key: [element]}

    def _merge(self) -> Any:
        """A reducer merges an update into an existing element, in place."""
        key = self._draw(st.sampled_from([key for key, value in self._state.items() if _dicts(value)]))
        change = {"y": self._draw(values)}
        self._draw(st.sampled_from(_dicts(self._state[key]))).update(change)
        return {key: [change]}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if type(item) is dict] if type(value) is list else []


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_state_can_be_reconstructed_after_arbitrary_changes(data: st.DataObject) -> None:
    """6.5 - 6.7"""
    story = Story(data)
    for _ in range(data.draw(st.integers(1, 8))):
        story.step()


@settings(max_examples=50, deadline=None)
@given(st.lists(values | st.dictionaries(NAMES, values), min_size=1, max_size=5))
def test_state_may_be_any_value_and_change_to_any_value(history: list[Any]) -> None:
    """6.8"""
    assert folds(history) == [dumps(state) for state in history]


def folds(history: Sequence[Any]) -> list[bytes]:
    fed, fold, folded = normalizer(), JsonState(), []
    for state in history:
        fed.feed((), "updates", {"node": state}, AT)
        [entry] = fed.feed((), "values", state, AT)
        fold.apply(native(entry.data))
        folded.append(fold.dumps())
    return folded


@pytest.mark.parametrize("key", [True, None, 1, 1.5], ids=repr)
def test_key_that_is_not_a_string_is_recorded_as_in_json(key: Any) -> None:
    """An entrypoint may return any dict (6.6)."""
    history = [{key: [1]}, {key: [1, 2]}, {"other": 0, key: [1, 2]}, {"other": 0}]
    assert folds(history) == [dumps(state) for state in history]


def test_growing_list_is_stored_as_the_added_items() -> None:
    """6.6"""
    fed, grown = normalizer(), [{"n": number} for number in range(100)]
    fed.feed((), "values", {"a": grown, "b": 1}, AT)
    fed.feed((), "updates", {"node": {"a": [added := {"n": 100}]}}, AT)

    [entry] = fed.feed((), "values", {"a": [*grown, added], "b": 1}, AT)

    assert entry.data == {"splice": {"a": [100, 0, [{"n": 100}]]}}


def test_unchanged_state_is_stored_as_an_empty_entry() -> None:
    """6.5: every part has an entry"""
    fed, state = normalizer(), {"a": [{"n": 1}], "b": {"c": 1}, "d": "text"}
    fed.feed((), "values", state, AT)

    [entry] = fed.feed((), "values", dict(state), AT)

    assert entry == Draft(Kind.STATE, {}, (), AT)


def test_namespaces_are_independent() -> None:
    fed = normalizer()
    fed.feed((), "values", {"a": 1}, AT)

    [entry] = fed.feed(("inner:1",), "values", {"a": 1}, AT)

    assert entry == Draft(Kind.STATE, {"full": True, "set": {"a": 1}, "keys": ["a"]}, ("inner:1",), AT)


def test_messages_added_as_dicts_are_stored_as_the_added_items() -> None:
    """6.6: the message reducer creates new messages from dicts and does not change the old ones"""
    fed, messages = normalizer(), [AIMessage(str(number), id=f"m-{number}") for number in range(3)]
    fed.feed((), "values", {"messages": messages[:2]}, AT)
    fed.feed((), "updates", {"node": {"messages": [{"role": "ai", "content": "2", "id": "m-2"}]}}, AT)

    [entry] = fed.feed((), "values", {"messages": messages}, AT)

    assert entry.data == {"splice": {"messages": [2, 0, [native(messages[2])]]}}


async def test_in_place_changes_of_a_reducer_are_recorded() -> None:
    """A reducer may merge an update into an existing element."""

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

    assert [folded for _, folded in recording.states] == [streamed for streamed, _ in recording.states]
