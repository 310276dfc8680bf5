"""Convert LangGraph's stream parts to log entries (spec/log.md, section 6).

One normalizer serves one attempt. It remembers just enough to store only what changed: the last chunk of each message,
and the last values of each active namespace. It does no I/O and reads no clock.

Changes of a state are detected by identity first, because comparing or serializing a large state at every step would
cost more than the step. Identity alone would miss a node that mutates a value in place and returns the same object, so
everything that an `updates` part has mentioned since the last values counts as changed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, BaseMessageChunk

from threadwire.core.entries import Draft, Json, Kind, Namespace
from threadwire.core.interrupts import INTERRUPT
from threadwire.core.json import dumps, loads, native
from threadwire.core.namespaces import ByNamespace
from threadwire.graphs.error_messages import ErrorMessages
from threadwire.graphs.langgraph_private.callback_events import DispatchedEvent, ToolEvent
from threadwire.graphs.langgraph_private.message_streams import same_stream
from threadwire.graphs.langgraph_private.root_metadata import node_metadata

LARGE_UPDATE = 2048
"""Size in bytes above which an update is stored as its keys only, unless the client requested updates."""

_SCALARS = (str, int, float, bool, type(None))


def render_interrupt(interrupt: Any) -> Json:
    """Return an interrupt in the form used by threads and states, where `response_schema` is omitted if there is none.
    Streams keep LangGraph's own form."""
    fields = native(interrupt)
    rendered = {"id": fields.get("id"), "value": fields.get("value")}
    if (schema := fields.get("response_schema")) is not None:
        rendered["response_schema"] = schema
    return rendered


class _Message:
    """The last chunk of a message, which the next one is compared with."""

    __slots__ = ("fields", "index", "meta")

    def __init__(self, index: int, fields: dict[str, Any], meta: Any) -> None:
        self.index = index
        self.fields = fields
        self.meta = meta


class _State:
    """The last values of a namespace, and what `updates` parts have mentioned since."""

    __slots__ = ("touched", "values")

    def __init__(self) -> None:
        self.values: dict[str, Any] | None = None
        self.touched: dict[str, set[int]] = {}

    def changes(self, values: dict[str, Any]) -> dict[str, Any]:
        """The changes since the last call, or everything the first time."""
        if self.values is None:
            data: dict[str, Any] = {"full": True, "set": native(values), "keys": list(values)}
        else:
            data = _difference(self.values, values, self.touched)
        self.values = {key: list(item) if type(item) is list else item for key, item in values.items()}
        self.touched = {}
        return data

    def note_touched(self, update: Any) -> None:
        for each in update if isinstance(update, (list, tuple)) else (update,):
            if isinstance(each, Mapping):
                for key, value in each.items():
                    items = value if isinstance(value, (list, tuple)) else (value,)
                    self.touched.setdefault(key, set()).update(map(id, items))


class Normalizer:
    def __init__(
        self, requested: frozenset[str], base_metadata: Mapping[str, Any], messages: ErrorMessages | None = None
    ) -> None:
        self._requested = requested
        self._base_metadata = base_metadata
        self._errors = messages or ErrorMessages()
        self._messages: dict[str | None, _Message] = {}
        self._same_stream = same_stream()
        self._message_count = 0
        self._states = ByNamespace(_State)
        self._seen_at_root: set[str | None] = set()
        self._seen_below: set[str | None] = set()
        self._root_tasks: dict[str, dict[str, Any]] = {}
        self._root_step = 0
        self._unstreamed = _State()
        self.narrow = False
        """Whether the graph's output omits channels, so that its `values` parts do not show the whole state."""
        self.last_values: Any = None
        """The root's channels as of its newest checkpoint, not yet converted to JSON."""
        self.next: tuple[str, ...] = ()
        self.pending: dict[str, list[Json]] = {}
        """Pending interrupts by task id."""

    def feed(self, ns: Namespace, mode: str, part: Any, at: int) -> Sequence[Draft]:
        match mode:
            case "messages":
                return (self._message(ns, part[0], part[1], at),)
            case "values":
                return (self._state(ns, part, at),)
            case "updates":
                return self._updates(ns, part, at)
            case "custom":
                return (self._custom(ns, part, at),)
            case "tools":
                return (Draft(Kind.TOOL, native(self._errors.redact_tool_event(part)), ns, at),)
            case "tasks":
                return self._task(ns, self._redacted(part), at)
            case "checkpoints":
                return self._checkpoint(ns, part, at)
            case "debug":
                redacted = {**part, "payload": self._redacted(part["payload"])}
                return (Draft(Kind.DEBUG, {"value": _debug(native(redacted))}, ns, at),)
            case _:
                return ()

    def _redacted(self, task: dict[str, Any]) -> dict[str, Any]:
        """A task, or a checkpoint, without the messages of errors that clients must not receive."""
        error = task.get("error")
        return {**task, "error": self._errors.redact(error)} if isinstance(error, BaseException) else task

    @staticmethod
    def _custom(ns: Namespace, part: Any, at: int) -> Draft:
        if isinstance(part, DispatchedEvent):
            return Draft(Kind.DISPATCHED, {"name": part.name, "data": part.data}, ns, at)
        if isinstance(part, ToolEvent):
            return Draft(Kind.TOOL, native(part.data), ns, at)
        return Draft(Kind.CUSTOM, {"value": native(part)}, ns, at)

    # -- messages ------------------------------------------------------------------------------------------------

    def _message(self, ns: Namespace, message: BaseMessage, meta: Any, at: int) -> Draft:
        known = self._messages.get(message.id)
        fields = message.__dict__
        if known is not None and self._same_stream(known.meta, meta):
            return Draft(Kind.MESSAGES, self._delta(known, fields), ns, at)
        (self._seen_below if ns else self._seen_at_root).add(message.id)
        index = self._message_count
        self._message_count += 1
        streamed = isinstance(message, BaseMessageChunk)
        if streamed:
            self._messages[message.id] = _Message(index, dict(fields), meta)
        data = {"i": index, "chunk" if streamed else "message": native(message), "meta": native(meta)}
        return Draft(Kind.MESSAGES, data, ns, at)

    @staticmethod
    def _delta(known: _Message, fields: dict[str, Any]) -> Json:
        content = fields["content"]
        before = known.fields
        if type(content) is str:
            before["content"] = content
            if before == fields:
                return [known.index, content]
        patch = {name: value for name, value in fields.items() if name == "content" or before.get(name) != value}
        patch.update({name: None for name in before if name not in fields})
        known.fields = dict(fields)
        return {"i": known.index, "patch": native(patch)}

    def _whole_messages(self, node: str, update: Any, at: int) -> Iterable[Draft]:
        """Messages that were streamed inside a subgraph and are now returned by its node at the root (spec 6.4a)."""
        for message in _messages_in(update):
            if message.id in self._seen_at_root or message.id not in self._seen_below:
                continue
            self._seen_at_root.add(message.id)
            index = self._message_count
            self._message_count += 1
            data = {"i": index, "message": native(message), "meta": self._node_metadata(node), "root": True}
            yield Draft(Kind.MESSAGES, data, (), at)

    def _node_metadata(self, node: str) -> Json:
        """The metadata that LangGraph adds to messages returned by a root node."""
        task = self._root_tasks.get(node, {})
        added = node_metadata(
            node, step=self._root_step + 1, task_id=task.get("id", ""), triggers=task.get("triggers", ())
        )
        return {**native(dict(self._base_metadata)), **added}

    # -- state ---------------------------------------------------------------------------------------------------

    def _state(self, ns: Namespace, values: Any, at: int) -> Draft:
        state = self._states.at(ns)
        if not isinstance(values, dict) or any(type(key) is not str for key in values):
            state.values = None  # an entrypoint may return anything, even a dict whose keys are not strings
            return Draft(Kind.STATE, {"full": True, "value": native(values)}, ns, at)
        data = state.changes(values)
        if not ns and self.narrow and self._unstreamed.values is None:
            data["partial"] = True
        return Draft(Kind.STATE, data, ns, at)

    def _unstreamed_changes(self, values: Any) -> dict[str, Any]:
        """The changes of those values of a root checkpoint that `values` parts do not show (spec 6.8a)."""
        if not isinstance(values, dict):
            return {}
        shown = self._states.at(()).values or {}
        return self._unstreamed.changes({key: value for key, value in values.items() if key not in shown})

    # -- updates, tasks, checkpoints -----------------------------------------------------------------------------

    def _updates(self, ns: Namespace, part: Any, at: int) -> Sequence[Draft]:
        if not isinstance(part, dict):
            return (Draft(Kind.UPDATES, {"value": native(part)}, ns, at),)
        if INTERRUPT in part:
            return self._interrupted(ns, part, at)
        drafts: list[Draft] = []
        for node, update in part.items():
            self._states.at(ns).note_touched(update)
            if not ns and self._seen_below:
                drafts.extend(self._whole_messages(node, update, at))
        encoded = dumps(part)
        if len(encoded) > LARGE_UPDATE and "updates" not in self._requested:
            data: Json = {"slim": {str(node): _keys_of(update) for node, update in part.items()}}
        else:
            data = {"value": loads(encoded)}
        drafts.append(Draft(Kind.UPDATES, data, ns, at))
        return drafts

    def _interrupted(self, ns: Namespace, part: dict[str, Any], at: int) -> Sequence[Draft]:
        value = native(part)
        update = Draft(Kind.UPDATES, {"value": value}, ns, at)
        if ns:
            return (update,)
        return (Draft(Kind.INPUT_REQUESTED, {"interrupts": value[INTERRUPT]}, ns, at), update)

    def _task(self, ns: Namespace, part: dict[str, Any], at: int) -> Sequence[Draft]:
        full = (Draft(Kind.TASKS, {"value": native(part)}, ns, at),) if "tasks" in self._requested else ()
        slim: dict[str, Any] = {"id": part["id"], "name": part["name"]}
        if "input" in part:
            slim["triggers"] = list(part.get("triggers", ()))
            if (call_id := _tool_call_of(part["input"])) is not None:
                slim["tool_call_id"] = call_id
            if not ns:
                self._root_tasks[part["name"]] = part
        else:
            slim["ended"] = True
            if part.get("error") is not None:
                slim["error"] = native(part["error"])
            if part.get("interrupts"):
                slim["interrupts"] = native(part["interrupts"])
            if not ns:
                self._note_pending(part["id"], slim.get("interrupts"))
                self._unstreamed.note_touched(part.get("result"))  # `updates` parts omit what the output omits
            self._states.task_ended(ns, part["name"], part["id"])
        return (Draft(Kind.TASK, slim, ns, at), *full)

    def _note_pending(self, task_id: str, interrupts: list[Json] | None) -> None:
        if interrupts:
            self.pending[task_id] = interrupts
        else:
            self.pending.pop(task_id, None)

    def _checkpoint(self, ns: Namespace, part: dict[str, Any], at: int) -> Sequence[Draft]:
        metadata = part.get("metadata") or {}
        slim: dict[str, Any] = {
            "id": part["config"]["configurable"].get("checkpoint_id"),
            "parent": ((part.get("parent_config") or {}).get("configurable") or {}).get("checkpoint_id"),
            "step": metadata.get("step"),
            "source": metadata.get("source"),
            "next": list(part.get("next", ())),
        }
        if not ns:
            self.last_values = part["values"]
            self.next = tuple(part.get("next", ()))
            self._root_step = metadata.get("step") or 0
            self.pending.clear()
            # Before the input is applied, the state is that of the previous run.
            if self.narrow and slim["source"] != "input" and (unstreamed := self._unstreamed_changes(part["values"])):
                slim["unstreamed"] = unstreamed
        full = (Draft(Kind.CHECKPOINTS, {"value": native(part)}, ns, at),) if "checkpoints" in self._requested else ()
        return (Draft(Kind.CHECKPOINT, slim, ns, at), *full)


def _tool_call_of(task_input: Any) -> str | None:
    """The tool call that a task executes, if its input is exactly one: a call with its context, or a list of one call,
    which is how LangGraph starts the tasks of a `ToolNode`."""
    if isinstance(task_input, list):
        call = task_input[0] if len(task_input) == 1 else None
    else:
        call = task_input.get("tool_call") if isinstance(task_input, dict) else None
    call_id = call.get("id") if isinstance(call, dict) else None
    return call_id if isinstance(call_id, str) else None


def _difference(before: dict[str, Any], after: dict[str, Any], touched: dict[str, set[int]]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    changed: dict[str, Any] = {}
    splices: dict[str, Any] = {}
    for key, value in after.items():
        if key not in before:
            changed[key] = value
        elif type(value) is list and type(before[key]) is list:
            if (splice := _splice(before[key], value, touched.get(key, _NONE_TOUCHED))) is not None:
                splices[key] = splice
        elif not _same(before[key], value, key in touched):
            changed[key] = value
    if changed:
        data["set"] = native(changed)
    if unset := [key for key in before if key not in after]:
        data["unset"] = unset
    if splices:
        data["splice"] = splices
    if list(before) != list(after):
        data["keys"] = list(after)
    return data


_NONE_TOUCHED: set[int] = set()


def _debug(part: Json) -> Json:
    """A debug part. For a checkpoint, it also identifies the checkpoint in the form used by the rest of the API."""
    if part.get("type") != "checkpoint":
        return part
    payload = part["payload"]
    payload["checkpoint"] = _checkpoint_ref(payload.get("config"))
    payload["parent_checkpoint"] = _checkpoint_ref(payload.get("parent_config"))
    for task in payload.get("tasks", ()):
        if task.get("state"):
            task["checkpoint"] = task.pop("state")["configurable"]
    return part


def _checkpoint_ref(config: Json) -> Json:
    if not config:
        return None
    keys = ("checkpoint_id", "thread_id", "checkpoint_ns", "checkpoint_map")
    return {key: config["configurable"][key] for key in keys if key in config["configurable"]}


def _same(before: Any, after: Any, touched: bool) -> bool:
    if isinstance(after, _SCALARS):
        return type(before) is type(after) and bool(before == after)
    if touched:
        return False  # may have been mutated in place
    if before is after:
        return True
    try:
        return bool(before == after)
    except Exception:  # the equality of e.g. arrays and data frames has no truth value
        return False


def _splice(before: list[Any], after: list[Any], touched: set[int]) -> list[Any] | None:
    """The single replacement that turns `before` into `after`, or None if they are equal."""

    # If the list does not contain the update's own objects, the reducer may have merged them into existing elements in
    # place. The message reducer never does so, but often receives dicts; without this exception, every such update
    # would store the whole list again.
    merged = bool(touched) and not touched.issubset(map(id, after))

    def same(old: Any, new: Any) -> bool:
        return _same(old, new, id(new) in touched or (merged and not isinstance(new, BaseMessage)))

    shorter = min(len(before), len(after))
    head = 0
    while head < shorter and not merged and (new := after[head]) is before[head] and id(new) not in touched:
        head += 1  # covers most of a growing list, so it avoids a call per element
    while head < shorter and same(before[head], after[head]):
        head += 1
    tail = 0
    while tail < shorter - head and same(before[-1 - tail], after[-1 - tail]):
        tail += 1
    dropped = len(before) - head - tail
    items = after[head : len(after) - tail]
    return [head, dropped, native(items)] if dropped or items else None


def _keys_of(update: Any) -> list[str]:
    return [str(key) for key in update] if isinstance(update, Mapping) else []


def _messages_in(update: Any) -> Iterable[BaseMessage]:
    for each in update if isinstance(update, (list, tuple)) else (update,):
        if isinstance(each, BaseMessage):
            yield each
        elif isinstance(each, Mapping):
            for value in each.values():
                items = value if isinstance(value, (list, tuple)) else (value,)
                yield from (item for item in items if isinstance(item, BaseMessage))
