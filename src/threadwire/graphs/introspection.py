"""A graph's structure and its JSON Schemas.

Must be called on a user loop, because it runs the graph's code.
"""

from collections.abc import Callable
from typing import Any, get_type_hints

import structlog
from langgraph.pregel import Pregel
from pydantic import BaseModel, ConfigDict, create_model

from threadwire.core.entries import Json
from threadwire.graphs.registry import AnyGraph

logger = structlog.get_logger("threadwire.graphs")

_DEFAULT_NAME = "LangGraph"
"""The name that LangGraph gives to a graph compiled without one."""


async def drawing(graph: AnyGraph, *, xray: int | bool) -> Json:
    drawn = (await graph.aget_graph(xray=xray)).to_json()
    return {"nodes": [_node(node) for node in drawn["nodes"]], "edges": drawn["edges"]}


def _node(node: dict[str, Any]) -> Json:
    """Drop the import path of the node's class, which is nearly always one of LangGraph's own."""
    data = node.get("data")
    return {**node, "data": {"name": data["name"]}} if isinstance(data, dict) and "name" in data else node


async def schemas(graph: AnyGraph, *, name: str) -> dict[str, Json]:
    """JSON Schemas of the graph's input, output, state, config and context; null where there is none.

    A type without a JSON Schema is described as "any". `name` is the title if the graph has no name.
    """
    named = graph.copy(update={"name": name}) if graph.name == _DEFAULT_NAME else graph
    builder = getattr(named, "builder", None)
    context = _schema_or_fallback(named.get_context_jsonschema, named.get_name("Context"), _hints(named.context_schema))
    return {
        "input_schema": _schema_or_fallback(
            named.get_input_jsonschema, named.get_name("Input"), _hints(getattr(builder, "input_schema", None))
        ),
        "output_schema": _schema_or_fallback(
            named.get_output_jsonschema, named.get_name("Output"), _hints(getattr(builder, "output_schema", None))
        ),
        "state_schema": _lenient_schema(named.get_name("State"), _state_fields(named)),
        "config_schema": context or {},
        "context_schema": context,
    }


async def subgraphs(graph: AnyGraph, *, namespace: str | None, recurse: bool) -> dict[str, Json]:
    # LangGraph finds a nested namespace only with `recurse`, so a lookup by namespace always recurses.
    found = graph.aget_subgraphs(namespace=namespace, recurse=recurse or namespace is not None)
    return {ns: await schemas(each, name=each.name) async for ns, each in found if isinstance(each, Pregel)}


def _schema_or_fallback(
    langgraph_schema: Callable[[], dict[str, Any] | None], title: str, fields: dict[str, Any] | None
) -> Json:
    """LangGraph's schema, or ours if that fails: on Python 3.11 LangGraph cannot describe a `typing.TypedDict`."""
    try:
        return langgraph_schema()
    except Exception as error:
        logger.debug("schema_generation_failed", title=title, error=repr(error))
        return None if fields is None else _lenient_schema(title, fields)


def _state_fields(graph: AnyGraph) -> dict[str, Any]:
    channels = ((name, graph.channels[name]) for name in graph.stream_channels_list)
    return {name: getattr(channel, "ValueType", Any) for name, channel in channels}


def _hints(schema: Any) -> dict[str, Any] | None:
    if not isinstance(schema, type):
        return None
    try:
        return get_type_hints(schema)
    except Exception:  # a name imported under TYPE_CHECKING only; the field names are still known
        return dict.fromkeys(getattr(schema, "__annotations__", {}), Any)


def _lenient_schema(title: str, fields: dict[str, Any]) -> Json:
    """A schema in which only the fields without a JSON Schema are replaced by "any"."""
    if (whole := _schema(title, fields)) is not None:
        return whole
    return _schema(title, {name: kind if _schema(title, {name: kind}) else Any for name, kind in fields.items()})


def _schema(title: str, fields: dict[str, Any]) -> Json:
    # Generated names with aliases: a field may have a name that pydantic reserves.
    aliased: dict[str, Any] = {f"field_{index}": (kind, None) for index, kind in enumerate(fields.values())}
    aliases = dict(zip(aliased, fields, strict=True))
    options = ConfigDict(alias_generator=lambda name: aliases[name], arbitrary_types_allowed=True)
    try:
        model: type[BaseModel] = create_model(title, __config__=options, **aliased)
        return model.model_json_schema()
    except Exception:  # pydantic, or a hook of the type itself, may raise anything
        return None


async def input_keys(graph: AnyGraph) -> frozenset[str] | None:
    """The keys a graph accepts as input. Read from its channels, because a schema may be missing or fail to build."""
    builder = getattr(graph, "builder", None)
    channels = getattr(builder, "schemas", {}).get(getattr(builder, "input_schema", None))
    return None if channels is None else frozenset(map(str, channels))
