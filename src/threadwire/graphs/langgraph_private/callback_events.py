"""Tool calls, and events that a graph dispatches (`dispatch_custom_event`), from LangChain's callbacks.

**For:** no stream mode contains dispatched events, and before LangGraph 1.2 none contains tool calls. They are written
to the run's own stream, so that they arrive in order and with the namespace of the subgraph they come from.

Where the mode `tools` is usable, its handler writes the dispatched events too (`forward_event`). Otherwise every run
has a handler of its own (`CallbackEvents`), which uses the public stream writer of the node that is running.

**Changed LangGraph:** `tools_mode.py` detects it for `forward_event`. If there is no stream writer, as in a thread that
a node has started, the event is recorded directly, and its order relative to the stream is not exact.
"""

from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langgraph.config import get_stream_writer
from langgraph.constants import TAG_NOSTREAM
from langgraph.errors import GraphInterrupt

from threadwire.core.entries import Json, Namespace
from threadwire.core.json import native


class DispatchedEvent(NamedTuple):
    """A part of the mode `custom` that is an event dispatched through callbacks."""

    name: str
    data: Json


class ToolEvent(NamedTuple):
    """A part of the mode `custom` that is really one of the mode `tools`."""

    data: dict[str, Any]


CallbackEvent = DispatchedEvent | ToolEvent


def forward_event(
    handler: Any,
    name: str,
    data: Any,
    *,
    tags: list[str] | None = None,
    metadata: dict[str, Any] | None = None,
    **_: Any,
) -> None:
    """`on_custom_event` for LangGraph's handler of the `tools` mode, which has access to the run's stream."""
    ns = handler._ns_for_emit(metadata, tags)
    if ns is not None:
        # Converted now, because the caller may change the data after dispatching it.
        handler.stream((ns, "custom", DispatchedEvent(name, native(data))))


class CallbackEvents(BaseCallbackHandler):
    """Writes the tool calls and dispatched events of one run to its stream.

    `record` is called, from any thread, with the namespace and the event if there is no stream to write to.
    """

    run_inline = True
    ignore_chain = ignore_llm = ignore_chat_model = ignore_retriever = ignore_retry = True

    def __init__(self, record: Callable[[Namespace, CallbackEvent], object]) -> None:
        self._record = record
        self._calls: dict[UUID, tuple[str, dict[str, Any]]] = {}
        """The id and the metadata of the tool calls that have not ended."""

    def on_custom_event(
        self,
        name: str,
        data: Any,
        *,
        run_id: UUID,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        if _is_streamed(tags, metadata):
            self._write(metadata or {}, DispatchedEvent(name, native(data)))

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if not _is_streamed(tags, metadata):
            return
        call_id = kwargs.get("tool_call_id") or str(run_id)
        self._calls[run_id] = call_id, metadata or {}
        name = (serialized or {}).get("name") or kwargs.get("name") or ""
        started = {"event": "tool-started", "tool_call_id": call_id, "tool_name": name}
        self._write(metadata or {}, ToolEvent(started if inputs is None else {**started, "input": inputs}))

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        if (call := self._calls.pop(run_id, None)) is not None:
            call_id, metadata = call
            self._write(metadata, ToolEvent({"event": "tool-finished", "tool_call_id": call_id, "output": output}))

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        call = self._calls.pop(run_id, None)
        # A tool that asks for input is paused and runs again when the run is resumed.
        if call is not None and not isinstance(error, GraphInterrupt):
            call_id, metadata = call
            failed = {"event": "tool-error", "tool_call_id": call_id, "message": str(error)}
            self._write(metadata, ToolEvent(failed))

    def _write(self, metadata: dict[str, Any], event: CallbackEvent) -> None:
        try:
            write = get_stream_writer()
        except Exception:  # called outside a node
            self._record(_namespace(metadata), event)
        else:
            write(event)


def _is_streamed(tags: list[str] | None, metadata: dict[str, Any] | None) -> bool:
    """Whether the event belongs to a graph that does not exclude it from its stream."""
    return bool(metadata) and TAG_NOSTREAM not in (tags or ())


def _namespace(metadata: dict[str, Any]) -> Namespace:
    """The namespace of the graph that an event comes from: that of its node, without the node itself."""
    return tuple(str(metadata.get("langgraph_checkpoint_ns", "")).split("|")[:-1])
