"""Starting and stopping runs for AG-UI clients, and finding their agents and threads."""

from dataclasses import dataclass, field
from typing import Any, Literal

from threadwire.core.entries import Json
from threadwire.core.ids import ThreadId, thread_id_from_name
from threadwire.core.records import Assistant, Run, Thread
from threadwire.engine.lifecycle import Engine
from threadwire.engine.runs import StartRun, run_kwargs
from threadwire.errors import AgentNotFound, Invalid, NotFound, ThreadNotFound
from threadwire.protocols.ag_ui.decode import RunInput
from threadwire.protocols.ag_ui.pending_stops import PendingStops
from threadwire.protocols.ag_ui.run_plan import RunPlan, plan_run
from threadwire.protocols.ag_ui.state import conversation_of

CLIENT_RUN_ID = "ag_ui_run_id"
"""The metadata key of a run for the id that its client chose."""
CLIENT_THREAD_ID = "ag_ui_thread_id"
"""The metadata key of a thread for the id that clients use, if it differs from ours."""

_HISTORY_PAGE = 50

WhenBusy = Literal["reject", "enqueue", "interrupt", "rollback"]
UnknownThread = Literal["error", "empty"]


@dataclass(frozen=True, slots=True)
class ClientPolicy:
    """How a protocol treats its clients."""

    protocol: str
    """The name of the protocol, recorded with its runs."""
    when_busy: WhenBusy
    """The multitask strategy of a run on a thread that has an active one."""
    unknown_thread: UnknownThread
    """Whether connecting to a thread that does not exist is an error or shows an empty thread."""
    pending_stops: PendingStops = field(default_factory=PendingStops)


async def find_agent(engine: Engine, name: str) -> Assistant:
    """Find an agent, which is an assistant, by its id or the name of its graph. Raises `AgentNotFound`."""
    try:
        return await engine.assistants.resolve(name)
    except (Invalid, NotFound):
        raise AgentNotFound(f"Agent '{name[:200]}' does not exist") from None


async def find_thread(engine: Engine, name: str) -> Thread:
    """Find a thread by the client's id. Raises `ThreadNotFound`."""
    thread = await _thread(engine, thread_id_from_name(name))
    if thread is None:
        raise ThreadNotFound(f"Thread '{name}' not found")
    return thread


async def start(
    engine: Engine,
    assistant: Assistant,
    run_input: RunInput,
    client_policy: ClientPolicy,
    *,
    on: ThreadId | None = None,
    thread_metadata: dict[str, Json] | None = None,
) -> tuple[Run, RunPlan]:
    """Start the run that a client requests, on the thread it names or on the thread `on`."""
    thread_id = on or run_input.thread
    if on is None and run_input.thread != run_input.thread_id:
        thread_metadata = {CLIENT_THREAD_ID: run_input.thread_id}
    thread = await _thread(engine, thread_id)
    accepted = await engine.assistants.input_keys(assistant)
    plan = plan_run(run_input, thread, accepted)
    run = await engine.runs.start(
        StartRun(
            assistant=assistant.assistant_id,
            thread_id=thread_id,
            kwargs=_kwargs(run_input, plan, await _checkpoint_before(engine, thread_id, plan.before)),
            metadata={CLIENT_RUN_ID: run_input.run_id},
            multitask_strategy=client_policy.when_busy,
            create_thread=True,
            thread_metadata=thread_metadata or {},
            defer_sync=True,
            via=client_policy.protocol,
        )
    )
    if client_policy.pending_stops.take(thread_id, run_input.run_id):
        await engine.runs.stop_if_active(run, "interrupt")
    return run, plan


async def _thread(engine: Engine, thread_id: ThreadId) -> Thread | None:
    try:
        return await engine.threads.get(thread_id)
    except NotFound:
        return None


async def _checkpoint_before(engine: Engine, thread_id: ThreadId, message_id: str | None) -> str | None:
    """The newest checkpoint that does not contain the message."""
    if message_id is None:
        return None
    before: dict[str, Any] | None = None
    while True:
        page = await engine.threads.history(thread_id, limit=_HISTORY_PAGE, before=before)
        for snapshot in page:
            if all(each.get("id") != message_id for each in conversation_of(snapshot["values"])):
                checkpoint_id: str = snapshot["checkpoint_id"]
                return checkpoint_id
        if len(page) < _HISTORY_PAGE:
            return None
        before = {"checkpoint_id": page[-1]["checkpoint_id"]}


def _kwargs(run_input: RunInput, plan: RunPlan, checkpoint_id: str | None) -> dict[str, Json]:
    tools, context = run_input.tools or [], run_input.context or []
    configurable: dict[str, Json] = {
        "ag_ui": {"tools": tools, "context": context, "forwarded_props": run_input.forwarded},
        # CopilotKit's middleware reads them here in a subgraph whose state has no key for them.
        "copilotkit": {"actions": tools, "context": context},
    }
    if checkpoint_id is not None:
        configurable["checkpoint_id"] = checkpoint_id
    return run_kwargs(
        input=plan.input,
        command=plan.command,
        config={"configurable": configurable},
        subgraphs=True,
        resumable=True,
    )


@dataclass(frozen=True, slots=True)
class Stopped:
    run: Run | None
    reason: str | None = None


async def stop(
    engine: Engine, thread_id: ThreadId, client_thread_id: str, run_id: str | None, client_policy: ClientPolicy
) -> Stopped:
    """Stop the active run of a thread, but only the given run if `run_id` is set.

    It is not an error if nothing is active. A given run that does not exist yet is stopped when it arrives, if it
    arrives soon.
    """
    active = await engine.runs.active(thread_id)
    matches = active is not None and run_id in (None, active.run_id, active.metadata.get(CLIENT_RUN_ID))
    if active is not None and matches and await engine.runs.stop_if_active(active, "interrupt"):
        return Stopped(active)
    if run_id is not None:
        client_policy.pending_stops.note(thread_id, run_id)
    if active is not None and not matches:
        return Stopped(None, f"Run '{run_id}' is not the active run for thread '{client_thread_id}'.")
    return Stopped(None, f"No active run for thread '{client_thread_id}'.")
