"""Graphs that tell what they were configured with."""

from dataclasses import dataclass
from typing import Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from pydantic import BaseModel

PLACES = ("thread_id", "run_id", "graph_id", "user_id")


class Seen(TypedDict, total=False):
    text: str
    configured: Any
    context: Any
    tags: list[str]
    metadata: Any


def look(state: Seen, config: RunnableConfig, runtime: Runtime[Any]) -> Seen:
    hidden = ("checkpoint_", "langgraph_", "__")
    shown = {key: value for key, value in config["configurable"].items() if not key.startswith(hidden)}
    return {
        "configured": {key: value for key, value in shown.items() if key not in PLACES},
        "context": runtime.context,
        "tags": list(config.get("tags") or []),
        "metadata": {key: value for key, value in config["metadata"].items() if not key.startswith("langgraph_")},
    }


def telling(context_schema: Any = None) -> Any:
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
    """Nothing that JSON Schema knows."""


class Odd(TypedDict, total=False):
    opaque: Opaque
    schema: int
    copy: list[Opaque]


configured = telling()
loose = telling(Loose)
strict = telling(Strict)
demanding = telling(Demanding)
odd = StateGraph(Odd).add_node("look", lambda state: {"schema": 1}).add_edge(START, "look").compile()

inner = telling()
middle = StateGraph(Seen).add_node("inner", inner).add_edge(START, "inner").compile()
deeper = StateGraph(Seen).add_node("middle", middle).add_edge(START, "middle").compile()
