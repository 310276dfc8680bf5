"""Decoding the messages of a checkpoint without validating them again.

**For:** reading the state of a conversation decodes all its messages, and pydantic spends most of that time on
validation. A stored message with all fields of its class was valid when it was stored. LangGraph itself falls back to
the same construction for a message that is not valid.

**Changed LangGraph:** a trial shows that the serializer does not use the hook. Then LangGraph decodes all messages.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import ormsgpack
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import EXT_PYDANTIC_V2, JsonPlusSerializer

from threadwire.graphs.langgraph_private.fallbacks import report_fallback

ExtHook = Callable[[int, bytes], Any]

_KINDS: dict[tuple[str, str], type[BaseMessage]] = {
    (kind.__module__, kind.__name__): kind for kind in (AIMessage, HumanMessage, SystemMessage, ToolMessage)
}
_FIELDS = {kind: frozenset(kind.model_fields) for kind in _KINDS.values()}


def decode_plain_messages(serializer: JsonPlusSerializer) -> None:
    """Let a serializer decode plain messages without validating them."""
    if _hook_is_used():
        serializer._unpack_ext_hook = _decoding_messages(serializer._unpack_ext_hook)


@cache
def _hook_is_used() -> bool:
    try:
        serializer, marker = JsonPlusSerializer(), object()
        stored, original = serializer.dumps_typed(HumanMessage("a")), serializer._unpack_ext_hook
        serializer._unpack_ext_hook = lambda code, data: marker if code == EXT_PYDANTIC_V2 else original(code, data)
        if serializer.loads_typed(stored) is marker:
            return True
        reason = "the serializer does not use its hook"
    except Exception as error:  # a private name may fail in any way once it has changed
        reason = str(error) or repr(error)
    report_fallback("message decoding", reason=reason, effect="Reading the state of a long conversation takes longer.")
    return False


def _decoding_messages(decode: ExtHook) -> ExtHook:
    """Return an extension hook that decodes plain messages, and everything else with `decode`."""

    def hook(code: int, data: bytes) -> Any:
        message = _message(data, hook) if code == EXT_PYDANTIC_V2 else None
        return decode(code, data) if message is None else message

    return hook


def _message(data: bytes, hook: ExtHook) -> BaseMessage | None:
    """The message that LangGraph would return; None if it has to be validated, or is not a message."""
    try:
        module, name, fields, _ = ormsgpack.unpackb(data, ext_hook=hook, option=ormsgpack.OPT_NON_STR_KEYS)
        kind = _KINDS.get((module, name))
        return _construct(kind, fields) if kind is not None and _is_plain(kind, fields) else None
    except (TypeError, ValueError):  # another format
        return None


def _is_plain(kind: type[BaseMessage], fields: dict[str, Any]) -> bool:
    """Whether the class would take these fields as they are. It rewrites tool calls, and finds those that old versions
    stored in `additional_kwargs`."""
    return (
        fields.keys() == _FIELDS[kind]
        and type(fields["content"]) is str
        and type(fields["additional_kwargs"]) is dict
        and "tool_calls" not in fields["additional_kwargs"]
        and not fields.get("tool_calls")
        and not fields.get("invalid_tool_calls")
    )


def _construct(kind: type[BaseMessage], fields: dict[str, Any]) -> BaseMessage:
    message = kind.__new__(kind)
    for name, value in (
        ("__dict__", fields),
        ("__pydantic_fields_set__", set(fields)),
        ("__pydantic_extra__", {}),
        ("__pydantic_private__", None),
    ):
        object.__setattr__(message, name, value)
    return message
