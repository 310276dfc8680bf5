"""Starting and stopping runs for AG-UI clients, and finding their agents and threads."""

from dataclasses import dataclass, field
from typing import Literal

from threadwire.core.entries import Json
from threadwire.core.ids import ThreadId, thread_id_from_name
from threadwire.core.records import Assistant, Run, Thread
from threadwire.engine.lifecycle import Engine
from threadwire.engine.runs import StartRun, run_kwargs
from threadwire.errors import AgentNotFound, Invalid, NotFound, ThreadNotFound
from threadwire.protocols.ag_ui.decode import RunInput
from threadwire.protocols.ag_ui.pending_stops import PendingStops
from threadwire.protocols.ag_ui.raw_events import RawChoice, recorded_modes
from threadwire.protocols.ag_ui.run_plan import RunPlan, plan_run

CLIENT_RUN_ID = "ag_ui_run_id"
"""The metadata key of a run for the id that its client chose."""
CLIENT_THREAD_ID = "ag_ui_thread_id"
"""The metadata key of a thread for the id that clients use, if it differs from ours."""

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


async def thread_to_connect(engine: Engine, name: str | None, client_policy: ClientPolicy) -> ThreadId:
    """The thread that a client connects to. Raises `Invalid` without a name, and `ThreadNotFound`.

    If the policy allows unknown threads, the thread need not exist yet. Even then, `ThreadNotFound` is raised for a
    deleted thread and for a name that cannot be an id.
    """
    if name is None:
        raise Invalid("`threadId` is required")
    try:
        thread_id = thread_id_from_name(name)
    except Invalid as error:
        raise ThreadNotFound(f"Thread '{name[:200]}' not found: {error.message}") from None
    if client_policy.unknown_thread == "error":
        await find_thread(engine, name)
    elif await engine.threads.was_deleted(thread_id):
        raise ThreadNotFound(f"Thread '{name}' was deleted")
    return thread_id


async def start(
    engine: Engine,
    assistant: Assistant,
    run_input: RunInput,
    client_policy: ClientPolicy,
    *,
    raw: RawChoice = False,
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
    before = None if plan.before is None else await engine.threads.checkpoint_before(thread_id, plan.before)
    run = await engine.runs.start(
        StartRun(
            assistant=assistant.assistant_id,
            thread_id=thread_id,
            kwargs=_kwargs(run_input, plan, before, raw),
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
    await engine.external_changes.record(thread_id)
    try:
        return await engine.threads.get(thread_id)
    except NotFound:
        return None


def _kwargs(run_input: RunInput, plan: RunPlan, checkpoint_id: str | None, raw: RawChoice) -> dict[str, Json]:
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
        stream_mode=["values", *recorded_modes(raw)],
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
