"""Starting, finding, cancelling and awaiting runs, for every protocol."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from threadwire.core.configuration import base_checkpoint_of, merge_run_configuration
from threadwire.core.entries import Json
from threadwire.core.ids import RunId, ThreadId, uuid7
from threadwire.core.records import (
    Accepted,
    Assistant,
    CancelAction,
    Cancelled,
    Durability,
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
from threadwire.engine.assistants import Assistants
from threadwire.engine.checkpoints import ThreadCheckpoints
from threadwire.engine.clock import Clock
from threadwire.engine.follow import Followers
from threadwire.engine.log_queries import active_run
from threadwire.engine.outcomes import wait_for_outcome
from threadwire.engine.request_context import request_configurable
from threadwire.engine.shielding import run_to_completion
from threadwire.engine.webhook_delivery import Webhooks
from threadwire.engine.worker import Worker
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
    """Answers to interrupts by id. If the thread has one of these interrupts, the run resumes instead of starting with
    its input."""
    metadata: dict[str, Any] = field(default_factory=dict)
    multitask_strategy: MultitaskStrategy = "enqueue"
    create_thread: bool = False
    thread_metadata: dict[str, Any] = field(default_factory=dict)
    temporary: bool = False
    """Whether the thread is deleted when the run ends."""
    webhook: str | None = None
    after_seconds: float = 0
    idempotency_key: str | None = None
    request_digest: str | None = None
    """Identifies the whole request made with the key."""
    defer_sync: bool = False
    """Whether fsync may be deferred, because the client receives nothing before the run's first output."""
    owner: str | None = None
    via: str | None = None
    """The protocol that the request came by, or `cron`."""


StartClaimed = Callable[[Run], None]
"""Starts a run that was claimed when it was accepted."""
Accept = Callable[[NewRun, StartClaimed | None], Awaitable[Accepted | None]]
"""Accepts a run in a transaction of the caller's choice. `StartClaimed` is passed if a slot is reserved for the run."""


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
    langsmith_tracer: Json = None,
) -> dict[str, Any]:
    """A run's `kwargs`, the same for every protocol, with the keys that clients see when they read the run."""
    optional = {"strict_resume": strict_resume, "langsmith_tracer": langsmith_tracer}
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
"""`Runs.list` would hide the built-in type."""


class Runs:
    def __init__(
        self,
        storage: Storage,
        assistants: Assistants,
        followers: Followers,
        worker: Worker,
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
        """Accept a run. On return it is durable, and will be executed whatever happens to the caller."""
        await self.check(request)
        accepted = await self.accept_with(request, partial(self._accept, defer_sync=request.defer_sync))
        assert accepted is not None
        return accepted

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

    async def _accept(self, new: NewRun, start: StartClaimed | None, *, defer_sync: bool) -> Accepted:
        try:
            return await self._storage.runs.accept(new, start=start, defer_sync=defer_sync)
        except NotFound as error:
            raise NotFound(_NOT_FOUND) from error

    async def accept_with(self, request: StartRun, accept: Accept) -> Run | None:
        """Accept a run with `accept` and notify the worker, even if the caller is cancelled. Return the run as it was
        accepted, or None if it was not. Raises `KeyReused`."""
        new = await self._prepare(request)
        replaced = await self._rolled_back_by(request)
        return await run_to_completion(self._accept_and_notify(new, replaced, accept))

    async def _accept_and_notify(self, new: NewRun, replaced: "Sequence[Run]", accept: Accept) -> Run | None:
        with self._worker.reserve_slot(new.thread_id) as start:
            accepted = await accept(new, start)
        if accepted is None:
            return None
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
            run_id=RunId(uuid7()),
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
            owner=request.owner,
            via=request.via,
            limits=self._limits,
        )

    async def _answering(self, request: StartRun) -> dict[str, Any]:
        """Return the run's kwargs, with those answers of `answers_if_pending` that the thread waits for."""
        if not request.answers_if_pending or request.thread_id is None or request.kwargs.get("command"):
            return request.kwargs
        thread = await self._storage.threads.get(request.thread_id)
        interrupts = [each for task in (thread.interrupts if thread else {}).values() for each in task]
        given = request.answers_if_pending
        answers = {each["id"]: given[each["id"]] for each in interrupts if each.get("id") in given}
        return {**request.kwargs, "input": None, "command": {"resume": answers}} if answers else request.kwargs

    async def _rolled_back_by(self, request: StartRun) -> "Sequence[Run]":
        """The pending runs that end when this one is accepted. Those released by a shutdown may have checkpoints."""
        if request.multitask_strategy != "rollback" or request.thread_id is None:
            return ()
        return await self._storage.runs.list(request.thread_id, status="pending", limit=1000)

    async def start_all(self, requests: Sequence[StartRun]) -> RunList:
        """Start several runs. If the assistant or the thread of one does not exist, or the queue has no room for all of
        them, none is started."""
        await self._require_room(requests)
        for request in requests:
            await self._assistants.resolve(request.assistant)
            await self.check(request)
            required = None if request.create_thread else request.thread_id
            if required is not None and await self._storage.threads.get(required) is None:
                raise NotFound(_NOT_FOUND)
        return [await self.start(request) for request in requests]

    async def _require_room(self, requests: Sequence[StartRun]) -> None:
        # Requests with a key can be repeated: those that were started are recognized, and the others follow.
        unkeyed = sum(request.idempotency_key is None for request in requests)
        if self._limits is None or not unkeyed:
            return
        if (await self.count_active())["pending"] + unkeyed > self._limits.total:
            raise queue_full(self._limits)

    async def get(self, thread_id: ThreadId | None, run_id: RunId, missing: str = "Not Found") -> Run:
        """Return a run of the thread, or of any thread if None. A run on a discarded thread is found until it is swept.
        Raises `NotFound` with the message `missing`."""
        run = await self.find(run_id)
        if run is None or thread_id not in (None, run.thread_id):
            raise NotFound(missing)
        return run

    async def find(self, run_id: RunId) -> Run | None:
        return await self._storage.runs.get(run_id)

    async def list(
        self, thread_id: ThreadId, *, status: RunStatus | None = None, limit: int = 10, offset: int = 0
    ) -> list[Run]:
        if await self._storage.threads.get(thread_id) is None:
            raise NotFound(f"Thread with ID {thread_id} not found")
        return await self._storage.runs.list(thread_id, status=status, limit=limit, offset=offset)

    async def active(self, thread_id: ThreadId) -> Run | None:
        """The run that is running on a thread, or else the next one to run."""
        return await active_run(self._storage, thread_id, self._clock())

    async def all_active(self, thread_id: ThreadId) -> RunList:
        """The runs of a thread that have not ended, in the order in which they were accepted."""
        # Pending runs first, as above.
        pending = await self._storage.runs.list(thread_id, status="pending", limit=1000)
        running = await self._storage.runs.list(thread_id, status="running", limit=1)
        found = {run.run_id: run for run in (*running, *pending[::-1])}
        return [*found.values()]

    async def count_active(self) -> dict[RunStatus, int]:
        return await self._storage.runs.count_active()

    def counters(self) -> LogCounters:
        return self._storage.log.counters()

    async def delete(self, thread_id: ThreadId | None, run_id: RunId) -> None:
        """Delete a run's row. An active run is stopped first."""
        run = await self.get(thread_id, run_id, "Run not found")
        if run.active and await self.stop_if_active(run, "interrupt"):  # False if it has ended meanwhile
            await self.outcome(run)
        try:
            await self._storage.runs.delete(run_id)
        finally:
            self._followers.forget(run_id)

    async def cancel(self, thread_id: ThreadId | None, run_id: RunId, action: CancelAction, *, wait: bool) -> None:
        run = await self.get(thread_id, run_id, _NO_RUNS)
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
        await run_to_completion(self._cancel_many(selection, action))

    async def _cancel_many(self, selection: RunSelection, action: CancelAction) -> None:
        cancelled = await self._storage.runs.cancel_many(selection, action, self._clock())
        if not cancelled:
            raise NotFound(_NOTHING_TO_CANCEL if await self._any_exists(selection) else _NO_RUNS)
        await self._stop_cancelled(cancelled, action)

    async def _any_exists(self, selection: RunSelection) -> bool:
        found = [await self._storage.runs.get(run_id) for run_id in selection.run_ids or ()]
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
    config["configurable"] = {**config["configurable"], **request_configurable.get()}
    return {**kwargs, "config": config, "context": context}
