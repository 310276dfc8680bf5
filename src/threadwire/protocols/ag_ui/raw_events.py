"""RAW events: what the classic LangGraph stream would carry, next to the events of AG-UI.

`events` are the callback events of the graph, unchanged. A part of any other mode is `{"event": name, "data": part}`,
where the name is that of the classic stream, with the subgraph's path. The mode `log` shows the entries of the log.
"""

from typing import Literal

from threadwire.core.entries import MESSAGES, Entry, Json, Kind
from threadwire.core.message_fold import MessageFold, StreamedMessage
from threadwire.core.namespaces import ByNamespace
from threadwire.core.raw_modes import RAW_MODES, RawModes
from threadwire.core.state_fold import JsonState
from threadwire.protocols.ag_ui.wire import Event

_ALWAYS_RECORDED: RawModes = ("updates", "messages-tuple", "custom")
"""The modes that the choice `true` selects in a run that records no `events`."""

_UNCHANGED = frozenset({Kind.CUSTOM, Kind.UPDATES, Kind.TASKS, Kind.CHECKPOINTS, Kind.DEBUG})

RawChoice = bool | RawModes
"""Which RAW events a client asks for. True is `events`, or whatever the run records if it records no events."""


def parse_choice(value: Json) -> RawChoice | None:
    """Return the choice of a client: true, false, a mode, or a list of modes. None if the client made none. Raises
    `ValueError`."""
    if value is None or isinstance(value, bool):
        return value
    modes = [value] if isinstance(value, str) else value
    if not isinstance(modes, list) or not all(isinstance(mode, str) and mode in RAW_MODES for mode in modes):
        raise ValueError(f"rawEvents must be true, false, or one or more of {', '.join(RAW_MODES)}")
    return tuple(dict.fromkeys(modes))


def recorded_modes(choice: RawChoice) -> list[str]:
    """The stream modes that a run must be started with to record what the choice asks for."""
    if isinstance(choice, bool):
        return ["events"] if choice else []
    return [mode for mode in choice if mode != "log"]


class RawEvents:
    """The RAW events of one run. Must be fed the run from its first entry."""

    def __init__(self, choice: RawChoice) -> None:
        self._choice = choice
        self._modes: frozenset[str] = frozenset() if isinstance(choice, bool) else frozenset(choice)
        self._states = ByNamespace(JsonState)
        self._messages = MessageFold(StreamedMessage)

    def of(self, entry: Entry) -> list[Event]:
        if entry.kind == Kind.RUN_STARTED:
            self._start(entry)
        if "log" in self._modes:
            return [_raw({"kind": entry.kind, "ns": list(entry.ns), "data": entry.data}, "threadwire")]
        if entry.kind == Kind.EVENTS:
            return [_raw(entry.data["value"])] if "events" in self._modes else []
        part = self._part(entry)
        return [] if part is None else [_raw({"event": "|".join((part[0], *entry.ns)), "data": part[1]})]

    def _start(self, entry: Entry) -> None:
        self._states.clear()
        self._messages.clear()
        if self._choice is True:
            has_events = "events" in (entry.data.get("stream_mode") or ())
            self._modes = frozenset({"events"} if has_events else _ALWAYS_RECORDED)

    def _part(self, entry: Entry) -> tuple[str, Json] | None:
        if entry.kind == MESSAGES:
            return self._message(entry)
        if entry.kind == Kind.STATE:
            return self._values(entry)
        if entry.kind == Kind.TASK and entry.data.get("ended"):
            self._states.task_ended(entry.ns, entry.data["name"], entry.data["id"])
        if entry.kind in _UNCHANGED and entry.kind in self._modes and "value" in entry.data:
            return entry.kind, entry.data["value"]
        return None

    def _message(self, entry: Entry) -> tuple[str, Json] | None:
        if "messages-tuple" not in self._modes or (message := self._messages.feed(entry)) is None:
            return None
        return "messages", [message.chunk(), message.meta]

    def _values(self, entry: Entry) -> tuple[str, Json] | None:
        if "values" not in self._modes:
            return None
        state = self._states.at(entry.ns)
        state.apply(entry.data)
        return "values", state.value()


def _raw(value: Json, source: Literal["langgraph", "threadwire"] = "langgraph") -> Event:
    return {"type": "RAW", "event": value, "source": source}
