"""The node that blocks a loop, for the log.

**For:** LangGraph runs each node in its own task. A frame of its code on the stack has a local `config` that names the
node.

**Changed LangGraph:** no frame has such a local. Then the log names the line of code, but not the node.
"""

from types import FrameType
from typing import Any


def node_of(frame: FrameType) -> str | None:
    """The node that a frame executes, if the frame is LangGraph's."""
    return _name(frame.f_locals.get("config")) if "/langgraph/" in frame.f_code.co_filename else None


def _name(config: Any) -> str | None:
    metadata = config.get("metadata") if isinstance(config, dict) else None
    return metadata.get("langgraph_node") if isinstance(metadata, dict) else None
