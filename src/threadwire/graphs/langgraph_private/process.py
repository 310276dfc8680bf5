"""The replacements of LangGraph's names that need nothing from the rest of the server."""

from threadwire.graphs.langgraph_private.direct_callbacks import DIRECT_CALLBACKS, DIRECT_TOKENS
from threadwire.graphs.langgraph_private.direct_stream import DIRECT_STREAM
from threadwire.graphs.langgraph_private.interrupt_copies import INTERRUPT_COPIES
from threadwire.graphs.langgraph_private.text_search import TEXT_SEARCH
from threadwire.graphs.langgraph_private.tools_mode import REMOTE_MODES, TOOL_HANDLER

LANGGRAPH_PATCHES = (
    TOOL_HANDLER,
    REMOTE_MODES,
    INTERRUPT_COPIES,
    TEXT_SEARCH,
    DIRECT_CALLBACKS,
    DIRECT_TOKENS,
    DIRECT_STREAM,
)
