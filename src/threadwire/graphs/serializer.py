"""How checkpoints are written and, what matters more, read."""

from typing import Any

import ormsgpack
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from threadwire.graphs.persistence import CheckpointerConfig

Serializer = SerializerProtocol


def checkpoint_serializer(config: CheckpointerConfig) -> Serializer:
    """Said in so many words, because the default trusts every type: never a pickle, and only types that are known to
    be safe or that the project names."""
    serializer = QuickSerializer if _QUICK else JsonPlusSerializer
    return serializer(
        pickle_fallback=False,
        allowed_json_modules=config.json_modules,
        allowed_msgpack_modules=config.msgpack_modules,
    )


class QuickSerializer(JsonPlusSerializer):
    """LangGraph's own, byte for byte, with a short cut for messages.

    A conversation is serialised anew with each of its steps, and most of that is pydantic copying each message into a
    dict. A message whose fields are plain data is that dict already.
    """

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        if type(obj) is list or type(obj) is dict:
            try:
                return "msgpack", ormsgpack.packb(obj, default=_packed, option=jsonplus._option)
            except ormsgpack.MsgpackEncodeError:
                pass  # to be refused in the usual words
        return super().dumps_typed(obj)


# These two are private to LangGraph, so a version without them is left as it is.
_QUICK = hasattr(jsonplus, "_msgpack_default") and hasattr(jsonplus, "_option")

_FIELDS = {kind: len(kind.model_fields) for kind in (AIMessage, HumanMessage, SystemMessage, ToolMessage)}


def _packed(obj: Any) -> Any:
    """What msgpack has no form for, in the form LangGraph gives it."""
    kind = type(obj)
    if kind in _FIELDS and len(obj.__dict__) == _FIELDS[kind] and not obj.__pydantic_extra__:
        named = (kind.__module__, kind.__name__, obj.__dict__, "model_validate_json")
        try:
            data = ormsgpack.packb(named, default=_not_plain, option=jsonplus._option)
        except ormsgpack.MsgpackEncodeError:
            pass  # a field holds something that pydantic would first make plain
        else:
            return ormsgpack.Ext(jsonplus.EXT_PYDANTIC_V2, data)
    return jsonplus._msgpack_default(obj)


def _not_plain(obj: Any) -> Any:
    raise TypeError
