"""What a graph is like: how it is drawn, and what goes in and comes out. Called on a user loop, because it runs the
graph's code."""

from collections.abc import Callable
from typing import Any, get_type_hints

import structlog
from langgraph.pregel import Pregel
from pydantic import BaseModel, ConfigDict, create_model

from threadwire.core.entries import Json
from threadwire.graphs.registry import AnyGraph

logger = structlog.get_logger("threadwire.graphs")

_UNNAMED = "LangGraph"
"""What LangGraph calls a graph that was compiled without a name."""


async def drawing(graph: AnyGraph, *, xray: int | bool) -> Json:
    drawn = (await graph.aget_graph(xray=xray)).to_json()
    return {"nodes": [_node(node) for node in drawn["nodes"]], "edges": drawn["edges"]}


def _node(node: dict[str, Any]) -> Json:
    """Without the path of the class that runs it, which is LangGraph's own in nearly all cases."""
    data = node.get("data")
    return {**node, "data": {"name": data["name"]}} if isinstance(data, dict) and "name" in data else node


async def schemas(graph: AnyGraph, *, name: str) -> dict[str, Json]:
    """JSON Schemas of what the graph takes, gives, keeps and is configured with; null for what has none.

    A type that cannot be described is described as anything. `name` is the title where the graph has none.
    """
    named = graph.copy(update={"name": name}) if graph.name == _UNNAMED else graph
    builder = getattr(named, "builder", None)
    context = _described(named.get_context_jsonschema, named.get_name("Context"), _hints(named.context_schema))
    return {
        "input_schema": _described(
            named.get_input_jsonschema, named.get_name("Input"), _hints(getattr(builder, "input_schema", None))
        ),
        "output_schema": _described(
            named.get_output_jsonschema, named.get_name("Output"), _hints(getattr(builder, "output_schema", None))
        ),
        "state_schema": _loosely(named.get_name("State"), _kept(named)),
        "config_schema": context or {},
        "context_schema": context,
    }


async def subgraphs(graph: AnyGraph, *, namespace: str | None, recurse: bool) -> dict[str, Json]:
    # LangGraph finds a namespace that is nested only when it may recurse; what is asked for by name is looked for.
    found = graph.aget_subgraphs(namespace=namespace, recurse=recurse or namespace is not None)
    return {ns: await schemas(each, name=each.name) async for ns, each in found if isinstance(each, Pregel)}


def _described(official: Callable[[], dict[str, Any] | None], title: str, fields: dict[str, Any] | None) -> Json:
    """What LangGraph says, or what can be said where it cannot: on Python 3.11 it describes no `typing.TypedDict`."""
    try:
        return official()
    except Exception as error:
        logger.debug("schema_not_described", title=title, error=repr(error))
        return None if fields is None else _loosely(title, fields)


def _kept(graph: AnyGraph) -> dict[str, Any]:
    channels = ((name, graph.channels[name]) for name in graph.stream_channels_list)
    return {name: getattr(channel, "ValueType", Any) for name, channel in channels}


def _hints(schema: Any) -> dict[str, Any] | None:
    if not isinstance(schema, type):
        return None
    try:
        return get_type_hints(schema)
    except Exception:  # a name that exists for the type checker only: the texts still say which fields there are
        return dict.fromkeys(getattr(schema, "__annotations__", {}), Any)


def _loosely(title: str, fields: dict[str, Any]) -> Json:
    if (whole := _schema(title, fields)) is not None:
        return whole
    return _schema(title, {name: kind if _schema(title, {name: kind}) else Any for name, kind in fields.items()})


def _schema(title: str, fields: dict[str, Any]) -> Json:
    # Under names of our own: a field may be called like something that pydantic keeps for itself.
    aliased: dict[str, Any] = {f"field_{at}": (kind, None) for at, kind in enumerate(fields.values())}
    aliases = dict(zip(aliased, fields, strict=True))
    options = ConfigDict(alias_generator=lambda name: aliases[name], arbitrary_types_allowed=True)
    try:
        model: type[BaseModel] = create_model(title, __config__=options, **aliased)
        return model.model_json_schema()
    except Exception:  # whatever pydantic, or a hook of the type itself, has against it
        return None


async def input_keys(graph: AnyGraph) -> frozenset[str] | None:
    """The keys a graph takes as input, read off its channels and not off a schema, which may be missing or fail."""
    builder = getattr(graph, "builder", None)
    channels = getattr(builder, "schemas", {}).get(getattr(builder, "input_schema", None))
    return None if channels is None else frozenset(map(str, channels))
