"""How the failure of a run is shown. The texts of exceptions are hidden, unless they are meant for users."""

from threadwire.core.entries import Json
from threadwire.errors import RetryableUserError, UserError
from threadwire.protocols.chatkit import wire

STEP_LIMIT = "The agent reached its step limit before it finished."
TIMEOUT = "The agent took too long to respond."

_FOR_PEOPLE = {UserError.__name__: False, RetryableUserError.__name__: True}
_TIMEOUTS = ("TimeoutError", "ReadTimeout", "APITimeoutError", "ConnectTimeout")


def error_event(status: str, error: Json) -> bytes:
    name = error.get("error") if isinstance(error, dict) else None
    if name in _FOR_PEOPLE:
        return wire.error(str(error.get("message")), allow_retry=_FOR_PEOPLE[name])
    if name == "GraphRecursionError":
        return wire.error(STEP_LIMIT, allow_retry=True)
    if status == "timeout" or name in _TIMEOUTS:
        return wire.error(TIMEOUT, allow_retry=True)
    return wire.error(allow_retry=True)
