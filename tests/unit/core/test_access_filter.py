"""Parsing and matching access filters (spec/access.md). How rows are filtered is tested in the conformance suite."""

from typing import Any
from uuid import UUID

import pytest

from threadwire.core.access_filter import EVERYTHING, AnyOf, Contains, Equals, parse_access_filter
from threadwire.errors import InvalidAccessFilter


def test_empty_filter_matches_everything() -> None:
    assert parse_access_filter({}) == EVERYTHING
    assert not EVERYTHING
    assert EVERYTHING.matches({})
    assert EVERYTHING.matches({"owner": "alice"})


def test_conditions_are_parsed() -> None:
    parsed = parse_access_filter({"a": 1, "b": {"$eq": {"c": 2}}, "d": {"$contains": "e"}, "f": {"$contains": [1, 2]}})
    assert parsed
    assert parsed.conditions == (Equals("a", 1), Equals("b", {"c": 2}), Contains("d", ("e",)), Contains("f", (1, 2)))


def test_operators_are_parsed() -> None:
    alice, bob = {"owner": "alice"}, {"owner": "bob"}
    parsed_alice, parsed_bob = parse_access_filter(alice), parse_access_filter(bob)
    assert parse_access_filter({"$or": [alice, bob]}).conditions == (AnyOf((parsed_alice, parsed_bob)),)
    both = parse_access_filter({"$and": [alice, bob], "level": 1}).conditions
    assert both == (*parsed_alice.conditions, *parsed_bob.conditions, Equals("level", 1))


def test_values_are_compared_as_json() -> None:
    user = UUID(int=1)
    assert parse_access_filter({"owner": user}).matches({"owner": str(user)})
    assert not parse_access_filter({"level": 1}).matches({"level": True})


def test_later_changes_of_the_object_do_not_change_the_filter() -> None:
    raw: dict[str, Any] = {"owner": {"$eq": ["alice"]}}
    parsed = parse_access_filter(raw)
    raw["owner"]["$eq"].append("bob")
    assert parsed.matches({"owner": ["alice"]})


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("owner", "must be an object"),
        (None, "must be an object"),
        ({"$not": {"owner": "alice"}}, "`\\$not` is not an operator"),
        ({"$eq": "alice"}, "`\\$eq` is not an operator"),
        ({"owner": {}}, "exactly one operator"),
        ({"owner": {"$eq": 1, "$contains": 1}}, "exactly one operator"),
        ({"owner": {"$in": ["alice"]}}, "`\\$in` in the condition on `owner`"),
        ({"owner": {"name": "alice"}}, "`name` in the condition on `owner`"),
        ({"$or": {"owner": "alice"}}, "`\\$or` of an access filter must be a list"),
        ({"$or": [{"owner": "alice"}]}, "at least two"),
        ({"$and": []}, "at least two"),
        ({"$or": [{"owner": "alice"}, {}]}, "is empty"),
        ({"$or": [{"owner": "alice"}, "bob"]}, "must be an object"),
        ({"$or": [{"a": 1}, {"$and": [{"a": 1}, {"$or": [{"a": 1}, {"b": 1}]}]}]}, "nested at most 2"),
    ],
)
def test_invalid_filter_is_rejected_when_it_is_parsed(raw: Any, message: str) -> None:
    with pytest.raises(InvalidAccessFilter, match=message):
        parse_access_filter(raw)
