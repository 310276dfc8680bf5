"""The state as AG-UI clients see it: without what a client sent itself, with everything else."""

from typing import Any

import pytest

from threadwire.protocols.ag_ui.encode import snapshot_events
from threadwire.protocols.ag_ui.patch import apply
from threadwire.protocols.ag_ui.state import StateView, shown_state

TOOL = {"name": "show_chart", "description": "Show a chart", "parameters": {"type": "object"}}


@pytest.mark.parametrize(
    "injected",
    [
        {"tools": [TOOL]},
        {"ag-ui": {"tools": [TOOL], "context": []}},
        {"copilotkit": {"actions": [TOOL], "context": []}},
        {"copilotkit": {"actions": [], "context": [], "intercepted_tool_calls": []}},
    ],
    ids=str,
)
def test_what_a_client_sent_with_a_run_is_not_shown(injected: dict[str, Any]) -> None:
    assert shown_state({"n": 1, **injected}) == {"n": 1}


@pytest.mark.parametrize(
    "own",
    [
        {"tools": ["hammer", "saw"]},
        {"tools": [{"name": "hammer", "price": 3}]},
        {"tools": []},
        {"tools": None},
        {"ag-ui": "on"},
        {"ag-ui": {"tools": 3}},
        {"copilotkit": {"plan": "pro"}},
    ],
    ids=str,
)
def test_what_a_graph_stores_under_the_same_keys_is_shown(own: dict[str, Any]) -> None:
    assert shown_state({"n": 1, **own}) == {"n": 1, **own}


def test_a_key_that_changes_between_both_appears_and_disappears() -> None:
    view = StateView()
    client: Any = view.apply({"full": True, "set": {"tools": [TOOL], "n": 1}})[0]["snapshot"]
    for change, expected in (
        ({"set": {"tools": {"hammer": 1}}}, {"n": 1, "tools": {"hammer": 1}}),
        ({"set": {"tools": [TOOL]}}, {"n": 1}),
        ({"splice": {"tools": [0, 1, ["saw"]]}}, {"n": 1, "tools": ["saw"]}),
        ({"splice": {"tools": [0, 1, [TOOL]]}}, {"n": 1}),
    ):
        for event in view.apply(change):
            client = event["snapshot"] if event["type"] == "STATE_SNAPSHOT" else apply(client, event["delta"])
        assert client == expected


def test_a_thread_without_a_state_has_empty_snapshots() -> None:
    assert snapshot_events(None) == [
        {"type": "STATE_SNAPSHOT", "snapshot": {}},
        {"type": "MESSAGES_SNAPSHOT", "messages": []},
    ]
