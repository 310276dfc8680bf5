"""The framing of the tests: the data of all messages, without ids."""

from collections.abc import Sequence

from threadwire.core.encoder import Message


def data_only(messages: Sequence[Message], seq: int | None) -> bytes:
    return b"".join(data for _, data in messages)


def joined(frames: list[bytes] | None) -> bytes | None:
    """What a follower returned, as one piece; None at the end."""
    return None if frames is None else b"".join(frames)
