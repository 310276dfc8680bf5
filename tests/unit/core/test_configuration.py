from typing import Any

import pytest

from threadwire.core.configuration import (
    base_checkpoint_of,
    configurable_of,
    merge_run_configuration,
    sync_configuration,
)
from threadwire.core.ids import AssistantId, RunId, Seq, ThreadId
from threadwire.core.records import Run
from threadwire.errors import BadRequest


@pytest.mark.parametrize(
    ("config", "context", "before", "expected"),
    [
        ({}, None, None, ({}, {})),
        ({}, {}, None, ({}, {})),
        ({"tags": ["t"]}, {"a": 1}, None, ({"tags": ["t"], "configurable": {"a": 1}}, {"a": 1})),
        ({"configurable": {"a": 1}}, None, None, ({"configurable": {"a": 1}}, {"a": 1})),
        ({"configurable": {"a": 1}}, {}, None, ({"configurable": {"a": 1}}, {"a": 1})),
        ({"configurable": {}}, {"a": 1}, None, ({"configurable": {"a": 1}}, {"a": 1})),
        ({"tags": ["t"]}, None, {"b": 1}, ({"tags": ["t"], "configurable": {"b": 1}}, {"b": 1})),
        ({}, {}, {"b": 1}, ({}, {})),
        ({"configurable": {}}, None, {"b": 1}, ({}, {})),
        ({}, {"a": 1}, {"b": 1}, ({"configurable": {"a": 1}}, {"a": 1})),
        ({"configurable": None}, None, {"b": 1}, ({"configurable": {"b": 1}}, {"b": 1})),
    ],
)
def test_an_assistant_has_its_configuration_under_both_names(config, context, before, expected):
    assert sync_configuration(config, context, before) == expected


def test_both_names_together_are_rejected():
    with pytest.raises(BadRequest, match="Cannot specify both configurable and context"):
        sync_configuration({"configurable": {"a": 1}}, {"a": 1})
    with pytest.raises(BadRequest, match="Cannot specify both configurable and context"):
        merge_run_configuration({"configurable": {"a": 1}}, {"a": 1}, {}, {})


def test_the_configuration_of_a_run_overrides_that_of_its_assistant():
    base = {"tags": ["base"], "recursion_limit": 5, "configurable": {"a": 1, "b": 1}}
    given = {"tags": ["given"], "configurable": {"b": 2, "c": 2}}
    assert merge_run_configuration(given, {}, base, base["configurable"]) == (
        {"tags": ["given"], "recursion_limit": 5, "configurable": {"a": 1, "b": 2, "c": 2}},
        {"a": 1, "b": 2, "c": 2},
    )
    config, context = merge_run_configuration({}, {"b": 2}, base, base["configurable"])
    assert config["configurable"] == context == {"a": 1, "b": 2}


def test_location_keys_are_not_configuration():
    location = {"thread_id": "t", "checkpoint_id": "c", "checkpoint_ns": "", "checkpoint_map": {}}
    config, context = merge_run_configuration({"configurable": location}, {"a": 1}, {}, {})
    assert (config, context) == ({"configurable": {**location, "a": 1}}, {"a": 1})


@pytest.mark.parametrize(
    ("configurable", "base"),
    [
        (None, None),
        ({}, None),
        ({"checkpoint_id": None}, None),
        ({"checkpoint_id": ""}, None),
        ({"checkpoint_id": "c1"}, "c1"),
        ({"checkpoint_id": "c1", "checkpoint_ns": ""}, "c1"),
        ({"checkpoint_id": "c1", "checkpoint_ns": "inner:1"}, None),
    ],
)
def test_a_run_starts_from_the_checkpoint_it_names_at_the_root(configurable: Any, base: str | None) -> None:
    assert base_checkpoint_of({"configurable": configurable}) == base


@pytest.mark.parametrize(
    ("given", "owner", "user_id"),
    [
        ({"user_id": "ada"}, None, "ada"),
        ({"user_id": "ada"}, "service", "ada"),
        ({"user_id": ""}, "service", "service"),
        ({}, "service", "service"),
        ({"user_id": None}, None, ""),
        ({}, None, ""),
    ],
)
def test_the_user_of_a_run_can_be_given(given: dict[str, Any], owner: str | None, user_id: str) -> None:
    assert configurable_of(_a_run(given, owner))["user_id"] == user_id


def test_who_started_a_run_cannot_be_given() -> None:
    given = {"langgraph_auth_user_id": "ada", "langgraph_auth_user": {"identity": "ada"}, "run_id": "x"}
    configurable = configurable_of(_a_run(given, "service"))
    assert (configurable["langgraph_auth_user_id"], configurable["langgraph_auth_user"]) == ("service", None)
    assert configurable["run_id"] == "run"


def _a_run(configurable: dict[str, Any], owner: str | None) -> Run:
    return Run(
        run_id=RunId("run"),
        thread_id=ThreadId("thread"),
        assistant_id=AssistantId("assistant"),
        graph_id="graph",
        status="pending",
        created_at=0,
        updated_at=0,
        due_at=0,
        queued_seq=Seq(1),
        kwargs={"config": {"configurable": configurable}},
        owner=owner,
    )
