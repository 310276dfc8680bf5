"""A thread over many runs as AG-UI events: one run after the other, each with its own boundaries."""

from dataclasses import replace

from threadwire.core.entries import Entry, Json, Kind
from threadwire.core.ids import RunId
from threadwire.protocols.ag_ui.encode import Options, RunEncoder, settled
from threadwire.protocols.ag_ui.wire import Event, frames, run_finished, run_started


class ThreadEncoder:
    """Runs do not overlap on this wire. One that waits for its turn is told of when it starts; one that is given up
    before that, not at all."""

    def __init__(self, options: Options) -> None:
        self._options = replace(options, announce_when_started=True)
        self._runs: dict[RunId, RunEncoder] = {}
        self._waiting: set[RunId] = set()

    def feed(self, entry: Entry) -> bytes:
        if entry.run_id is None:
            return self._moved(entry)
        if entry.kind == Kind.RUN_QUEUED:
            self._waiting.add(entry.run_id)
            return b""
        self._waiting.discard(entry.run_id)
        if entry.kind == Kind.RUN_STARTED and entry.run_id not in self._runs:
            self._runs[entry.run_id] = RunEncoder(self._options)
        encoder = self._runs.get(entry.run_id)
        if encoder is None:
            return b""
        if entry.kind == Kind.RUN_ENDED:
            del self._runs[entry.run_id]
        return encoder.feed(entry)

    def reopened(self) -> list[Event]:
        """The beginning of the run under way and of whatever is open in it, for somebody who has the rest. If none is,
        the one that waits is next: it is told of now, and not again when it starts."""
        for run_id in (*self._runs, *self._waiting):
            encoder = self._runs.setdefault(run_id, RunEncoder(self._options))
            return [encoder.begin(run_id), *encoder.reopened()]
        return []

    def joined(self, base: Json) -> list[Event]:
        """The run under way, for somebody who comes with nothing; `base` as for a run alone."""
        for run_id, encoder in self._runs.items():
            return [run_started(self._options.thread_id, run_id), *encoder.joined(base)]
        return []

    def _moved(self, entry: Entry) -> bytes:
        """The state was moved outside a run, so a run is made up around it: pages know no other way."""
        if entry.kind != Kind.STATE_RESET or "values" not in entry.data:
            return b""
        thread_id, run_id = self._options.thread_id, f"update-{entry.seq}"
        told = settled(entry.data["values"])
        return frames([run_started(thread_id, run_id), *told, run_finished(thread_id, run_id)], entry.seq)
