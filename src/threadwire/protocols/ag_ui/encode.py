"""One run's log as AG-UI events.

The encoder is fed a run from its first entry (spec/log.md, 4.5). Its output depends on nothing else, so a client that
resumes anywhere receives exactly what a client that stayed connected was sent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from threadwire.core.encoder import Message
from threadwire.core.entries import MESSAGES, Entry, Json, Kind, Namespace
from threadwire.core.message_content import conversation_of
from threadwire.core.open_parts import OpenParts
from threadwire.protocols.ag_ui.client_view import ClientView
from threadwire.protocols.ag_ui.conversation import Conversation, with_activities
from threadwire.protocols.ag_ui.emitted_events import EmittedState, decode_emitted
from threadwire.protocols.ag_ui.message_stream import MessageStream
from threadwire.protocols.ag_ui.messages import shown_messages
from threadwire.protocols.ag_ui.part_events import PartEvents
from threadwire.protocols.ag_ui.placeholders import Placeholders
from threadwire.protocols.ag_ui.raw_events import RawChoice, RawEvents
from threadwire.protocols.ag_ui.state import StateView, state_snapshot
from threadwire.protocols.ag_ui.wire import (
    Event,
    encoded,
    event,
    interrupt_outcome,
    legacy_interrupts,
    run_error,
    run_finished,
    run_started,
    thread_deleted,
)


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a stream. Streams with equal options share one encoder."""

    thread_id: str
    """The client's id of the thread."""
    run_id: str | None = None
    """The id of the run that its client chose; None for the server's own id."""
    modern: bool = False
    """Whether the client declared protocol version 1.0. Other clients receive only what both versions understand."""
    raw: RawChoice = False
    """Which RAW events to add."""
    announce_when_started: bool = False
    """Set for streams over many runs, where a queued run would otherwise start inside another."""
    out_of_order: frozenset[str] = frozenset()
    """Messages that are in the wrong place in the client's list, because it had not seen everything before them."""
    interrupt_outcome: bool = True
    """Whether a run's outcome contains its interrupts, in addition to the events for older hooks. Clients that have
    seen such an outcome reject every answer except `resume`."""


class RunEncoder:
    def __init__(self, options: Options) -> None:
        self._options = options
        self._open = OpenParts()
        self._part_events = PartEvents()
        self._view = ClientView()
        self._state = StateView()
        placeholders = Placeholders(self._view)
        self._conversation = Conversation(self._view, placeholders, options.out_of_order)
        self._message_stream = MessageStream(self._view, placeholders, self._open, self._part_events)
        self._running_calls: dict[str, Namespace] = {}
        """The calls whose tools are running."""
        self._announcement: Event | None = None
        self._raw = RawEvents(options.raw) if options.raw else None

    # -- entries -------------------------------------------------------------------------------------------------

    def feed(self, entry: Entry) -> Sequence[Message]:
        raw = [] if self._raw is None else self._raw.of(entry)
        if entry.kind == MESSAGES and (text := self._message_stream.token(entry.data)) is not None:
            return text if not raw else [*encoded(raw), *text]
        events = self.events(entry)
        if raw and entry.kind == Kind.RUN_ENDED:  # clients accept nothing after the end of a run
            return encoded([*events[:-1], *raw, events[-1]])
        return encoded([*events, *raw])

    def events(self, entry: Entry) -> list[Event]:
        """The events whose messages `feed` returns, except RAW, for a consumer that inspects them."""
        entered = self._part_events.of(self._open.enter(entry.ns)) if entry.ns else []
        match entry.kind:
            case Kind.MESSAGES:
                return entered + self._message_stream.feed(entry)
            case Kind.STATE:
                return entered if entry.ns else self._committed(entry.data)
            case Kind.CHECKPOINT if "unstreamed" in entry.data:
                return self._committed_rest(entry.data["unstreamed"])
            case Kind.TASK:
                return entered + self._part_events.of(self._open.task(entry.ns, entry.data), entry.data)
            case Kind.CUSTOM:
                return entered + self._custom(entry.data["value"])
            case Kind.TOOL:
                self._note_tool(entry)
                return entered
            case Kind.DISPATCHED:
                return entered + self._dispatched(entry)
            case Kind.RUN_QUEUED:
                return [] if self._options.announce_when_started else self._announce(entry)
            case Kind.RUN_STARTED:
                return self._started(entry)
            case Kind.RUN_ENDED:
                return self._ended(entry)
            case _:
                return entered

    # -- joining in the middle -----------------------------------------------------------------------------------

    def joined(self, base: Json) -> Sequence[Message]:
        return encoded([*self._start_again(), *self.join_events(base)])

    def reopened(self) -> Sequence[Message]:
        return encoded([*self._start_again(), *self.reopen_events()])

    def _start_again(self) -> list[Event]:
        """The event for the start of the run, for a client that accepts events only inside a run."""
        return [] if self._announcement is None else [self._announcement]

    def join_events(self, base: Json) -> list[Event]:
        """The events that a client needs first when it joins now: the state, the messages, and the start of whatever is
        open. `base` is the thread's state before this run, for a run that has no state yet."""
        if self._state.values is None:
            return [*snapshot_events(base), *self._part_events.starts(self._open)]
        snapshot = event("MESSAGES_SNAPSHOT", messages=self._view.messages())
        return [self._state.snapshot(), snapshot, *self._part_events.starts(self._open)]

    def deleted(self) -> Sequence[Message]:
        return encoded([thread_deleted(self._options.thread_id)])

    def announcement(self, run_id: str) -> Event:
        """The event for the start of the run, which is not sent again when the run starts."""
        self._announcement = run_started(self._options.thread_id, self._options.run_id or run_id)
        return self._announcement

    def reopen_events(self) -> list[Event]:
        """The start events of whatever is open, for a client that has everything else."""
        return self._part_events.starts(self._open)

    # -- the run -------------------------------------------------------------------------------------------------

    def _announce(self, entry: Entry) -> list[Event]:
        return [self.announcement(str(entry.run_id))]

    def _started(self, entry: Entry) -> list[Event]:
        announced = [] if self._announcement else self._announce(entry)
        if entry.attempt <= 1:
            return announced
        # The process crashed during the last attempt. Whatever it had open is closed. The state that the run resumes
        # from comes next, and removes messages that were streamed and not committed.
        closed = self._part_events.of(self._open.close_all())
        self._part_events.start_attempt(entry.attempt)
        self._state.forget()
        self._message_stream.forget()
        self._running_calls.clear()
        self._conversation.reset()
        return announced + closed

    def _ended(self, entry: Entry) -> list[Event]:
        data = entry.data
        events = [] if self._announcement else self._announce(entry)
        if data["status"] == "interrupted":
            events += self._stopped_tools()
        events += self._part_events.of(self._open.close_all()) + self._state.finish()
        if data["status"] in ("error", "timeout", "rolled_back"):
            error = data.get("error") or {"error": "ROLLED_BACK", "message": "The run was rolled back."}
            return [*events, run_error(str(error["message"]), str(error["error"]))]
        if data["status"] == "success":  # the partial message of a stopped run stays visible
            events += self._conversation.finish()
        interrupts = data.get("interrupts") or []
        events += legacy_interrupts(interrupts)
        return [*events, self._finished(entry, interrupts)]

    def _finished(self, entry: Entry, interrupts: list[Json]) -> Event:
        run_id = self._options.run_id or str(entry.run_id)
        outcome = interrupt_outcome(interrupts) if self._options.interrupt_outcome else None
        if outcome is None and self._options.modern:
            outcome = self._modern_outcome(entry)
        return run_finished(self._options.thread_id, run_id, outcome, self._message_stream.usage())

    def _modern_outcome(self, entry: Entry) -> Json:
        if entry.data["status"] == "interrupted":
            return {"type": "cancelled"}
        pending = self._conversation.unanswered()
        return {"type": "success", "pendingToolCallIds": pending} if pending else {"type": "success"}

    # -- state ---------------------------------------------------------------------------------------------------

    def _committed(self, data: dict[str, Any]) -> list[Event]:
        if data.get("partial"):
            self._state.hold(data)
            return []
        return self._state.apply(data) + self._committed_messages(data)

    def _committed_rest(self, data: dict[str, Any]) -> list[Event]:
        """The part of the state that the graph's output omits. Clients that show the state show it like any other."""
        return self._state.apply_unstreamed(data) + self._committed_messages(data)

    def _committed_messages(self, data: dict[str, Any]) -> list[Event]:
        return self._conversation.commit(data, conversation_of(self._state.values), self._state.values)

    # -- tools and custom events ---------------------------------------------------------------------------------

    def _note_tool(self, entry: Entry) -> None:
        call_id = str(entry.data.get("tool_call_id") or "")
        if entry.data["event"] == "tool-started":
            self._running_calls[call_id] = entry.ns
        elif entry.data["event"] != "tool-output-delta":
            self._running_calls.pop(call_id, None)

    def _stopped_tools(self) -> list[Event]:
        return [
            each
            for call_id, ns in self._running_calls.items()
            for each in self._conversation.stopped(call_id, self._part_events.subagent(ns))
        ]

    def _custom(self, value: Json) -> list[Event]:
        if (activity := self._conversation.activity(value)) is not None:
            return [activity]
        name = value.get("name") or value.get("type") if isinstance(value, dict) else None
        return [{"type": "CUSTOM", "name": name if isinstance(name, str) and name else "custom", "value": value}]

    def _dispatched(self, entry: Entry) -> list[Event]:
        emitted = decode_emitted(entry)
        if isinstance(emitted, EmittedState):
            return [self._state.emit(emitted.state)]
        if "role" in emitted:
            return self._conversation.emit(emitted, self._part_events.subagent(entry.ns))
        return [emitted]


def snapshot_events(values: Json) -> list[Event]:
    """Snapshots of the state and the messages of an idle thread. A thread without a state has empty ones, because the
    client may still show another thread."""
    values = {} if values is None else values
    messages = with_activities(shown_messages(conversation_of(values)), values)
    return [state_snapshot(values), event("MESSAGES_SNAPSHOT", messages=messages)]
