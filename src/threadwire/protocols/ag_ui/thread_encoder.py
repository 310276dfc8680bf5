"""A thread's log over many runs as AG-UI events: one run after the other, each with its own start and end."""

from collections.abc import Sequence
from dataclasses import replace

from threadwire.core.encoder import Message
from threadwire.core.entries import Entry, Json, Kind
from threadwire.core.ids import RunId
from threadwire.protocols.ag_ui.encode import Options, RunEncoder, snapshot_events
from threadwire.protocols.ag_ui.wire import (
    Event,
    encoded,
    interrupt_outcome,
    legacy_interrupts,
    run_finished,
    run_started,
)


class ThreadEncoder:
    """Encode a thread's log. Runs do not overlap in AG-UI: a queued run is announced when it starts, and not at all if
    it is cancelled first."""

    def __init__(self, options: Options) -> None:
        self._options = replace(options, announce_when_started=True)
        self._runs: dict[RunId, RunEncoder] = {}
        self._waiting: set[RunId] = set()

    def feed(self, entry: Entry) -> Sequence[Message]:
        if entry.run_id is None:
            return encoded(self._state_update(entry))
        encoder = self._encoder_of(entry.run_id, entry)
        return () if encoder is None else encoder.feed(entry)

    def events(self, entry: Entry) -> list[Event]:
        """The events whose messages `feed` returns, except RAW, for a consumer that inspects them."""
        if entry.run_id is None:
            return self._state_update(entry)
        encoder = self._encoder_of(entry.run_id, entry)
        return [] if encoder is None else encoder.events(entry)

    def _encoder_of(self, run_id: RunId, entry: Entry) -> RunEncoder | None:
        """The encoder for this entry of the run; None before the run starts."""
        if entry.kind == Kind.RUN_QUEUED:
            self._waiting.add(run_id)
            return None
        self._waiting.discard(run_id)
        if entry.kind == Kind.RUN_STARTED and run_id not in self._runs:
            self._runs[run_id] = RunEncoder(self._options)
        if entry.kind == Kind.RUN_ENDED:
            return self._runs.pop(run_id, None)
        return self._runs.get(run_id)

    def deleted(self) -> Sequence[Message]:
        """Nothing if no run is active: no run is cut off, and the deletion is reported when a client reconnects."""
        return next((encoder.deleted() for encoder in self._runs.values()), ())

    def joined(self, base: Json) -> Sequence[Message]:
        return encoded(self.join_events(base))

    def reopened(self) -> Sequence[Message]:
        return encoded(self.reopen_events())

    def reopen_events(self) -> list[Event]:
        """The start events of the active run and of whatever is open in it, for a client that has everything else.

        If none is active, the queued run is next: it is announced now, and not again when it starts.
        """
        for run_id in (*self._runs, *self._waiting):
            encoder = self._runs.setdefault(run_id, RunEncoder(self._options))
            return [encoder.announcement(run_id), *encoder.reopen_events()]
        return []

    def join_events(self, base: Json) -> list[Event]:
        """The events that a client needs from the active run when it joins now. `base` is the same as for a single
        run."""
        for run_id, encoder in self._runs.items():
            return [run_started(self._options.thread_id, run_id), *encoder.join_events(base)]
        return []

    def _state_update(self, entry: Entry) -> list[Event]:
        """A state update outside a run, wrapped in a synthetic run because clients accept events only inside a run."""
        if entry.kind != Kind.STATE_RESET or "values" not in entry.data:
            return []
        thread_id, run_id = self._options.thread_id, f"update-{entry.seq}"
        interrupts = entry.data.get("interrupts") or []
        outcome = interrupt_outcome(interrupts) if self._options.interrupt_outcome else None
        return [
            run_started(thread_id, run_id),
            *snapshot_events(entry.data["values"]),
            *legacy_interrupts(interrupts),
            run_finished(thread_id, run_id, outcome),
        ]
