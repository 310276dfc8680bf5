"""Streamed messages as events: text, reasoning, tool calls with their arguments, tool results."""

from collections.abc import Sequence

from threadwire.core.encoder import Message
from threadwire.core.entries import Entry, Json, Namespace
from threadwire.core.json import dumps
from threadwire.core.message_content import message_type, tool_result_text
from threadwire.core.message_fold import Change, MessageFold
from threadwire.core.message_parts import MessageParts, MessageWithParts
from threadwire.core.open_parts import OpenParts, Part, PartChange, PartDelta, PartStarted
from threadwire.protocols.ag_ui.client_view import ClientView, PartialMessage
from threadwire.protocols.ag_ui.messages import reasoning_id, shown_messages, tool_message
from threadwire.protocols.ag_ui.part_events import PartEvents
from threadwire.protocols.ag_ui.placeholders import Placeholders
from threadwire.protocols.ag_ui.wire import Event, event

_EMIT_MESSAGES = ("emit-messages", "copilotkit:emit-messages")
_EMIT_TOOL_CALLS = ("emit-tool-calls", "copilotkit:emit-tool-calls")
_PREDICTIONS = ("predict_state", "copilotkit:emit-intermediate-state")


class _Streamed(MessageWithParts):
    """A message, and which of its parts clients receive."""

    __slots__ = ("is_hidden", "prefix", "shown", "tools")

    def __init__(self, message_id: str, fields: dict[str, Json], meta: Json, ns: Namespace, change: Change) -> None:
        super().__init__(message_id, fields, meta or {}, ns, change)
        self.is_hidden = any(self.meta.get(name) is False for name in _EMIT_MESSAGES)
        self.tools = _emitted_tools(self.meta)
        self.shown: PartialMessage | None = None
        """The client's copy, to which text is appended while the message is open."""
        self.prefix = b'{"type":"TEXT_MESSAGE_CONTENT","messageId":' + dumps(message_id) + b',"delta":'


class MessageStream:
    def __init__(
        self, view: ClientView, placeholders: Placeholders, opened: OpenParts, part_events: PartEvents
    ) -> None:
        self._view = view
        self._placeholders = placeholders
        self._messages = MessageFold(_Streamed)
        self._parts = MessageParts(opened, self._shows)
        self._part_events = part_events
        self._usage: dict[tuple[str, str], dict[str, int]] = {}

    def forget(self) -> None:
        """Start a new attempt. Open messages have been closed before."""
        self._messages.clear()

    # -- entries -------------------------------------------------------------------------------------------------

    def token(self, data: Json) -> Sequence[Message] | None:
        """The message of a chunk that only appends text, as nearly every entry of a run does; None for others."""
        if type(data) is not list:
            return None
        index, text = data
        streamed = self._messages.streamed[index]
        part, shown = streamed.plain_text, streamed.shown
        if part is None or shown is None or not part.is_open:
            return None
        if not text:
            return ()
        shown.append_text(text)
        return [(b"", streamed.prefix + dumps(text) + b"}")]

    def feed(self, entry: Entry) -> list[Event]:
        message = self._messages.feed(entry)
        if message is None:
            return []
        if message.change == "whole":
            return self._whole(message)
        if message.change != "text" and message.changed.get("usage_metadata"):
            self._add_usage(message.meta, message.changed["usage_metadata"])
        return self._changes(message)

    def _whole(self, message: _Streamed) -> list[Event]:
        fields, kind = message.fields, message_type(message.fields)
        if fields.get("id") is None or message.id in self._view or kind not in ("ai", "tool"):
            return []  # sent before, or sent with the state that contains it
        if kind == "tool":
            return self._tool_result(message)
        if fields.get("usage_metadata"):
            self._add_usage(message.meta, fields["usage_metadata"])
        events: list[Event] = []
        if self._placeholders.remove_for(shown_messages([fields])):
            events.append(event("MESSAGES_SNAPSHOT", messages=self._view.without_activities()))
        return events + self._changes(message)

    def _tool_result(self, message: _Streamed) -> list[Event]:
        owner = self._part_events.subagent(message.ns)
        self._view.put(_tagged(tool_message(message.fields, message.id), owner))
        return [
            event(
                "TOOL_CALL_RESULT",
                messageId=message.id,
                toolCallId=str(message.fields.get("tool_call_id") or ""),
                content=tool_result_text(message.content),
                role="tool",
                subagentRunId=owner,
            )
        ]

    # -- parts ---------------------------------------------------------------------------------------------------

    def _shows(self, message: _Streamed, part: Part) -> bool:
        if part.kind != "call":
            return not message.is_hidden
        if message.tools is not None and part.name not in message.tools:
            return False
        known = self._view.get(message.id)
        return known is None or not known.has_call(part.id)  # a client would append the arguments to those it has

    def _changes(self, message: _Streamed) -> list[Event]:
        events: list[Event] = []
        for change in self._parts.feed(message):
            self._update_view(message, change)
            if isinstance(change, PartStarted) and change.part.kind == "call":
                events += _predictions(message.meta, change.part.name)
            events += self._part_events.of([change])
        return events

    def _update_view(self, message: _Streamed, change: PartChange) -> None:
        """Change the client's messages as the events of this change do."""
        match change:
            case PartStarted(Part(kind="text") as part):
                shown: dict[str, Json] = {"id": message.id, "role": "assistant", "content": ""}
                message.shown = self._in_view(message, {**shown, "name": part.name} if part.name else shown)
            case PartStarted(Part(kind="call") as part):
                self._in_view(message).add_call(part.id, part.name or "")
            case PartDelta(Part(kind="text"), text):
                message.shown = message.shown or self._in_view(message)
                message.shown.append_text(text)
            case PartDelta(Part(kind="call") as part, text):
                shown_message = self._in_view(message)
                shown_message.add_call(part.id, part.name or "")  # a snapshot may have replaced the message
                shown_message.append_arguments(part.id, text)
            case PartDelta(Part(kind="reasoning"), text):
                reasoning = {"id": reasoning_id(message.id), "role": "reasoning", "content": ""}
                self._view.get_or_add(reasoning).append_text(text)

    def _in_view(self, message: _Streamed, shown: dict[str, Json] | None = None) -> PartialMessage:
        shown = shown or {"id": message.id, "role": "assistant"}
        return self._view.get_or_add(_tagged(shown, self._part_events.subagent(message.ns)))

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


def _predictions(meta: dict[str, Json], tool: str | None) -> list[Event]:
    """The keys of the state that a call's arguments will set, for clients that show them while they arrive."""
    for name in _PREDICTIONS:
        value = meta.get(name)
        if isinstance(value, list) and any(isinstance(each, dict) and each.get("tool") == tool for each in value):
            return [event("CUSTOM", name="PredictState", value=value)]
    return []
