"""The interface of every protocol's encoder: entries in, messages out, no side effects (spec/log.md, 4.7).

A message is what a client receives, whatever the transport. A *framing* turns the messages of an entry into the bytes
that a transport sends.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from threadwire.core.entries import Entry
from threadwire.core.ids import Seq

Message = tuple[bytes, bytes]
"""A message's name and its JSON, both on one line. The name is empty in a protocol whose messages have none.

A plain tuple, because a run has one for every token: a NamedTuple would make encoding a token a third slower.
"""


class Encoder(Protocol):
    def feed(self, entry: Entry) -> Sequence[Message]:
        """Return the messages of this entry; empty if it has none."""


Framing = Callable[[Sequence[Message], Seq | None], bytes]
"""Returns the frames of an entry's messages. The last frame carries the entry's position as id (4.2). Messages that
belong to no entry have no id, so a cursor is always a position in the log.

The bytes are made once per entry and shared by all subscribers. A transport that sends each message separately, such
as WebSocket, can use one line per message, and split the lines when it sends them.
"""
