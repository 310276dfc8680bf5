"""How checkpoints are written and, what matters more, read."""

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from threadwire.graphs.persistence import CheckpointerConfig

Serializer = SerializerProtocol


def checkpoint_serializer(config: CheckpointerConfig) -> Serializer:
    """Said in so many words, because the default trusts every type: never a pickle, and only types that are known to
    be safe or that the project names."""
    return JsonPlusSerializer(
        pickle_fallback=False,
        allowed_json_modules=config.json_modules,
        allowed_msgpack_modules=config.msgpack_modules,
    )
