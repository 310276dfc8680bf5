"""How checkpoints are written and, what matters more, read."""

from typing import Any

import ormsgpack
import structlog
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from threadwire.core.channels import channel_of
from threadwire.graphs.current_attempt import current_attempt
from threadwire.graphs.odd_values import EXACT, Packing, as_langgraph
from threadwire.graphs.persistence import CheckpointerConfig, Modules

Serializer = SerializerProtocol

logger = structlog.get_logger("threadwire.checkpoints")


def checkpoint_serializer(config: CheckpointerConfig) -> Serializer:
    """Said in so many words, because the default trusts every type: never a pickle, and only types that are known to
    be safe or that the project names."""
    serializer = CheckpointSerializer if _FAMILIAR else JsonPlusSerializer
    return serializer(
        pickle_fallback=False,
        allowed_json_modules=config.json_modules,
        allowed_msgpack_modules=_allowed(config.msgpack_modules),
    )


_SECRETS = (("pydantic.types", "SecretStr"), ("pydantic.types", "SecretBytes"))
"""Otherwise they would be read as what they hide, and be shown."""


def _allowed(named: Modules) -> Modules:
    return True if named is True else (*(named or ()), *EXACT, *_SECRETS)


class CheckpointSerializer(JsonPlusSerializer):
    """LangGraph's own, byte for byte, with a short cut for messages, and a way for what LangGraph refuses.

    A conversation is serialised anew with each of its steps, and most of that is pydantic copying each message into a
    dict. A message whose fields are plain data is that dict already.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._told: set[tuple[str, str | None]] = set()

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        if obj is None or isinstance(obj, (bytes, bytearray)):
            return super().dumps_typed(obj)
        try:
            return "msgpack", _pack(obj)
        except Exception:  # an object may raise whatever is asked of it
            return "msgpack", self._pack_odd(obj)

    def _pack_odd(self, obj: Any) -> bytes:
        packing = Packing()
        packed = packing.pack(obj)
        for kind in sorted(packing.rendered):
            self._tell(kind, channel_of(obj))
        return packed

    def _tell(self, kind: str, channel: str | None) -> None:
        """Once for each type in each channel, or a state that is written with every step would fill the log."""
        if (kind, channel) in self._told or len(self._told) >= _MOST_TOLD:
            return
        self._told.add((kind, channel))
        attempt = current_attempt.get()
        logger.warning(
            "checkpoint_holds_only_json",
            type=kind,
            channel=channel,
            run_id=None if attempt is None else attempt.run_id,
            meaning="a checkpoint cannot hold such a value; read back, it is what was shown of it as JSON",
        )


_MOST_TOLD = 1000

# These are private to LangGraph, so a version without them is left as it is.
_FAMILIAR = all(hasattr(jsonplus, name) for name in ("_msgpack_default", "_msgpack_enc", "_option"))

_FIELDS = {kind: len(kind.model_fields) for kind in (AIMessage, HumanMessage, SystemMessage, ToolMessage)}


def _pack(obj: Any) -> bytes:
    return ormsgpack.packb(obj, default=_object, option=jsonplus._option)


def _object(obj: Any) -> Any:
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
    if isinstance(obj, type):
        raise TypeError  # LangGraph would take a class for one of its objects
    return _as_langgraph(obj)


def _not_plain(obj: Any) -> Any:
    raise TypeError


_as_langgraph = as_langgraph(_pack) if _FAMILIAR else _not_plain
