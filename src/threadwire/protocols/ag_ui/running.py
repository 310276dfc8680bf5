"""Starting, finding and stopping the runs of pages."""

from dataclasses import dataclass, field
from typing import Any, Literal

from threadwire.core.entries import Json
from threadwire.core.ids import ThreadId, thread_id_named
from threadwire.core.records import Assistant, Run, Thread
from threadwire.engine.lifecycle import Engine
from threadwire.engine.runs import StartRun, run_kwargs
from threadwire.errors import AgentNotFound, Invalid, NotFound, ThreadNotFound
from threadwire.protocols.ag_ui.decode import RunInput
from threadwire.protocols.ag_ui.early_stops import EarlyStops
from threadwire.protocols.ag_ui.intent import Intent, intent_of
from threadwire.protocols.ag_ui.state import conversation_of

PAGE_RUN = "ag_ui_run_id"
"""Where a run's metadata has the id its page gave it."""
PAGE_THREAD = "ag_ui_thread_id"
"""Where a thread's metadata has the id pages call it by, if that is not its own."""

_HISTORY_PAGE = 50

WhenBusy = Literal["reject", "enqueue", "interrupt", "rollback"]
UnknownThread = Literal["error", "empty"]


@dataclass(frozen=True, slots=True)
class Manners:
    """How pages are dealt with."""

    when_busy: WhenBusy
    """What a run does on a thread that has an active one."""
    unknown_thread: UnknownThread
    """What a page is shown that connects to a thread that does not exist."""
    early_stops: EarlyStops = field(default_factory=EarlyStops)


async def find_agent(engine: Engine, name: str) -> Assistant:
    """An agent is an assistant: its id, or the name of its graph."""
    try:
        return await engine.assistants.resolve(name)
    except (Invalid, NotFound):
        raise AgentNotFound(f"Agent '{name[:200]}' does not exist") from None


async def find_thread(engine: Engine, name: str) -> Thread:
    """A thread by what pages call it."""
    thread = await _thread(engine, thread_id_named(name))
    if thread is None:
        raise ThreadNotFound(f"Thread '{name}' not found")
    return thread


async def start(
    engine: Engine,
    assistant: Assistant,
    asked: RunInput,
    manners: Manners,
    *,
    on: ThreadId | None = None,
    thread_metadata: dict[str, Json] | None = None,
) -> tuple[Run, Intent]:
    """Start what a page asks for, on the thread it names or on another."""
    thread_id = on or asked.thread
    if on is None and asked.thread != asked.thread_id:
        thread_metadata = {PAGE_THREAD: asked.thread_id}
    thread = await _thread(engine, thread_id)
    accepted = await engine.assistants.input_keys(assistant)
    intent = intent_of(asked, thread, accepted)
    run = await engine.runs.start(
        StartRun(
            assistant=assistant.assistant_id,
            thread_id=thread_id,
            kwargs=_kwargs(asked, intent, await _checkpoint_before(engine, thread_id, intent.before)),
            metadata={PAGE_RUN: asked.run_id},
            multitask_strategy=manners.when_busy,
            create_thread=True,
            thread_metadata=thread_metadata or {},
            watched=True,
        )
    )
    if manners.early_stops.take(thread_id, asked.run_id):
        await engine.runs.stop_if_active(run, "interrupt")
    return run, intent


async def _thread(engine: Engine, thread_id: ThreadId) -> Thread | None:
    try:
        return await engine.threads.get(thread_id)
    except NotFound:
        return None


async def _checkpoint_before(engine: Engine, thread_id: ThreadId, message_id: str | None) -> str | None:
    """The newest checkpoint that does not have the message yet."""
    if message_id is None:
        return None
    before: dict[str, Any] | None = None
    while True:
        page = await engine.threads.history(thread_id, limit=_HISTORY_PAGE, before=before)
        for snapshot in page:
            if all(each.get("id") != message_id for each in conversation_of(snapshot["values"])):
                found: str = snapshot["checkpoint_id"]
                return found
        if len(page) < _HISTORY_PAGE:
            return None
        before = {"checkpoint_id": page[-1]["checkpoint_id"]}


def _kwargs(asked: RunInput, intent: Intent, checkpoint_id: str | None) -> dict[str, Json]:
    tools, context = asked.tools or [], asked.context or []
    configurable: dict[str, Json] = {
        "ag_ui": {"tools": tools, "context": context, "forwarded_props": asked.forwarded},
        # Where CopilotKit's middleware looks in a subgraph whose state has no place for them.
        "copilotkit": {"actions": tools, "context": context},
    }
    if checkpoint_id is not None:
        configurable["checkpoint_id"] = checkpoint_id
    return run_kwargs(
        input=intent.input,
        command=intent.command,
        config={"configurable": configurable},
        subgraphs=True,
        resumable=True,
    )


@dataclass(frozen=True, slots=True)
class Stopped:
    run: Run | None
    reason: str | None = None


async def stop(engine: Engine, thread_id: ThreadId, called: str, run_id: str | None, manners: Manners) -> Stopped:
    """Stop what is active on a thread, or only the run that is meant. Asking for nothing is no error, and a run that
    is meant and not there is stopped when it comes, if it comes soon."""
    active = await engine.runs.active(thread_id)
    meant = active is not None and run_id in (None, active.run_id, active.metadata.get(PAGE_RUN))
    if active is not None and meant and await engine.runs.stop_if_active(active, "interrupt"):
        return Stopped(active)
    if run_id is not None:
        manners.early_stops.note(thread_id, run_id)
    if active is not None and not meant:
        return Stopped(None, f"Run '{run_id}' is not the active run for thread '{called}'.")
    return Stopped(None, f"No active run for thread '{called}'.")
