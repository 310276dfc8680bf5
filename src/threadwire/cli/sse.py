"""Incremental parsing of server-sent events."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson


class Frame(NamedTuple):
    event: str
    data: Any
    id: str | None


class FrameReader:
    """Assembles frames from lines. Ignores comments, which the server sends as heartbeats."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._event = "message"
        self._data: list[str] = []
        self._id: str | None = None

    def feed(self, line: str) -> Iterator[Frame]:
        if not line:
            if self._data:
                yield Frame(self._event, orjson.loads("\n".join(self._data)), self._id)
            self._clear()
            return
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "event":
                self._event = value
            case "data":
                self._data.append(value)
            case "id":
                self._id = value
