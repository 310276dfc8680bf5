import pytest

from threadwire.errors import NotFound
from threadwire.graphs.error_messages import HIDDEN, ErrorMessages, redact_state
from threadwire.settings import Settings


class ConnectionRefused(Exception):
    pass


class InvalidOrder(ValueError):
    pass


DEFAULT = ErrorMessages(Settings.model_fields["shown_errors"].default)


@pytest.mark.parametrize("error", [ValueError("no"), InvalidOrder("no"), TimeoutError("no"), NotFound("no")])
def test_the_message_of_a_listed_class_or_of_a_subclass_is_shown(error):
    assert DEFAULT.describe(error, "run-1") == {"error": type(error).__name__, "message": "no"}
    assert DEFAULT.redact(error) is error


def test_the_message_of_another_class_is_replaced_by_an_id():
    error = ConnectionRefused("postgres://user:secret@db")
    assert DEFAULT.describe(error, "run-1") == {
        "error": "ConnectionRefused",
        "message": "An internal error occurred (id run-1)",
    }
    redacted = DEFAULT.redact(error)
    assert (type(redacted).__name__, str(redacted)) == ("ConnectionRefused", HIDDEN)


@pytest.mark.parametrize("shown", ["*", "ConnectionRefused", f"{__name__}.ConnectionRefused"])
def test_a_class_is_listed_by_its_name_with_or_without_its_module(shown):
    messages = ErrorMessages(frozenset({shown}))
    assert messages.describe(ConnectionRefused("text"), "run-1")["message"] == "text"


def test_another_module_is_another_class():
    assert not ErrorMessages(frozenset({"other.ConnectionRefused"})).shows(ConnectionRefused("text"))


def test_errors_in_a_stored_state_are_redacted_by_name():
    nested = {"tasks": [{"error": "ConnectionRefused('secret')", "state": None}]}
    errors = ["ValueError('no')", "UnicodeDecodeError('no')", "InvalidOrder('no')", "<odd>", None]
    state = {"tasks": [*({"error": error, "state": None} for error in errors), {"error": None, "state": nested}]}
    redacted = redact_state(state, DEFAULT)
    assert [task["error"] for task in redacted["tasks"]] == [
        "ValueError('no')",
        "UnicodeDecodeError('no')",
        f"InvalidOrder('{HIDDEN}')",
        f"Exception('{HIDDEN}')",
        None,
        None,
    ]
    assert redacted["tasks"][-1]["state"]["tasks"][0]["error"] == f"ConnectionRefused('{HIDDEN}')"


def test_everything_in_a_stored_state_is_shown_if_all_is():
    state = {"tasks": [{"error": "ConnectionRefused('secret')", "state": None}]}
    assert redact_state(state, ErrorMessages())["tasks"][0]["error"] == "ConnectionRefused('secret')"


def test_the_text_of_a_tool_error_is_hidden_because_its_class_is_unknown():
    event = {"event": "tool-error", "tool_call_id": "call-1", "message": "postgres://user:secret@db"}
    assert DEFAULT.redact_tool_event(event) == {**event, "message": HIDDEN}
    assert ErrorMessages().redact_tool_event(event) == event


def test_a_tool_event_without_a_message_is_unchanged():
    event = {"event": "tool-finished", "tool_call_id": "call-1", "output": "42"}
    assert DEFAULT.redact_tool_event(event) == event
