"""LangGraph's msgpack format of checkpoints.

**For:** the fallback encoding of unsupported types, and a fast path for messages. A conversation is serialized again at
every step, and pydantic spends most of that time copying each message into a dict. For a message whose fields are plain
data, `__dict__` already is that dict. Both need LangGraph's options for msgpack, its codes of extension types, and its
`default` function, with another function for the contents of objects.

**Changed LangGraph:** a trial fails, or does not produce the same bytes as LangGraph's serializer. Then LangGraph's
serializer is used unchanged: it is slower, and a run fails at a value that it does not support.

**langgraph-checkpoint 4.0.0** cannot restrict the types that it constructs when it reads a checkpoint; this is
detected from its signature. Then it constructs every type, as LangGraph does by default.
"""

import inspect
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import ormsgpack
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from threadwire.graphs.langgraph_private.fallbacks import report_fallback

_FIELD_COUNTS: dict[type, int] = {
    kind: len(kind.model_fields) for kind in (AIMessage, HumanMessage, SystemMessage, ToolMessage)
}


@cache
def is_known() -> bool:
    """Whether `pack` and the other functions here produce LangGraph's format."""
    samples: list[BaseMessage] = [
        AIMessage("a", id="1", tool_calls=[{"name": "t", "args": {"x": 1}, "id": "c", "type": "tool_call"}]),
        HumanMessage([{"type": "text", "text": "a"}], additional_kwargs={"sent": {1, 2}}),
        SystemMessage("a"),
        ToolMessage("a", tool_call_id="c", artifact=(1, "a")),
    ]
    try:
        sample = {"messages": samples, "words": frozenset({"a"})}
        if pack(sample) == JsonPlusSerializer().dumps_typed(sample)[1]:
            return True
        reason = "the format of checkpoints differs"
    except Exception as error:  # a private name may fail in any way once it has changed
        reason = str(error) or repr(error)
    effect = "Checkpoints are written more slowly, and a value of an unsupported type in a state fails the run."
    report_fallback("checkpoint format", reason=reason, effect=effect)
    return False


def pack(value: Any) -> bytes:
    """Encode a value as LangGraph does. Raise if it contains a value of an unsupported type."""
    return pack_plain(value, _default)


def pack_plain(value: Any, default: Callable[[Any], Any] | None = None) -> bytes:
    """Encode a value, with `default` for what msgpack does not support."""
    return ormsgpack.packb(value, default=default, option=jsonplus._option)


def pack_constructor(kind: type, arguments: tuple[Any, ...], pack_contents: Callable[[Any], bytes]) -> ormsgpack.Ext:
    """A value that is read by calling its type with these arguments."""
    contents = pack_contents((kind.__module__, kind.__name__, arguments))
    return ormsgpack.Ext(jsonplus.EXT_CONSTRUCTOR_POS_ARGS, contents)


def langgraph_default(pack_contents: Callable[[Any], bytes]) -> Callable[[Any], Any]:
    """LangGraph's `default` function for objects that msgpack does not support, with `pack_contents` for their
    contents."""
    function = jsonplus._msgpack_default
    return FunctionType(function.__code__, {**vars(jsonplus), "_msgpack_enc": pack_contents})


@cache
def _own_default() -> Callable[[Any], Any]:
    return langgraph_default(pack)


def _default(obj: Any) -> Any:
    """Convert an object that msgpack does not support to LangGraph's format."""
    kind = type(obj)
    if kind in _FIELD_COUNTS and len(obj.__dict__) == _FIELD_COUNTS[kind] and not obj.__pydantic_extra__:
        constructor = (kind.__module__, kind.__name__, obj.__dict__, "model_validate_json")
        try:
            data = ormsgpack.packb(constructor, default=_reject, option=jsonplus._option)
        except ormsgpack.MsgpackEncodeError:
            pass  # a field is not plain data; pydantic has to convert it
        else:
            return ormsgpack.Ext(jsonplus.EXT_PYDANTIC_V2, data)
    if isinstance(obj, type):
        raise TypeError  # LangGraph would mistake a class for an instance
    return _own_default()(obj)


def _reject(obj: Any) -> Any:
    raise TypeError


@cache
def can_restrict_types() -> bool:
    """Whether the serializer can be limited to types that are known to be safe."""
    if "allowed_msgpack_modules" in inspect.signature(JsonPlusSerializer).parameters:
        return True
    effect = "Reading a checkpoint may construct any type. langgraph-checkpoint 4.0.1 and later restrict the types."
    report_fallback("types of checkpoints", reason="JsonPlusSerializer has no allowed_msgpack_modules", effect=effect)
    return False
