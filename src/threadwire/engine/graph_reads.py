"""Asking a graph something outside a run: its state, its schemas, its drawing."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from langgraph_sdk.runtime import AccessContext

from threadwire.errors import GraphFailed, ThreadwireError
from threadwire.graphs.execution import describe
from threadwire.graphs.registry import AnyGraph, GraphRegistry
from threadwire.graphs.store import StoreHome
from threadwire.graphs.user_loop import UserLoop, WorkCancelled

T = TypeVar("T")


class GraphReads:
    def __init__(self, registry: GraphRegistry, loop: UserLoop, store: StoreHome) -> None:
        self._registry = registry
        self._loop = loop
        self._store = store

    async def ask(
        self,
        graph_id: str,
        config: dict[str, Any],
        access: AccessContext,
        question: Callable[[AnyGraph], Coroutine[Any, Any, T]],
    ) -> T:
        """Ask on the reading loop, so that a run that blocks its own does not hold it up. The config and why it is
        asked are for a factory."""

        async def asking() -> T:
            store = self._store.of(None)
            async with self._registry.open(graph_id, config, store=store, access=access) as graph:
                return await question(graph)

        async def answering() -> T:
            try:
                return await asking()
            except (ThreadwireError, asyncio.CancelledError):
                raise
            except BaseException as error:  # the graph's own code: a factory, a schema, a reducer
                raise GraphFailed("{error}: {message}".format(**describe(error))) from error

        try:
            return await self._loop.run(answering)
        except WorkCancelled as error:
            raise GraphFailed(f"CancelledError: {error}") from error
