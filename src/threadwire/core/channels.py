"""What a saver is writing at the moment, by channel: for whoever serialises one of the values and has something to say
about it."""

from collections.abc import Iterable
from contextvars import ContextVar, Token
from typing import Any

_written: ContextVar[Iterable[tuple[str, Any]]] = ContextVar("written_values", default=())


class writing:
    """A context in which `channel_of` knows these values."""

    __slots__ = ("_token", "_values")

    def __init__(self, values: Iterable[tuple[str, Any]]) -> None:
        self._values = values
        self._token: Token[Iterable[tuple[str, Any]]]

    def __enter__(self) -> None:
        self._token = _written.set(self._values)

    def __exit__(self, *_: object) -> None:
        _written.reset(self._token)


def channel_of(value: object) -> str | None:
    """The channel that this very object is being written to."""
    return next((channel for channel, each in _written.get() if each is value), None)
