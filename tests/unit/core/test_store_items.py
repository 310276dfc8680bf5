import pytest

from threadwire.core.store_items import ListNamespaces, check_filter, matches_filter, rank_by_score, select_namespaces


@pytest.mark.parametrize(
    ("value", "wanted", "matches"),
    [
        ({"n": "10"}, {"n": {"$gt": "9"}}, True),  # both can be parsed as numbers
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
        ({"$n": 1}, {"$n": 1}, True),  # at the top level, keys are those of the value
        ({"a.b": 1}, {"a.b": 1}, True),
        ({"a": {"b": 1}}, {"a.b": 1}, False),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, True),
        ({"a": {"b": 1, "c": 2}}, {"a": {"$eq": {"b": 1}}}, False),
        ({"a": 1}, {}, True),
    ],
)
def test_a_filter_matches_or_not_and_never_raises(value, wanted, matches):
    check_filter(list(wanted.values()))
    assert matches_filter(value, wanted) is matches


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"$foo": 1}, "Unsupported operator: $foo"),
        ({"$gt": 1, "b": 2}, "Unsupported operator: b"),
        ({"deep": {"er": {"$": 1}}}, "Unsupported operator: $"),
        ([1, {"$in": [1]}], "Unsupported operator: $in"),
        ({"$gt": [1]}, "$gt requires a number or a string"),
        ({"$lte": None}, "$lte requires a number or a string"),
    ],
)
def test_an_invalid_condition_is_rejected(wanted, message):
    with pytest.raises(ValueError) as error:
        check_filter(wanted)
    assert str(error.value) == message


def test_the_operand_of_an_equality_may_contain_anything():
    check_filter({"$eq": {"$foo": 1}, "$ne": [{"$bar": 2}]})


def test_duplicates_are_ranked_once_by_their_best_score():
    found = [("a", 0.1), ("b", None), ("c", 0.5), ("a", 0.9), ("d", None), ("c", 0.2)]
    assert rank_by_score(found) == [("a", 0.9), ("c", 0.5), ("b", None), ("d", None)]


def test_equal_scores_keep_their_order():
    assert rank_by_score([("a", 0.5), ("b", 0.5)]) == [("a", 0.5), ("b", 0.5)]


def test_a_wildcard_matches_exactly_one_label():
    namespaces = [("a",), ("a", "b"), ("a", "b", "c")]
    assert select_namespaces(namespaces, ListNamespaces(prefixes=(("a", "*"),))) == namespaces[1:]
    assert select_namespaces(namespaces, ListNamespaces(suffixes=(("*", "c"),))) == namespaces[2:]
