"""The graphs of a run as a tree: the root graph and the subgraphs it called, each with its status."""

from collections.abc import Sequence

from threadwire.core.encoder import Message
from threadwire.core.entries import Entry, Json, Namespace
from threadwire.core.json import loads
from threadwire.protocols.langgraph.thread_wire.encode import ThreadWireEncoder
from threadwire.protocols.langgraph.thread_wire.subscription import Subscription


class AgentTree:
    """Must be fed a run from its first entry, like an encoder, but returns no messages."""

    def __init__(self, graph_id: str) -> None:
        self._encoder = ThreadWireEncoder(Subscription(frozenset({"lifecycle"})))
        self._nodes: dict[Namespace, dict[str, Json]] = {(): _node((), "started", graph_id)}

    @property
    def root(self) -> dict[str, Json]:
        return self._nodes[()]

    def statuses(self) -> list[Json]:
        """The status of each namespace, in the order in which they started."""
        return [{"namespace": list(ns), "status": node["status"]} for ns, node in self._nodes.items()]

    def feed(self, entry: Entry) -> Sequence[Message]:
        for _, message in self._encoder.feed(entry):
            params = loads(message)["params"]
            ns, data = tuple(params["namespace"]), params["data"]
            if ns in self._nodes:
                self._nodes[ns]["status"] = data["event"]
            else:
                self._nodes[ns] = node = _node(ns, data["event"], data["graph_name"])
                self._nodes[ns[:-1]].setdefault("children", []).append(node)
        return ()


def _node(ns: Namespace, status: str, graph_name: str) -> dict[str, Json]:
    return {"namespace": list(ns), "status": status, "graph_name": graph_name}
