"""What the tests say to a graph, and what they read from its state."""

from typing import Any


def user(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def texts(state: Any) -> list[str]:
    """The texts of the messages in a state, without empty ones."""
    return [message["content"] for message in state["messages"] if message["content"]]


def types(state: Any) -> list[str]:
    return [message["type"] for message in state["messages"]]
