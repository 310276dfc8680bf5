"""What every protocol's encoder is: entries in, bytes out, and nothing else (spec/log.md, 4.7)."""

from typing import Protocol

from threadwire.core.entries import Entry


class Encoder(Protocol):
    def feed(self, entry: Entry) -> bytes:
        """The frames this entry makes for one wire, joined; empty if it makes none. The last frame carries the id."""
