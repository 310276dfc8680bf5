"""How a run, or an assistant, is configured: alike for all that take a `config` and a `context`."""

from typing import Annotated

from pydantic import AfterValidator

from threadwire.core.lists import MAX_LISTED
from threadwire.protocols.langgraph.decode.body import Object, OptionalObject


def _sound_config(config: Object) -> Object:
    configurable = config.get("configurable") or {}
    if not isinstance(configurable, dict):
        raise ValueError("configurable must be an object")
    _not_ours(configurable, "configurable")
    tags = config.get("tags", [])
    if not isinstance(tags, list) or len(tags) > MAX_LISTED or not all(isinstance(each, str) for each in tags):
        raise ValueError(f"tags must be a list of at most {MAX_LISTED} texts")
    if not isinstance(config.get("metadata"), dict | None):
        raise ValueError("metadata must be an object")
    return config if config.get("recursion_limit") is None else {**config, "recursion_limit": _steps(config)}


def _steps(config: Object) -> int:
    limit = config["recursion_limit"]
    number = not isinstance(limit, bool) and isinstance(limit, int | float)
    if not number or not 1 <= limit <= 2**53 or limit % 1:
        raise ValueError("recursion_limit must be a whole number of at least 1")
    return int(limit)


def _sound_context(context: Object) -> Object:
    _not_ours(context, "context")  # it is shown to graphs as `configurable` too
    return context


def _not_ours(given: Object, name: str) -> None:
    if inner := [key for key in given if key.startswith("__")]:
        raise ValueError(f"{name} keys that begin with '__' belong to the server: {inner[0][:60]!r}")


Config = Annotated[OptionalObject, AfterValidator(_sound_config)]
Context = Annotated[OptionalObject, AfterValidator(_sound_context)]
