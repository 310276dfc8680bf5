"""Placeholders: messages that a graph emits before its nodes return the final ones. Clients show a placeholder until
its final message arrives."""

from collections.abc import Iterable

from threadwire.protocols.ag_ui.client_view import ClientView
from threadwire.protocols.ag_ui.messages import Message, call_ids


class Placeholders:
    def __init__(self, view: ClientView) -> None:
        self._view = view
        self._ids: list[str] = []

    def add(self, message: Message) -> None:
        self._view.put(message)
        self._ids.append(message["id"])

    def remove_for(self, messages: Iterable[Message]) -> bool:
        """Remove the placeholders of these messages, which have ids of their own. Return whether there were any."""
        if not self._ids:
            return False
        final = list(messages)
        removed = [each for each in self._ids if any(self._stands_for(each, message) for message in final)]
        for message_id in removed:
            self._ids.remove(message_id)
            self._view.remove(message_id)
        return bool(removed)

    def _stands_for(self, placeholder_id: str, message: Message) -> bool:
        held = self._view.get(placeholder_id)
        if held is None or message["role"] != "assistant" or message["id"] == placeholder_id:
            return False
        placeholder = held.message()
        if calls := call_ids(placeholder):
            return bool(calls & call_ids(message))
        return bool(placeholder.get("content") == message.get("content"))
