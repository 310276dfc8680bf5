"""Convert a run's JSON context to the context schema of a graph or a factory."""

import dataclasses
import inspect
from typing import Any

from pydantic import BaseModel


def matching_context(context: Any, schema: Any) -> Any:
    """Return the part of a context that the schema accepts: the keys it has fields for.

    Extra keys are dropped, because some clients send the same context to every graph. If no key is left, return None
    unless every field has a default. A schema without declared fields accepts the context unchanged.
    """
    if not isinstance(context, dict | None) or (fields := _fields(schema)) is None:
        return context or None
    known = {key: value for key, value in (context or {}).items() if key in fields}
    return known if known or not any(fields.values()) else None


def build_context(context: Any, schema: Any) -> Any:
    """Return the context as an instance of the schema if the schema is a class with fields."""
    accepted = matching_context(context, schema)
    return schema(**accepted) if isinstance(accepted, dict) and _fields(schema) is not None else accepted


def _fields(schema: Any) -> dict[str, bool] | None:
    """Map each field name to whether it is required; None if the schema declares no fields or allows extra ones."""
    if not inspect.isclass(schema):
        return None
    if issubclass(schema, BaseModel):
        if schema.model_config.get("extra") == "allow":
            return None
        return {
            name: field.is_required()
            for key, field in schema.model_fields.items()
            for name in {key, field.alias or key}
        }
    if dataclasses.is_dataclass(schema):
        missing = dataclasses.MISSING
        return {
            field.name: field.default is missing and field.default_factory is missing
            for field in dataclasses.fields(schema)
            if field.init
        }
    return None
