"""Fields must have their documented types: similar values are not converted."""

import pytest
from pydantic import BaseModel, ValidationError

from threadwire.core.ids import CronId, ThreadId
from threadwire.errors import Invalid
from threadwire.protocols.ag_ui.decode import RunInput
from threadwire.protocols.langgraph.decode.assistants import (
    AssistantBody,
    AssistantSearch,
    LatestVersion,
    VersionSearch,
)
from threadwire.protocols.langgraph.decode.crons import CronBody, CronPatch, CronSearch
from threadwire.protocols.langgraph.decode.runs import CancelBody, RunBody
from threadwire.protocols.langgraph.decode.state import HistoryBody, StateAtCheckpoint
from threadwire.protocols.langgraph.decode.store import ItemBody, ItemName, ItemSearch, NamespaceSearch
from threadwire.protocols.langgraph.decode.threads import ThreadBody, ThreadPatch, ThreadPrune, ThreadSearch
from threadwire.protocols.langgraph.wire import cron_json

MINIMAL = {
    RunBody: {"assistant_id": "echo"},
    CronBody: {"assistant_id": "echo", "schedule": "@yearly"},
    AssistantBody: {"graph_id": "echo"},
    ItemBody: {"namespace": ["a"], "key": "k", "value": {}},
    ItemName: {"namespace": ["a"], "key": "k"},
    StateAtCheckpoint: {"checkpoint": {}},
    RunInput: {"threadId": "t", "runId": "r"},
}

NUMBERS = [
    *((body, "limit") for body in (AssistantSearch, VersionSearch, CronSearch, HistoryBody, ItemSearch)),
    *((body, "limit") for body in (NamespaceSearch, ThreadSearch)),
    *((body, "offset") for body in (AssistantSearch, VersionSearch, CronSearch, ItemSearch)),
    *((body, "offset") for body in (NamespaceSearch, ThreadSearch)),
    (NamespaceSearch, "max_depth"),
    (LatestVersion, "version"),
    (RunBody, "after_seconds"),
    (ItemBody, "ttl"),
]
FLAGS = [
    *((RunBody, name) for name in ("stream_subgraphs", "stream_resumable", "checkpoint_during")),
    *((body, "enabled") for body in (CronBody, CronPatch, CronSearch)),
    (StateAtCheckpoint, "subgraphs"),
    (ItemSearch, "refresh_ttl"),
]


LISTS = [
    *((body, "select") for body in (AssistantSearch, CronSearch, HistoryBody, StateAtCheckpoint, ThreadSearch)),
    *((body, name) for body in (RunBody, CronBody) for name in ("stream_mode", "interrupt_before", "interrupt_after")),
    (RunBody, "feedback_keys"),
    (ThreadBody, "supersteps"),
    (ThreadPrune, "thread_ids"),
    (ThreadSearch, "ids"),
    (CancelBody, "run_ids"),
    *((body, "namespace") for body in (ItemBody, ItemName)),
    (ItemBody, "index"),
    (ItemSearch, "namespace_prefix"),
    *((NamespaceSearch, name) for name in ("prefix", "suffix")),
    *((RunInput, name) for name in ("messages", "tools", "context", "resume")),
]
MANY = 10_000


def decoded(body, **fields):
    return body.model_validate({**MINIMAL.get(body, {}), **fields})


@pytest.mark.parametrize(("body", "name"), NUMBERS)
def test_number_field_rejects_strings_and_booleans(body, name):
    assert getattr(decoded(body, **{name: 5}), name) == 5
    assert getattr(decoded(body, **{name: 5.0}), name) == 5
    for wrong in ("5", "", True, False, [5], {}):
        with pytest.raises(ValidationError):
            decoded(body, **{name: wrong})


@pytest.mark.parametrize(("body", "name"), FLAGS)
def test_boolean_field_rejects_strings_and_numbers(body, name):
    assert getattr(decoded(body, **{name: True}), name) is True
    for wrong in ("yes", "true", "", 1, 0, 1.0, []):
        with pytest.raises(ValidationError):
            decoded(body, **{name: wrong})


@pytest.mark.parametrize("body", [ThreadBody, ThreadPatch])
@pytest.mark.parametrize("wrong", ["5", True, {"ttl": "5"}, {"ttl": True}, {}, []])
def test_ttl_is_a_number(body, wrong):
    assert decoded(body, ttl=5).ttl.ttl == decoded(body, ttl={"ttl": 5}).ttl.ttl == 5
    with pytest.raises(ValidationError):
        decoded(body, ttl=wrong)


@pytest.mark.parametrize(("body", "name"), LISTS)
def test_only_the_first_error_in_a_list_is_reported(body, name):
    """Reporting each of the millions that fit into a body takes a minute."""
    for count in (MANY, 100):
        with pytest.raises(ValidationError) as caught:
            decoded(body, **{name: [5] * count})
        assert caught.value.error_count() <= 2  # a field that may also be a string has an error for that


@pytest.mark.parametrize(
    "wrong",
    [
        {"command": {"goto": ["node"] * (MANY + 1)}},
        {"command": {"update": [["key", 1]] * (MANY + 1)}},
        {"config": {"tags": ["tag"] * (MANY + 1)}},
    ],
)
def test_length_of_lists_in_untyped_fields_is_limited(wrong):
    with pytest.raises(ValidationError, match="at most 10000"):
        decoded(RunBody, **wrong)


def test_only_the_first_error_in_nested_lists_is_reported():
    steps = [{"updates": [5] * 100}] * 100
    with pytest.raises(ValidationError) as caught:
        decoded(ThreadBody, supersteps=steps)
    assert caught.value.error_count() == 1


def test_number_of_paths_is_checked_first():
    with pytest.raises(Invalid, match="at most 10 paths"):
        decoded(ThreadSearch, extract=dict.fromkeys(map(str, range(11)), 5))


@pytest.mark.parametrize("body", [CronBody, CronPatch])
@pytest.mark.parametrize("wrong", [5, 1893456000, True, 1.5, [], "soon"])
def test_time_is_an_iso_8601_string(body, wrong):
    assert decoded(body, end_time="2030-01-01T00:00:00+00:00").end_time.year == 2030
    assert decoded(body, end_time=None).end_time is None
    with pytest.raises(ValidationError):
        decoded(body, end_time=wrong)


@pytest.mark.parametrize("body", [CronBody, CronPatch])
@pytest.mark.parametrize("beyond", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_time_must_be_representable_in_utc(body, beyond):
    with pytest.raises(ValidationError, match="between the years 1 and 9999 in UTC"):
        decoded(body, end_time=beyond)


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("0001-01-01T00:00:00", "0001-01-01T00:00:00+00:00"),
        ("0001-01-01T14:00:00+14:00", "0001-01-01T00:00:00+00:00"),
        ("9999-12-31T23:59:59.999999", "9999-12-31T23:59:59.999000+00:00"),
        ("9999-12-31T09:59:59.999999-14:00", "9999-12-31T23:59:59.999000+00:00"),
    ],
)
def test_every_representable_time_is_shown(sent, shown):
    cron = decoded(CronBody, end_time=sent).cron(CronId("c"), None)
    assert cron_json(cron)["end_time"] == shown
    assert cron.payload["end_time"] == sent


@pytest.mark.parametrize("body", [RunBody, AssistantBody, CronBody])
@pytest.mark.parametrize(
    "wrong",
    [
        {"tags": [1]},
        {"tags": "a"},
        {"tags": None},
        {"metadata": []},
        {"configurable": 3},
        *({"recursion_limit": limit} for limit in ("5", True, 0, -1, 5.5, 1e300, float("inf"), float("nan"), [])),
    ],
    ids=repr,
)
def test_config_that_langgraph_would_fail_on_is_rejected(body, wrong):
    with pytest.raises(ValidationError):
        decoded(body, config=wrong)


@pytest.mark.parametrize("limit", [1, 10_001, 10**12, 9.0])
def test_recursion_limit_has_no_upper_bound(limit):
    stored = decoded(RunBody, config={"recursion_limit": limit}).config["recursion_limit"]
    assert (stored, type(stored)) == (limit, int)


@pytest.mark.parametrize(
    "command",
    [
        {"update": 5},
        {"update": "x"},
        {"update": [1]},
        {"update": [["key"]]},
        {"update": [["key", 1, 2]]},
        {"update": [[1, 2]]},
        {"goto": 5},
        {"goto": ""},
        {"goto": [""]},
        {"goto": {"node": "a"}},
        {"goto": {"node": "", "input": 1}},
        {"goto": {"node": 5, "input": 1}},
        {"goto": [{"input": 1}]},
        {"resume": None},
        {"update": {}},
        {"update": []},
        {"goto": []},
        {"goto": None, "update": None, "resume": None},
    ],
    ids=repr,
)
def test_invalid_command_is_rejected(command):
    with pytest.raises(ValidationError):
        decoded(RunBody, command=command)


@pytest.mark.parametrize(
    "command",
    [
        {},
        {"resume": 0},
        {"resume": False},
        {"resume": []},
        {"update": {"a": 1}},
        {"update": [["a", 1], ["b", None]]},
        {"goto": "a"},
        {"goto": ["a", {"node": "b", "input": None}]},
        {"goto": {"node": "b", "input": {}}},
    ],
    ids=repr,
)
def test_command_round_trips(command):
    assert decoded(RunBody, command=command).command.as_dict() == command


@pytest.mark.parametrize("body", [RunBody, CronBody, AssistantBody])
def test_keys_of_the_runtime_are_dropped(body: type[BaseModel]) -> None:
    """A RemoteGraph that is a node of another graph sends those of its caller."""
    keys = {"__pregel_resuming": True, "__pregel_task_id": "x", "model": "y"}
    decoded = body.model_validate({**MINIMAL[body], "config": {"tags": ["t"], "configurable": keys}, "context": keys})
    assert decoded.model_dump(include={"config", "context"}) == {
        "config": {"tags": ["t"], "configurable": {"model": "y"}},
        "context": {"model": "y"},
    }


def test_the_answers_of_a_caller_are_kept() -> None:
    """A RemoteGraph that is a node passes them on when its caller is resumed."""
    keys = {"__pregel_resuming": True, "__pregel_resume_map": {"interrupt": "yes"}}
    body = RunBody.model_validate({"assistant_id": "echo", "config": {"configurable": keys}})
    assert body.start(ThreadId("t")).answers_if_pending == {"interrupt": "yes"}


@pytest.mark.parametrize("config", [{}, None, {"configurable": None}, {"configurable": {"__pregel_resume_map": None}}])
def test_a_run_without_a_caller_has_no_answers(config: object) -> None:
    body = RunBody.model_validate({"assistant_id": "echo", "config": config})
    assert body.start(ThreadId("t")).answers_if_pending == {}
