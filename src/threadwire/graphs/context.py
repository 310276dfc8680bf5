"""A run's context arrives as JSON; a graph, or a factory, may name a class for it."""

import dataclasses
import inspect
from typing import Any

from pydantic import BaseModel


def fitting(context: Any, schema: Any) -> Any:
    """What of a context such a class can be made from: the keys it has fields for. Clients that configure all graphs
    alike send more.

    Without any, nothing at all (None), unless every field has a default. What names no fields takes what there is.
    """
    if not isinstance(context, dict | None) or (fields := _fields(schema)) is None:
        return context or None
    known = {key: value for key, value in (context or {}).items() if key in fields}
    return known if known or not any(fields.values()) else None


def made(context: Any, schema: Any) -> Any:
    """The context as an instance of the class, if it is one."""
    fits = fitting(context, schema)
    return schema(**fits) if isinstance(fits, dict) and _fields(schema) is not None else fits


def _fields(schema: Any) -> dict[str, bool] | None:
    """The names a class takes, and whether each is required; None for what is no class of fields, or takes any."""
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
        nothing = dataclasses.MISSING
        return {
            field.name: field.default is nothing and field.default_factory is nothing
            for field in dataclasses.fields(schema)
            if field.init
        }
    return None
