"""Calling a graph outside a run: to read or update its state, and for its schemas and its drawing."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import structlog
from langgraph_sdk.runtime import AccessContext

from threadwire.errors import GraphFailed, ThreadwireError
from threadwire.graphs.error_messages import ErrorMessages, new_error_id
from threadwire.graphs.registry import AnyGraph, GraphRegistry
from threadwire.graphs.store import StoreProvider
from threadwire.graphs.tracebacks import render_traceback
from threadwire.graphs.user_loop import UserLoop, WorkCancelled

logger = structlog.get_logger("threadwire.graphs")

T = TypeVar("T")


class GraphAccess:
    def __init__(
        self,
        registry: GraphRegistry,
        loop: UserLoop,
        store: StoreProvider,
        messages: ErrorMessages | None = None,
    ) -> None:
        self._registry = registry
        self._loop = loop
        self._store = store
        self.messages = messages or ErrorMessages()

    async def call(
        self,
        graph_id: str,
        config: dict[str, Any],
        access: AccessContext,
        operation: Callable[[AnyGraph], Coroutine[Any, Any, T]],
    ) -> T:
        """Call a graph on the reads loop, so that a run that blocks its own loop does not delay the call. `config` and
        `access` are passed to a graph factory. Raises `GraphFailed`."""

        async def run_operation() -> T:
            store = self._store.for_owner(None)
            async with self._registry.open(graph_id, config, store=store, access=access) as graph:
                return await operation(graph)

        async def translating_errors() -> T:
            try:
                return await run_operation()
            except (ThreadwireError, asyncio.CancelledError):
                raise
            except BaseException as error:  # raised by the project's code: a factory, a schema, a reducer
                described = self._report(error, graph_id=graph_id, access=access)
                raise GraphFailed("{error}: {message}".format(**described)) from error

        try:
            return await self._loop.run(translating_errors)
        except WorkCancelled as error:
            raise GraphFailed(f"CancelledError: {error}") from error

    def _report(self, error: BaseException, **fields: object) -> dict[str, str]:
        """Log an error of the project's code. Return what the client receives."""
        error_id = new_error_id()
        logger.warning("graph_call_failed", error_id=error_id, stack=render_traceback(error), **fields)
        return self.messages.describe(error, error_id)
