"""The interface of every protocol's encoder: entries in, messages out, no side effects (spec/log.md, 4.7).

A message is what a client receives, whatever the transport. A *framing* turns the messages of an entry into the bytes
that a transport sends.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from threadwire.core.entries import Entry
from threadwire.core.ids import Seq

Message = tuple[bytes, bytes]
"""A message's name and its JSON, both on one line. The name is empty in a protocol whose messages have none.

A plain tuple, because a run has one for every token: a NamedTuple would make encoding a token a third slower.
"""


class Encoder(Protocol):
    def feed(self, entry: Entry) -> Sequence[Message]:
        """Return the messages of this entry; empty if it has none."""


@runtime_checkable
class ReportsDeletion(Protocol):
    """An encoder of a protocol whose clients must be notified if the thread is deleted while they stream it."""

    def deleted(self) -> Sequence[Message]:
        """Return the last messages of a stream whose thread was deleted before the stream ended."""


class CallsProjectCode(Protocol):
    """An encoder that calls functions of the project, which may be slow."""

    def calls_project_code(self, entry: Entry) -> bool:
        """Whether feeding this entry may call such a function. The entry is then fed in another thread, and nothing
        else uses the encoder in the meantime."""


Framing = Callable[[Sequence[Message], Seq | None], bytes]
"""Returns the frames of an entry's messages. The last frame carries the entry's position as id (4.2). Messages that
belong to no entry have no id, so a cursor is always a position in the log.

The bytes are built once per entry and shared by all subscribers. A transport that sends each message separately, such
as WebSocket, can use one line per message, and split the lines when it sends them.
"""
