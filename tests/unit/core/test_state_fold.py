"""The state of a thread is the fold of its `state` entries (spec/log.md, 6.5 - 6.8), in both forms."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadwire.core.json import loads
from threadwire.core.state_fold import JsonState, ValueState

leaves = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5)
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner))
states = st.dictionaries(st.sampled_from("abcde"), values, max_size=5)


FOLDS = (JsonState, ValueState)
each_form = pytest.mark.parametrize("form", FOLDS)


def folded(*entries):
    """Return the state, which must not depend on the form in which it is stored."""
    as_json, as_value = (state_after(entries, form) for form in FOLDS)
    assert as_json == as_value
    return as_json


def state_after(entries, form):
    fold = form()
    for entry in entries:
        fold.apply(entry)
    return fold.value()


def full(state):
    return {"full": True, "set": state, "keys": list(state)}


def change(before, after):
    """Return the simplest `state` entry that turns one state into another."""
    entry = {}
    spliced = {}
    for key, value in after.items():
        if isinstance(value, list) and isinstance(before.get(key), list):
            spliced[key] = [0, len(before[key]), value]
        elif key not in before or before[key] != value or type(before[key]) is not type(value):
            entry.setdefault("set", {})[key] = value
    if spliced:
        entry["splice"] = spliced
    if removed := [key for key in before if key not in after]:
        entry["unset"] = removed
    if list(before) != list(after):
        entry["keys"] = list(after)
    return entry


@settings(deadline=None)
@given(st.lists(states, min_size=1, max_size=6))
def test_a_full_state_and_its_changes_reproduce_every_state_with_its_key_order(history):
    fold = JsonState()
    fold.apply(full(history[0]))
    shown = [fold.value()]
    for before, after in pairwise(history):
        fold.apply(change(before, after))
        shown.append(fold.value())
    assert shown == history
    assert [list(state) for state in shown] == [list(state) for state in history]


@settings(deadline=None)
@given(st.lists(states, min_size=1, max_size=6))
def test_both_forms_of_a_state_are_equal_after_every_change(history):
    entries = [full(history[0]), *(change(before, after) for before, after in pairwise(history))]
    as_json, as_values = JsonState(), ValueState()
    for entry in entries:
        as_json.apply(entry)
        as_values.apply(entry)
        assert as_json.value() == as_values.value()


@each_form
@settings(max_examples=50, deadline=None)
@given(history=st.lists(states, min_size=1, max_size=6), data=st.data())
def test_a_fold_that_starts_with_the_state_at_any_position_ends_like_one_fed_from_the_start(form, history, data):
    entries = [full(history[0]), *(change(before, after) for before, after in pairwise(history))]
    position = data.draw(st.integers(0, len(history) - 1))
    late = [full(state_after(entries[: position + 1], form)), *entries[position + 1 :]]
    assert state_after(late, form) == state_after(entries, form)


@given(st.lists(leaves, max_size=8), st.data())
def test_a_splice_replaces_part_of_a_list(items, data):
    at = data.draw(st.integers(0, len(items)))
    drop = data.draw(st.integers(0, len(items) - at))
    new = data.draw(st.lists(values, max_size=4))
    expected = [*items[:at], *new, *items[at + drop :]]
    assert folded(full({"list": items}), {"splice": {"list": [at, drop, new]}}) == {"list": expected}


@given(states, states)
def test_full_replaces_the_previous_state(before, after):
    assert folded(full(before), full(after)) == after


@given(values)
def test_a_state_that_is_not_an_object_is_rendered_whole(value):
    assert folded({"full": True, "value": value}) == value
    assert folded(full({"a": 1}), {"full": True, "value": value}) == value
    assert folded({"full": True, "value": value}, full({"a": 1})) == {"a": 1}


def test_a_state_without_entries_is_an_empty_object():
    assert JsonState().dumps() == b"{}"
    assert folded({}) == {}


def test_a_change_leaves_other_keys_alone():
    assert folded(full({"a": [1], "b": 2}), {"set": {"b": 3}}, {}) == {"a": [1], "b": 3}


@each_form
def test_a_list_can_become_another_type_and_a_list_again(form):
    fold = form()
    fold.apply(full({"a": [1, 2]}))
    fold.apply({"set": {"a": "text"}})
    assert fold.value() == {"a": "text"}
    fold.apply({"set": {"a": [3]}})
    fold.apply({"splice": {"a": [1, 0, [4]]}})
    assert fold.value() == {"a": [3, 4]}


def test_rendering_the_state_does_not_change_it():
    fold = JsonState()
    fold.apply(full({"a": [1, {"b": []}]}))
    assert fold.dumps() == fold.dumps() == b'{"a":[1,{"b":[]}]}'
    assert loads(fold.dumps()) == fold.value()


class CountedJsonState(JsonState):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def _dumps(self, value):
        self.calls += 1
        return super()._dumps(value)


def test_a_large_list_is_serialized_in_one_call():
    """One call per element takes several times as long, and holds up every other client of the event loop."""
    rows = [{"text": "x" * 1000}] * 20_000
    fold = CountedJsonState()
    fold.apply(full({"rows": rows}))
    assert fold.calls == 1
    fold.apply({"splice": {"rows": [1, 19_998, rows]}})
    assert fold.calls == 2
    assert fold.value() == {"rows": [*rows, rows[0], rows[0]]}


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.lists(leaves, max_size=4)), max_size=12))
def test_many_splices_of_one_list_give_the_same_list_in_both_forms(splices):
    entries, expected = [full({"list": []})], []
    for at, drop, items in splices:
        at = min(at, len(expected))
        drop = min(drop, len(expected) - at)
        expected[at : at + drop] = items
        entries.append({"splice": {"list": [at, drop, items]}})
    assert folded(*entries) == {"list": expected}


def test_a_returned_value_does_not_change_with_later_entries():
    fold = ValueState()
    fold.apply(full({"a": [1, 2]}))
    before = fold.value()
    fold.apply({"splice": {"a": [1, 1, [3, 4]]}, "set": {"b": 0}, "keys": ["a", "b"]})
    assert before == {"a": [1, 2]}
    assert fold.value() == {"a": [1, 3, 4], "b": 0}


@each_form
def test_the_fold_does_not_hold_references_to_entries(form):
    entry = full({"a": [1]})
    fold = form()
    fold.apply(entry)
    entry["set"]["a"].append(2)
    assert fold.value() == {"a": [1]}


@each_form
def test_a_splice_of_a_value_that_is_not_a_list_fails_an_assertion(form):
    fold = form()
    fold.apply(full({"a": 1}))
    with pytest.raises(AssertionError, match="a splice requires a list"):
        fold.apply({"splice": {"a": [0, 0, []]}})
