"""Execute one attempt of a run: LangGraph's stream in, log entries out."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Protocol, cast
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
from threadwire.errors import ThreadwireError
from threadwire.graphs.answers import find_answers
from threadwire.graphs.context import matching_context
from threadwire.graphs.error_messages import ErrorMessages
from threadwire.graphs.langgraph_private import STRICT_RESUME, patch_langgraph
from threadwire.graphs.message_ids import assign_ids
from threadwire.graphs.normalize import Normalizer, render_interrupt
from threadwire.graphs.tracebacks import render_traceback
from threadwire.graphs.tracing import tracers

RECORDED_MODES = ("values", "updates", "messages", "custom", "tools", "tasks", "checkpoints")
"""Stream modes that every run records, so that any client can join it over any protocol."""

LANGGRAPH_VERSION = version("langgraph")

patch_langgraph()


class Recorder(Protocol):
    """Where an attempt's entries go."""

    def record(self, drafts: Sequence[Draft]) -> None: ...

    @property
    def queue_full(self) -> bool: ...

    async def wait_for_room(self) -> None: ...


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
        self.traceback: str | None = None
        """Where the project's code raised the error that the run failed with, for the log."""

    async def drive(
        self, graph: Pregel[Any, Any, Any, Any], saver: BaseCheckpointSaver[str], store: BaseStore
    ) -> Ending:
        bound = graph.copy(update={"checkpointer": saver, "store": store})
        await self._record_start(bound, saver)
        record, recorder, feed = self._recorder.record, self._recorder, self._normalizer.feed
        # A step's tasks are announced before they run. Waiting for the disk at that point, and not when the checkpoint
        # is put, lets LangGraph prepare the step in the meantime, and a crash still repeats only the step it
        # interrupted. Before the first step there is nothing to repeat: the input is stored with the run.
        written: Callable[[], Awaitable[None]] = getattr(saver, "wait_until_written", _no_wait)
        wait_per_step = self._kwargs.get("durability") != "exit"
        step_finished = self._attempt.resumes
        async with aclosing(self._stream(bound)) as parts:
            async for ns, mode, part in parts:
                record(feed(ns, mode, part, time.time_ns() // 1_000_000))
                if mode == "tasks" and wait_per_step:
                    if "input" not in part:
                        step_finished = True
                    elif step_finished:
                        await written()
                elif recorder.queue_full:
                    await recorder.wait_for_room()
        return self._succeeded()

    def failed(self, error: BaseException) -> Ending:
        if not isinstance(error, ThreadwireError):
            self.traceback = render_traceback(error)
        described = self._messages.describe(error, self._run.run_id)
        return Ending(status="error", error=described, summary=self._state_summary("error", described))

    def interrupted(self, error: Json) -> Ending:
        return Ending(status="interrupted", error=error, summary=self._state_summary("interrupted", error))

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
            self._recorder.record(drafts)

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
        answered = {"value": resume, "answers": answers, "by": run.owner, "via": run.via}
        return (Draft(Kind.INPUT_ANSWERED, answered, (), time.time_ns() // 1_000_000),)

    @property
    def _addressed_checkpoint(self) -> str | None:
        return base_checkpoint_of(self._kwargs.get("config") or {})

    def _input(self) -> Any:
        if self._attempt.resumes:
            return None
        if command := self._kwargs.get("command"):  # an empty command counts as none
            return decode_command(command)
        return self._kwargs.get("input")

    def _build_config(self) -> dict[str, Any]:
        run = self._run
        client_config = dict(self._kwargs.get("config") or {})
        configurable = configurable_of(run)
        if self._attempt.resumes:
            for key in ("checkpoint_id", "checkpoint_map"):
                configurable.pop(key, None)
        if self._kwargs.get("strict_resume"):
            configurable[STRICT_RESUME] = True
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
        modes = [mode for mode in RECORDED_MODES if mode != "messages" or self._wants_messages()]
        return [*modes, "debug"] if "debug" in self._requested else modes

    def _wants_messages(self) -> bool:
        return self._attempt.stream_models or bool(self._requested & {"messages", "messages-tuple"})

    # -- stream and outcome --------------------------------------------------------------------------------------

    def _stream(self, graph: Pregel[Any, Any, Any, Any]) -> AsyncGenerator[tuple[Namespace, str, Any]]:
        config = cast("RunnableConfig", self.config)
        options: dict[str, Any] = {
            "stream_mode": self._modes(),
            "subgraphs": True,
            "output_keys": graph.output_channels,  # private channels are part of the state, not of the stream
            "context": matching_context(self._kwargs.get("context"), graph.context_schema),
            "interrupt_before": self._kwargs.get("interrupt_before"),
            "interrupt_after": self._kwargs.get("interrupt_after"),
            # LangGraph's `async` writes checkpoints in the background, any number of steps behind; see `drive`.
            "durability": "exit" if self._kwargs.get("durability") == "exit" else "sync",
        }
        if "events" in self._requested:
            return self._with_events(graph, config, options)
        return cast("AsyncGenerator[tuple[Namespace, str, Any]]", graph.astream(self._input(), config, **options))

    async def _with_events(
        self, graph: Pregel[Any, Any, Any, Any], config: RunnableConfig, options: dict[str, Any]
    ) -> AsyncGenerator[tuple[Namespace, str, Any]]:
        """Yield the same parts, and record every callback event except those of the root's own stream."""
        if graph.config and "recursion_limit" in graph.config:
            # Otherwise LangChain's default would override the graph's own limit.
            config = {"recursion_limit": graph.config["recursion_limit"], **config}
        async for event in graph.astream_events(self._input(), config, version="v2", **options):
            if event["event"] == "on_chain_stream" and event["run_id"] == self._run.run_id:
                yield event["data"]["chunk"]
            else:
                if event["event"] == "on_tool_end":
                    assign_ids(event["data"].get("output"))
                at = time.time_ns() // 1_000_000
                self._recorder.record((Draft(Kind.EVENTS, {"value": native(event)}, (), at),))

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


def _callbacks(config: dict[str, Any], tracer: Json) -> dict[str, Any]:
    added = tracers(tracer)
    return {"callbacks": [*(config.get("callbacks") or ()), *added]} if added else {}


async def _no_wait() -> None:
    """For user-provided savers, which decide for themselves when a put is durable."""


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
