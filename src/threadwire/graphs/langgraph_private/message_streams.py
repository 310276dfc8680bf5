"""Which chunks of the mode `messages` belong to one stream.

**For:** a message id alone does not identify a stream: a node that is retried may stream the same id again. LangGraph
passes the same metadata object with every chunk of a stream, and comparing identity costs next to nothing per token.

**Changed LangGraph:** a trial shows different objects. Then the metadata is compared by value, which is slower, and a
retried node appends to the message it streamed before.
"""

import importlib
import operator
from collections.abc import Callable
from functools import cache
from typing import Any
from uuid import UUID

from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk

from threadwire.graphs.langgraph_private.fallbacks import report_fallback


@cache
def same_stream() -> Callable[[Any, Any], bool]:
    """The comparison of the metadata of two chunks with the same id."""
    try:
        first, second = _trial()
        if first is second:
            return operator.is_
        reason = "each chunk has its own metadata"
    except Exception as error:  # a private module may fail in any way once it has changed
        reason = str(error) or repr(error)
    report_fallback("message streams", reason=reason, effect="Streaming a token takes longer.")
    return operator.eq


def _trial() -> list[Any]:
    """The metadata of two chunks that LangGraph's handler emits."""
    parts: list[Any] = []
    handler = importlib.import_module("langgraph.pregel._messages").StreamMessagesHandler(parts.append, True)
    metadata = {"langgraph_checkpoint_ns": "node:task"}
    handler.on_chat_model_start({}, [[]], run_id=UUID(int=1), metadata=metadata)
    for text in ("a", "b"):
        chunk = ChatGenerationChunk(message=AIMessageChunk(content=text, id="m"))
        handler.on_llm_new_token(text, chunk=chunk, run_id=UUID(int=1))
    return [part[1] for _, _, part in parts]
