"""Fewer events that say the same: what was said in a thousand pieces in one, and of a run's states the last."""

from collections.abc import Iterable

from threadwire.core.entries import Json
from threadwire.protocols.ag_ui.patch import apply
from threadwire.protocols.ag_ui.wire import Event, event

_PIECES = {
    "TEXT_MESSAGE_CONTENT": "messageId",
    "TOOL_CALL_ARGS": "toolCallId",
    "REASONING_MESSAGE_CONTENT": "messageId",
}
_ENDS = {
    "TEXT_MESSAGE_END": "TEXT_MESSAGE_CONTENT",
    "TOOL_CALL_END": "TOOL_CALL_ARGS",
    "REASONING_MESSAGE_END": "REASONING_MESSAGE_CONTENT",
}
_ENDS_OF_RUNS = ("RUN_FINISHED", "RUN_ERROR")


class Compaction:
    """Takes events in; `events` are those that are left. Pure."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._pieces: dict[tuple[str, str], list[str]] = {}
        self._state: Json = None
        self._moved = False

    def take(self, events: Iterable[Event]) -> None:
        for each in events:
            self._take(each)

    def events(self) -> list[Event]:
        return [*self._events, *self._unfinished()]

    def _take(self, given: Event) -> None:
        kind = given["type"]
        if kind in _PIECES:
            self._pieces.setdefault((kind, given[_PIECES[kind]]), []).append(given["delta"])
        elif kind == "STATE_SNAPSHOT":
            self._state, self._moved = given["snapshot"], True
        elif kind == "STATE_DELTA":
            self._state, self._moved = apply(self._state, given["delta"]), True
        else:
            self._finish(kind, given)
            self._events.append(given)

    def _finish(self, kind: str, given: Event) -> None:
        if kind in _ENDS:
            said = _ENDS[kind]
            self._events += self._joined(said, given[_PIECES[said]])
        elif kind in _ENDS_OF_RUNS:
            self._events += self._unfinished()
            self._pieces.clear()
            self._moved = False

    def _joined(self, kind: str, name: str) -> list[Event]:
        pieces = self._pieces.pop((kind, name), None)
        return [] if pieces is None else [event(kind, **{_PIECES[kind]: name}, delta="".join(pieces))]

    def _unfinished(self) -> list[Event]:
        """What is being said, and the state, as far as they have come."""
        said = [
            event(kind, **{_PIECES[kind]: name}, delta="".join(pieces)) for (kind, name), pieces in self._pieces.items()
        ]
        return [*said, {"type": "STATE_SNAPSHOT", "snapshot": self._state}] if self._moved else said
