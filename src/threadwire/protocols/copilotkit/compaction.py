"""Compaction of events: the pieces of a message are joined into one event, and only a run's last state remains."""

from collections.abc import Iterable

from threadwire.core.entries import Json
from threadwire.core.json import native
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
_RUN_ENDS = ("RUN_FINISHED", "RUN_ERROR")


class Compaction:
    """Compact the events that it is fed. Pure."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._pieces: dict[tuple[str, str], list[str]] = {}
        self._state: Json = None
        self._has_state = False

    def feed(self, events: Iterable[Event]) -> None:
        for each in events:
            self._feed(each)

    def take(self) -> list[Event]:
        """Return the events that are complete, and forget them."""
        taken, self._events = self._events, []
        return taken

    def rest(self) -> list[Event]:
        """Return what is left after the last event was fed: the messages that have not ended, and the state."""
        return [*self.take(), *self._unfinished()]

    def _feed(self, added: Event) -> None:
        kind = added["type"]
        if kind in _PIECES:
            self._pieces.setdefault((kind, added[_PIECES[kind]]), []).append(added["delta"])
        elif kind == "STATE_SNAPSHOT":
            # Copies: deltas modify the state in place, and the values of events belong to the encoder.
            self._state, self._has_state = native(added["snapshot"]), True
        elif kind == "STATE_DELTA":
            self._state, self._has_state = apply(self._state, native(added["delta"])), True
        else:
            self._finish(kind, added)
            self._events.append(added)

    def _finish(self, kind: str, added: Event) -> None:
        if kind in _ENDS:
            content = _ENDS[kind]
            self._events += self._joined(content, added[_PIECES[content]])
        elif kind in _RUN_ENDS:
            self._events += self._unfinished()
            self._pieces.clear()
            self._has_state = False

    def _joined(self, kind: str, name: str) -> list[Event]:
        pieces = self._pieces.pop((kind, name), None)
        return [] if pieces is None else [event(kind, **{_PIECES[kind]: name}, delta="".join(pieces))]

    def _unfinished(self) -> list[Event]:
        """The messages that have not ended, and the state, as of now."""
        partial = [
            event(kind, **{_PIECES[kind]: name}, delta="".join(pieces)) for (kind, name), pieces in self._pieces.items()
        ]
        return [*partial, {"type": "STATE_SNAPSHOT", "snapshot": self._state}] if self._has_state else partial
