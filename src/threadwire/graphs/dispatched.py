"""Events that a graph dispatches through LangChain's callbacks (`dispatch_custom_event`), which no stream mode has.

They are put into the run's own stream, so that they come in the order in which they happened, with the path of the
subgraph they happened in.
"""

from typing import Any, NamedTuple

from threadwire.core.entries import Json
from threadwire.core.json import native


class Dispatched(NamedTuple):
    name: str
    data: Json


def put_into_stream(
    handler: Any,
    name: str,
    data: Any,
    *,
    tags: list[str] | None = None,
    metadata: dict[str, Any] | None = None,
    **_: Any,
) -> None:
    """The `on_custom_event` of a handler that has the run's stream, which LangGraph's for the `tools` mode has."""
    ns = handler._ns_for_emit(metadata, tags)
    if ns is not None:
        # As it is now: whoever dispatched it may go on changing it.
        handler.stream((ns, "custom", Dispatched(name, native(data))))
