"""Graphs that output their configuration."""

from dataclasses import dataclass
from typing import Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from pydantic import BaseModel

SERVER_KEYS = ("thread_id", "run_id", "graph_id", "user_id")


class Seen(TypedDict, total=False):
    text: str
    configured: Any
    context: Any
    tags: list[str]
    metadata: Any


def look(state: Seen, config: RunnableConfig, runtime: Runtime[Any]) -> Seen:
    internal = ("checkpoint_", "langgraph_", "__")
    public = {key: value for key, value in config["configurable"].items() if not key.startswith(internal)}
    return {
        "configured": {key: value for key, value in public.items() if key not in SERVER_KEYS},
        "context": runtime.context,
        "tags": list(config.get("tags") or []),
        "metadata": {key: value for key, value in config["metadata"].items() if not key.startswith("langgraph_")},
    }


def reporting_graph(context_schema: Any = None) -> Any:
    return StateGraph(Seen, context_schema=context_schema).add_node("look", look).add_edge(START, "look").compile()


class Loose(TypedDict, total=False):
    model: str
    size: int


@dataclass
class Strict:
    model: str = "small"
    size: int = 1


class Demanding(BaseModel):
    model: str
    size: int = 1


class Opaque:
    """A type without a JSON Schema."""


class Odd(TypedDict, total=False):
    opaque: Opaque
    schema: int
    copy: list[Opaque]


configured = reporting_graph()
loose = reporting_graph(Loose)
strict = reporting_graph(Strict)
demanding = reporting_graph(Demanding)
odd = StateGraph(Odd).add_node("look", lambda state: {"schema": 1}).add_edge(START, "look").compile()

inner = reporting_graph()
middle = StateGraph(Seen).add_node("inner", inner).add_edge(START, "inner").compile()
deeper = StateGraph(Seen).add_node("middle", middle).add_edge(START, "middle").compile()
