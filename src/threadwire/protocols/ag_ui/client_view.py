"""The messages that a client has after the events it was sent: a mirror of the client's reducer.

The encoder needs it for two things: to send a client that joins in the middle what the others already have, and to
detect, whenever a state is committed, that clients have diverged from it.
"""

from typing import Any

from threadwire.core.entries import Json
from threadwire.core.json import loads_exactly
from threadwire.protocols.ag_ui.messages import Message, tool_call

_KEPT_BY_CLIENTS = ("reasoning", "activity")
"""Roles whose messages clients keep when a snapshot contains none of that role."""


class PartialMessage:
    """A message that grows. Its text is stored in pieces, because it arrives in thousands of them."""

    __slots__ = ("_calls", "_pieces", "_rest")

    def __init__(self, message: Message) -> None:
        self.assign(message)

    def assign(self, message: Message) -> None:
        """Replace the content. A stream that appends to this message continues after it."""
        self._rest = {name: value for name, value in message.items() if name not in ("content", "toolCalls")}
        content = message.get("content")
        self._pieces: Any = [content] if isinstance(content, str) else content
        self._calls: dict[str, tuple[str, list[str]]] = {
            call["id"]: (call["function"]["name"], [call["function"]["arguments"]])
            for call in message.get("toolCalls", ())
        }

    @property
    def role(self) -> str:
        return str(self._rest["role"])

    def append_text(self, text: str) -> None:
        if not isinstance(self._pieces, list):
            self._pieces = []
        self._pieces.append(text)

    def add_call(self, call_id: str, name: str) -> None:
        self._calls.setdefault(call_id, (name, []))

    def append_arguments(self, call_id: str, text: str) -> None:
        self._calls[call_id][1].append(text)

    def has_call(self, call_id: str) -> bool:
        return call_id in self._calls

    def message(self) -> Message:
        shown = dict(self._rest)
        pieces = self._pieces
        if isinstance(pieces, list) and all(isinstance(each, str) for each in pieces):
            shown["content"] = "".join(pieces)
        elif pieces is not None:
            shown["content"] = pieces
        if self._calls:
            shown["toolCalls"] = [
                tool_call(call_id, name, "".join(parts)) for call_id, (name, parts) in self._calls.items()
            ]
        return shown


class ClientView:
    def __init__(self) -> None:
        self._messages: dict[str, PartialMessage] = {}

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._messages

    def get(self, message_id: str) -> PartialMessage | None:
        return self._messages.get(message_id)

    def get_or_add(self, message: Message) -> PartialMessage:
        """The message with that id; added if it does not exist."""
        known = self._messages.get(message["id"])
        if known is None:
            known = self._messages[message["id"]] = PartialMessage(message)
        return known

    def put(self, message: Message) -> None:
        self._messages[message["id"]] = PartialMessage(message)

    def remove(self, message_id: str) -> None:
        del self._messages[message_id]

    def messages(self) -> list[Message]:
        return [each.message() for each in self._messages.values()]

    def without_activities(self) -> list[Message]:
        """All messages except widgets, which are sent when they are pushed. A snapshot without widgets leaves those of
        each client where they are."""
        return [each for each in self.messages() if each["role"] != "activity"]

    def replace(self, messages: list[Message]) -> None:
        """Apply a snapshot as a client does: known messages are replaced in place, new ones are appended, and absent
        ones are removed."""
        by_id = {message["id"]: message for message in messages}
        roles = {message["role"] for message in messages}
        result: dict[str, PartialMessage] = {}
        for message_id, known in self._messages.items():
            if message_id in by_id:
                known.assign(by_id[message_id])
                result[message_id] = known
            elif known.role in _KEPT_BY_CLIENTS and known.role not in roles:
                result[message_id] = known
        for message_id, message in by_id.items():
            if message_id not in result:
                result[message_id] = PartialMessage(message)
        self._messages = result


def equivalent(one: Message, other: Message) -> bool:
    """Whether two messages have the same content. The formatting of a call's JSON arguments does not matter, nor does
    the subagent."""
    return bool(_comparable(one) == _comparable(other))


def _comparable(message: Message) -> Json:
    compared = {name: value for name, value in message.items() if name not in ("toolCalls", "subagentRunId")}
    compared["content"] = compared.get("content") or ""
    compared["toolCalls"] = [
        (call["id"], call["function"]["name"], _parsed(call["function"]["arguments"]))
        for call in message.get("toolCalls", ())
    ]
    return compared


def _parsed(text: str) -> Json:
    try:
        return loads_exactly(text or "{}")
    except ValueError:
        return text
