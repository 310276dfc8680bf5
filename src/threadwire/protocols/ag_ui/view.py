"""What a page holds after the events it was sent: the client's reducer, mirrored.

The encoder needs it twice: to give somebody who comes in the middle of an answer what the others already have, and to
find out, whenever a state is committed, whether pages have drifted from it.
"""

from typing import Any

from threadwire.core.entries import Json
from threadwire.core.json import loads
from threadwire.protocols.ag_ui.messages import Message, tool_call

_KEPT_BY_PAGES = ("reasoning", "activity")
"""Roles that a snapshot without any of them leaves alone."""


class Growing:
    """A message that is added to. Text is kept in pieces, because it comes in thousands of them."""

    __slots__ = ("_calls", "_pieces", "_rest")

    def __init__(self, message: Message) -> None:
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

    def say(self, text: str) -> None:
        if not isinstance(self._pieces, list):
            self._pieces = []
        self._pieces.append(text)

    def call(self, call_id: str, name: str) -> None:
        self._calls.setdefault(call_id, (name, []))

    def argue(self, call_id: str, text: str) -> None:
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


class View:
    def __init__(self) -> None:
        self._messages: dict[str, Growing] = {}

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._messages

    def get(self, message_id: str) -> Growing | None:
        return self._messages.get(message_id)

    def begin(self, message: Message) -> Growing:
        """The message with that id: the one there is, or a new one."""
        known = self._messages.get(message["id"])
        if known is None:
            known = self._messages[message["id"]] = Growing(message)
        return known

    def put(self, message: Message) -> None:
        self._messages[message["id"]] = Growing(message)

    def remove(self, message_id: str) -> None:
        del self._messages[message_id]

    def messages(self) -> list[Message]:
        return [each.message() for each in self._messages.values()]

    def said(self) -> list[Message]:
        """What pages hold besides widgets. Those are told of when they are pushed, and a snapshot without any leaves
        them where each page has them."""
        return [each for each in self.messages() if each["role"] != "activity"]

    def replace(self, messages: list[Message]) -> None:
        """What a page does with a snapshot: known messages are replaced where they are, new ones come behind, absent
        ones go."""
        there = {message["id"]: message for message in messages}
        present = {message["role"] for message in messages}
        kept: dict[str, Growing] = {}
        for message_id, known in self._messages.items():
            if message_id in there:
                kept[message_id] = Growing(there[message_id])
            elif known.role in _KEPT_BY_PAGES and known.role not in present:
                kept[message_id] = known
        for message_id, message in there.items():
            if message_id not in kept:
                kept[message_id] = Growing(message)
        self._messages = kept


def alike(one: Message, other: Message) -> bool:
    """Whether two messages say the same; how the JSON of a call's arguments is written does not matter, nor who is
    named as having said it."""
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
        return loads(text or "{}")
    except ValueError:
        return text
