"""The default serializer of checkpoints."""

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer


def strict_serializer() -> JsonPlusSerializer:
    """No pickle, and only types that are known to be safe. Explicit, because LangGraph's default trusts every type."""
    try:
        return JsonPlusSerializer(pickle_fallback=False, allowed_msgpack_modules=None)
    except TypeError:  # langgraph-checkpoint 4.0.0 cannot restrict types
        return JsonPlusSerializer(pickle_fallback=False)
