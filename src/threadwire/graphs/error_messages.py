"""Decides which error messages of the project's code clients receive. The server's log always contains all of them."""

import builtins
import re
from typing import Any
from uuid import uuid4

from threadwire.errors import ThreadwireError

HIDDEN = "An internal error occurred"

_REPR = re.compile(r"(\w+)\(")


class ErrorMessages:
    def __init__(self, shown: frozenset[str] = frozenset({"*"})) -> None:
        """`shown` are the names of classes, with or without their module; their subclasses are included. `*` means
        all."""
        self._shown = shown

    def shows(self, error: BaseException) -> bool:
        return isinstance(error, ThreadwireError) or self._shows_class(type(error))

    def describe(self, error: BaseException, error_id: str) -> dict[str, str]:
        """Return what clients receive. The server's log has the message under `error_id`."""
        message = text_of(error) if self.shows(error) else f"{HIDDEN} (id {error_id})"
        return {"error": type(error).__name__, "message": message}

    def redact(self, error: BaseException) -> BaseException:
        """Return the error, or one of the same name without its message."""
        return error if self.shows(error) else type(type(error).__name__, (Exception,), {})(HIDDEN)

    def redact_repr(self, text: str) -> str:
        """Redact an error that is known only by its `repr`, as in checkpoints. Then a subclass is recognized only if it
        is a built-in class."""
        name = found[1] if (found := _REPR.match(text)) else ""
        known = getattr(builtins, name, None)
        if self._shows_class(known) if isinstance(known, type) else self._shown & {"*", name}:
            return text
        return f"{name or 'Exception'}('{HIDDEN}')"

    def redact_tool_event(self, event: dict[str, Any]) -> dict[str, Any]:
        """LangGraph reports the error of a tool only as text, so its class is unknown."""
        return {**event, "message": HIDDEN} if "message" in event and "*" not in self._shown else event

    def _shows_class(self, kind: type) -> bool:
        names = (name for each in kind.__mro__ for name in (each.__name__, f"{each.__module__}.{each.__qualname__}"))
        return "*" in self._shown or any(name in self._shown for name in names)


def text_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as failure:  # `__str__` of the error or of a value in it
        return f"The error message could not be rendered: {type(failure).__name__}"


def new_error_id() -> str:
    return uuid4().hex[:12]


def redact_state(state: Any, messages: ErrorMessages) -> Any:
    """Redact the errors of a state's tasks, including those in subgraphs."""
    for task in state["tasks"]:
        if isinstance(task.get("error"), str):
            task["error"] = messages.redact_repr(task["error"])
        if task.get("state"):
            redact_state(task["state"], messages)
    return state
