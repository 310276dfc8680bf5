"""The metadata that LangGraph attaches to a message returned by a node.

**For:** with subgraphs, LangGraph does not repeat a message at the root if it was streamed inside a subgraph. Clients
that exclude subgraphs expect it there, so it is recorded when the root's node returns it, with the metadata it would
have.

**Changed LangGraph:** not detected. Such a message then has the metadata described here, while others have more or
less; no client depends on these keys.
"""

from collections.abc import Mapping, Sequence
from typing import Any


def node_metadata(node: str, *, step: int, task_id: str, triggers: Sequence[str]) -> Mapping[str, Any]:
    return {
        "langgraph_step": step,
        "langgraph_node": node,
        "langgraph_triggers": list(triggers),
        "langgraph_path": ["__pregel_pull", node],
        "langgraph_checkpoint_ns": f"{node}:{task_id}",
    }
