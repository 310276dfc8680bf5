"""Execute one attempt of a run: LangGraph's stream in, log entries out."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from copy import copy
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Literal, Protocol, cast
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.pregel import Pregel
from langgraph.store.base import BaseStore
from langgraph.types import Command, Send

from threadwire.core.configuration import base_checkpoint_of, configurable_of
from threadwire.core.entries import Draft, Json, Kind, Namespace
from threadwire.core.json import native
from threadwire.core.records import Ending, Run, StateSummary
from threadwire.errors import Fenced, ThreadwireError
from threadwire.graphs.context_schema import matching_context
from threadwire.graphs.error_messages import ErrorMessages
from threadwire.graphs.langgraph_private.answers import find_answers, find_unanswered
from threadwire.graphs.langgraph_private.callback_events import CallbackEvent, CallbackEvents
from threadwire.graphs.langgraph_private.direct_stream import Part, can_stream_directly, stream_directly
from threadwire.graphs.langgraph_private.strict_resume import strict_resume_key
from threadwire.graphs.langgraph_private.tools_mode import has_tools_mode
from threadwire.graphs.message_ids import assign_ids
from threadwire.graphs.open_tool_calls import with_missing_results
from threadwire.graphs.stream_normalizer import Normalizer, render_interrupt
from threadwire.graphs.tracebacks import render_traceback
from threadwire.graphs.tracing import tracers

RECORDED_MODES = ("values", "updates", "messages", "custom", "tools", "tasks", "checkpoints")
"""Stream modes that every run records, so that any client can join it over any protocol. Where LangGraph's mode `tools`
cannot be used, callbacks replace it."""

LANGGRAPH_VERSION = version("langgraph")


class Recorder(Protocol):
    """Where an attempt's entries go: the part of a `RunHandle` that an execution needs."""

    def append(self, drafts: Sequence[Draft]) -> object: ...

    @property
    def queue_full(self) -> bool: ...

    async def wait_for_room(self) -> None: ...

    async def flush(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to execute a run.

    `resumes` means that an earlier attempt left a checkpoint, so the input has already been applied (spec 5.5).
    `answer_recorded` means that an earlier attempt has recorded what the run answers (spec 6.14).
    """

    run: Run
    resumes: bool
    base_checkpoint: str | None
    answer_recorded: bool = False
    stream_models: bool = True


class Execution:
    """Runs an attempt to its end.

    If `drive` raises, the ending of the run is `failed(error)`; after a cancellation it is `interrupted(error)`.
    """

    def __init__(self, attempt: Attempt, recorder: Recorder, messages: ErrorMessages | None = None) -> None:
        self._attempt = attempt
        self._run = attempt.run
        self._recorder = recorder
        self._messages = messages or ErrorMessages()
        self._kwargs = attempt.run.kwargs
        self._requested = frozenset(self._kwargs.get("stream_mode") or ())
        self.config = self._build_config()
        metadata = {
            **(self.config.get("metadata") or {}),
            "thread_id": self._run.thread_id,
            "run_id": self._run.run_id,
            "ls_integration": "langgraph",
        }
        self._normalizer = Normalizer(self._requested, metadata, self._messages)
        self._graph_input: Any = None
        self._answered: list[str] = []
        """The interrupts that the run is to answer."""
        self._unanswered: list[str] = []
        """Those of them that still wait for an answer after the run was stopped."""
        self._waits_for_disk = self._kwargs.get("durability") != "exit"
        self._step_finished = attempt.resumes
        self.traceback: str | None = None
        """The traceback, for the log, if the run failed with an error of the project's code."""

    async def drive(
        self, graph: Pregel[Any, Any, Any, Any], saver: BaseCheckpointSaver[str], store: BaseStore
    ) -> Ending:
        bound = copy(graph)  # `graph.copy` would validate the graph again
        bound.checkpointer, bound.store = saver, store
        self._normalizer.narrow = _omits_channels(bound)
        await self._record_start(bound, saver)
        self._graph_input = await self._input(saver)
        try:
            return await self._record_stream(bound)
        except BaseException:
            await self._note_unanswered(bound, saver)
            raise

    async def _record_stream(self, graph: Pregel[Any, Any, Any, Any]) -> Ending:
        async with aclosing(self._stream(graph)) as parts:
            async for part in parts:
                waits = self._begins_step(part)
                self._record(part)
                if waits:
                    await self._recorder.flush()
                elif self._recorder.queue_full:
                    await self._recorder.wait_for_room()
        return self._succeeded()

    def _record(self, part: Part) -> None:
        ns, mode, content = part
        if drafts := self._normalizer.feed(ns, mode, content, time.time_ns() // 1_000_000):
            self._recorder.append(drafts)
        if mode == "tasks" and "input" not in content:
            self._step_finished = True

    def _begins_step(self, part: Part) -> bool:
        """Whether the part announces a task that must not run before everything recorded is on disk.

        Waiting when a step's tasks are announced, and not when the checkpoint is put, lets LangGraph prepare the step
        in the meantime, and a crash still repeats only the step it interrupted. Before the first step there is nothing
        to repeat: the input is stored with the run.
        """
        _, mode, content = part
        return mode == "tasks" and "input" in content and self._step_finished and self._waits_for_disk

    def _delays_step(self, part: Part) -> bool:
        return self._begins_step(part) or (part[1] == "tasks" and self._recorder.queue_full)

    def failed(self, error: BaseException) -> Ending:
        if not isinstance(error, ThreadwireError):
            self.traceback = render_traceback(error)
        described = self._messages.describe(error, self._run.run_id)
        return self._stopped("error", described)

    def interrupted(self, error: Json) -> Ending:
        return self._stopped("interrupted", error)

    def _stopped(self, status: Literal["error", "interrupted"], error: Json) -> Ending:
        summary = self._state_summary(status, error)
        return Ending(status=status, error=error, unanswered=self._unanswered, summary=summary)

    @property
    def next(self) -> tuple[str, ...]:
        """The next nodes of the last checkpoint."""
        return self._normalizer.next

    # -- input and config ----------------------------------------------------------------------------------------

    async def _record_start(self, graph: Pregel[Any, Any, Any, Any], saver: BaseCheckpointSaver[str]) -> None:
        drafts = self._start_entries()
        try:
            if not self._attempt.resumes and not self._attempt.answer_recorded:
                drafts += await self._answer_entries(graph, saver)
        finally:
            self._recorder.append(drafts)

    def _start_entries(self) -> list[Draft]:
        now = time.time_ns() // 1_000_000
        started: dict[str, Json] = {
            "attempt": self._run.attempt,
            "graph_id": self._run.graph_id,
            "assistant_id": self._run.assistant_id,
            "stream_mode": self._kwargs.get("stream_mode") or [],
            "subgraphs": bool(self._kwargs.get("subgraphs")),
        }
        if self._attempt.base_checkpoint is not None:
            started["checkpoint_id"] = self._attempt.base_checkpoint
        drafts = [Draft(Kind.RUN_STARTED, started, (), now)]
        if not self._attempt.resumes and (base := self._addressed_checkpoint) is not None:
            drafts.append(Draft(Kind.STATE_RESET, {"cause": "fork", "checkpoint_id": base}, (), now))
        return drafts

    async def _answer_entries(
        self, graph: Pregel[Any, Any, Any, Any], saver: BaseCheckpointSaver[str]
    ) -> Sequence[Draft]:
        run = self._run
        if (resume := run.resume) is None:
            return ()
        strict = bool(self._kwargs.get("strict_resume"))
        answers = await find_answers(resume, graph, saver, run.thread_id, self._addressed_checkpoint, strict=strict)
        self._answered = [each["id"] for each in answers]
        answered = {"value": resume, "answers": answers, "by": run.owner, "via": run.via}
        return (Draft(Kind.INPUT_ANSWERED, answered, (), time.time_ns() // 1_000_000),)

    async def _note_unanswered(self, graph: Pregel[Any, Any, Any, Any], saver: BaseCheckpointSaver[str]) -> None:
        """Note which interrupts are still pending, because their tasks did not accept the run's answer (spec 6.16)."""
        if not self._answered:
            return
        with suppress(Exception):  # whatever it is, the run has a more important error
            found = await find_unanswered(self._answered, graph, saver, self._run.thread_id)
            self._normalizer.pending.update(found)
            self._unanswered = [each.id for interrupts in found.values() for each in interrupts]

    @property
    def _addressed_checkpoint(self) -> str | None:
        return base_checkpoint_of(self._kwargs.get("config") or {})

    async def _input(self, saver: BaseCheckpointSaver[str]) -> Any:
        if self._attempt.resumes:
            return None
        if command := self._kwargs.get("command"):  # an empty command counts as none
            return decode_command(command)
        graph_input = self._kwargs.get("input")
        if not self._kwargs.get("complete_tool_calls"):
            return graph_input
        return await with_missing_results(graph_input, saver, self._run.thread_id, self._addressed_checkpoint)

    def _build_config(self) -> dict[str, Any]:
        run = self._run
        client_config = dict(self._kwargs.get("config") or {})
        configurable = configurable_of(run)
        if self._attempt.resumes:
            for key in ("checkpoint_id", "checkpoint_map"):
                configurable.pop(key, None)
        if self._kwargs.get("strict_resume") and (strict_key := strict_resume_key()) is not None:
            configurable[strict_key] = True
        metadata = {
            **(client_config.get("metadata") or {}),
            **run.metadata,
            "graph_id": run.graph_id,
            "assistant_id": run.assistant_id,
            "run_attempt": run.attempt,
            "langgraph_version": LANGGRAPH_VERSION,
            "langgraph_host": "self-hosted",
        }
        return {
            **client_config,
            "configurable": configurable,
            "metadata": metadata,
            "run_id": UUID(run.run_id),
            "run_name": client_config.get("run_name") or run.graph_id,
            **_callbacks(client_config, self._kwargs.get("langsmith_tracer")),
        }

    def _modes(self) -> list[str]:
        unavailable = {
            *(() if self._wants_messages() else ("messages",)),
            *(() if has_tools_mode() else ("tools",)),
        }
        modes = [mode for mode in RECORDED_MODES if mode not in unavailable]
        return [*modes, "debug"] if "debug" in self._requested else modes

    def _wants_messages(self) -> bool:
        return self._attempt.stream_models or bool(self._requested & {"messages", "messages-tuple"})

    # -- stream and outcome --------------------------------------------------------------------------------------

    def _stream(self, graph: Pregel[Any, Any, Any, Any]) -> AsyncGenerator[Part]:
        config = cast("RunnableConfig", self.config if has_tools_mode() else self._with_callback_events())
        options: dict[str, Any] = {
            "stream_mode": self._modes(),
            "subgraphs": True,
            "output_keys": graph.output_channels,  # private channels are part of the state, not of the stream
            "context": matching_context(self._kwargs.get("context"), graph.context_schema),
            "interrupt_before": self._kwargs.get("interrupt_before"),
            "interrupt_after": self._kwargs.get("interrupt_after"),
            # LangGraph's `async` writes checkpoints later, any number of steps behind; see `_begins_step`.
            "durability": "exit" if self._kwargs.get("durability") == "exit" else "sync",
        }
        if "events" in self._requested:
            return self._with_events(graph, config, options)
        parts = cast("AsyncGenerator[Part]", graph.astream(self._graph_input, config, **options))
        return stream_directly(parts, self._record, self._delays_step) if can_stream_directly(graph) else parts

    def _with_callback_events(self) -> dict[str, Any]:
        """The config, with a handler that records tool calls and dispatched events in place of the mode `tools`."""
        loop = asyncio.get_running_loop()

        def record(ns: Namespace, event: CallbackEvent) -> None:
            loop.call_soon_threadsafe(self._record_callback_event, ns, event)

        return {**self.config, "callbacks": [*(self.config.get("callbacks") or ()), CallbackEvents(record)]}

    def _record_callback_event(self, ns: Namespace, event: CallbackEvent) -> None:
        if drafts := self._normalizer.feed(ns, "custom", event, time.time_ns() // 1_000_000):
            with suppress(Fenced):  # a thread that a node has started may outlive the attempt
                self._recorder.append(drafts)

    async def _with_events(
        self, graph: Pregel[Any, Any, Any, Any], config: RunnableConfig, options: dict[str, Any]
    ) -> AsyncGenerator[Part]:
        """Yield the same parts, and record every callback event except those of the root's own stream."""
        if graph.config and "recursion_limit" in graph.config:
            # Otherwise LangChain's default would override the graph's own limit.
            config = {"recursion_limit": graph.config["recursion_limit"], **config}
        async for event in graph.astream_events(self._graph_input, config, version="v2", **options):
            if event["event"] == "on_chain_stream" and event["run_id"] == self._run.run_id:
                yield event["data"]["chunk"]
            else:
                if event["event"] == "on_tool_end":
                    assign_ids(event["data"].get("output"))
                elif event["event"] == "on_tool_error":
                    event["data"]["error"] = self._messages.redact(event["data"]["error"])
                at = time.time_ns() // 1_000_000
                self._recorder.append((Draft(Kind.EVENTS, {"value": native(event)}, (), at),))

    def _succeeded(self) -> Ending:
        paused = bool(self._normalizer.pending or self._normalizer.next)
        interrupts = [each for task_interrupts in self._normalizer.pending.values() for each in task_interrupts]
        return Ending(
            status="success",
            interrupts=interrupts,
            summary=self._state_summary("interrupted" if paused else "idle", None),
        )

    def _state_summary(self, status: Any, error: Json) -> StateSummary | None:
        """The resulting thread state; None if this attempt reached no checkpoint."""
        if self._normalizer.last_values is None:
            return None
        pending = {
            task: [render_interrupt(each) for each in interrupts]
            for task, interrupts in self._normalizer.pending.items()
        }
        return StateSummary(status=status, values=native(self._normalizer.last_values), interrupts=pending, error=error)


def _omits_channels(graph: Pregel[Any, Any, Any, Any]) -> bool:
    """Whether the graph's state has channels that its output does not have."""
    channels, output = graph.stream_channels_asis, graph.output_channels
    return not isinstance(channels, str) and not isinstance(output, str) and not set(channels) <= set(output)


def _callbacks(config: dict[str, Any], tracer: Json) -> dict[str, Any]:
    added = tracers(tracer)
    return {"callbacks": [*(config.get("callbacks") or ()), *added]} if added else {}


def decode_command(command: dict[str, Any]) -> Command[Any]:
    goto = command.get("goto") or ()
    targets = goto if isinstance(goto, list) else [goto] if goto else []
    update = command.get("update")
    return Command(
        resume=command.get("resume"),
        update=[tuple(pair) for pair in update] if isinstance(update, list) else update,
        goto=[_target(each) for each in targets],
    )


def _target(target: Any) -> str | Send:
    return Send(target["node"], target.get("input")) if isinstance(target, dict) else str(target)
