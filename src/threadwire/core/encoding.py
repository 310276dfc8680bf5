"""The interface of every protocol's encoder: entries in, bytes out, no side effects (spec/log.md, 4.7)."""

from typing import Protocol

from threadwire.core.entries import Entry


class Encoder(Protocol):
    def feed(self, entry: Entry) -> bytes:
        """Return the frames of this entry, joined; empty if it has none. The last frame carries the id."""
