"""A thread's log as changes of its timeline (spec/timeline.md)."""

from collections.abc import Iterator, Sequence
from typing import Any

from threadwire.core.encoder import Message
from threadwire.core.entries import MESSAGES, Entry, Json, Kind
from threadwire.core.ids import RunId
from threadwire.core.json import dumps, loads
from threadwire.core.timeline import Timeline
from threadwire.core.timeline.changes import Append, Block
from threadwire.core.timeline.fold import VERSION
from threadwire.core.timeline.forms import custom_operations
from threadwire.core.timeline.operations import Custom

SUMMARY_BLOCKS = 100
"""The number of blocks in a summary, and of the pages that most clients ask for."""

CHECKPOINT_WEIGHT = 64
"""Roughly how many bytes a checkpoint adds to the timeline: its id and its position."""

_BLOCKS_PER_LINE = 256


class TimelineEncoder:
    """Encode a thread's log, fed from its first entry on. An entry that changes something becomes one message."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.weight = 0
        """Roughly how many bytes the timeline occupies: an upper bound of its JSON."""
        self._runs: dict[RunId, str] = {}
        """The active runs, in the order in which they were accepted, and their status."""
        self._ended: dict[str, Json] | None = None
        """How the last run ended, until the next one starts."""

    @property
    def run(self) -> dict[str, Json] | None:
        """The run that is running, or else the first one that is waiting."""
        for status in ("running", "pending"):
            for run_id, its_status in self._runs.items():
                if its_status == status:
                    return {"id": run_id, "status": status}
        return None

    def feed(self, entry: Entry) -> Sequence[Message]:
        changes = self.timeline.feed(entry)
        if entry.kind == MESSAGES and len(changes) == 1 and type(change := changes[0]) is Append:
            return [self._append(change)]
        if entry.kind == Kind.CHECKPOINT:
            self.weight += CHECKPOINT_WEIGHT
        others = _custom(entry) if entry.kind == Kind.CUSTOM else self._feed_run(entry)
        if not changes and not others:
            return ()
        data = dumps({"changes": [change.as_json() for change in changes], **others})
        if changes:
            self.weight += len(data)
        return [(b"changes", data)]

    def _append(self, change: Append) -> Message:
        """A token. Most messages are tokens, so they have a short form and add only their text to the timeline."""
        self.weight += len(change.text)
        return (b"append", dumps([change.block_id, change.text, change.rev, change.updated_at]))

    def _feed_run(self, entry: Entry) -> dict[str, Json]:
        if entry.run_id is None:
            return {}
        before = self.run
        ended: dict[str, Json] = {}
        match entry.kind:
            case Kind.RUN_QUEUED:
                self._runs[entry.run_id] = "pending"
            case Kind.RUN_STARTED:
                self._runs[entry.run_id] = "running"
                self._ended = None
            case Kind.RUN_ENDED:
                self._runs.pop(entry.run_id, None)
                error = {"error": entry.data["error"]} if entry.data.get("error") else {}
                self._ended = {"id": entry.run_id, "status": entry.data["status"], **error}
                ended = {"ended": self._ended}
            case _:
                return {}
        now = self.run
        return ended if now == before else {"run": now, **ended}

    def page(self, limit: int, before: str | None = None) -> "Page":
        """The last blocks, or those before a block, and everything else that the timeline shows at this position.

        Raises `KeyError` if that block is unknown. Encode the result before the next entry is fed.
        """
        blocks = self.timeline.page(limit + 1, before)
        shown = blocks[-limit:]
        return {
            "blocks": shown,
            "interrupts": self.timeline.open_interrupts(),
            "run": self.run,
            **({"ended": self._ended} if self._ended is not None else {}),
            "values": self.timeline.values,
            "seq": self.timeline.seq,
            **({"before": shown[0]["id"]} if len(blocks) > limit else {}),
        }

    # -- what is stored ----------------------------------------------------------------------------------------------

    def summary(self) -> bytes | None:
        """The last page, unless a run is active: the page would be outdated before it is read."""
        return None if self._runs else dumps({"version": VERSION, "page": self.page(SUMMARY_BLOCKS)})

    def snapshot(self) -> bytes:
        """One line for everything except the blocks, then lines of blocks. No line takes long to encode, so other
        threads can run in between."""
        timeline = self.timeline.snapshot()
        blocks: list[Block] = timeline.pop("blocks")
        own = {"weight": self.weight, "runs": self._runs, "ended": self._ended}
        return b"\n".join([dumps({"timeline": timeline, **own}), *map(dumps, _lines(blocks))])

    def restore(self, snapshot: bytes) -> None:
        first, *lines = snapshot.split(b"\n")
        stored = loads(first)
        blocks = [block for line in lines for block in loads(line)]
        self.timeline = Timeline.restore({**stored["timeline"], "blocks": blocks})
        self.weight, self._runs, self._ended = stored["weight"], stored["runs"], stored["ended"]


Page = dict[str, Any]


def _custom(entry: Entry) -> dict[str, Json]:
    """What a node wrote for the application. It is not a block and not part of any page."""
    values = [each.value for each in custom_operations(entry.data.get("value")) if isinstance(each, Custom)]
    return {"custom": values} if values else {}


def first_message(page: Page) -> Message:
    """A page as the first message of a stream."""
    return (b"snapshot", dumps(page))


def page_of_summary(summary: bytes, limit: int) -> Page | None:
    """The last `limit` blocks. None if the summary has fewer, or if another version of the code wrote it."""
    stored = loads(summary)
    page: Page = stored["page"]
    blocks = page["blocks"]
    if stored["version"] != VERSION or (len(blocks) < limit and "before" in page):
        return None
    if len(blocks) > limit:
        page["blocks"] = blocks[-limit:]
        page["before"] = page["blocks"][0]["id"]
    return page


def _lines(blocks: list[Block]) -> Iterator[list[Block]]:
    return (blocks[start : start + _BLOCKS_PER_LINE] for start in range(0, len(blocks), _BLOCKS_PER_LINE))
