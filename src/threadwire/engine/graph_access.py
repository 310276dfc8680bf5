"""Calling a graph outside a run: to read or update its state, and for its schemas and its drawing."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import structlog
from langgraph_sdk.runtime import AccessContext

from threadwire.engine.graph_operations import GraphOperation, GraphTools
from threadwire.errors import GraphFailed, ThreadwireError
from threadwire.graphs.error_messages import new_error_id
from threadwire.graphs.registry import GraphRegistry
from threadwire.graphs.tracebacks import render_traceback
from threadwire.graphs.user_loop import UserLoop, WorkCancelled

logger = structlog.get_logger("threadwire.graphs")

T = TypeVar("T")


class GraphAccess:
    def __init__(
        self,
        registry: GraphRegistry,
        loop: UserLoop,
        tools: GraphTools,
    ) -> None:
        self._registry = registry
        self._loop = loop
        self._tools = tools

    async def call(
        self,
        graph_id: str,
        config: dict[str, Any],
        access: AccessContext,
        operation: GraphOperation[T],
    ) -> T:
        """Call a graph on the reads loop, so that a run that blocks its own loop does not delay the call. `config` and
        `access` are passed to a graph factory. Raises `GraphFailed`."""

        async def run_operation() -> T:
            store = self._tools.store.for_owner(None)
            async with self._registry.open(graph_id, config, store=store, access=access) as graph:
                return await operation.run(graph, self._tools)

        return await self._run(run_operation, graph_id=graph_id, access=access)

    async def call_function(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of the project, sync or async, on the reads loop. Raises `GraphFailed`."""

        async def run_function() -> Any:
            if inspect.iscoroutinefunction(function):
                return await function(*arguments)
            return await asyncio.to_thread(function, *arguments)

        return await self._run(run_function, function=getattr(function, "__qualname__", repr(function)))

    async def _run(self, work: Callable[[], Coroutine[Any, Any, T]], **fields: object) -> T:
        async def translating_errors() -> T:
            try:
                return await work()
            except (ThreadwireError, asyncio.CancelledError):
                raise
            except BaseException as error:  # raised by the project's code: a factory, a schema, a reducer
                described = self._report(error, **fields)
                raise GraphFailed("{error}: {message}".format(**described)) from error

        try:
            return await self._loop.run(translating_errors)
        except WorkCancelled as error:
            raise GraphFailed(f"CancelledError: {error}") from error

    def _report(self, error: BaseException, **fields: object) -> dict[str, str]:
        """Log an error of the project's code. Return what the client receives."""
        error_id = new_error_id()
        logger.warning("graph_call_failed", error_id=error_id, stack=render_traceback(error), **fields)
        return self._tools.messages.describe(error, error_id)
