"""Calling graphs in worker processes."""

from typing import Any, TypeVar

from langgraph_sdk.runtime import AccessContext

from threadwire.engine.access import current_user
from threadwire.engine.graph_access import GraphAccess
from threadwire.engine.graph_operations import GraphOperation, GraphTools
from threadwire.engine.worker_pool import WorkerPool
from threadwire.errors import ConnectionLost, GraphFailed, RequestFailed
from threadwire.graphs.registry import GraphRegistry
from threadwire.graphs.user_loop import UserLoop

T = TypeVar("T")


class RemoteGraphAccess(GraphAccess):
    """Calls graphs in worker processes. Functions of the project that belong to the API, such as those for ChatKit, are
    still called in this process."""

    def __init__(self, registry: GraphRegistry, loop: UserLoop, tools: GraphTools, pool: WorkerPool) -> None:
        super().__init__(registry, loop, tools)
        self._pool = pool

    async def call(
        self, graph_id: str, config: dict[str, Any], access: AccessContext, operation: GraphOperation[T]
    ) -> T:
        try:
            user = current_user.get()
            result: T = await self._pool.call("call_graph", user, graph_id, config, access, operation)
        except ConnectionLost:
            raise GraphFailed("The worker process ended while it was calling the graph.") from None
        except RequestFailed as error:
            raise GraphFailed(error.message) from error
        return result
