"""A thread's state as a client sees it, and the events that update it."""

from typing import Any

from threadwire.core.entries import Json
from threadwire.core.json import dumps
from threadwire.core.message_content import is_conversation
from threadwire.core.state_fold import ValueState
from threadwire.protocols.ag_ui.patch import Operation, difference, pointer, splice
from threadwire.protocols.ag_ui.wire import Event, event

_NOT_STATE = frozenset({"tools", "ag-ui", "copilotkit", "__interrupt__"})
"""Keys that clients set themselves, or that are sent in other events."""


def shown_state(values: Json) -> Json:
    """A state without the conversation, which is sent as messages. Nothing else is left out: a schema that is missing
    or narrow never hides a key."""
    if not isinstance(values, dict):
        return values
    return {key: value for key, value in values.items() if _is_state(key, value)}


def state_snapshot(values: Json) -> Event:
    return {"type": "STATE_SNAPSHOT", "snapshot": shown_state(values)}


def conversation_of(values: Json) -> list[Json]:
    messages = values.get("messages") if isinstance(values, dict) else None
    return messages if isinstance(messages, list) and is_conversation(messages) else []


def _is_state(key: str, value: Json) -> bool:
    return key not in _NOT_STATE and not (key == "messages" and is_conversation(value))


class StateView:
    """The values of the root as clients see them."""

    def __init__(self) -> None:
        self._fold = ValueState()
        self.values: Json = None
        """None before the first `state` entry."""
        self._sent = False
        self._sizes: dict[str, int] = {}
        self._emitted: Event | None = None

    def forget(self) -> None:
        self._sent = False

    def apply(self, data: dict[str, Any]) -> list[Event]:
        """Apply a `state` entry and return its events. The first is always a snapshot, so that a client which has just
        joined needs nothing else. Then only changes are sent, unless they are larger than a snapshot."""
        self._emitted = None
        if data.get("full") or not self._sent:
            self._apply(data)
            self._sent = True
            self._sizes = {key: len(dumps(value)) for key, value in self._shown().items()}
            return [state_snapshot(self.values)]
        patch = self._patch(data)
        self._apply(data)
        if not patch:
            return []
        delta = event("STATE_DELTA", delta=patch)
        return [delta] if len(dumps(patch)) <= 2 + sum(self._sizes.values()) else [self.snapshot()]

    def emit(self, state: Json) -> Event:
        """Show a state that a node emits ahead of the one it will return. It replaces the state until then."""
        self._sent = False
        self._emitted = state_snapshot(state)
        return self._emitted

    def finish(self) -> list[Event]:
        """The events at the end of a run: they discard a state that was only emitted."""
        emitted, self._emitted = self._emitted, None
        return [] if emitted is None else [self.snapshot()]

    def snapshot(self) -> Event:
        return state_snapshot(self.values) if self._emitted is None else self._emitted

    def _shown(self) -> dict[str, Json]:
        shown = shown_state(self.values)
        return shown if isinstance(shown, dict) else {}

    def _apply(self, data: dict[str, Any]) -> None:
        self._fold.apply(data)
        self.values = self._fold.value()

    def _patch(self, data: dict[str, Any]) -> list[Operation]:
        """Derived from the entry, not by comparing states, so unchanged keys cost nothing."""
        if not isinstance(self.values, dict):
            return []
        operations: list[Operation] = []
        for key in data.get("unset", ()):
            if key in self.values and _is_state(key, self.values[key]):
                operations.append({"op": "remove", "path": pointer(key)})
                self._sizes.pop(key, None)
        for key, value in data.get("set", {}).items():
            if _is_state(key, value):
                operations += self._changed(key, value)
        for key, (at, drop, items) in data.get("splice", {}).items():
            if _is_state(key, self.values[key]):
                operations += splice((key,), at, drop, items)
                self._sizes[key] = self._sizes.get(key, 0) + len(dumps(items))
        return operations

    def _changed(self, key: str, value: Json) -> list[Operation]:
        size = self._sizes[key] = len(dumps(value))
        if key not in self.values:
            return [{"op": "add", "path": pointer(key), "value": value}]
        changed = difference(self.values[key], value, (key,))
        if len(dumps(changed)) <= size:
            return changed
        return [{"op": "replace", "path": pointer(key), "value": value}]
