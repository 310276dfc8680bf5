"""Commands on a thread that need no connection: they start runs, and read and change the state."""

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import ValidationError

from threadwire.core.entries import Json
from threadwire.core.ids import ThreadId, parse_run_id
from threadwire.core.records import Run
from threadwire.engine.lifecycle import Engine
from threadwire.engine.shielding import run_to_completion
from threadwire.engine.threads import graph_not_assigned, graph_of
from threadwire.errors import Invalid, NotFound, ThreadwireError
from threadwire.graphs.langgraph_private.answers import is_answer_map
from threadwire.http.problems import status_of, validation_messages
from threadwire.protocols.langgraph.decode.runs import RunBody
from threadwire.protocols.langgraph.thread_wire.agent_tree import AgentTree
from threadwire.protocols.langgraph.thread_wire.decode import (
    Command,
    CommandError,
    GetTree,
    InputInject,
    InputRespond,
    ListCheckpoints,
    RunStart,
    StateFork,
    StateGet,
    checkpoint_in,
    decode_params,
)
from threadwire.protocols.langgraph.thread_wire.values import standard_values

STREAM_MODES = ["values", "updates", "messages-tuple", "custom"]
"""What a run records in full: clients may subscribe to any of it later."""

Handler = Callable[[Engine, ThreadId, Any], Awaitable[Json]]


async def execute(engine: Engine, thread_id: ThreadId, command: Command) -> Json:
    """Execute a command and return its result. Raises `CommandError`."""
    handler = HANDLERS.get(command.method)
    if handler is None:
        raise CommandError("unknown_command", f"Unknown protocol command: {command.method[:100]}")
    try:
        return await handler(engine, thread_id, command.params)
    except ThreadwireError as error:
        raise failure(error) from error


def failure(error: ThreadwireError) -> CommandError:
    """An error that has no code of its own, with its HTTP status."""
    return CommandError("unknown_error", f"{status_of(error)}: {error.message}")


async def find_run(engine: Engine, thread_id: ThreadId, run_id: str | None) -> Run:
    """A run of the thread, the newest one if None. Raises `CommandError`."""
    try:
        if run_id is not None:
            return await engine.runs.get(thread_id, parse_run_id(run_id))
        runs = await engine.runs.list(thread_id, limit=1)
    except (Invalid, NotFound):
        runs = []
    if not runs:
        missing = "No active run is bound to this thread." if run_id is None else f"Unknown run: {run_id[:100]}"
        raise CommandError("no_such_run", missing)
    return runs[0]


async def agent_tree(engine: Engine, run: Run) -> AgentTree:
    tree = AgentTree(run.graph_id)
    await engine.log.prime(run, tree, await engine.log.last(run.thread_id))
    return tree


# -- runs -----------------------------------------------------------------------------------------------------------


async def _run_start(engine: Engine, thread_id: ThreadId, params: Any) -> Json:
    wanted = decode_params(RunStart, params)
    body = _run_body(
        assistant_id=wanted.assistant_id,
        **await _input_or_answer(engine, thread_id, wanted),
        config=wanted.config,
        metadata=wanted.metadata,
        langsmith_tracer=None if wanted.langsmith_tracer is None else wanted.langsmith_tracer.as_dict(),
        if_not_exists="create",
        **({} if wanted.multitask_strategy is None else {"multitask_strategy": wanted.multitask_strategy}),
    )
    run = await engine.runs.start(body.start(thread_id))
    return {"run_id": run.run_id}


async def _input_or_answer(engine: Engine, thread_id: ThreadId, wanted: RunStart) -> dict[str, Json]:
    """The input of a run. On a thread that waits for an answer it is the answer, as on the stock server, unless the run
    starts from an earlier checkpoint."""
    configurable = wanted.config.get("configurable")
    forks = isinstance(configurable, dict) and configurable.get("checkpoint_id")
    if wanted.input is None or forks or not await _pending_interrupts(engine, thread_id):
        return {"input": wanted.input}
    return {"command": {"resume": wanted.input}}


async def _state_fork(engine: Engine, thread_id: ThreadId, params: Any) -> Json:
    wanted = decode_params(StateFork, params)
    body = _run_body(
        assistant_id=await _assistant_of(engine, thread_id),
        input=wanted.input,
        config=wanted.config,
        checkpoint_id=wanted.checkpoint_id,
    )
    try:
        run = await engine.runs.start(body.start(thread_id))
    except NotFound as error:
        raise CommandError("no_such_checkpoint", error.message) from error
    return {"run_id": run.run_id, "thread_id": thread_id}


async def _input_respond(engine: Engine, thread_id: ThreadId, params: Any) -> Json:
    wanted = decode_params(InputRespond, params)
    # Run to completion: a client that disconnects must not keep the lock, nor stop this between check and answer.
    return await run_to_completion(_respond(engine, thread_id, wanted))


async def _respond(engine: Engine, thread_id: ThreadId, wanted: InputRespond) -> Json:
    async with engine.widgets.one_at_a_time(thread_id):
        pending = await _pending_interrupts(engine, thread_id)
        if not pending:
            raise CommandError("no_such_run", "No interrupted run is bound to this thread.")
        for each in wanted.responses:
            if each.interrupt_id not in pending:
                raise CommandError(
                    "no_such_interrupt", f"Unknown or already-consumed interrupt: {each.interrupt_id[:100]}"
                )
        command = {"resume": _resume(wanted, pending), "update": wanted.update, "goto": wanted.goto}
        body = _run_body(
            assistant_id=await _assistant_of(engine, thread_id),
            command={name: value for name, value in command.items() if value is not None},
            config=wanted.config,
            metadata=wanted.metadata,
        )
        run = await engine.runs.start(body.start(thread_id))
    return {"run_id": run.run_id}


async def _pending_interrupts(engine: Engine, thread_id: ThreadId) -> set[str]:
    """The ids of the pending interrupts, except those that an active run answers."""
    # Read the runs first: an answer that takes effect between the two reads must not be missing from both.
    active = await engine.runs.all_active(thread_id)
    try:
        interrupts = (await engine.threads.get(thread_id)).interrupts
    except NotFound:
        return set()
    pending = {each["id"] for of_task in interrupts.values() for each in of_task}
    for run in active:
        resume = run.resume
        if resume is not None:
            pending -= resume.keys() if is_answer_map(resume) else pending
    return pending


def _resume(wanted: InputRespond, pending: set[str]) -> Json:
    answers = {each.interrupt_id: each.response for each in wanted.responses}
    if is_answer_map(answers):
        return answers
    if len(pending) == 1:
        return wanted.responses[0].response
    raise CommandError(
        "invalid_argument", "While several interrupts are pending, LangGraph accepts only ids that it has generated."
    )


async def _assistant_of(engine: Engine, thread_id: ThreadId) -> str:
    metadata = (await engine.threads.get(thread_id)).metadata
    graph_id = graph_of(metadata)
    if graph_id is None:
        raise graph_not_assigned(thread_id)
    return str(metadata.get("assistant_id") or graph_id)


def _run_body(**fields: Json) -> RunBody:
    options = {"stream_mode": STREAM_MODES, "stream_subgraphs": True, "stream_resumable": True}
    try:
        return RunBody.model_validate({**options, **fields})
    except ValidationError as error:
        found: Any = error.errors(include_url=False, include_context=False)
        raise CommandError("invalid_argument", validation_messages(found)) from None


# -- state ----------------------------------------------------------------------------------------------------------


async def _state_get(engine: Engine, thread_id: ThreadId, params: Any) -> Json:
    wanted = decode_params(StateGet, params)
    state = await _read_state(engine, thread_id, wanted.namespace)
    values = standard_values(state["values"])
    if wanted.keys is not None and isinstance(values, dict):
        values = {key: value for key, value in values.items() if key in wanted.keys}
    if state["checkpoint"] is None:
        return {"values": values}
    checkpoint = {"id": state["checkpoint"]["checkpoint_id"], "ns": state["checkpoint"]["checkpoint_ns"]}
    return {"values": values, "checkpoint": checkpoint}


async def _read_state(engine: Engine, thread_id: ThreadId, namespace: list[str]) -> Json:
    if not namespace:
        return await engine.threads.state(thread_id)
    await engine.threads.get(thread_id)
    missing = CommandError("no_such_namespace", f"Unknown namespace: {'|'.join(namespace)[:200]}")
    try:
        state = await engine.threads.state(thread_id, checkpoint_in(namespace))
    except NotFound:
        raise missing from None
    if state["checkpoint"] is None or state["created_at"] is None:
        raise missing
    return state


async def _list_checkpoints(engine: Engine, thread_id: ThreadId, params: Any) -> Json:
    wanted = decode_params(ListCheckpoints, params)
    if wanted.namespace:
        await _read_state(engine, thread_id, wanted.namespace)
    at = checkpoint_in(wanted.namespace)
    before = None if wanted.before is None else {**at, "checkpoint_id": wanted.before}
    if before is not None:
        await _require_checkpoint(engine, thread_id, before)
    states = await engine.threads.history(thread_id, limit=wanted.limit, before=before, checkpoint=at)
    return {"checkpoints": [_summary(state) for state in states]}


async def _require_checkpoint(engine: Engine, thread_id: ThreadId, checkpoint: dict[str, str]) -> None:
    state = await engine.threads.state(thread_id, checkpoint)
    if state["created_at"] is None:
        raise CommandError("no_such_checkpoint", f"Unknown checkpoint: {checkpoint['checkpoint_id'][:100]}")


def _summary(state: Json) -> Json:
    metadata = state["metadata"] or {}
    return {
        "id": state["checkpoint"]["checkpoint_id"],
        "timestamp": state["created_at"],
        "step": metadata.get("step"),
        "metadata": metadata,
    }


async def _input_inject(engine: Engine, thread_id: ThreadId, params: Any) -> Json:
    wanted = decode_params(InputInject, params)
    if wanted.namespace:
        raise CommandError("not_supported", "Messages can be injected only at the root, where `namespace` is empty.")
    message = wanted.message.model_dump(exclude_none=True)
    await engine.threads.update_state(thread_id, {"messages": [message]}, None, None)
    return {}


async def _get_tree(engine: Engine, thread_id: ThreadId, params: Any) -> Json:
    run = await find_run(engine, thread_id, decode_params(GetTree, params).run_id)
    return {"tree": (await agent_tree(engine, run)).root}


async def _needs_socket(engine: Engine, thread_id: ThreadId, params: Any) -> Json:
    raise CommandError(
        "not_supported",
        "Subscriptions need a WebSocket. Over HTTP, subscribe with POST /threads/{thread_id}/stream/events.",
    )


HANDLERS: dict[str, Handler] = {
    "run.start": _run_start,
    "input.respond": _input_respond,
    "input.inject": _input_inject,
    "state.get": _state_get,
    "state.listCheckpoints": _list_checkpoints,
    "state.fork": _state_fork,
    "agent.getTree": _get_tree,
    "subscription.subscribe": _needs_socket,
    "subscription.unsubscribe": _needs_socket,
    "subscription.reconnect": _needs_socket,
}
