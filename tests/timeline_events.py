"""Wire events of the classic run stream converted to operations, as a client does (spec/timeline.md, 2.3 to 2.6).

The server folds its log and never needs this. It exists so that the vectors with wire events are checked in Python too.
"""

import re

from threadwire.core.timeline.forms import custom_operations, interrupts_of
from threadwire.core.timeline.operations import (
    Interrupts,
    MessageDelta,
    MessageFull,
    MessageMeta,
    MessageRemove,
    MessageSnapshot,
    RunEnded,
    RunStarted,
    Stamp,
    Values,
)

SUFFIXES = ("partial", "metadata", "complete")


def parsed_name(name):
    """The base, the part after the slash, and the namespace of an event's name."""
    head, *segments = name.split("|")
    base, _, sub = head.partition("/")
    if segments:
        last, slash, suffix = segments[-1].rpartition("/")
        if slash and suffix in SUFFIXES:
            segments[-1], sub = last, suffix
    return base, sub, tuple(segments)


def parsed_id(event_id):
    if event_id is None or not re.fullmatch(r"\d+(-\d+)*", event_id):
        return None
    return tuple(map(int, event_id.split("-")))


class EventNormalizer:
    def __init__(self):
        self._run_id = None
        self._cursors = {}

    def feed(self, event):
        """The operations of an event, each with its stamp."""
        base, sub, ns = parsed_name(event["event"])
        data = event.get("data")
        if base == "metadata" and isinstance(data, dict):
            self._run_id = data.get("run_id")
        if self._is_known(event.get("id")):
            return
        stamp = Stamp(run_id=self._run_id, ns=ns)
        for operation in operations(base, sub, data, ns):
            yield operation, stamp

    def _is_known(self, event_id):
        position = parsed_id(event_id)
        if position is None:
            return False
        if position <= self._cursors.get(self._run_id, ()):
            return True
        self._cursors[self._run_id] = position
        return False


def operations(base, sub, data, ns):
    match base, sub:
        case "metadata", "" if isinstance(data, dict):
            yield RunStarted(data.get("attempt", 1))
        case "messages", "" if isinstance(data, list) and data and isinstance(data[0], dict):
            meta = data[1] if len(data) > 1 and isinstance(data[1], dict) else None
            yield whole_or_delta(data[0], meta)
        case "messages", "partial" if isinstance(data, list):
            yield from (MessageSnapshot(message) for message in data if isinstance(message, dict))
        case "messages", "complete" if isinstance(data, list):
            for message in data:
                if isinstance(message, dict):
                    yield removal(message) or MessageFull(message)
        case "messages", "metadata" if isinstance(data, dict):
            for message_id, found in data.items():
                yield MessageMeta(message_id, found.get("metadata", found))
        case "values", "":
            yield from values_operations(data, ns)
        case "updates", "" if isinstance(data, dict) and "__interrupt__" in data:
            yield Interrupts(interrupts_of(data["__interrupt__"], ns))
        case "tasks", "" if isinstance(data, dict) and data.get("interrupts"):
            yield Interrupts(interrupts_of(data["interrupts"], ns))
        case "input.requested", "":
            yield Interrupts(interrupts_of(data, ns))
        case "custom", "":
            yield from custom_operations(data)
        case "error", "":
            yield RunEnded("error")
        case _:
            pass


def whole_or_delta(message, meta):
    if str(message.get("type")).endswith("Chunk"):
        return MessageDelta(message, meta)
    return removal(message) or MessageFull(message, meta)


def removal(message):
    return MessageRemove(message.get("id")) if message.get("type") == "remove" else None


def values_operations(data, ns):
    if not isinstance(data, dict):
        if data is not None:
            yield Values(data)
        return
    state = {key: value for key, value in data.items() if key != "__interrupt__"}
    if state or "__interrupt__" not in data:
        yield Values(state)
    if "__interrupt__" in data:
        yield Interrupts(interrupts_of(data["__interrupt__"], ns))
