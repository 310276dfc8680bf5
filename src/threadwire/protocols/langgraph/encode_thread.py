"""A thread's log as the LangGraph thread stream: run after run, for as long as the client stays connected.

Like the run stream it is a function of the entries fed to it. Everything it needs about a run is in the run's own
entries. So it must be fed a run from its first entry (spec/log.md, 4.5), but nothing from earlier runs.
"""

from collections.abc import Sequence
from typing import Any

from threadwire.core.encoder import Message
from threadwire.core.entries import Entry, Json, Kind
from threadwire.core.ids import RunId
from threadwire.core.json import dumps
from threadwire.core.state_fold import JsonState
from threadwire.protocols.langgraph.encode import DEFAULT_MODES, RunStreamEncoder, StreamOptions

DEFAULT_THREAD_MODES = ("run_modes",)
THREAD_MODES = frozenset({"run_modes", "lifecycle", "state_update"})


class ThreadStreamEncoder:
    """`run_modes`: the output of each run's own stream, and its end. `lifecycle`: only starts and ends.
    `state_update`: the state after each change, inside and outside runs."""

    def __init__(self, modes: frozenset[str]) -> None:
        self._run_modes = "run_modes" in modes
        self._lifecycle = "lifecycle" in modes
        self._state = "state_update" in modes
        self._runs: dict[RunId, RunStreamEncoder] = {}
        self._states: dict[RunId, JsonState] = {}

    def feed(self, entry: Entry) -> Sequence[Message]:
        if entry.run_id is None:
            return self._state_reset(entry) if self._state and entry.kind == Kind.STATE_RESET else ()
        if entry.kind == Kind.RUN_STARTED:
            return self._started(entry.run_id, entry)
        if entry.kind == Kind.RUN_ENDED:
            return self._ended(entry.run_id, entry)
        shown = self._runs[entry.run_id].feed(entry) if entry.run_id in self._runs else ()
        if not self._state:
            return shown
        changed = self._changed(entry.run_id, entry)
        return shown if changed is None else [(b"state_update", changed), *shown]

    def _started(self, run_id: RunId, entry: Entry) -> Sequence[Message]:
        self._states[run_id] = JsonState()
        if not self._run_modes and not self._lifecycle:
            return ()
        if run_id not in self._runs:
            self._runs[run_id] = RunStreamEncoder(_options(entry.data) if self._run_modes else _NOTHING)
        return self._runs[run_id].feed(entry)

    def _ended(self, run_id: RunId, entry: Entry) -> Sequence[Message]:
        self._runs.pop(run_id, None)
        self._states.pop(run_id, None)
        if not self._run_modes and not self._lifecycle:
            return ()
        done = (b"metadata", dumps({"status": "run_done", "run_id": run_id}))
        if self._run_modes and entry.data["status"] in ("error", "timeout"):
            return [(b"error", dumps(entry.data["error"])), done]
        return [done]

    def _changed(self, run_id: RunId, entry: Entry) -> bytes | None:
        """The thread's state after a step of a run, or the notice that the run was rolled back."""
        if entry.kind == Kind.STATE_RESET and entry.data["cause"] == "rollback":
            return dumps({"cause": "rollback", "run_id": run_id})
        if entry.kind != Kind.STATE or entry.ns or run_id not in self._states:
            return None
        state = self._states[run_id]
        state.apply(entry.data)
        return b'{"values":' + state.dumps() + b',"cause":"run","run_id":' + dumps(run_id) + b"}"

    def _state_reset(self, entry: Entry) -> Sequence[Message]:
        """A state update outside a run. Pruning does not change the state."""
        if entry.data["cause"] == "prune":
            return ()
        shown: dict[str, Json] = {
            key: entry.data[key] for key in ("values", "cause", "checkpoint_id") if key in entry.data
        }
        return [(b"state_update", dumps(shown))]


_NOTHING = StreamOptions(frozenset())


def _options(started: dict[str, Any]) -> StreamOptions:
    modes = started.get("stream_mode") or DEFAULT_MODES
    return StreamOptions(frozenset(modes), bool(started.get("subgraphs")))
