"""The timeline of a thread, folded from its log."""

from itertools import islice
from typing import Any, Self

from threadwire.core.entries import MESSAGES, START, Entry, Json
from threadwire.core.ids import Seq
from threadwire.core.timeline.changes import Append, Block, Change
from threadwire.core.timeline.entries import EntryNormalizer
from threadwire.core.timeline.interrupts import newest
from threadwire.core.timeline.messages import growing
from threadwire.core.timeline.operations import Operation, Stamp
from threadwire.core.timeline.reducer import apply
from threadwire.core.timeline.state import TimelineOptions, TimelineState, appended

VERSION = 4
"""The version of snapshots. Increase it when their format or the rules change: threads with older snapshots are then
folded again."""


class Timeline:
    """Blocks and values at a position of the log.

    It is a pure function of the entries fed to it: no clock, no randomness, no I/O.
    """

    def __init__(self, options: TimelineOptions | None = None) -> None:
        self._state = TimelineState(options or TimelineOptions())
        self._normalizer = EntryNormalizer(self._state.options.messages_key)
        self.seq: Seq = START
        """The position of the last entry that was fed."""

    def feed(self, entry: Entry) -> list[Change]:
        """Apply an entry and return its changes. An entry that was fed before changes nothing."""
        if entry.seq <= self.seq:
            return []
        self.seq = entry.seq
        if entry.kind == MESSAGES and (token := self._token(entry)) is not None:
            return [token]
        stamp, operations = self._normalizer.feed(entry)
        for operation in operations:
            apply(self._state, operation, stamp)
        return self._taken()

    def _token(self, entry: Entry) -> Append | None:
        """Apply an entry that only appends text, as nearly every entry of a run does: an operation would take longer
        than the rest. None if the entry does something else."""
        data = entry.data
        if type(data) is not list or not data[1] or (message_id := self._normalizer.plain_id(data[0])) is None:
            return None
        block = growing(self._state, message_id)
        return None if block is None else appended(block, data[1], entry.at)

    def apply(self, operation: Operation, stamp: Stamp) -> list[Change]:
        """Apply an operation that is not from the log and return its changes."""
        apply(self._state, operation, stamp)
        return self._taken()

    def _taken(self) -> list[Change]:
        changes, self._state.changes = self._state.changes, []
        return changes

    @property
    def values(self) -> Json:
        """The root state without messages, widgets and interrupts."""
        return self._state.values

    def blocks(self) -> list[Block]:
        """All blocks in order."""
        return [dict(block) for block in self._state.in_order()]

    def block(self, block_id: str) -> Block | None:
        """One block, not a copy: do not change it."""
        return self._state.blocks.get(block_id)

    def page(self, limit: int, before: str | None = None) -> list[Block]:
        """Return the last `limit` blocks, or those before a block. Raise `KeyError` if that block is unknown."""
        order = self._state.order
        last = order.last if before is None else order.before(before)
        found = [dict(self._state.blocks[block_id]) for block_id in islice(order.backwards(last), limit)]
        return found[::-1]

    def open_interrupts(self) -> list[Block]:
        """The interrupts that wait for an answer, in the order in which they were asked."""
        return [dict(self._state.blocks[block_id]) for block_id in self._state.open]

    def interrupt(self, interrupt_id: str) -> Block | None:
        """The newest block of an interrupt."""
        block = newest(self._state, interrupt_id)
        return None if block is None else dict(block)

    def is_in_state(self, message_id: str) -> bool:
        """Whether the root state has this message. A message that a failed or stopped run did not commit is not in
        it."""
        return message_id in self._state.root_messages

    def snapshot(self) -> dict[str, Json]:
        """Return the fold as JSON, for `restore`.

        It shares parts with the fold: encode it before the next entry is fed.
        """
        return {
            "version": VERSION,
            "seq": self.seq,
            "blocks": self.blocks(),
            "values": self.values,
            "state": self._state.as_json(),
            "normalizer": self._normalizer.as_json(),
        }

    @classmethod
    def restore(cls, snapshot: dict[str, Any], options: TimelineOptions | None = None) -> Self:
        """Return the fold that `snapshot` describes. Raise `ValueError` if its version is unknown."""
        if snapshot.get("version") != VERSION:
            raise ValueError(f"Unknown version of a timeline snapshot: {snapshot.get('version')}")
        timeline = cls(options)
        timeline.seq = Seq(snapshot["seq"])
        timeline._state.restore(snapshot["state"], snapshot["blocks"], snapshot["values"])
        timeline._normalizer.restore(snapshot["normalizer"])
        return timeline
