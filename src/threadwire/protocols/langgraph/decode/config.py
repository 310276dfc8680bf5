"""Validation of `config` and `context`, the same for runs, crons and assistants."""

from typing import Annotated

from pydantic import AfterValidator

from threadwire.core.bounded_list import MAX_LIST_LENGTH
from threadwire.graphs.langgraph_private.remote_graphs import ANSWERS_OF_CALLER
from threadwire.protocols.langgraph.decode.body import Object, OptionalObject


def _validate_config(config: Object) -> Object:
    configurable = config.get("configurable") or {}
    if not isinstance(configurable, dict):
        raise ValueError("configurable must be an object")
    tags = config.get("tags", [])
    if not isinstance(tags, list) or len(tags) > MAX_LIST_LENGTH or not all(isinstance(each, str) for each in tags):
        raise ValueError(f"tags must be a list of at most {MAX_LIST_LENGTH} strings")
    if not isinstance(config.get("metadata"), dict | None):
        raise ValueError("metadata must be an object")
    if configurable:
        config = {**config, "configurable": _without_runtime_keys(configurable)}
    return config if config.get("recursion_limit") is None else {**config, "recursion_limit": _recursion_limit(config)}


def _recursion_limit(config: Object) -> int:
    limit = config["recursion_limit"]
    is_number = not isinstance(limit, bool) and isinstance(limit, int | float)
    if not is_number or not 1 <= limit <= 2**53 or limit % 1:
        raise ValueError("recursion_limit must be a whole number of at least 1")
    return int(limit)


def _without_runtime_keys(configuration: Object) -> Object:
    """Drop the keys that LangGraph sets while it executes a graph. A `RemoteGraph` that is a node sends some keys of
    the run that it belongs to. In this run they would change how the graph executes."""
    return {key: value for key, value in configuration.items() if not key.startswith("__")}


def answers_of_caller(body: object) -> Object:
    """Return the answers, by interrupt id, in the body of a run that a `RemoteGraph` node requests. The calling run was
    resumed with them. They are the only runtime key that also applies to the requested run."""
    answers: object = body
    for key in ("config", "configurable", ANSWERS_OF_CALLER):
        answers = answers.get(key) if isinstance(answers, dict) else None
    return answers if isinstance(answers, dict) else {}


Config = Annotated[OptionalObject, AfterValidator(_validate_config)]
Context = Annotated[OptionalObject, AfterValidator(_without_runtime_keys)]
