"""The same small graph from every form of factory: four kinds of function, four signatures.

The graph `ledger` returns how often each factory was opened and closed, and for which kind of access.
"""

import operator
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import wraps
from typing import Annotated, Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.func import entrypoint
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from langgraph_sdk.runtime import ServerRuntime


class Facts(TypedDict, total=False):
    text: str
    told: Annotated[list[Any], operator.add]


opened: dict[str, list[str]] = {}
"""The access contexts that each form was opened with."""
closed: dict[str, int] = {}


def graph_of(**facts: Any) -> Any:
    def tell(state: Facts) -> Facts:
        return {"told": [facts]}

    return StateGraph(Facts).add_node("tell", tell).add_edge(START, "tell").compile()


def without() -> Any:
    return graph_of()


def with_config(config: RunnableConfig) -> Any:
    return graph_of(greeting=config["configurable"].get("greeting"))


def with_runtime(runtime: ServerRuntime) -> Any:
    running = runtime.execution_runtime
    return graph_of(access=runtime.access_context, context=running.context if running else None)


def with_both(runtime: ServerRuntime, config: RunnableConfig) -> Any:
    return graph_of(access=runtime.access_context, greeting=config["configurable"].get("greeting"))


def record_open(form: str, arguments: dict[str, Any]) -> None:
    runtime = arguments.get("runtime")
    opened.setdefault(form, []).append("unknown" if runtime is None else runtime.access_context)


Make = Callable[..., Any]


def as_function(form: str, make: Make) -> Any:
    @wraps(make)
    def factory(**arguments: Any) -> Any:
        record_open(form, arguments)
        return make(**arguments)

    return factory


def as_async_function(form: str, make: Make) -> Any:
    @wraps(make)
    async def factory(**arguments: Any) -> Any:
        record_open(form, arguments)
        return make(**arguments)

    return factory


def as_context_manager(form: str, make: Make) -> Any:
    @contextmanager
    @wraps(make)
    def factory(**arguments: Any) -> Iterator[Any]:
        record_open(form, arguments)
        yield make(**arguments)
        closed[form] = closed.get(form, 0) + 1

    return factory


def as_async_context_manager(form: str, make: Make) -> Any:
    @asynccontextmanager
    @wraps(make)
    async def factory(**arguments: Any) -> AsyncIterator[Any]:
        record_open(form, arguments)
        yield make(**arguments)
        closed[form] = closed.get(form, 0) + 1

    return factory


for kind in (as_function, as_async_function, as_context_manager, as_async_context_manager):
    for signature in (without, with_config, with_runtime, with_both):
        name = f"{kind.__name__}_{signature.__name__}"
        globals()[name] = kind(name, signature)


@entrypoint()
async def ledger(form: str) -> dict[str, Any]:
    return {"opened": opened.get(form, []), "closed": closed.get(form, 0)}


# -- shaped: the config determines the node's name, so reading the state needs the same config ------------------------


async def shaped(config: RunnableConfig) -> Any:
    def ask(state: Facts) -> Facts:
        return {"told": [interrupt("well?")]}

    node = config["configurable"].get("node", "nobody")
    return StateGraph(Facts).add_node(node, ask).add_edge(START, node).compile()


async def broken(config: RunnableConfig) -> Any:
    raise ValueError("no such model")
