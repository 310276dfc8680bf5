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


def hear_dispatched_events() -> None:
    """Have LangGraph's handler for the `tools` mode, which every run has, listen to them too: one of our own would make
    every step 4 % slower. Its module is private; in a version without it they go unheard."""
    try:
        from langgraph.pregel._tools import StreamToolCallHandler
    except ImportError:
        return
    StreamToolCallHandler.on_custom_event = _put_into_stream  # type: ignore[assignment, method-assign]


def _put_into_stream(
    handler: Any,
    name: str,
    data: Any,
    *,
    tags: list[str] | None = None,
    metadata: dict[str, Any] | None = None,
    **_: Any,
) -> None:
    ns = handler._ns_for_emit(metadata, tags)
    if ns is not None:
        # As it is now: whoever dispatched it may go on changing it.
        handler.stream((ns, "custom", Dispatched(name, native(data))))
