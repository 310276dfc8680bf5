"""The inputs that scenarios send to the graphs."""

from typing import Any

HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "hello there", "id": "user-1"}]}
AGAIN: dict[str, Any] = {"messages": [{"role": "user", "content": "and again", "id": "user-2"}]}
TEXT: dict[str, Any] = {"text": "hi"}


def run(graph: str, given: Any = None, **body: Any) -> dict[str, Any]:
    """The body that starts a run."""
    return {"assistant_id": graph, "input": given, **body}


def resume(graph: str, answer: Any, **body: Any) -> dict[str, Any]:
    """The body that answers an interrupt."""
    return {"assistant_id": graph, "command": {"resume": answer}, **body}
