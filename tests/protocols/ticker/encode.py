from collections.abc import Sequence

from threadwire.core.encoder import Message
from threadwire.core.entries import Entry, Kind
from threadwire.core.ids import RunId
from threadwire.core.json import dumps


class TickerEncoder:
    """Encode a thread's log as ticks, numbered within each run."""

    def __init__(self, kinds: frozenset[str]) -> None:
        self._kinds = kinds
        self._counts: dict[RunId, int] = {}

    def feed(self, entry: Entry) -> Sequence[Message]:
        if entry.run_id is None or entry.kind not in self._kinds:
            return ()
        number = self._counts.get(entry.run_id, 0) + 1
        self._counts[entry.run_id] = number
        if entry.kind == Kind.RUN_ENDED:
            del self._counts[entry.run_id]
        return [(b"tick", dumps({"run_id": entry.run_id, "number": number, "kind": entry.kind}))]
