"""The handlers that a project has registered with LangGraph's `Auth`.

**For:** the SDK stores them in private attributes. Its source promises not to change them, because servers read them.

**Changed SDK:** an attribute is missing. Then the project does not load: serving it without its handlers would show
everything to everyone.
"""

from typing import Any

from langgraph_sdk import Auth

_NAMES = ("_authenticate_handler", "_handlers", "_global_handlers")


def missing_names(auth: Auth) -> list[str]:
    """The attributes that the installed SDK no longer has. If there are any, the handlers cannot be found."""
    return [name for name in _NAMES if not hasattr(auth, name)]


def authenticate_handler(auth: Auth) -> Any | None:
    return auth._authenticate_handler


def handler_for(auth: Auth, resource: str, action: str) -> Any | None:
    """The most specific handler for an operation; None if there is none."""
    for pair in ((resource, action), (resource, "*"), ("*", action)):
        if found := auth._handlers.get(pair):
            return found[-1]
    return auth._global_handlers[-1] if auth._global_handlers else None
