"""Events that a graph dispatches through LangChain's callbacks (`dispatch_custom_event`).

No stream mode contains them. They are written to the run's own stream, so that they arrive in order and with the
namespace of the subgraph that dispatched them.
"""

from typing import Any, NamedTuple

from threadwire.core.entries import Json
from threadwire.core.json import native


class DispatchedEvent(NamedTuple):
    name: str
    data: Json


def forward_event(
    handler: Any,
    name: str,
    data: Any,
    *,
    tags: list[str] | None = None,
    metadata: dict[str, Any] | None = None,
    **_: Any,
) -> None:
    """`on_custom_event` for a handler with access to the run's stream, such as LangGraph's for the `tools` mode."""
    ns = handler._ns_for_emit(metadata, tags)
    if ns is not None:
        # Converted now, because the caller may change the data after dispatching it.
        handler.stream((ns, "custom", DispatchedEvent(name, native(data))))
