"""Streamed messages as events: text, reasoning, tool calls with their arguments, tool results."""

from collections.abc import Callable, Sequence
from typing import Any

from threadwire.core.encoding import Message
from threadwire.core.entries import Entry, Json, Namespace
from threadwire.core.json import dumps
from threadwire.protocols.ag_ui import spans
from threadwire.protocols.ag_ui.client_view import ClientView, PartialMessage
from threadwire.protocols.ag_ui.messages import (
    base_type,
    calls_of,
    reasoning_id,
    reasoning_of,
    shown_messages,
    text_of,
    tool_content,
    tool_message,
)
from threadwire.protocols.ag_ui.placeholders import Placeholders
from threadwire.protocols.ag_ui.spans import OpenSpans
from threadwire.protocols.ag_ui.wire import Event, event

_EMIT_MESSAGES = ("emit-messages", "copilotkit:emit-messages")
_EMIT_TOOL_CALLS = ("emit-tool-calls", "copilotkit:emit-tool-calls")
_PREDICTIONS = ("predict_state", "copilotkit:emit-intermediate-state")


class _Streamed:
    """A message that arrives in chunks, as of the last chunk."""

    __slots__ = (
        "calls",
        "fields",
        "id",
        "is_hidden",
        "key",
        "meta",
        "ns",
        "only_text",
        "prefix",
        "shown",
        "task",
        "tools",
    )

    def __init__(self, message_id: str, fields: dict[str, Json], meta: dict[str, Json], ns: Namespace) -> None:
        self.id = message_id
        self.key = ("text", message_id)
        self.fields = fields
        self.meta = meta
        self.ns = ns
        self.task = _task_of(meta)
        self.is_hidden = any(meta.get(name) is False for name in _EMIT_MESSAGES)
        self.tools = _emitted_tools(meta)
        self.calls: dict[Json, str] = {}
        self.shown: PartialMessage | None = None
        """The client's copy, to which text is appended while the message is open."""
        self.prefix = b'{"type":"TEXT_MESSAGE_CONTENT","messageId":' + dumps(message_id) + b',"delta":'
        self.only_text = False
        """Whether a next chunk with nothing but text can be encoded without inspecting anything else."""


class MessageStream:
    def __init__(
        self, view: ClientView, placeholders: Placeholders, opened: OpenSpans, owner: Callable[[Namespace], str | None]
    ) -> None:
        self._view = view
        self._placeholders = placeholders
        self._open = opened
        self._owner = owner
        self._streamed: dict[int, _Streamed] = {}
        self._usage: dict[tuple[str, str], dict[str, int]] = {}

    def forget(self) -> None:
        """Start a new attempt, which numbers its messages from zero. Open messages have been closed before."""
        self._streamed.clear()

    # -- entries -------------------------------------------------------------------------------------------------

    def token(self, data: Json) -> Sequence[Message] | None:
        """The message of a chunk that only appends text, as nearly every entry does; None for other entries."""
        if type(data) is not list:
            return None
        index, text = data
        streamed = self._streamed[index]
        if not streamed.only_text or streamed.shown is None or streamed.key not in self._open.keys:
            return None
        if not text:
            return ()
        streamed.shown.append_text(text)
        return [(b"", streamed.prefix + dumps(text) + b"}")]

    def feed(self, entry: Entry) -> list[Event]:
        data = entry.data
        if type(data) is list:
            streamed = self._streamed[data[0]]
            streamed.fields = {**streamed.fields, "content": data[1]}
            return self._chunk(streamed)
        if "patch" in data:
            streamed = self._streamed[data["i"]]
            streamed.fields = {**streamed.fields, **data["patch"]}
            if data["patch"].get("usage_metadata"):
                self._add_usage(streamed.meta, data["patch"]["usage_metadata"])
            return self._chunk(streamed)
        if "chunk" in data:
            return self._begin(entry, data)
        if data.get("root"):
            return []
        return self._complete(data["message"], data["meta"] or {}, entry.ns)

    def _begin(self, entry: Entry, data: dict[str, Any]) -> list[Event]:
        message_id = str(data["chunk"].get("id") or f"{entry.run_id}:{data['i']}")
        streamed = self._streamed[data["i"]] = _Streamed(message_id, data["chunk"], data["meta"] or {}, entry.ns)
        if data["chunk"].get("usage_metadata"):
            self._add_usage(streamed.meta, data["chunk"]["usage_metadata"])
        return self._chunk(streamed)

    # -- chunks --------------------------------------------------------------------------------------------------

    def _chunk(self, streamed: _Streamed) -> list[Event]:
        fields = streamed.fields
        streamed.only_text = False
        if base_type(fields) != "ai":
            return []
        content, extra = fields.get("content"), fields.get("additional_kwargs")
        calls = fields.get("tool_call_chunks") or ()
        events: list[Event] = []
        if not streamed.is_hidden:
            if reasoning := reasoning_of(content, extra):
                events += self._append_reasoning(streamed, reasoning)
            if text := text_of(content):
                events += self._append_text(streamed, text)
        for call in calls:
            events += self._append_call(streamed, call)
        if fields.get("chunk_position") == "last":
            return events + self._close(streamed)
        streamed.only_text = not (streamed.is_hidden or calls or extra or isinstance(content, list))
        return events

    def _append_reasoning(self, streamed: _Streamed, text: str) -> list[Event]:
        message_id = reasoning_id(streamed.id)
        events = self._close_text(streamed)
        if ("reasoning", message_id) not in self._open:
            span = spans.reasoning(message_id, self._owner(streamed.ns), streamed.ns, streamed.task)
            events += self._open.open(("reasoning", message_id), span)
        self._view.get_or_add({"id": message_id, "role": "reasoning", "content": ""}).append_text(text)
        return [*events, event("REASONING_MESSAGE_CONTENT", messageId=message_id, delta=text)]

    def _append_text(self, streamed: _Streamed, text: str) -> list[Event]:
        events: list[Event] = []
        if streamed.key not in self._open:
            events += self._open.close(("reasoning", reasoning_id(streamed.id))) + self._close_calls(streamed)
            name, owner = streamed.fields.get("name") or None, self._owner(streamed.ns)
            span = spans.text(streamed.id, "assistant", name, owner, streamed.ns, streamed.task)
            events += self._open.open(streamed.key, span)
            streamed.shown = self._view.get_or_add(_tagged(_assistant(streamed.id, name), owner))
        assert streamed.shown is not None
        streamed.shown.append_text(text)
        return [*events, event("TEXT_MESSAGE_CONTENT", messageId=streamed.id, delta=text)]

    def _append_call(self, streamed: _Streamed, call: dict[str, Json]) -> list[Event]:
        index = call.get("index")
        events: list[Event] = []
        call_id = streamed.calls.get(index)
        if call_id is None or (call.get("id") and call["id"] != call_id):
            events += self._close_text(streamed) + self._open.close(("reasoning", reasoning_id(streamed.id)))
            events += self._close_calls(streamed)
            call_id = str(call.get("id") or f"{streamed.id}:{len(streamed.calls)}")
            streamed.calls[index] = call_id
            events += self._begin_call(streamed, call_id, str(call.get("name") or ""))
        arguments = call.get("args")
        if arguments and ("call", call_id) in self._open:
            self._message(streamed).append_arguments(call_id, str(arguments))
            events.append(event("TOOL_CALL_ARGS", toolCallId=call_id, delta=str(arguments)))
        return events

    def _begin_call(self, streamed: _Streamed, call_id: str, name: str) -> list[Event]:
        if streamed.tools is not None and name not in streamed.tools:
            return []
        message = self._message(streamed)
        if message.has_call(call_id):  # a client would append the arguments to those it has
            return []
        predicted = _predictions(streamed.meta, name)
        message.add_call(call_id, name)
        span = spans.call(call_id, name, streamed.id, self._owner(streamed.ns), streamed.ns, streamed.task)
        return predicted + self._open.open(("call", call_id), span)

    def _message(self, streamed: _Streamed) -> PartialMessage:
        owner = self._owner(streamed.ns)
        return self._view.get_or_add(_tagged({"id": streamed.id, "role": "assistant"}, owner))

    def _close_text(self, streamed: _Streamed) -> list[Event]:
        return self._open.close(streamed.key)

    def _close_calls(self, streamed: _Streamed) -> list[Event]:
        return [each for call_id in streamed.calls.values() for each in self._open.close(("call", call_id))]

    def _close(self, streamed: _Streamed) -> list[Event]:
        reasoning_ends = self._open.close(("reasoning", reasoning_id(streamed.id)))
        return self._close_text(streamed) + self._close_calls(streamed) + reasoning_ends

    # -- complete messages ---------------------------------------------------------------------------------------

    def _complete(self, message: dict[str, Json], meta: dict[str, Json], ns: Namespace) -> list[Event]:
        kind = base_type(message)
        message_id = message.get("id")
        if message_id is None or message_id in self._view or kind not in ("ai", "tool"):
            return []  # sent before, or sent with the state that contains it
        if kind == "tool":
            return self._tool_result(message, str(message_id), self._owner(ns))
        if message.get("usage_metadata"):
            self._add_usage(meta, message["usage_metadata"])
        streamed = _Streamed(str(message_id), message, meta, ns)
        events: list[Event] = []
        if self._placeholders.remove_for(shown_messages([message])):
            events.append(event("MESSAGES_SNAPSHOT", messages=self._view.without_activities()))
        if not streamed.is_hidden:
            if reasoning := reasoning_of(message.get("content"), message.get("additional_kwargs")):
                events += self._append_reasoning(streamed, reasoning)
            if text := text_of(message.get("content")):
                events += self._append_text(streamed, text)
        for index, call in enumerate(calls_of(message, streamed.id)):
            events += self._append_call(streamed, {**call, "index": index})
        return events + self._close(streamed)

    def _tool_result(self, message: dict[str, Json], message_id: str, owner: str | None) -> list[Event]:
        self._view.put(_tagged(tool_message(message, message_id), owner))
        return [
            event(
                "TOOL_CALL_RESULT",
                messageId=message_id,
                toolCallId=str(message.get("tool_call_id") or ""),
                content=tool_content(message.get("content")),
                role="tool",
                subagentRunId=owner,
            )
        ]

    # -- usage ---------------------------------------------------------------------------------------------------

    def _add_usage(self, meta: dict[str, Json], usage: dict[str, Json]) -> None:
        key = (str(meta.get("ls_provider") or ""), str(meta.get("ls_model_name") or ""))
        totals = self._usage.setdefault(key, {})
        details = {**(usage.get("input_token_details") or {}), **(usage.get("output_token_details") or {})}
        for name, value in (
            ("inputTokens", usage.get("input_tokens")),
            ("outputTokens", usage.get("output_tokens")),
            ("totalTokens", usage.get("total_tokens")),
            ("reasoningTokens", details.get("reasoning")),
            ("cachedInputTokens", details.get("cache_read")),
            ("cacheWriteInputTokens", details.get("cache_creation")),
        ):
            if isinstance(value, int):
                totals[name] = totals.get(name, 0) + value

    def usage(self) -> list[Json]:
        return [
            {
                **({"provider": provider} if provider else {}),
                **({"model": model} if model else {}),
                **totals,
            }
            for (provider, model), totals in self._usage.items()
        ]


def _assistant(message_id: str, name: str | None) -> dict[str, Json]:
    shown: dict[str, Json] = {"id": message_id, "role": "assistant", "content": ""}
    return {**shown, "name": name} if name else shown


def _tagged(message: dict[str, Json], owner: str | None) -> dict[str, Json]:
    return message if owner is None else {**message, "subagentRunId": owner}


def _emitted_tools(meta: dict[str, Json]) -> frozenset[str] | None:
    """The tools whose calls are sent, if the metadata names some or excludes all; None for all tools."""
    for name in _EMIT_TOOL_CALLS:
        match meta.get(name):
            case False:
                return frozenset()
            case str(tool):
                return frozenset({tool})
            case list(tools):
                return frozenset(map(str, tools))
    return None


def _predictions(meta: dict[str, Json], tool: str) -> list[Event]:
    """Which keys of the state a call's arguments will become, for clients that show the state while they arrive."""
    for name in _PREDICTIONS:
        value = meta.get(name)
        if isinstance(value, list) and any(isinstance(each, dict) and each.get("tool") == tool for each in value):
            return [event("CUSTOM", name="PredictState", value=value)]
    return []


def _task_of(meta: dict[str, Json]) -> str | None:
    """The task in which the model runs: the last part of its checkpoint namespace."""
    path = str(meta.get("langgraph_checkpoint_ns") or meta.get("checkpoint_ns") or "")
    return path.rpartition("|")[2].partition(":")[2] or None
