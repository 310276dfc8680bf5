"""Starting, finding, stopping and awaiting runs: what every protocol calls."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from threadwire.core.configuration import base_of, of_run
from threadwire.core.encoding import Encoder
from threadwire.core.entries import Entry, Json, Kind
from threadwire.core.fold import StateFold
from threadwire.core.ids import RunId, Seq, ThreadId, uuid7
from threadwire.core.records import (
    Accepted,
    Assistant,
    CancelAction,
    Cancelled,
    Durability,
    LogFigures,
    MultitaskStrategy,
    NewRun,
    Run,
    RunSelection,
    RunStatus,
    Ttl,
)
from threadwire.core.run_state import next_in_turn
from threadwire.engine.assistants import Assistants
from threadwire.engine.checkpointing import Checkpointing
from threadwire.engine.clock import Clock
from threadwire.engine.deliveries import Webhooks
from threadwire.engine.follow import PAGE, POLL, SMALL_PAGE, Followers
from threadwire.engine.request import brought_along
from threadwire.engine.seeing_through import see_through
from threadwire.engine.worker import Worker
from threadwire.errors import KeyReused, NotFound
from threadwire.storage.abc import Storage

_NOT_THERE = "Thread or assistant not found."
_NO_RUNS = "No runs found to cancel."
_NOTHING_TO_CANCEL = (
    "No matching runs to cancel. Please verify the thread ID and run IDs are correct, and the runs haven't been deleted"
    " or completed."
)


@dataclass(frozen=True, slots=True)
class StartRun:
    """What a client asks for when it starts a run. `kwargs` is kept as it is and handed to the graph."""

    assistant: str
    thread_id: ThreadId | None
    """None for a thread of its own, which is made."""
    kwargs: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)
    multitask_strategy: MultitaskStrategy = "enqueue"
    create_thread: bool = False
    thread_metadata: dict[str, Any] = field(default_factory=dict)
    temporary: bool = False
    """Whether the thread goes when the run ends."""
    webhook: str | None = None
    after_seconds: float = 0
    idempotency_key: str | None = None
    request_digest: str | None = None
    """Stands for all that is asked for with the key."""
    watched: bool = False
    """Whether the client is told nothing before the run has said something."""
    owner: str | None = None


Begin = Callable[[Run], None]
Accept = Callable[[NewRun, Begin | None], Awaitable[Accepted | None]]
"""Accepts a run in a transaction, whichever; given what begins it, if there is a place for it, at once."""


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
    """What a run is given, whichever protocol asked for it, in the words in which clients see it again."""
    seldom = {"strict_resume": strict_resume, "langsmith_tracer": langsmith_tracer}
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
        **{name: value for name, value in seldom.items() if value},
    }


RunList = list[Run]
"""`Runs` has a method called `list`, which would hide the type."""


class Runs:
    def __init__(
        self,
        storage: Storage,
        assistants: Assistants,
        followers: Followers,
        worker: Worker,
        checkpointing: Checkpointing,
        webhooks: Webhooks,
        clock: Clock,
        default_ttl: Ttl | None = None,
    ) -> None:
        self._storage = storage
        self._checkpointing = checkpointing
        self._assistants = assistants
        self._followers = followers
        self._worker = worker
        self._webhooks = webhooks
        self._clock = clock
        self._default_ttl = default_ttl
        self.follow, self.follow_thread_alone = followers.follow, followers.follow_thread_alone

    async def start(self, asked: StartRun) -> Run:
        """Take a run in; on return it is durable, and will be carried out whatever happens to the caller."""
        await self.check(asked)
        taken = await self.take_in(asked, partial(self._accept, patient=asked.watched))
        assert taken is not None
        return taken

    async def check(self, asked: StartRun) -> None:
        """Refuse what could not be done later: to start from there, to tell the webhook, to remove the thread, to roll
        back others."""
        if (base := base_of(asked.kwargs.get("config") or {})) is not None:
            await self._checkpointing.require(asked.thread_id or ThreadId(uuid7()), base)
        if asked.webhook is not None:
            await self._webhooks.check(asked.webhook)
        if asked.temporary:
            self._checkpointing.require_deletion()
        if asked.multitask_strategy == "rollback":
            self._checkpointing.require_rollback()

    async def _accept(self, new: NewRun, start: Begin | None, *, patient: bool) -> Accepted:
        try:
            return await self._storage.runs.accept(new, start=start, patient=patient)
        except NotFound as error:
            raise NotFound(_NOT_THERE) from error

    async def take_in(self, asked: StartRun, accept: Accept) -> Run | None:
        """Have a run accepted, and see to what follows from that, also if the caller is cancelled meanwhile. The run as
        it was accepted, None if it was not. Raises `KeyReused`."""
        new = await self._prepare(asked)
        waiting = await self._rolled_back_with(asked)
        return await see_through(self._take_in(new, waiting, accept))

    async def _take_in(self, new: NewRun, waiting: "Sequence[Run]", accept: Accept) -> Run | None:
        with self._worker.place_for(new.thread_id) as start:
            accepted = await accept(new, start)
        if accepted is None:
            return None
        if accepted.started:
            return replace(accepted.run, status="pending")
        if accepted.repeated:
            return _same_request(new, accepted.run)
        for run in waiting:
            await self._checkpointing.forget_run(run.run_id)
        for run_id in accepted.stopping:
            self._worker.stop(run_id, "rollback" if new.multitask_strategy == "rollback" else "interrupt")
        self._worker.hint()
        return accepted.run

    async def _prepare(self, asked: StartRun) -> NewRun:
        assistant = await self._assistants.resolve(asked.assistant)
        now = self._clock()
        belongs = {"graph_id": assistant.graph_id, "assistant_id": assistant.assistant_id}
        return NewRun(
            run_id=RunId(uuid7()),
            thread_id=asked.thread_id or ThreadId(uuid7()),
            assistant_id=assistant.assistant_id,
            graph_id=assistant.graph_id,
            created_at=now,
            due_at=now + round(asked.after_seconds * 1000),
            multitask_strategy=asked.multitask_strategy,
            metadata={**assistant.metadata, **asked.metadata, **belongs},
            kwargs=_with_assistant(asked.kwargs, assistant),
            create_thread=asked.create_thread or asked.thread_id is None,
            thread_metadata={**asked.thread_metadata, **belongs},
            thread_config=_thread_config(asked.kwargs),
            thread_ttl=self._default_ttl,
            idempotency_key=asked.idempotency_key,
            request_digest=asked.request_digest,
            temporary=asked.temporary,
            webhook=None if self._webhooks.muted else asked.webhook,
            owner=asked.owner,
        )

    async def _rolled_back_with(self, asked: StartRun) -> "Sequence[Run]":
        """The pending runs that end at once if this one is accepted. A shutdown may have left them checkpoints."""
        if asked.multitask_strategy != "rollback" or asked.thread_id is None:
            return ()
        return await self._storage.runs.list(asked.thread_id, status="pending", limit=1000)

    async def start_all(self, asked: Sequence[StartRun]) -> RunList:
        """Take several runs in, after looking whether each names an assistant and a thread that are there: one that
        cannot be had keeps the others from being started."""
        for each in asked:
            await self._assistants.resolve(each.assistant)
            await self.check(each)
            wanted = None if each.create_thread else each.thread_id
            if wanted is not None and await self._storage.threads.get(wanted) is None:
                raise NotFound(_NOT_THERE)
        return [await self.start(each) for each in asked]

    async def get(self, thread_id: ThreadId | None, run_id: RunId, missing: str = "Not Found") -> Run:
        """A run of that thread, or with None of any. One whose thread was discarded is found until it is swept."""
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
        """The run that is being carried out on a thread, or else the one whose turn is next."""
        # First those that wait: one that starts between the two questions must not be in neither answer.
        pending = await self._storage.runs.list(thread_id, status="pending", limit=1000)
        for run in await self._storage.runs.list(thread_id, status="running", limit=1):
            return run
        turns, now = next_in_turn(pending[::-1]), self._clock()
        return next((run for run in turns if run.is_due(now)), turns[0] if turns else None)

    async def count_active(self) -> dict[RunStatus, int]:
        return await self._storage.runs.count_active()

    def figures(self) -> LogFigures:
        return self._storage.log.figures()

    async def delete(self, thread_id: ThreadId | None, run_id: RunId) -> None:
        """Remove a run's row. One that is still active is stopped first."""
        run = await self.get(thread_id, run_id, "Run not found")
        if run.active and await self.stop_if_active(run, "interrupt"):  # or it has ended meanwhile
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
        """Ask a run to stop. False if it was over already."""
        if action == "rollback":
            self._checkpointing.require_rollback()
        return await see_through(self._stop_if_active(run, action))

    async def _stop_if_active(self, run: Run, action: CancelAction) -> bool:
        cancelled = await self._storage.runs.cancel(run.run_id, action, self._clock())
        if cancelled is None:
            return False
        await self._have_stopped([cancelled], action)
        return True

    async def cancel_many(self, wanted: RunSelection, action: CancelAction) -> None:
        """Ask all of them to stop, without waiting for it."""
        if action == "rollback":
            self._checkpointing.require_rollback()
        await see_through(self._cancel_many(wanted, action))

    async def _cancel_many(self, wanted: RunSelection, action: CancelAction) -> None:
        cancelled = await self._storage.runs.cancel_many(wanted, action, self._clock())
        if not cancelled:
            raise NotFound(_NOTHING_TO_CANCEL if await self._knows_any(wanted) else _NO_RUNS)
        await self._have_stopped(cancelled, action)

    async def _knows_any(self, wanted: RunSelection) -> bool:
        found = [await self._storage.runs.get(run_id) for run_id in wanted.run_ids or ()]
        return any(run is not None and run.thread_id == wanted.thread_id for run in found)

    async def _have_stopped(self, cancelled: Sequence[Cancelled], action: CancelAction) -> None:
        for each in cancelled:
            if each.at_once:
                self._worker.ended["interrupted"] += 1
                if action == "rollback":
                    await self._checkpointing.forget_run(each.run.run_id)
            else:
                self._worker.stop(each.run.run_id, each.run.cancel or action)
        self._worker.hint()

    # -- watching ------------------------------------------------------------------------------------------------

    async def run_at(self, thread_id: ThreadId, position: Seq) -> RunId | None:
        """The run that wrote the entry at a position, unless that is its last one."""
        for entry in await self._storage.log.read(thread_id, Seq(position - 1), limit=1):
            return None if entry.kind == Kind.RUN_ENDED else entry.run_id
        return None

    async def next_of(self, thread_id: ThreadId, run_id: RunId, position: Seq) -> Entry | None:
        """The first entry of a run after a position."""
        entries = await self._storage.log.read(thread_id, position, limit=1, run_id=run_id)
        return entries[0] if entries else None

    async def next_deed(self, thread_id: ThreadId, position: Seq, upto: Seq | None = None) -> Entry | None:
        """The first entry after a position, and not after `upto`, by which something happens: it comes from a run that
        has had its turn, or moves the state outside one."""
        while entries := await self._storage.log.read(thread_id, position, limit=SMALL_PAGE):
            for entry in entries:
                if upto is not None and entry.seq > upto:
                    return None
                if entry.attempt > 0 or (entry.kind == Kind.STATE_RESET and "values" in entry.data):
                    return entry
            position = entries[-1].seq
        return None

    async def at_work_at(self, thread_id: ThreadId, position: Seq) -> RunId | None:
        """The run that writes next after a position, or else the one that is being carried out."""
        # First who is at work: one that ends between the two questions has written what the log is then asked for.
        running = await self._storage.runs.list(thread_id, status="running", limit=1)
        following = await self.next_deed(thread_id, position)
        if following is not None:
            return following.run_id
        return running[0].run_id if running else None

    async def primed(self, run: Run, encoder: Encoder, upto: Seq) -> bool:
        """Feed an encoder, silently, a run up to a position (spec 4.5). Whether the run had ended by then."""
        cursor = Seq(run.queued_seq - 1)
        while cursor < upto:
            entries = await self._storage.log.read(run.thread_id, cursor, limit=PAGE, run_id=run.run_id)
            for entry in entries:
                if entry.seq > upto:
                    return False
                encoder.feed(entry)
                if entry.kind == Kind.RUN_ENDED:
                    return True
            if not entries:
                return False
            cursor = entries[-1].seq
        return False

    async def newest(self, thread_id: ThreadId) -> Seq:
        return await self._storage.log.last(thread_id)

    async def outcome(self, run: Run) -> Json:
        """Wait for a run to end; what it left: its last values, an error, or nothing if it was stopped."""
        state, cursor = StateFold(), Seq(run.queued_seq - 1)
        waited = False
        with self._storage.log.watch(run.thread_id) as wakeup:
            while True:
                entries = await self._storage.log.read(run.thread_id, cursor, limit=PAGE, run_id=run.run_id)
                for entry in entries:
                    if entry.kind == Kind.STATE and not entry.ns:
                        state.apply(entry.data)
                    elif entry.kind == Kind.RUN_ENDED:
                        return _outcome(entry, state)
                if entries:
                    cursor, waited = entries[-1].seq, False
                elif waited and await self._is_gone(run, cursor):
                    return {"__error__": {"error": "NotFound", "message": "The thread was deleted."}}
                else:
                    await wakeup.wait(POLL)
                    waited = True

    async def _is_gone(self, run: Run, read: Seq) -> bool:
        """Whether nothing more will ever be read of a run. One that was rolled back has no row, but an end."""
        return await self._storage.runs.get(run.run_id) is None and not await self._storage.log.read(
            run.thread_id, read, limit=1, run_id=run.run_id
        )


def _same_request(new: NewRun, made: Run) -> Run:
    """The run that an earlier request made, if this one asks for the same."""
    if None not in (new.request_digest, made.request_digest) and new.request_digest != made.request_digest:
        raise KeyReused()
    return made


def _outcome(ended: Entry, state: StateFold) -> Json:
    if ended.data["status"] in ("error", "timeout"):
        return {"__error__": ended.data["error"]}
    if ended.data["status"] in ("interrupted", "rolled_back"):
        return {}
    values = state.value()
    if "interrupts" in ended.data and isinstance(values, dict):
        # LangGraph's last values name one interrupt, or after a partial answer none; the end names all that are open.
        return {**values, "__interrupt__": ended.data["interrupts"]}
    return values


def _thread_config(kwargs: dict[str, Any]) -> dict[str, Any]:
    """What a thread shows of its runs' configuration: not what is configurable, which may be a secret."""
    return {**(kwargs.get("config") or {}), "configurable": {}}


def _with_assistant(kwargs: dict[str, Any], assistant: Assistant) -> dict[str, Any]:
    """The assistant's configuration under the request's own."""
    config, context = of_run(
        kwargs.get("config") or {}, kwargs.get("context") or {}, assistant.config, assistant.context
    )
    config["configurable"] = {**config["configurable"], **brought_along.get()}
    return {**kwargs, "config": config, "context": context}
