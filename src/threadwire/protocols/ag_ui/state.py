"""A thread's state as a client sees it, and the events that update it."""

from typing import Any

from threadwire.core.entries import Json
from threadwire.core.json import dumps
from threadwire.core.message_content import is_conversation
from threadwire.core.state_fold import ValueState
from threadwire.protocols.ag_ui.patch import Operation, difference, pointer, splice
from threadwire.protocols.ag_ui.wire import Event, event

_TOOL_FIELDS = frozenset({"name", "description", "parameters", "metadata"})
_INJECTED_OBJECTS = {"ag-ui": frozenset({"tools", "context"}), "copilotkit": frozenset({"actions", "context"})}


def shown_state(values: Json) -> Json:
    """A state without the conversation, which is sent as messages, and without the tools and the context of a client,
    which that client has. Nothing else is left out: a schema that is missing or narrow never hides a key."""
    if not isinstance(values, dict):
        return values
    return {key: value for key, value in values.items() if _is_state(key, value)}


def state_snapshot(values: Json) -> Event:
    return {"type": "STATE_SNAPSHOT", "snapshot": shown_state(values)}


def _is_state(key: str, value: Json) -> bool:
    if key == "__interrupt__":
        return False
    return not (key == "messages" and is_conversation(value)) and not _is_injected(key, value)


def _is_injected(key: str, value: Json) -> bool:
    """Whether the value is what a run gets from its client under that key (`run_plan`). A graph may use the same keys
    for its own values, which are part of its state."""
    if key == "tools":
        return isinstance(value, list) and bool(value) and all(map(_is_client_tool, value))
    return key in _INJECTED_OBJECTS and isinstance(value, dict) and _INJECTED_OBJECTS[key] <= value.keys()


def _is_client_tool(value: Json) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("name"), str)
        and isinstance(value.get("description"), str)
        and value.keys() <= _TOOL_FIELDS
    )


class StateView:
    """The values of the root as clients see them."""

    def __init__(self) -> None:
        self._fold = ValueState()
        self._unstreamed = ValueState()
        """The part of the state that the graph's output omits; checkpoints add it (6.8a)."""
        self.values: Json = None
        """The whole state; None before it is known."""
        self._sent = False
        self._sizes: dict[str, int] = {}
        self._emitted: Event | None = None

    def forget(self) -> None:
        self._sent = False
        self._unstreamed = ValueState()

    def apply(self, data: dict[str, Any]) -> list[Event]:
        """Apply a `state` entry and return its events. The first event is always a snapshot, so that a client that has
        just joined needs nothing else. After that only changes are sent, unless they are larger than a snapshot."""
        self._emitted = None
        if data.get("full") or not self._sent:
            self._apply(data)
            return [self._first_snapshot()]
        patch = self._patch(data)
        self._apply(data)
        return self._sent_patch(patch)

    def hold(self, data: dict[str, Any]) -> None:
        """Apply a `state` entry that is only a part of the state. The next checkpoint adds the rest."""
        self._fold.apply(data)

    def apply_unstreamed(self, data: dict[str, Any]) -> list[Event]:
        """Apply the part of the state that the graph's output omits, and return its events."""
        self._emitted = None
        before = self._shown()
        self._unstreamed.apply(data)
        self._merge()
        if not self._sent:
            return [self._first_snapshot()]
        after = self._shown()
        patch: list[Operation] = [{"op": "remove", "path": pointer(key)} for key in before if key not in after]
        for key, value in after.items():
            if key not in before:
                patch.append({"op": "add", "path": pointer(key), "value": value})
            elif value is not before[key]:  # values that have not changed are the same objects
                patch += difference(before[key], value, (key,))
        self._sizes = {key: len(dumps(value)) for key, value in after.items()}
        return self._sent_patch(patch)

    def _first_snapshot(self) -> Event:
        self._sent = True
        self._sizes = {key: len(dumps(value)) for key, value in self._shown().items()}
        return state_snapshot(self.values)

    def _sent_patch(self, patch: list[Operation]) -> list[Event]:
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
        self._merge()

    def _merge(self) -> None:
        streamed = self._fold.value()
        self.values = {**self._unstreamed.value(), **streamed} if isinstance(streamed, dict) else streamed

    def _patch(self, data: dict[str, Any]) -> list[Operation]:
        """Derive the patch from the entry, not by comparing states, so that unchanged keys cost nothing."""
        if not isinstance(self.values, dict):
            return []
        operations: list[Operation] = []
        for key in data.get("unset", ()):
            if key in self.values and _is_state(key, self.values[key]):
                operations.append({"op": "remove", "path": pointer(key)})
                self._sizes.pop(key, None)
        for key, value in data.get("set", {}).items():
            operations += self._changed(key, value)
        for key, (at, drop, items) in data.get("splice", {}).items():
            before = self.values[key]
            if key == "tools":  # the elements decide whether it is shown
                operations += self._changed(key, [*before[:at], *items, *before[at + drop :]])
            elif _is_state(key, before):
                operations += splice((key,), at, drop, items)
                self._sizes[key] = self._sizes.get(key, 0) + len(dumps(items))
        return operations

    def _changed(self, key: str, value: Json) -> list[Operation]:
        was_shown = key in self.values and _is_state(key, self.values[key])
        if not _is_state(key, value):
            return [{"op": "remove", "path": pointer(key)}] if was_shown else []
        size = self._sizes[key] = len(dumps(value))
        if not was_shown:
            return [{"op": "add", "path": pointer(key), "value": value}]
        changed = difference(self.values[key], value, (key,))
        if len(dumps(changed)) <= size:
            return changed
        return [{"op": "replace", "path": pointer(key), "value": value}]
