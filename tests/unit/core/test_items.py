import pytest

from threadwire.core.items import ListNamespaces, check_filter, listed, ranked, satisfies


@pytest.mark.parametrize(
    ("value", "wanted", "met"),
    [
        ({"n": "10"}, {"n": {"$gt": "9"}}, True),  # both can be read as numbers
        ({"n": "b"}, {"n": {"$gt": "a"}}, True),
        ({"n": "2026-01-02"}, {"n": {"$gte": "2026-01-01"}}, True),
        ({"n": "b"}, {"n": {"$gt": 1}}, False),
        ({"n": None}, {"n": {"$lt": 1}}, False),
        ({}, {"n": {"$lt": 1}}, False),
        ({"n": [1]}, {"n": {"$gt": 0}}, False),
        ({"n": {}}, {"n": {"$gte": "x"}}, False),
        ({"n": 10**400}, {"n": {"$gt": 1}}, False),
        ({}, {"n": {"$ne": 1}}, True),
        ({"n": True}, {"n": 1}, False),
        ({"n": 1}, {"n": {"$eq": True}}, False),
        ({"n": 1.0}, {"n": 1}, True),
        ({"n": [True]}, {"n": {"$eq": [1]}}, False),
        ({"$n": 1}, {"$n": 1}, True),  # at the top a key is the value's own
        ({"a.b": 1}, {"a.b": 1}, True),
        ({"a": {"b": 1}}, {"a.b": 1}, False),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, True),
        ({"a": {"b": 1, "c": 2}}, {"a": {"$eq": {"b": 1}}}, False),
        ({"a": 1}, {}, True),
    ],
)
def test_a_filter_is_met_or_not_and_never_fails(value, wanted, met):
    check_filter(list(wanted.values()))
    assert satisfies(value, wanted) is met


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ({"$foo": 1}, "Unsupported operator: $foo"),
        ({"$gt": 1, "b": 2}, "Unsupported operator: b"),
        ({"deep": {"er": {"$": 1}}}, "Unsupported operator: $"),
        ([1, {"$in": [1]}], "Unsupported operator: $in"),
        ({"$gt": [1]}, "$gt compares with a number or a text"),
        ({"$lte": None}, "$lte compares with a number or a text"),
    ],
)
def test_a_condition_that_means_nothing_is_refused(wanted, sentence):
    with pytest.raises(ValueError) as refusal:
        check_filter(wanted)
    assert str(refusal.value) == sentence


def test_what_is_compared_with_equals_may_hold_anything():
    check_filter({"$eq": {"$foo": 1}, "$ne": [{"$bar": 2}]})


def test_what_was_found_several_times_counts_once_by_its_best_score():
    found = [("a", 0.1), ("b", None), ("c", 0.5), ("a", 0.9), ("d", None), ("c", 0.2)]
    assert ranked(found) == [("a", 0.9), ("c", 0.5), ("b", None), ("d", None)]


def test_among_equals_the_first_found_stays_first():
    assert ranked([("a", 0.5), ("b", 0.5)]) == [("a", 0.5), ("b", 0.5)]


def test_a_wildcard_is_one_label_and_no_more():
    there = [("a",), ("a", "b"), ("a", "b", "c")]
    assert listed(there, ListNamespaces(prefixes=(("a", "*"),))) == there[1:]
    assert listed(there, ListNamespaces(suffixes=(("*", "c"),))) == there[2:]
