"""Starting, finding, cancelling and awaiting runs, for every protocol."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import UUID

from threadwire.core.access_filter import EVERYTHING, AccessFilter
from threadwire.core.configuration import AUTH_KEYS, base_checkpoint_of, merge_run_configuration, with_user
from threadwire.core.entries import Draft, Json
from threadwire.core.ids import RunId, ThreadId, uuid7
from threadwire.core.records import (
    Accepted,
    Assistant,
    CancelAction,
    Cancelled,
    Durability,
    Lease,
    LogCounters,
    MultitaskStrategy,
    NewRun,
    QueueLimits,
    Run,
    RunSelection,
    RunStatus,
    Ttl,
)
from threadwire.core.run_state import queue_full
from threadwire.engine.access import allowed, current_owner, current_user, is_restricted
from threadwire.engine.assistants import Assistants
from threadwire.engine.checkpoints import ThreadCheckpoints
from threadwire.engine.clock import Clock
from threadwire.engine.followers import Followers
from threadwire.engine.log_queries import active_run
from threadwire.engine.request_context import request_configurable
from threadwire.engine.run_outcome import wait_for_outcome
from threadwire.engine.shielding import run_to_completion
from threadwire.engine.webhook_delivery import Webhooks
from threadwire.engine.workers import Workers
from threadwire.errors import KeyReused, NotFound
from threadwire.storage.abc import Storage

_NOT_FOUND = "Thread or assistant not found."
_NO_RUNS = "No runs found to cancel."
_NOTHING_TO_CANCEL = (
    "No matching runs to cancel. Please verify the thread ID and run IDs are correct, and the runs haven't been deleted"
    " or completed."
)


@dataclass(frozen=True, slots=True)
class StartRun:
    """A client's request to start a run. `kwargs` is stored unchanged and passed to the graph."""

    assistant: str
    thread_id: ThreadId | None
    """None creates a thread for the run."""
    kwargs: dict[str, Any]
    answers_if_pending: dict[str, Any] = field(default_factory=dict)
    """Answers to interrupts by id. If one of these interrupts is pending on the thread, the run resumes instead of
    starting with its input."""
    metadata: dict[str, Any] = field(default_factory=dict)
    multitask_strategy: MultitaskStrategy = "enqueue"
    create_thread: bool = False
    thread_metadata: dict[str, Any] = field(default_factory=dict)
    temporary: bool = False
    """Whether the thread is discarded when the run ends."""
    webhook: str | None = None
    after_seconds: float = 0
    idempotency_key: str | None = None
    request_digest: str | None = None
    """Identifies the whole request made with the key."""
    defer_sync: bool = False
    """Whether fsync may be deferred, because the client receives nothing before the run's first output."""
    owner: str | None = None
    via: str | None = None
    """The protocol over which the request arrived, or `cron`."""
    preceding: tuple[Draft, ...] = ()
    """Entries outside the run that are written in the transaction that accepts it, or not at all."""
    access: AccessFilter = EVERYTHING
    """Which threads the run may use. Set by the engine."""
    created_metadata: dict[str, Any] = field(default_factory=dict)
    """Metadata that the thread gets in addition if it is created. Set by the engine."""
    run_id: RunId | None = None
    """The id of the run, if it is known already. Set by the engine."""


Accept = Callable[[NewRun, Lease | None], Awaitable[Accepted | None]]
"""Accepts a run in a transaction of the caller's choice, and claims it with the lease if there is one."""


def run_kwargs(
    *,
    config: dict[str, Any],
    input: Json = None,
    command: Json = None,
    context: dict[str, Any] | None = None,
    stream_mode: Sequence[str] = ("values",),
    interrupt_before: Json = None,
    interrupt_after: Json = None,
    webhook: str | None = None,
    feedback_keys: Json = None,
    temporary: bool = False,
    subgraphs: bool = False,
    resumable: bool = False,
    durability: Durability = "async",
    strict_resume: bool = False,
    complete_tool_calls: bool = False,
    langsmith_tracer: Json = None,
) -> dict[str, Any]:
    """A run's `kwargs`, the same for every protocol, with the keys that clients see when they read the run.

    With `complete_tool_calls`, tool calls without a result get one before the input's messages are added.
    """
    optional = {
        "strict_resume": strict_resume,
        "complete_tool_calls": complete_tool_calls,
        "langsmith_tracer": langsmith_tracer,
    }
    return {
        "input": input,
        "command": command,
        "config": config,
        "context": context or {},
        "stream_mode": list(stream_mode),
        "interrupt_before": interrupt_before,
        "interrupt_after": interrupt_after,
        "webhook": webhook,
        "feedback_keys": feedback_keys,
        "temporary": temporary,
        "subgraphs": subgraphs,
        "resumable": resumable,
        "checkpoint_during": durability != "exit",
        "durability": durability,
        **{name: value for name, value in optional.items() if value},
    }


RunList = list[Run]
"""Inside `Runs`, the method `list` hides the built-in type."""


class Runs:
    def __init__(
        self,
        storage: Storage,
        assistants: Assistants,
        followers: Followers,
        worker: Workers,
        checkpoints: ThreadCheckpoints,
        webhooks: Webhooks,
        clock: Clock,
        default_ttl: Ttl | None = None,
        limits: QueueLimits | None = None,
    ) -> None:
        self._storage = storage
        self._checkpoints = checkpoints
        self._assistants = assistants
        self._followers = followers
        self._worker = worker
        self._webhooks = webhooks
        self._clock = clock
        self._default_ttl = default_ttl
        self._limits = limits
        self.follow = followers.follow

    async def start(self, request: StartRun) -> Run:
        """Accept a run. On return it is durable, and will be executed even if the caller disconnects."""
        return await self._start(await self.authorize(request))

    async def _start(self, request: StartRun) -> Run:
        await self.check(request)
        accepted = await self.accept_with(request, partial(self._accept, defer_sync=request.defer_sync))
        assert accepted is not None
        return accepted

    async def authorize(self, request: StartRun) -> StartRun:
        """Apply the caller's rules. Return the request with the changes that they made."""
        if not is_restricted():
            return request
        config = request.kwargs.get("config") or {}
        configurable = with_user(config.get("configurable") or {}, current_user.get())
        value: dict[str, Any] = {
            "thread_id": None if request.temporary else request.thread_id,
            "assistant_id": self._assistants.id_of(request.assistant),
            "run_id": (run_id := RunId(uuid7())),
            "status": "pending",
            "metadata": dict(request.metadata),
            "prevent_insert_if_inflight": request.multitask_strategy == "reject",
            "multitask_strategy": request.multitask_strategy,
            "if_not_exists": "create" if request.create_thread or request.thread_id is None else "reject",
            "after_seconds": request.after_seconds,
            "kwargs": {**request.kwargs, "config": {**config, "configurable": configurable}},
        }
        access = await allowed("threads", "create_run", value)
        if access and request.thread_id is not None:
            may_create = request.create_thread or request.temporary
            await self._reject_foreign(request.thread_id, access, may_create=may_create)
        metadata = value["metadata"]
        added = {key: each for key, each in metadata.items() if request.metadata.get(key) != each}
        return replace(
            request, run_id=run_id, kwargs=value["kwargs"], metadata=metadata, created_metadata=added, access=access
        )

    async def _reject_foreign(self, thread_id: ThreadId, access: AccessFilter, *, may_create: bool) -> None:
        """Accepting the run would reject a foreign thread too, but only after checks that read the thread. A missing
        thread that may not be created is rejected here as well, so that rejecting it takes as long as rejecting a
        foreign one."""
        thread = await self._storage.threads.get(thread_id, with_state=False)
        if not may_create if thread is None else not access.matches(thread.metadata):
            raise NotFound(_NOT_FOUND)

    async def check(self, request: StartRun) -> None:
        """Reject a request that would fail later: its checkpoint does not exist, its webhook is not allowed, its thread
        could not be deleted, or other runs could not be rolled back."""
        if (base := base_checkpoint_of(request.kwargs.get("config") or {})) is not None:
            await self._checkpoints.require(request.thread_id or ThreadId(uuid7()), base)
        if request.webhook is not None:
            await self._webhooks.check(request.webhook)
        if request.temporary:
            self._checkpoints.require_deletion()
        if request.multitask_strategy == "rollback":
            self._checkpoints.require_rollback()

    async def _accept(self, new: NewRun, claim: Lease | None, *, defer_sync: bool) -> Accepted:
        try:
            return await self._storage.runs.accept(new, claim=claim, defer_sync=defer_sync)
        except NotFound as error:
            raise NotFound(_NOT_FOUND) from error

    async def accept_with(self, request: StartRun, accept: Accept) -> Run | None:
        """Accept a run with `accept` and notify the worker, even if the caller is cancelled. Return the run as it was
        accepted, or None if it was not. Raises `KeyReused`."""
        new = await self._prepare(request)
        replaced = await self._rolled_back_by(request)
        return await run_to_completion(self._accept_and_notify(new, replaced, accept))

    async def _accept_and_notify(self, new: NewRun, replaced: "Sequence[Run]", accept: Accept) -> Run | None:
        with self._worker.reserve_slot(new.thread_id) as slot:
            accepted = await accept(new, None if slot is None else slot.lease)
            if accepted is None:
                return None
            if slot is not None and accepted.started:
                slot.start(accepted.run)
        await accepted.commit.wait()
        if accepted.started:
            return replace(accepted.run, status="pending")
        if accepted.repeated:
            return _same_request(new, accepted.run)
        for run in replaced:
            await self._checkpoints.forget_run(run.run_id)
        for run_id in accepted.stopping:
            self._worker.stop(run_id, "rollback" if new.multitask_strategy == "rollback" else "interrupt")
        self._worker.hint()
        return accepted.run

    async def _prepare(self, request: StartRun) -> NewRun:
        assistant = await self._assistants.resolve(request.assistant)
        now = self._clock()
        origin = {"graph_id": assistant.graph_id, "assistant_id": assistant.assistant_id}
        return NewRun(
            run_id=request.run_id or RunId(uuid7()),
            thread_id=request.thread_id or ThreadId(uuid7()),
            assistant_id=assistant.assistant_id,
            graph_id=assistant.graph_id,
            created_at=now,
            due_at=now + round(request.after_seconds * 1000),
            multitask_strategy=request.multitask_strategy,
            metadata={**assistant.metadata, **request.metadata, **origin},
            kwargs=_with_assistant(await self._answering(request), assistant),
            create_thread=request.create_thread or request.thread_id is None,
            thread_metadata=request.thread_metadata,
            thread_config=_thread_config(request.kwargs),
            thread_ttl=self._default_ttl,
            idempotency_key=request.idempotency_key,
            request_digest=request.request_digest,
            temporary=request.temporary,
            webhook=None if self._webhooks.disabled else request.webhook,
            owner=request.owner or current_owner(),
            via=request.via,
            limits=self._limits,
            preceding=request.preceding,
            access=request.access,
            created_metadata=request.created_metadata,
        )

    async def _answering(self, request: StartRun) -> dict[str, Any]:
        """Return the run's kwargs, with those answers of `answers_if_pending` that the thread waits for."""
        if not request.answers_if_pending or request.thread_id is None or request.kwargs.get("command"):
            return request.kwargs
        thread = await self._storage.threads.get(request.thread_id, access=request.access)
        interrupts = [each for task in (thread.interrupts if thread else {}).values() for each in task]
        given = request.answers_if_pending
        answers = {each["id"]: given[each["id"]] for each in interrupts if each.get("id") in given}
        return {**request.kwargs, "input": None, "command": {"resume": answers}} if answers else request.kwargs

    async def _rolled_back_by(self, request: StartRun) -> "Sequence[Run]":
        """The pending runs that end when this one is accepted. Those released by a shutdown may have checkpoints."""
        if request.multitask_strategy != "rollback" or request.thread_id is None:
            return ()
        return await self._storage.runs.list(request.thread_id, status="pending", limit=1000, access=request.access)

    async def start_all(self, requests: Sequence[StartRun]) -> RunList:
        """Start several runs. If the assistant or the thread of one does not exist, or the queue has no room for all of
        them, none is started."""
        await self._require_room(requests)
        requests = [await self.authorize(request) for request in requests]
        for request in requests:
            await self._assistants.resolve(request.assistant)
            await self.check(request)
            required = None if request.create_thread else request.thread_id
            if required is not None and (
                await self._storage.threads.get(required, with_state=False, access=request.access) is None
            ):
                raise NotFound(_NOT_FOUND)
        return [await self._start(request) for request in requests]

    async def _require_room(self, requests: Sequence[StartRun]) -> None:
        # Requests with a key can be repeated: those already started are recognized, and the others are started now.
        unkeyed = sum(request.idempotency_key is None for request in requests)
        if self._limits is None or not unkeyed:
            return
        if (await self.count_active())["pending"] + unkeyed > self._limits.total:
            raise queue_full(self._limits)

    async def get(self, thread_id: ThreadId | None, run_id: RunId, missing: str = "Not Found") -> Run:
        """Return a run of the thread, or of any thread if None. A run on a discarded thread is found until the thread
        is swept. Raises `NotFound` with the message `missing`."""
        access = await allowed("threads", "read", {"thread_id": thread_id})
        return await self._get(thread_id, run_id, access, missing)

    async def require_readable(self, run: Run) -> None:
        """Reject a caller that may start a run, but not read its thread, before the run's output is sent. The thread of
        a stateless run belongs to the request that created it, so no filter applies to it."""
        access = await allowed("threads", "read", {"thread_id": run.thread_id})
        if access and not run.temporary:
            thread = await self._storage.threads.get(run.thread_id, with_state=False, access=access)
            if thread is None:
                raise NotFound(_NOT_FOUND)

    async def _get(self, thread_id: ThreadId | None, run_id: RunId, access: AccessFilter, missing: str) -> Run:
        run = await self._storage.runs.get(run_id, access=access)
        if run is None or thread_id not in (None, run.thread_id):
            raise NotFound(missing)
        return run

    async def list(
        self, thread_id: ThreadId, *, status: RunStatus | None = None, limit: int = 10, offset: int = 0
    ) -> list[Run]:
        access = await allowed("threads", "read", {"thread_id": thread_id})
        if await self._storage.threads.get(thread_id, with_state=False, access=access) is None:
            raise NotFound(f"Thread with ID {thread_id} not found")
        access = await allowed("threads", "search", {"thread_id": thread_id, "metadata": {}})
        return await self._storage.runs.list(thread_id, status=status, limit=limit, offset=offset, access=access)

    async def active(self, thread_id: ThreadId) -> Run | None:
        """The run that is running on a thread, or else the next one to run."""
        access = await allowed("threads", "read", {"thread_id": thread_id})
        return await active_run(self._storage, thread_id, self._clock(), access)

    async def all_active(self, thread_id: ThreadId) -> RunList:
        """The runs of a thread that have not ended, in the order in which they were accepted."""
        # Pending runs first, as in `active_run`: a run that starts between the two reads must not be missing from both.
        access = await allowed("threads", "read", {"thread_id": thread_id})
        pending = await self._storage.runs.list(thread_id, status="pending", limit=1000, access=access)
        running = await self._storage.runs.list(thread_id, status="running", limit=1, access=access)
        found = {run.run_id: run for run in (*running, *pending[::-1])}
        return [*found.values()]

    async def count_active(self) -> dict[RunStatus, int]:
        return await self._storage.runs.count_active()

    def counters(self) -> LogCounters:
        return self._storage.log.counters()

    async def delete(self, thread_id: ThreadId | None, run_id: RunId) -> None:
        """Delete a run's row. An active run is stopped first."""
        access = await allowed("threads", "delete", {"thread_id": thread_id, "run_id": run_id})
        run = await self._get(thread_id, run_id, access, "Run not found")
        if run.active and await self.stop_if_active(run, "interrupt"):  # False if it has ended meanwhile
            await self.outcome(run)
        try:
            await self._storage.runs.delete(run_id, access=access)
        finally:
            self._followers.forget(run_id)

    async def cancel(self, thread_id: ThreadId | None, run_id: RunId, action: CancelAction, *, wait: bool) -> None:
        selection = RunSelection(thread_id=thread_id, run_ids=(run_id,))
        run = await self._get(thread_id, run_id, await _authorize_cancelling(selection, action), _NO_RUNS)
        if not await self.stop_if_active(run, action):
            raise NotFound(_NOTHING_TO_CANCEL)
        if wait:
            await self.outcome(run)

    async def stop_if_active(self, run: Run, action: CancelAction) -> bool:
        """Request that a run stop. Return False if it had already ended."""
        if action == "rollback":
            self._checkpoints.require_rollback()
        return await run_to_completion(self._stop_if_active(run, action))

    async def _stop_if_active(self, run: Run, action: CancelAction) -> bool:
        cancelled = await self._storage.runs.cancel(run.run_id, action, self._clock())
        if cancelled is None:
            return False
        await self._stop_cancelled([cancelled], action)
        return True

    async def cancel_many(self, selection: RunSelection, action: CancelAction) -> None:
        """Request that all these runs stop, without waiting."""
        if action == "rollback":
            self._checkpoints.require_rollback()
        access = await _authorize_cancelling(selection, action)
        await run_to_completion(self._cancel_many(selection, action, access))

    async def _cancel_many(self, selection: RunSelection, action: CancelAction, access: AccessFilter) -> None:
        cancelled = await self._storage.runs.cancel_many(selection, action, self._clock(), access=access)
        if not cancelled:
            raise NotFound(_NOTHING_TO_CANCEL if await self._any_exists(selection, access) else _NO_RUNS)
        await self._stop_cancelled(cancelled, action)

    async def _any_exists(self, selection: RunSelection, access: AccessFilter) -> bool:
        found = [await self._storage.runs.get(run_id, access=access) for run_id in selection.run_ids or ()]
        return any(run is not None and run.thread_id == selection.thread_id for run in found)

    async def _stop_cancelled(self, cancelled: Sequence[Cancelled], action: CancelAction) -> None:
        for each in cancelled:
            if each.ended:
                self._worker.ended["interrupted"] += 1
                if action == "rollback":
                    await self._checkpoints.forget_run(each.run.run_id)
            else:
                self._worker.stop(each.run.run_id, each.run.cancel or action)
        self._worker.hint()

    async def outcome(self, run: Run) -> Json:
        """Wait for a run to end. Return its last values, an error, or `{}` if it was cancelled."""
        return await wait_for_outcome(self._storage, run)


async def _authorize_cancelling(selection: RunSelection, action: CancelAction) -> AccessFilter:
    if not is_restricted():
        return EVERYTHING
    run_ids = None if selection.run_ids is None else [UUID(run_id) for run_id in selection.run_ids]
    selected = {"run_ids": run_ids, "status": selection.status}
    return await allowed(
        "threads", "update", {"thread_id": selection.thread_id, "action": action, "metadata": selected}
    )


def _same_request(new: NewRun, existing: Run) -> Run:
    """Return the run of the earlier request with this key. Raises `KeyReused` if the two requests differ."""
    if None not in (new.request_digest, existing.request_digest) and new.request_digest != existing.request_digest:
        raise KeyReused()
    return existing


def _thread_config(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The part of a run's config that its thread shows. `configurable` is left out, because it may contain secrets."""
    return {**(kwargs.get("config") or {}), "configurable": {}}


def _with_assistant(kwargs: dict[str, Any], assistant: Assistant) -> dict[str, Any]:
    """Merge the assistant's configuration into the request's, which takes precedence."""
    config, context = merge_run_configuration(
        kwargs.get("config") or {}, kwargs.get("context") or {}, assistant.config, assistant.context
    )
    config["configurable"] = with_user({**config["configurable"], **request_configurable.get()}, current_user.get())
    context = {key: value for key, value in context.items() if key not in AUTH_KEYS}
    return {**kwargs, "config": config, "context": context}
