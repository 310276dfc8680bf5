"""How a run, or an assistant, is configured: alike for all that take a `config` and a `context`."""

from typing import Annotated

from pydantic import AfterValidator

from threadwire.protocols.langgraph.decode.body import Object, OptionalObject

MAX_RECURSION = 10_000


def _sound_config(config: Object) -> Object:
    configurable = config.get("configurable") or {}
    if not isinstance(configurable, dict):
        raise ValueError("configurable must be an object")
    _not_ours(configurable, "configurable")
    limit = config.get("recursion_limit")
    if limit is not None and (type(limit) is not int or not 1 <= limit <= MAX_RECURSION):
        raise ValueError(f"recursion_limit must be a whole number from 1 to {MAX_RECURSION}")
    if not isinstance(config.get("tags", []), list) or not isinstance(config.get("metadata", {}), dict):
        raise ValueError("tags must be a list and metadata an object")
    return config


def _sound_context(context: Object) -> Object:
    _not_ours(context, "context")  # it is shown to graphs as `configurable` too
    return context


def _not_ours(given: Object, name: str) -> None:
    if inner := [key for key in given if key.startswith("__")]:
        raise ValueError(f"{name} keys that begin with '__' belong to the server: {inner[0][:60]!r}")


Config = Annotated[OptionalObject, AfterValidator(_sound_config)]
Context = Annotated[OptionalObject, AfterValidator(_sound_context)]
