"""The serializer for checkpoints."""

from typing import Any

import ormsgpack
import structlog
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from threadwire.core.channel_context import channel_of
from threadwire.graphs.current_attempt import current_attempt
from threadwire.graphs.fallback_encoding import EXACT_TYPES, FallbackEncoder, langgraph_default
from threadwire.graphs.persistence_config import AllowedTypes, CheckpointerConfig

Serializer = SerializerProtocol

logger = structlog.get_logger("threadwire.checkpoints")


def checkpoint_serializer(config: CheckpointerConfig) -> Serializer:
    """Return a serializer that never uses pickle and only constructs types that are known to be safe or that the
    project lists. LangGraph's default trusts every type."""
    serializer = CheckpointSerializer if _PRIVATE_NAMES_EXIST else JsonPlusSerializer
    return serializer(
        pickle_fallback=False,
        allowed_json_modules=config.json_modules,
        allowed_msgpack_modules=_allowed(config.msgpack_modules),
    )


_SECRETS = (("pydantic.types", "SecretStr"), ("pydantic.types", "SecretBytes"))
"""Without these, secrets would be read as plain values and shown."""


def _allowed(named: AllowedTypes) -> AllowedTypes:
    return True if named is True else (*(named or ()), *EXACT_TYPES, *_SECRETS)


class CheckpointSerializer(JsonPlusSerializer):
    """Byte-for-byte LangGraph's format, with a fast path for messages and a fallback for unsupported types.

    A conversation is serialised again at every step, and pydantic spends most of that time copying each message into a
    dict. For a message whose fields are plain data, `__dict__` already is that dict.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._warned: set[tuple[str, str | None]] = set()

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        if obj is None or isinstance(obj, (bytes, bytearray)):
            return super().dumps_typed(obj)
        try:
            return "msgpack", _pack(obj)
        except Exception:  # any attribute or method of an object may raise
            return "msgpack", self._pack_fallback(obj)

    def _pack_fallback(self, obj: Any) -> bytes:
        packing = FallbackEncoder()
        packed = packing.pack(obj)
        for kind in sorted(packing.rendered):
            self._warn(kind, channel_of(obj))
        return packed

    def _warn(self, kind: str, channel: str | None) -> None:
        """Warn once per type and channel; a state is written at every step and would fill the log."""
        if (kind, channel) in self._warned or len(self._warned) >= _MAX_WARNINGS:
            return
        self._warned.add((kind, channel))
        attempt = current_attempt.get()
        logger.warning(
            "checkpoint_value_stored_as_json",
            type=kind,
            channel=channel,
            run_id=None if attempt is None else attempt.run_id,
            hint="A checkpoint cannot store values of this type. When read back, the value is its JSON rendering.",
        )


_MAX_WARNINGS = 1000

# Private names of LangGraph. If a version lacks one, its own serializer is used unchanged.
_PRIVATE_NAMES_EXIST = all(hasattr(jsonplus, name) for name in ("_msgpack_default", "_msgpack_enc", "_option"))

_FIELD_COUNTS = {kind: len(kind.model_fields) for kind in (AIMessage, HumanMessage, SystemMessage, ToolMessage)}


def _pack(obj: Any) -> bytes:
    return ormsgpack.packb(obj, default=_default, option=jsonplus._option)


def _default(obj: Any) -> Any:
    """Convert an object that msgpack does not support, in LangGraph's format."""
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
    return _langgraph_default(obj)


def _reject(obj: Any) -> Any:
    raise TypeError


_langgraph_default = langgraph_default(_pack) if _PRIVATE_NAMES_EXIST else _reject
