"""The undocumented stream mode `tools`: the source of `tool` entries since LangGraph 1.2.

**For:** it reports tool calls in order with the other parts, and the partial output of tools, which callbacks do not
report. Two patches make it usable:

- Its handler acts on tools only, but is called for every event of every node. Ignoring the others saves a tenth of a
  small step. The handler also receives dispatched events; a handler of our own would make every step 4 % slower.
- A `RemoteGraph` that is a node requests every mode that its caller records. Servers reject `tools`, so no such node
  would work. The mode is removed from the request.

**Changed LangGraph:** a name of either patch is missing, as before 1.2. Then the mode is not requested, and a callback
handler reports tool calls and dispatched events (`callback_events.py`), without partial output. The same happens in an
embedded server, which applies no patches.
"""

from collections.abc import Callable
from functools import partialmethod
from typing import Any

from threadwire.graphs.langgraph_private.callback_events import forward_event
from threadwire.graphs.langgraph_private.process_patch import ProcessPatch

_EFFECT = "Tool calls are recorded from callbacks, without the partial output of tools."
_HANDLER = "langgraph.pregel._tools:StreamToolCallHandler"


def _always_true(original: Any) -> bool:
    return True


def _with_filter(original: Any) -> Any:
    return partialmethod(_remote_stream_modes, original)


def _remote_stream_modes(graph: Any, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    modes, *others = original(graph, *args, **kwargs)
    return [mode for mode in modes if mode != "tools"], *others


TOOL_HANDLER = ProcessPatch(
    "tools mode",
    _EFFECT,
    {
        f"{_HANDLER}._ns_for_emit": lambda original: original,
        f"{_HANDLER}.ignore_chain": _always_true,
        f"{_HANDLER}.ignore_llm": _always_true,
        f"{_HANDLER}.ignore_chat_model": _always_true,
        f"{_HANDLER}.ignore_retriever": _always_true,
        f"{_HANDLER}.on_custom_event": lambda original: forward_event,
    },
)

REMOTE_MODES = ProcessPatch(
    "tools mode of remote graphs",
    _EFFECT,
    {"langgraph.pregel.remote:RemoteGraph._get_stream_modes": _with_filter},
)


def has_tools_mode() -> bool:
    """Whether runs can record the mode `tools`."""
    return TOOL_HANDLER.applied and REMOTE_MODES.applied
