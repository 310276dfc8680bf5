"""Messages that a graph says by hand, ahead of those its nodes return: pages have them until the others come."""

from collections.abc import Iterable

from threadwire.protocols.ag_ui.messages import Message, call_ids
from threadwire.protocols.ag_ui.view import View


class StandIns:
    def __init__(self, view: View) -> None:
        self._view = view
        self._ids: list[str] = []

    def add(self, message: Message) -> None:
        self._view.put(message)
        self._ids.append(message["id"])

    def release(self, kept: Iterable[Message]) -> bool:
        """Take back what was said ahead of these messages, which have ids of their own. Whether there was any."""
        if not self._ids:
            return False
        said = list(kept)
        released = [each for each in self._ids if any(self._stands_for(each, message) for message in said)]
        for message_id in released:
            self._ids.remove(message_id)
            self._view.remove(message_id)
        return bool(released)

    def _stands_for(self, message_id: str, kept: Message) -> bool:
        known = self._view.get(message_id)
        if known is None or kept["role"] != "assistant" or kept["id"] == message_id:
            return False
        said = known.message()
        if calls := call_ids(said):
            return bool(calls & call_ids(kept))
        return bool(said.get("content") == kept.get("content"))
