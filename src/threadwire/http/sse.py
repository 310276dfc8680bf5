"""Messages as server-sent events: pure functions from messages to bytes.

A message's name and data contain no line breaks, so neither needs escaping.
"""

from collections.abc import Sequence

from threadwire.core.encoder import Message
from threadwire.core.ids import Seq

NAMED_HEARTBEAT = b": heartbeat\r\n\r\n"
UNNAMED_HEARTBEAT = b": keep-alive\n\n"


def named_events(messages: Sequence[Message], seq: Seq | None) -> bytes:
    """Events with a name and lines that end in CRLF, as the stock server sends them."""
    if len(messages) == 1:  # as for a token, and nearly every other entry
        name, data = messages[0]
        end = b"\r\n\r\n" if seq is None else b"\r\nid: %d\r\n\r\n" % seq
        return b"".join((b"event: ", name, b"\r\ndata: ", data, end))
    earlier = [b"event: %b\r\ndata: %b\r\n\r\n" % message for message in messages[:-1]]
    return b"".join([*earlier, named_events(messages[-1:], seq)]) if messages else b""


def unnamed_events(messages: Sequence[Message], seq: Seq | None) -> bytes:
    """Events without a name and lines that end in LF, for clients that split a stream at empty LF lines."""
    if len(messages) == 1:
        end = b"\n\n" if seq is None else b"\nid: %d\n\n" % seq
        return b"".join((b"data: ", messages[0][1], end))
    earlier = [b"data: %b\n\n" % data for _, data in messages[:-1]]
    return b"".join([*earlier, unnamed_events(messages[-1:], seq)]) if messages else b""
