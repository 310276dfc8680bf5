"""A thread's log as changes of its timeline (spec/timeline.md)."""

from collections.abc import Sequence

from threadwire.core.encoding import Message
from threadwire.core.entries import Entry, Json, Kind
from threadwire.core.ids import RunId
from threadwire.core.json import dumps, loads
from threadwire.core.timeline import Change, Timeline
from threadwire.core.timeline.changes import Append


class TimelineEncoder:
    """Encode a thread's log, fed from its first entry on. An entry that changes something becomes one message."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.weight = 0
        """Roughly how many bytes the timeline occupies: an upper bound of its JSON."""
        self._runs: dict[RunId, str] = {}
        """The active runs, in the order in which they were accepted, and their status."""

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
        about_run = self._feed_run(entry)
        if not changes and not about_run:
            return ()
        data = dumps({"changes": [change.as_json() for change in changes], **about_run})
        self.weight += _weight(changes, data)
        return [(b"changes", data)]

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
            case Kind.RUN_ENDED:
                self._runs.pop(entry.run_id, None)
                error = {"error": entry.data["error"]} if entry.data.get("error") else {}
                ended = {"ended": {"id": entry.run_id, "status": entry.data["status"], **error}}
            case _:
                return {}
        now = self.run
        return ended if now == before else {"run": now, **ended}

    def page(self, limit: int, before: str | None = None) -> dict[str, Json]:
        """The last blocks, or those before a block, and everything else that the timeline shows at this position.

        Raises `KeyError` if that block is unknown. Encode the result before the next entry is fed.
        """
        blocks = self.timeline.page(limit + 1, before)
        shown = blocks[-limit:]
        return {
            "blocks": shown,
            "interrupts": self.timeline.open_interrupts(),
            "run": self.run,
            "values": self.timeline.values,
            "seq": self.timeline.seq,
            **({"before": shown[0]["id"]} if len(blocks) > limit else {}),
        }

    def first_message(self, limit: int) -> Message:
        """The last page as the first message of a stream."""
        return (b"snapshot", dumps(self.page(limit)))

    def snapshot(self) -> bytes:
        return dumps({"timeline": self.timeline.snapshot(), "weight": self.weight, "runs": self._runs})

    def restore(self, snapshot: bytes) -> None:
        stored = loads(snapshot)
        self.timeline = Timeline.restore(stored["timeline"])
        self.weight, self._runs = stored["weight"], stored["runs"]


def _weight(changes: Sequence[Change], data: bytes) -> int:
    """A token adds only its text to the timeline, and a message around it to the stream."""
    if len(changes) == 1 and isinstance(changes[0], Append):
        return len(changes[0].text)
    return len(data)
