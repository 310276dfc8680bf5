"""Starting, finding and stopping the runs of pages."""

from dataclasses import dataclass
from typing import Any, Literal

from threadwire.core.entries import Json
from threadwire.core.ids import ThreadId, thread_id_named
from threadwire.core.records import Assistant, Run, Thread
from threadwire.engine.lifecycle import Engine
from threadwire.engine.runs import StartRun
from threadwire.errors import Invalid, NotFound
from threadwire.protocols.ag_ui.decode import RunInput
from threadwire.protocols.ag_ui.intent import Intent, intent_of
from threadwire.protocols.ag_ui.state import conversation_of

PAGE_RUN = "ag_ui_run_id"
"""Where a run's metadata has the id its page gave it."""
PAGE_THREAD = "ag_ui_thread_id"
"""Where a thread's metadata has the id pages call it by, if that is not its own."""

_HISTORY_PAGE = 50

WhenBusy = Literal["reject", "enqueue", "interrupt", "rollback"]


async def find_agent(engine: Engine, name: str) -> Assistant:
    """An agent is an assistant: its id, or the name of its graph."""
    try:
        return await engine.assistants.resolve(name)
    except (Invalid, NotFound):
        raise NotFound(f"Agent '{name[:200]}' does not exist") from None


async def find_thread(engine: Engine, name: str) -> Thread:
    """A thread by what pages call it."""
    thread = await _thread(engine, thread_id_named(name))
    if thread is None:
        raise NotFound(f"Thread '{name}' not found")
    return thread


async def start(engine: Engine, agent: str, asked: RunInput, when_busy: WhenBusy) -> tuple[Run, Intent]:
    assistant = await find_agent(engine, agent)
    thread = await _thread(engine, asked.thread)
    accepted = await engine.assistants.input_keys(assistant)
    intent = intent_of(asked, thread, accepted)
    run = await engine.runs.start(
        StartRun(
            assistant=assistant.assistant_id,
            thread_id=asked.thread,
            kwargs=_kwargs(asked, intent, await _checkpoint_before(engine, asked.thread, intent.before)),
            metadata={PAGE_RUN: asked.run_id},
            multitask_strategy=when_busy,
            create_thread=True,
            thread_metadata={} if asked.thread == asked.thread_id else {PAGE_THREAD: asked.thread_id},
        )
    )
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
    from_page = {"tools": asked.tools or [], "context": asked.context or [], "forwarded_props": asked.forwarded}
    configurable: dict[str, Json] = {"ag_ui": from_page}
    if checkpoint_id is not None:
        configurable["checkpoint_id"] = checkpoint_id
    return {
        "input": intent.input,
        "command": intent.command,
        "config": {"configurable": configurable},
        "context": {},
        "stream_mode": ["values"],
        "interrupt_before": None,
        "interrupt_after": None,
        "webhook": None,
        "feedback_keys": None,
        "temporary": False,
        "subgraphs": True,
        "resumable": True,
        "checkpoint_during": True,
        "durability": "async",
    }


@dataclass(frozen=True, slots=True)
class Stopped:
    run: Run | None
    reason: str | None = None


async def stop(engine: Engine, thread_id: ThreadId, called: str, run_id: str | None) -> Stopped:
    """Stop what is active on a thread, or only the run that is meant. Asking for nothing is no error."""
    active = await engine.runs.active(thread_id)
    if active is None:
        return Stopped(None, f"No active run for thread '{called}'.")
    if run_id is not None and run_id not in (active.run_id, active.metadata.get(PAGE_RUN)):
        return Stopped(None, f"Run '{run_id}' is not the active run for thread '{called}'.")
    if not await engine.runs.stop_if_active(active, "interrupt"):
        return Stopped(None, f"No active run for thread '{called}'.")
    return Stopped(active)
