"""What we know of LangGraph's inside and change there, because it has no public way to it. A version that has something
elsewhere is left as it is in that."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

from langchain_core.callbacks import AsyncCallbackManager
from langgraph.pregel import debug, main

from threadwire.graphs.callbacks import Callbacks
from threadwire.graphs.dispatched import put_into_stream

STRICT_RESUME = "__pregel_strict_resume"
"""Has LangGraph refuse an answer to what was not asked. It has no public name for what only servers set."""


def patch_langgraph() -> None:
    """Once per process; to do it again is nothing."""
    _change_tool_handler()
    _copy_no_interrupts()
    _look_into_no_text()
    _tell_quickly()


def _change_tool_handler() -> None:
    """Every run has LangGraph's handler for the `tools` mode. It acts on tools alone, but is called for every event of
    every node; saying so spares a tenth of the cost of a small step. And it is made to listen to dispatched events,
    which would otherwise go unheard: a handler of our own would make every step 4 % slower."""
    try:
        from langgraph.pregel._tools import StreamToolCallHandler
    except ImportError:
        return
    for ignored in ("ignore_chain", "ignore_llm", "ignore_chat_model", "ignore_retriever"):
        setattr(StreamToolCallHandler, ignored, True)
    StreamToolCallHandler.on_custom_event = put_into_stream  # type: ignore[assignment, method-assign]


def _copy_no_interrupts() -> None:
    """To show an interrupt as part of a task LangGraph copies its value to the last leaf, which fails for what cannot
    be copied, contains itself or is deep; then nobody would hear of the interrupt. We render it anyway."""
    if hasattr(debug, "asdict"):
        debug.asdict = _fields_of


def _fields_of(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in fields(value)}


def _look_into_no_text() -> None:
    """To find messages LangGraph looks at every element of every sequence that a node returns, and a text is one of
    letters: twenty megabytes of it held up all runs for two seconds."""
    try:
        from langgraph.pregel import _messages

        usual = _messages._state_values
    except (ImportError, AttributeError):
        return
    if not isinstance(usual, partial):
        _messages._state_values = partial(_values_but_text, usual)


def _values_but_text(state_values: Callable[[Any], Sequence[Any]], state: Any) -> Sequence[Any]:
    return [value for value in state_values(state) if not isinstance(value, (str, bytes, bytearray))]


def _tell_quickly() -> None:
    """A graph makes its callbacks in LangChain's way, and everything in it has its own from them."""
    try:
        from langgraph.pregel._messages import StreamMessagesHandler
        from langgraph.pregel._tools import StreamToolCallHandler

        usual = main.get_async_callback_manager_for_config  # type: ignore[attr-defined]
    except (ImportError, AttributeError):
        return
    Callbacks.at_once = frozenset({StreamMessagesHandler, StreamToolCallHandler})
    if not isinstance(usual, partial):
        main.get_async_callback_manager_for_config = partial(_told_quickly, usual)  # type: ignore[attr-defined]


def _told_quickly(callbacks_for: Callable[[Any], AsyncCallbackManager], config: Any) -> Callbacks:
    return Callbacks.instead_of(callbacks_for(config))
