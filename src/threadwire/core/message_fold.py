"""Which message a `messages` entry is about, and how it changes that message (spec/log.md, 6.1 - 6.4a)."""

from typing import Any, Generic, Literal, TypeVar

from threadwire.core.entries import Entry, Json, Namespace

Change = Literal["first", "text", "fields", "whole"]
"""What an entry adds to a message. `first`: its first chunk. `text`: a chunk that differs from the previous one only in
its text, like most entries of a run. `fields`: any other chunk. `whole`: a message that was not streamed, or not to
this reader."""


class StreamedMessage:
    """A message as of its last entry. Readers that remember something about each message extend this class."""

    __slots__ = ("change", "changed", "content", "fields", "id", "meta", "ns")

    def __init__(self, message_id: str, fields: dict[str, Json], meta: Json, ns: Namespace, change: Change) -> None:
        self.id = message_id
        """The message's own id, or one derived from its run and its number."""
        self.fields = fields
        """The fields of the last chunk. Their `content` may be outdated: a `text` change sets only `self.content`."""
        self.changed = fields
        """The fields that the last entry set, unless it was a `text` change."""
        self.content: Json = fields.get("content")
        self.meta = meta
        self.ns = ns
        self.change = change

    def chunk(self) -> dict[str, Json]:
        """The last chunk, or the whole message."""
        return {**self.fields, "content": self.content}


M = TypeVar("M", bound=StreamedMessage)


class MessageFold(Generic[M]):
    """The streamed messages of an attempt."""

    __slots__ = ("_kind", "_subgraphs", "streamed")

    def __init__(self, kind: type[M], *, subgraphs: bool = True) -> None:
        self._kind = kind
        self._subgraphs = subgraphs
        self.streamed: dict[int, M] = {}
        """The streamed messages by number. Instead of feeding an entry `[number, text]`, a reader may look up the
        message here and handle the text itself: a token then costs a lookup and no call."""

    def clear(self) -> None:
        """Start a new attempt, which numbers its messages from zero."""
        self.streamed.clear()

    def feed(self, entry: Entry) -> M | None:
        """Return the message that the entry changes, after the change; None if the entry is not for this reader.

        All chunks of a message return the same object.
        """
        if entry.ns and not self._subgraphs:
            return None
        data = entry.data
        if type(data) is list:
            message = self.streamed[data[0]]
            message.content = data[1]
            message.change = "text"
            return message
        if "patch" in data:
            return self._patched(self.streamed[data["i"]], data["patch"])
        if data.get("root") and self._subgraphs:
            return None
        return self._declared(entry, data)

    @staticmethod
    def _patched(message: M, patch: dict[str, Json]) -> M:
        message.fields = {**message.fields, **patch}
        message.changed = patch
        message.content = message.fields.get("content")
        message.change = "fields"
        return message

    def _declared(self, entry: Entry, data: dict[str, Any]) -> M:
        streamed = "chunk" in data
        fields = data["chunk" if streamed else "message"]
        message_id = str(fields.get("id") or f"{entry.run_id}:{data['i']}")
        message = self._kind(message_id, fields, data["meta"], entry.ns, "first" if streamed else "whole")
        if streamed:
            self.streamed[data["i"]] = message
        return message
