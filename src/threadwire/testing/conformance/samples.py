"""Small threads, runs and entries for the suites."""

from typing import Any
from uuid import uuid4

from threadwire.core.entries import START, Draft, Entry, Kind
from threadwire.core.ids import AssistantId, RunId, Seq, ThreadId, uuid7
from threadwire.core.records import Lease, NewRun, Run, Thread
from threadwire.storage.abc import Storage

NOW = 1_700_000_000_000
"""The time in the suites. It stands still unless a test changes it."""

ASSISTANT = AssistantId("6ba7b821-0000-4000-8000-000000000001")

ASSIGNED = {"graph_id": "agent", "assistant_id": ASSISTANT}
"""What a run of the suites adds to the metadata of its thread."""


LEASE = Lease("worker", 0)
"""It expires immediately, so that `reclaim` recovers every run that was claimed with it. Until then the run is held."""

LONG_LEASE = Lease("worker", 3_600_000)
"""It does not expire while a test runs."""


def new_thread_id() -> ThreadId:
    return ThreadId(str(uuid4()))


def a_thread(**fields: Any) -> Thread:
    defaults: dict[str, Any] = {"thread_id": new_thread_id(), "created_at": NOW, "updated_at": NOW}
    return Thread(**defaults | fields)


def a_run(thread_id: ThreadId, **fields: Any) -> NewRun:
    defaults: dict[str, Any] = {
        "run_id": RunId(uuid7()),
        "thread_id": thread_id,
        "assistant_id": ASSISTANT,
        "graph_id": "agent",
        "created_at": NOW,
        "due_at": NOW,
    }
    return NewRun(**defaults | fields)


def note(value: Any) -> Draft:
    return Draft(Kind.CUSTOM, {"value": value}, at=NOW)


async def store_thread(storage: Storage, **fields: Any) -> ThreadId:
    return (await storage.threads.create(a_thread(**fields))).thread_id


async def accept(storage: Storage, thread_id: ThreadId, **fields: Any) -> Run:
    return (await storage.runs.accept(a_run(thread_id, **fields))).run


async def claim_run(storage: Storage, run_id: RunId) -> Run:
    """Claim the run, which must be the next one in the queue."""
    [run] = await storage.runs.claim(1, LEASE, now=NOW)
    assert run.run_id == run_id
    return run


async def start(storage: Storage, thread_id: ThreadId, **fields: Any) -> Run:
    """Accept a run and claim it."""
    return await claim_run(storage, (await accept(storage, thread_id, **fields)).run_id)


async def start_on_new_thread(storage: Storage, **fields: Any) -> Run:
    return await start(storage, await store_thread(storage), **fields)


async def write(storage: Storage, run: Run, *values: Any) -> None:
    """Append as the run's current attempt, and wait until the entries are durable."""
    await storage.handle(run).append([note(value) for value in values]).wait()


async def whole_log(storage: Storage, thread_id: ThreadId, after: Seq = START) -> list[Entry]:
    """Return every entry, read page by page so that no driver's page limit matters."""
    entries: list[Entry] = []
    while page := await storage.log.read(thread_id, entries[-1].seq if entries else after, limit=500):
        entries += page
    return entries


async def run_log(storage: Storage, run: Run) -> list[Entry]:
    return await storage.log.read(run.thread_id, START, limit=1000, run_id=run.run_id)


async def the_run(storage: Storage, run_id: RunId) -> Run:
    run = await storage.runs.get(run_id)
    assert run is not None
    return run


async def the_thread(storage: Storage, thread_id: ThreadId) -> Thread:
    thread = await storage.threads.get(thread_id)
    assert thread is not None
    return thread


def kinds(entries: list[Entry]) -> list[str]:
    return [entry.kind for entry in entries]


def values(entries: list[Entry]) -> list[Any]:
    return [entry.data["value"] for entry in entries if entry.kind == Kind.CUSTOM]
