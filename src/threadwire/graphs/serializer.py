"""The serializer for checkpoints."""

from typing import Any

import structlog
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from threadwire.core.channel_of_value import channel_of
from threadwire.graphs.current_attempt import current_attempt
from threadwire.graphs.fallback_encoding import EXACT_TYPES, FallbackEncoder
from threadwire.graphs.langgraph_private import checkpoint_format
from threadwire.graphs.langgraph_private.message_decoding import decode_plain_messages
from threadwire.graphs.persistence_config import AllowedTypes, CheckpointerConfig

Serializer = SerializerProtocol

logger = structlog.get_logger("threadwire.checkpoints")


def checkpoint_serializer(config: CheckpointerConfig) -> Serializer:
    """Return a serializer that never uses pickle and only constructs types that are known to be safe or that the
    project lists. LangGraph's default trusts every type."""
    serializer = CheckpointSerializer if checkpoint_format.is_known() else JsonPlusSerializer
    restricted: dict[str, Any] = {}
    if checkpoint_format.can_restrict_types():
        restricted["allowed_msgpack_modules"] = _allowed(config.msgpack_modules)
    return serializer(pickle_fallback=False, allowed_json_modules=config.json_modules, **restricted)


_SECRETS = (("pydantic.types", "SecretStr"), ("pydantic.types", "SecretBytes"))
"""Without these, secrets would be read as plain values and shown."""


def _allowed(named: AllowedTypes) -> AllowedTypes:
    return True if named is True else (*(named or ()), *EXACT_TYPES, *_SECRETS)


class CheckpointSerializer(JsonPlusSerializer):
    """Byte-for-byte LangGraph's format, with fast paths for messages and a fallback for unsupported types."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        decode_plain_messages(self)
        self._warned: set[tuple[str, str | None]] = set()

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        if obj is None or isinstance(obj, (bytes, bytearray)):
            return super().dumps_typed(obj)
        try:
            return "msgpack", checkpoint_format.pack(obj)
        except Exception:  # any attribute or method of an object may raise
            return "msgpack", self._pack_fallback(obj)

    def _pack_fallback(self, obj: Any) -> bytes:
        packing = FallbackEncoder()
        packed = packing.pack(obj)
        for kind in sorted(packing.rendered):
            self._warn(kind, channel_of(obj))
        return packed

    def _warn(self, kind: str, channel: str | None) -> None:
        """Warn once per type and channel: a state is written at every step, so its warnings would fill the log."""
        if (kind, channel) in self._warned or len(self._warned) >= _MAX_WARNINGS:
            return
        self._warned.add((kind, channel))
        attempt = current_attempt.get()
        logger.warning(
            "checkpoint_value_stored_as_json",
            type=kind,
            channel=channel,
            run_id=None if attempt is None else attempt.run_id,
            effect="A checkpoint cannot store values of this type. When read back, the value is its JSON rendering.",
        )


_MAX_WARNINGS = 1000
