"""A thread's log as the events of the thread wire.

Everything that an event needs from the log is in its run's own entries, so the encoder must be fed a run from its first
entry (spec/log.md, 4.5), but nothing from earlier runs.

An event has an id `<seq>.<n>`: the number of its entry, and its number among all events of that entry, whether the
client subscribes to them or not. So it is the same on every connection. Its `seq` is a position to resume from. All but
the last event of an entry have the `seq` of the previous entry, so that no client resumes inside an entry.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from threadwire.core.encoder import Message
from threadwire.core.entries import MESSAGES, Entry, Json, Kind, Namespace
from threadwire.core.ids import RunId
from threadwire.core.interrupts import INTERRUPT
from threadwire.core.json import dumps
from threadwire.core.namespaces import ByNamespace
from threadwire.core.open_parts import OpenParts, Part, PartChange, PartEnded, PartStarted
from threadwire.protocols.langgraph.thread_wire.message_events import MessageEvent, MessageEvents
from threadwire.protocols.langgraph.thread_wire.subscription import INPUT_REQUESTED, Subscription, Subscriptions
from threadwire.protocols.langgraph.thread_wire.values import (
    StandardState,
    changes_only_interrupts,
    standard_values,
)


class _Event(NamedTuple):
    method: str
    ns: Namespace
    data: Json = None
    render: Callable[[], bytes] | None = None
    """Returns the JSON of the data, if that is expensive."""


class ThreadWireEncoder:
    def __init__(self, *subscriptions: Subscription) -> None:
        self._subscriptions = Subscriptions(frozenset(subscriptions))
        self._runs: dict[RunId, _Run] = {}
        self._tokens: dict[Namespace, bytes | None] = {}
        """For each namespace, the part of a token's event between its `seq` and its time; None if it is not sent."""

    def feed(self, entry: Entry) -> Sequence[Message]:
        run_id, kind, data = entry.run_id, entry.kind, entry.data
        if run_id is None:
            return self._included(entry, _reset(data)) if kind == Kind.STATE_RESET else ()
        run = self._runs.get(run_id)
        if run is None:
            if kind != Kind.RUN_STARTED:
                return ()  # a run that has not started, or was cancelled before it did
            run = self._runs[run_id] = _Run(self._subscriptions)
        elif kind == MESSAGES:
            if type(data) is list and run.held is None:  # nearly every entry of a run
                message = run.messages.streamed[data[0]]
                if message.add(data[1]):
                    return self._token(entry, message.prefix)
        elif kind == Kind.RUN_ENDED:
            del self._runs[run_id]
        return self._included(entry, run.feed(entry))

    def _token(self, entry: Entry, prefix: bytes) -> Sequence[Message]:
        seq, _, _, at, ns, _, (_, text) = entry
        try:
            middle = self._tokens[ns]
        except KeyError:
            included = self._subscriptions.includes("messages", ns)
            middle = self._tokens[ns] = _between(b"messages", ns) if included else None
        if middle is None or not text:
            return ()
        event = b'{"type":"event","event_id":"%d.0","seq":%d%b%d%b%b}}}}' % (seq, seq, middle, at, prefix, dumps(text))
        return [(b"messages", event)]

    def _included(self, entry: Entry, events: Sequence[_Event]) -> Sequence[Message]:
        included = [(number, each) for number, each in enumerate(events) if self._includes(each)]
        last = len(included) - 1
        return [
            _message(each, entry, number, entry.seq if at == last else entry.seq - 1)
            for at, (number, each) in enumerate(included)
        ]

    def _includes(self, event: _Event) -> bool:
        if event.method == "custom":
            return self._subscriptions.includes_custom(event.data.get("name"), event.ns)
        return self._subscriptions.includes(event.method, event.ns)


def _message(event: _Event, entry: Entry, number: int, seq: int) -> Message:
    method = event.method.encode()
    data = dumps(event.data) if event.render is None else event.render()
    head = b'{"type":"event","event_id":"%d.%d","seq":%d' % (entry.seq, number, seq)
    return method, head + _between(method, event.ns) + b'%d,"data":' % entry.at + data + b"}}"


def _between(method: bytes, ns: Namespace) -> bytes:
    """The part of an event between its `seq` and its time."""
    return b',"method":"' + method + b'","params":{"namespace":' + dumps(list(ns)) + b',"timestamp":'


def _reset(data: dict[str, Any]) -> list[_Event]:
    """A change of the state outside a run, or by a rollback."""
    return [_Event("values", (), standard_values(data["values"]))] if "values" in data else []


class _Run:
    """The events of one run."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._subscriptions = subscriptions
        self._opened = OpenParts()
        self._states = ByNamespace(StandardState)
        self._namespaces: dict[str, Namespace] = {}
        """The subgraph that raised an interrupt, by the id of the interrupt."""
        self._results: dict[tuple[Namespace, str], Json] = {}
        """What nodes returned, until the end of their tasks."""
        self._calls: dict[str, str] = {}
        """The tool calls that tasks execute, by the id of the task."""
        self._graph = ""
        self._next: list[str] = []
        self.messages = MessageEvents(self._opened)
        self.held: Namespace | None = None
        """The namespace whose new values have not been sent. Clients expect the checkpoint of a step before its values,
        and LangGraph emits it immediately after them."""

    def feed(self, entry: Entry) -> list[_Event]:
        is_companion = entry.kind == Kind.CHECKPOINT and entry.ns == self.held
        released = self._release()
        events = self._opening(entry) + self._of(entry)
        return events + released if is_companion else released + events

    def _opening(self, entry: Entry) -> list[_Event]:
        """The start of the subgraph that the entry belongs to, and of those around it."""
        return self._lifecycle(self._opened.enter(entry.ns), "completed") if entry.ns else []

    def _of(self, entry: Entry) -> list[_Event]:
        data, ns = entry.data, entry.ns
        match entry.kind:
            case Kind.MESSAGES:
                return _messages(self.messages.feed(entry))
            case Kind.STATE:
                return self._state(entry)
            case Kind.CHECKPOINT:
                return self._checkpoint(entry)
            case Kind.UPDATES:
                return self._updates(entry)
            case Kind.TASK:
                return self._task(ns, data)
            case Kind.TOOL:
                return [_Event("tools", ns, data)]
            case Kind.CUSTOM:
                return [_Event("custom", ns, _custom(data["value"]))]
            case Kind.DISPATCHED:
                return [_Event("custom", ns, {"name": data["name"], "payload": data["data"]})]
            case Kind.INPUT_REQUESTED:
                return [self._input_requested(each) for each in data["interrupts"]]
            case Kind.STATE_RESET:
                return _reset(data)
            case Kind.RUN_STARTED:
                return self._started(data)
            case Kind.RUN_ENDED:
                return self._ended(data)
        return []

    # -- start and end -------------------------------------------------------------------------------------------

    def _started(self, data: dict[str, Any]) -> list[_Event]:
        self._graph = data["graph_id"]
        left_open = self._cut_off() + self._close_all("interrupted")
        self._states.clear()
        self.messages = MessageEvents(self._opened)
        return [*left_open, self._root("running")]

    def _cut_off(self) -> list[_Event]:
        """The values with the messages that the previous attempt did not complete. The next values do not have them,
        and clients remove messages that disappear from the values. Otherwise they would show the text of both
        attempts."""
        return [
            _Event("values", ns, render=self._states.at(ns).with_messages(ids) if self._wants_values(ns) else None)
            for ns, ids in self.messages.open_ids().items()
        ]

    def _ended(self, data: dict[str, Any]) -> list[_Event]:
        status = self._status(data)
        error = str((data.get("error") or {}).get("message", "")) if status == "failed" else None
        return [*self._close_all(status, error), self._root(status, error)]

    def _status(self, data: dict[str, Any]) -> str:
        if data["status"] in ("error", "timeout"):
            return "failed"
        paused = data.get("interrupts") or self._next  # a breakpoint leaves tasks and no interrupt
        return "interrupted" if data["status"] != "success" or paused else "completed"

    def _close_all(self, status: str, error: str | None = None) -> list[_Event]:
        changes = self._opened.close_all()
        events = _messages(self.messages.part_changes(changes) + self.messages.finish_all(error))
        return events + self._lifecycle(changes, status, error)

    def _root(self, status: str, error: str | None = None) -> _Event:
        return _Event("lifecycle", (), _lifecycle(status, self._graph, error))

    # -- steps ---------------------------------------------------------------------------------------------------

    def _state(self, entry: Entry) -> list[_Event]:
        if self._wants_values(entry.ns):
            self._states.at(entry.ns).apply(entry.data)
        if not changes_only_interrupts(entry.data):
            self.held = entry.ns
        return []

    def _release(self) -> list[_Event]:
        if (ns := self.held) is None:
            return []
        self.held = None
        render = self._states.at(ns).dumps if self._wants_values(ns) else None
        return [_Event("values", ns, render=render)]

    def _wants_values(self, ns: Namespace) -> bool:
        return self._subscriptions.includes("values", ns)

    def _checkpoint(self, entry: Entry) -> list[_Event]:
        data = entry.data
        if not entry.ns:
            self._next = data["next"]
        parent = {} if data.get("parent") is None else {"parent_id": data["parent"]}
        shown = {"id": data["id"], **parent, "step": data["step"], "source": data["source"]}
        return [_Event("checkpoints", entry.ns, shown)]

    def _updates(self, entry: Entry) -> list[_Event]:
        ns, data = entry.ns, entry.data
        if "slim" in data:
            return [_Event("updates", ns, {"node": node, "keys": keys}) for node, keys in data["slim"].items()]
        value = data["value"]
        if not isinstance(value, dict):
            return [_Event("updates", ns, {"values": value})]
        for each in value.get(INTERRUPT) or ():
            self._namespaces.setdefault(each["id"], ns)
        events = []
        for node, update in value.items():
            if node != INTERRUPT:
                self._results[ns, node] = shown = standard_values(update)
                events.append(_Event("updates", ns, {"node": node, "values": shown}))
        return events

    def _task(self, ns: Namespace, data: dict[str, Any]) -> list[_Event]:
        name, task_id = data["name"], data["id"]
        changes = self._opened.task(ns, data)
        if not data.get("ended"):
            if (call_id := data.get("tool_call_id")) is not None:
                self._calls[task_id] = call_id
            return [_Event("tasks", ns, {"id": task_id, "name": name, "triggers": data.get("triggers") or []})]
        error = None if data.get("error") is None else str(data["error"])
        status = "failed" if error is not None else "interrupted" if data.get("interrupts") else "completed"
        closed = self.messages.part_changes(changes) + self.messages.finish_task(ns, task_id)
        self._states.task_ended(ns, name, task_id)
        self._calls.pop(task_id, None)
        result = {
            "id": task_id,
            "name": name,
            "error": data.get("error"),
            "result": self._results.pop((ns, name), {}),
            "interrupts": data.get("interrupts") or [],
        }
        return [*_messages(closed), *self._lifecycle(changes, status, error), _Event("tasks", ns, result)]

    def _lifecycle(self, changes: Sequence[PartChange], status: str, error: str | None = None) -> list[_Event]:
        """The starts of subgraphs, and their ends with this status."""
        events = []
        for change in changes:
            if change.part.kind != "subgraph":
                continue
            if isinstance(change, PartStarted):
                events.append(_Event("lifecycle", change.part.ns, self._subgraph_started(change.part)))
            elif isinstance(change, PartEnded):
                events.append(_Event("lifecycle", change.part.ns, _lifecycle(status, change.part.name, error)))
        return events

    def _subgraph_started(self, part: Part) -> dict[str, Json]:
        data: dict[str, Json] = {"event": "started", "namespace": list(part.ns), "graph_name": part.name}
        if task_id := part.ns[-1].partition(":")[2]:
            data["trigger_call_id"] = task_id
        if (call_id := self._calls.get(task_id)) is not None:
            data["cause"] = {"type": "toolCall", "tool_call_id": call_id}
        return data

    def _input_requested(self, interrupt: dict[str, Json]) -> _Event:
        value = interrupt.get("value")
        # The specification calls it `payload`; the Python SDK reads `value`.
        data = {"interrupt_id": interrupt["id"], "payload": value, "value": value}
        return _Event(INPUT_REQUESTED, self._namespaces.get(interrupt["id"], ()), data)


def _messages(events: Sequence[MessageEvent]) -> list[_Event]:
    return [_Event("messages", ns, data) for ns, data in events]


def _custom(value: Json) -> dict[str, Json]:
    """A value that a node wrote. If it is an object with a name, clients can subscribe to that name."""
    name = value.get("name") if isinstance(value, dict) else None
    return {"name": name, "payload": value} if isinstance(name, str) else {"payload": value}


def _lifecycle(status: str, graph_name: str | None, error: str | None) -> dict[str, Json]:
    data: dict[str, Json] = {"event": status, "graph_name": graph_name}
    return data if error is None else {**data, "error": error}
