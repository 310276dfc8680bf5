"""Which channel a value is being written to. The serializer needs it to name the channel of a value that it cannot
store unchanged."""

from collections.abc import Iterable
from contextvars import ContextVar, Token
from typing import Any

_written: ContextVar[Iterable[tuple[str, Any]]] = ContextVar("written_values", default=())


class writing_channels:
    """A context manager around a write of a checkpointer. Inside it, `channel_of` finds these values."""

    __slots__ = ("_token", "_values")

    def __init__(self, values: Iterable[tuple[str, Any]]) -> None:
        self._values = values
        self._token: Token[Iterable[tuple[str, Any]]]

    def __enter__(self) -> None:
        self._token = _written.set(self._values)

    def __exit__(self, *_: object) -> None:
        _written.reset(self._token)


def channel_of(value: object) -> str | None:
    """Return the channel that this object (compared by identity) is being written to, if any."""
    return next((channel for channel, each in _written.get() if each is value), None)
