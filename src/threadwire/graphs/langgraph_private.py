"""Uses and patches of LangGraph internals that have no public API.

A patch whose target is missing in the installed version is skipped.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial, partialmethod
from typing import Any

from langchain_core.callbacks import AsyncCallbackManager
from langgraph.pregel import debug, main
from langgraph.pregel.remote import RemoteGraph

from threadwire.graphs.callbacks import Callbacks
from threadwire.graphs.dispatched_events import forward_event

STRICT_RESUME = "__pregel_strict_resume"
"""Makes LangGraph reject an answer to an interrupt that is not pending. Only servers set it, so it has no public
name."""


def patch_langgraph() -> None:
    """Apply all patches. Idempotent."""
    _patch_tool_handler()
    _skip_interrupt_copies()
    _skip_text_iteration()
    _use_direct_callbacks()
    _keep_tools_mode_local()


def _patch_tool_handler() -> None:
    """Limit LangGraph's handler for the `tools` mode to tools, and let it receive dispatched events.

    Every run has this handler. It only acts on tools but is called for every event of every node; ignoring the others
    saves a tenth of the cost of a small step. A handler of our own for dispatched events would make every step 4 %
    slower.
    """
    try:
        from langgraph.pregel._tools import StreamToolCallHandler
    except ImportError:
        return
    for ignored in ("ignore_chain", "ignore_llm", "ignore_chat_model", "ignore_retriever"):
        setattr(StreamToolCallHandler, ignored, True)
    StreamToolCallHandler.on_custom_event = forward_event  # type: ignore[assignment, method-assign]


def _skip_interrupt_copies() -> None:
    """Do not deep-copy interrupts.

    To include an interrupt in a task, LangGraph deep-copies its value. That fails if the value cannot be copied,
    contains itself or is nested too deeply, and the interrupt would be lost. We render the value ourselves anyway.
    """
    if hasattr(debug, "asdict"):
        debug.asdict = _shallow_asdict


def _shallow_asdict(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in fields(value)}


def _skip_text_iteration() -> None:
    """Do not search strings for messages.

    LangGraph checks every element of every sequence that a node returns, including every character of a string: 20 MB
    of text blocked all runs for two seconds.
    """
    try:
        from langgraph.pregel import _messages

        original = _messages._state_values
    except (ImportError, AttributeError):
        return
    if not isinstance(original, partial):
        _messages._state_values = partial(_state_values_without_text, original)


def _state_values_without_text(state_values: Callable[[Any], Sequence[Any]], state: Any) -> Sequence[Any]:
    return [value for value in state_values(state) if not isinstance(value, (str, bytes, bytearray))]


def _use_direct_callbacks() -> None:
    """Replace the callback manager that a graph creates; those of its nodes derive from it."""
    try:
        from langgraph.pregel._messages import StreamMessagesHandler
        from langgraph.pregel._tools import StreamToolCallHandler

        original = main.get_async_callback_manager_for_config  # type: ignore[attr-defined]
    except (ImportError, AttributeError):
        return
    Callbacks.direct_handlers = frozenset({StreamMessagesHandler, StreamToolCallHandler})
    if not isinstance(original, partial):
        main.get_async_callback_manager_for_config = partial(_direct_callbacks, original)  # type: ignore[attr-defined]


def _direct_callbacks(manager_for_config: Callable[[Any], AsyncCallbackManager], config: Any) -> Callbacks:
    return Callbacks.from_manager(manager_for_config(config))


def _keep_tools_mode_local() -> None:
    """Do not request the mode `tools` from other servers.

    A `RemoteGraph` that is a node requests every mode that its caller records. Servers reject `tools`, so no such node
    would work.
    """
    original = vars(RemoteGraph).get("_get_stream_modes")
    if original is not None and not isinstance(original, partialmethod):
        RemoteGraph._get_stream_modes = partialmethod(_remote_stream_modes, original)  # type: ignore[assignment]


def _remote_stream_modes(graph: RemoteGraph, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    modes, *others = original(graph, *args, **kwargs)
    return [mode for mode in modes if mode != "tools"], *others
