"""ChatKit's events from a LangGraph graph, for projects that have their own `ChatKitServer`.

The same normalizer and the same encoder as in Threadwire's server produce them, so they have the same form. The graph
needs a checkpointer of its own; items are stored by the `ChatKitServer`.
"""

import time
import warnings
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.pregel import Pregel
from langgraph.types import Command
from pydantic import TypeAdapter

from threadwire.core.entries import Draft, Entry, Json, Kind
from threadwire.core.ids import RunId, Seq, uuid7
from threadwire.core.json import dumps, loads, native
from threadwire.graphs.error_messages import ErrorMessages
from threadwire.graphs.execution import RECORDED_MODES
from threadwire.graphs.langgraph_private.answers import find_answers
from threadwire.graphs.stream_normalizer import Normalizer, render_interrupt
from threadwire.protocols.chatkit.encode import ChatKitEncoder
from threadwire.protocols.chatkit.formats import AgentFormat, AgentFormats, Formats

if TYPE_CHECKING:
    from chatkit.types import ThreadStreamEvent

_AGENT = "agent"
_MISSING = "LangGraphAdapter requires openai-chatkit. Install it with: pip install 'threadwire[chatkit]'"


class LangGraphAdapter:
    """Streams a graph's runs as `ThreadStreamEvent`s.

    async def respond(self, thread, input_user_message, context):
        async for event in self.adapter.stream_agent_response_from_langgraph(text, thread.id):
            yield event
    """

    def __init__(self, graph: Pregel[Any, Any, Any, Any], formats: Formats | None = None) -> None:
        self._graph = graph
        formats = formats or Formats()
        self._formats = AgentFormats({_AGENT: AgentFormat(formats.tools, formats.widgets, allow_cancel=True)})

    async def stream_agent_response_from_langgraph(
        self,
        user_message: str | Sequence[Mapping[str, Any]] | Command[Any],
        thread_id: str,
        config: Mapping[str, Any] | None = None,
    ) -> AsyncIterator["ThreadStreamEvent"]:
        """Run the graph and yield the events to send. The input is a user's message, as text or content blocks, or a
        `Command` that answers an interrupt. If the graph raises, whatever is open is closed first, so that the text
        that users have seen is stored, and then an error event is yielded."""
        validate = _validator()
        is_command = isinstance(user_message, Command)
        message_id = uuid7()
        graph_input = user_message if is_command else {"messages": [_human(message_id, user_message)]}
        run = _RecordedRun(thread_id, self._formats)
        # The server has shown and stored the user's message already.
        known = dumps({"type": "thread.item.done", "item": {"id": f"msg_{message_id}"}})[:-2]
        async for event in self._events(run, graph_input, config):
            if not event.startswith(known):
                yield validate(event)

    async def _events(
        self, run: "_RecordedRun", graph_input: Any, config: Mapping[str, Any] | None
    ) -> AsyncIterator[bytes]:
        configurable = {**((config or {}).get("configurable") or {}), "thread_id": run.thread_id}
        run_config: Any = {**(config or {}), "configurable": configurable}
        options: dict[str, Any] = {"stream_mode": list(RECORDED_MODES), "subgraphs": True}
        await self._prime(run, run_config)
        run.start()
        try:
            for event in run.answer(await self._answers(graph_input, run.thread_id)):
                yield event
            async for ns, mode, part in self._graph.astream(graph_input, run_config, **options):
                for event in run.feed(ns, mode, part):
                    yield event
        except Exception as error:
            for event in run.fail(error):
                yield event
        else:
            for event in run.succeed():
                yield event

    async def _prime(self, run: "_RecordedRun", config: Any) -> None:
        """Prime the encoder with the thread's current state, so that only new events are yielded."""
        if self._graph.checkpointer:
            snapshot = await self._graph.aget_state(config)
            run.prime(snapshot.values, snapshot.interrupts)

    async def _answers(self, graph_input: Any, thread_id: str) -> list[Json]:
        """The interrupts that a `Command` answers. Their cards become read-only."""
        saver = self._graph.checkpointer
        if not isinstance(graph_input, Command) or not isinstance(saver, BaseCheckpointSaver):
            return []
        return await find_answers(native(graph_input.resume), self._graph, saver, thread_id)


class _RecordedRun:
    """The log of one run, in memory, and its encoder."""

    def __init__(self, thread_id: str, formats: AgentFormats) -> None:
        self.thread_id = thread_id
        self._run_id = RunId(uuid7())
        self._encoder = ChatKitEncoder(thread_id, formats)
        self._normalizer = Normalizer(frozenset(), {"thread_id": thread_id})
        self._seq = 0

    def prime(self, values: Any, interrupts: Sequence[Any]) -> None:
        state = {"values": native(values), "interrupts": [render_interrupt(each) for each in interrupts]}
        self._add([Draft(Kind.STATE_RESET, {"cause": "update", **state}, (), _now())])

    def start(self) -> None:
        started = {"attempt": 1, "graph_id": _AGENT, "assistant_id": _AGENT, "stream_mode": [], "subgraphs": True}
        self._add([Draft(Kind.RUN_STARTED, started, (), _now())])

    def answer(self, answers: list[Json]) -> list[bytes]:
        return self._add([Draft(Kind.INPUT_ANSWERED, {"answers": answers}, (), _now())] if answers else [])

    def feed(self, ns: tuple[str, ...], mode: str, part: Any) -> list[bytes]:
        return self._add(self._normalizer.feed(ns, mode, part, _now()))

    def succeed(self) -> list[bytes]:
        pending = [each for of_task in self._normalizer.pending.values() for each in of_task]
        return self._end({"status": "success", **({"interrupts": pending} if pending else {})})

    def fail(self, error: Exception) -> list[bytes]:
        return self._end({"status": "error", "error": ErrorMessages().describe(error, self._run_id)})

    def _end(self, data: dict[str, Any]) -> list[bytes]:
        return self._add([Draft(Kind.RUN_ENDED, data, (), _now())])

    def _add(self, drafts: Sequence[Draft]) -> list[bytes]:
        events: list[bytes] = []
        for kind, data, ns, at in drafts:
            self._seq += 1
            entry = Entry(Seq(self._seq), self._run_id, 1, at, ns, kind, data)
            events += [event for _, event in self._encoder.feed(entry) if event]
        return events


def _human(message_id: str, content: Any) -> dict[str, Any]:
    return {"type": "human", "id": message_id, "content": content if isinstance(content, str) else list(content)}


def _now() -> int:
    return time.time_ns() // 1_000_000


def _validator() -> Callable[[bytes], Any]:
    """Return a function that turns JSON into one of the package's events."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the package warns about its own widget classes
        try:
            from chatkit.types import ThreadStreamEvent
            from chatkit.widgets import DynamicWidgetRoot
        except ImportError:
            raise ImportError(_MISSING) from None
    events = TypeAdapter[Any](ThreadStreamEvent)

    def validate(data: bytes) -> Any:
        fields = loads(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            event = events.validate_python(fields)
            for name in ("item", "update"):
                # The package prefers its strict classes, which drop the properties that they do not know.
                if "widget" in fields.get(name, {}):
                    getattr(event, name).widget = DynamicWidgetRoot.model_validate(fields[name]["widget"])
        return event

    return validate
