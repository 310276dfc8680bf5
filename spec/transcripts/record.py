"""Record the golden transcripts again: `.venv/bin/python spec/transcripts/record.py`.

Every scenario is a real run of a graph from tests/graphs on the memory storage. Ids and times, which differ between
recordings, are replaced by stable names in order of appearance. So recording again changes nothing unless the behaviour
has changed: review the diff before you commit it.
"""

import asyncio
import itertools
import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import structlog

from threadwire.core.encoder import Encoder, Framing
from threadwire.core.entries import START, Entry, Kind
from threadwire.core.ids import ThreadId
from threadwire.core.json import dumps, loads
from threadwire.core.records import Run
from threadwire.engine.lifecycle import Engine, open_engine
from threadwire.engine.runs import StartRun
from threadwire.graphs.config import load_config, prepare_environment
from threadwire.graphs.project_persistence import ProjectPersistence
from threadwire.graphs.registry import GraphRegistry, load_registry
from threadwire.http.sse import named_events, unnamed_events
from threadwire.protocols.ag_ui.encode import Options, RunEncoder
from threadwire.protocols.chatkit.encode import ChatKitEncoder
from threadwire.protocols.chatkit.formats import AgentFormats
from threadwire.protocols.chatkit.wire import events
from threadwire.protocols.langgraph.encode import RunStreamEncoder, StreamOptions
from threadwire.protocols.langgraph.encode_thread import ThreadStreamEncoder
from threadwire.protocols.langgraph.thread_wire.encode import ThreadWireEncoder
from threadwire.protocols.langgraph.thread_wire.subscription import CHANNELS, Subscription
from threadwire.storage.abc import Storage
from threadwire.storage.memory import open_memory_storage

HERE = Path(__file__).parent
GRAPHS = HERE.parent.parent / "tests" / "graphs" / "langgraph.json"
THREAD = ThreadId("5b8a5c0e-8d0f-4d4e-9d7f-2f4b1c7c0001")
FIRST_TIMESTAMP = 1_700_000_000_000

OpenEngine = Callable[[], AbstractAsyncContextManager[Engine]]
Record = Callable[[Storage, OpenEngine], Awaitable[Run]]

HELLO = {"messages": [{"role": "user", "content": "hello there", "id": "user-1"}]}
ALL = ["values", "updates", "messages-tuple", "custom", "tasks", "checkpoints", "debug", "events"]


# -- scenarios --------------------------------------------------------------------------------------------------------


async def start(engine: Engine, graph: str, **kwargs: Any) -> Run:
    kwargs = {"stream_mode": ALL[:4], **kwargs}
    return await engine.runs.start(StartRun(graph, THREAD, kwargs, create_thread=True, via="langgraph"))


async def wait_for_log(storage: Storage, run: Run, complete: Callable[[list[Entry]], bool]) -> None:
    """Wait until the run's log is `complete`."""
    with storage.log.watch(THREAD) as wakeup:
        while not complete(await storage.log.read(THREAD, START, run_id=run.run_id)):
            await wakeup.wait(5)


def runs(graph: str, *requests: dict[str, Any]) -> Record:
    """Run the requests one after another on the same thread. The last run is the transcript."""

    async def record(storage: Storage, opened: OpenEngine) -> Run:
        async with opened() as engine:
            for kwargs in requests:
                run = await start(engine, graph, **kwargs)
                await engine.runs.outcome(run)
        return run

    return record


async def cancelled(storage: Storage, opened: OpenEngine) -> Run:
    async with opened() as engine:
        run = await start(engine, "slow", input={"seconds": 3600})
        await wait_for_log(storage, run, lambda log: any(e.kind == Kind.TASK and e.data["name"] == "wait" for e in log))
        await engine.runs.cancel(THREAD, run.run_id, "interrupt", wait=True)
    return run


async def stopped_tool(storage: Storage, opened: OpenEngine) -> Run:
    """A run that is cancelled while a tool is running."""
    async with opened() as engine:
        run = await start(engine, "slow_tool", input={**HELLO, "until": "/never"})
        await wait_for_log(storage, run, lambda log: any(entry.kind == Kind.TOOL for entry in log))
        await engine.runs.cancel(THREAD, run.run_id, "interrupt", wait=True)
    return run


async def two_attempts(storage: Storage, opened: OpenEngine) -> Run:
    """A shutdown in the middle of a message. The next process streams the message again, under the same id."""
    async with opened() as engine:
        run = await start(engine, "chat", input={**HELLO, "delay": 0.2})
        await wait_for_log(storage, run, lambda log: sum(entry.kind == Kind.MESSAGES for entry in log) == 2)
    async with opened() as engine:
        await engine.runs.outcome(run)
    return run


async def many_runs(storage: Storage, opened: OpenEngine) -> None:
    """A thread with runs that end in every possible way, a queued run, and state updates in between."""
    async with opened() as engine:
        await engine.runs.outcome(await start(engine, "echo", input={"text": "one"}, stream_mode=["updates"]))
        await engine.threads.update_state(THREAD, {"text": "by hand"}, None, None)
        await engine.runs.outcome(await start(engine, "fails", input={"text": "two"}, stream_mode=["values"]))
        rolled_back = await start(engine, "slow", input={"seconds": 3600}, stream_mode=["values", "tasks"])
        await wait_for_log(
            storage, rolled_back, lambda log: any(e.kind == Kind.TASK and e.data["name"] == "wait" for e in log)
        )
        waiting = await start(engine, "echo", input={"text": "never"})
        await engine.runs.cancel(THREAD, waiting.run_id, "interrupt", wait=True)
        await engine.runs.cancel(THREAD, rolled_back.run_id, "rollback", wait=True)
        await engine.threads.prune([THREAD], "keep_latest")
        await engine.runs.outcome(await start(engine, "chat", input=HELLO, stream_mode=["messages-tuple", "values"]))
        await engine.runs.outcome(await start(engine, "nested", input=HELLO, subgraphs=True))


SCENARIOS: dict[str, Record] = {
    "echo": runs("echo", {"input": {"text": 'a "word", ü and 🙂'}, "stream_mode": ALL}),
    "chat": runs("chat", {"input": HELLO}),
    "tools": runs("tools", {"input": HELLO}),
    "showcase": runs("showcase", {"input": HELLO}),
    "nested": runs("nested", {"input": HELLO}),
    "approve": runs("approve", {"input": {"topic": "tests"}}),
    "approve-resumed": runs("approve", {"input": {"topic": "tests"}}, {"command": {"resume": {"ok": True}}}),
    "fails": runs("fails", {"input": {"text": "hello"}}),
    "cancelled": cancelled,
    "two-attempts": two_attempts,
    "everything": runs("everything", {"input": HELLO}),
    "by-hand": runs("by_hand_below", {"input": HELLO}),
    "stopped-tool": stopped_tool,
    "private": runs("private", {"input": {"question": "why?"}}, {"input": {"question": "how?"}}),
}

VIEWS = [
    StreamOptions(frozenset({"values"})),
    StreamOptions(frozenset({"messages"})),
    StreamOptions(frozenset({"messages-tuple"})),
    StreamOptions(frozenset({"updates", "custom"})),
]
WIDE = [StreamOptions(view.modes, subgraphs=True) for view in VIEWS]
MORE_VIEWS: dict[str, list[StreamOptions]] = {
    "echo": [StreamOptions(frozenset({mode})) for mode in ("tasks", "checkpoints", "debug", "events")],
    "nested": WIDE,
    "everything": [*WIDE, StreamOptions(frozenset({"values", "messages-tuple", "updates", "custom"}), subgraphs=True)],
}


THREAD_SCENARIOS: dict[str, Callable[[Storage, OpenEngine], Awaitable[None]]] = {"many-runs": many_runs}
THREAD_VIEWS = [
    frozenset({"run_modes"}),
    frozenset({"lifecycle"}),
    frozenset({"state_update"}),
    frozenset({"run_modes", "state_update"}),
]
WIRE_VIEWS = {
    "wire": Subscription(frozenset(CHANNELS)),
    "wire-page": Subscription(
        frozenset({"values", "checkpoints", "lifecycle", "input", "messages", "tools"}), ((),), depth=1
    ),
    "wire-lifecycle": Subscription(frozenset({"lifecycle", "input"})),
}
"""All events, and the two subscriptions that a page with `useStream` opens."""


# -- normalization ----------------------------------------------------------------------------------------------------

_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_HASH = re.compile(r"\b[0-9a-f]{32}\b")  # the id of an interrupt
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+\+00:00")


def rename(text: str, pattern: re.Pattern[str], name: Callable[[int], str]) -> str:
    numbers = itertools.count(1)
    names: dict[str, str] = {}

    def replace(found: re.Match[str]) -> str:
        if found[0] not in names:
            names[found[0]] = name(next(numbers))
        return names[found[0]]

    return pattern.sub(replace, text)


def sort_metadata(value: Any) -> Any:
    """Sort the keys of metadata: LangChain passes them through sets, so their order differs between processes."""
    if isinstance(value, list):
        return [sort_metadata(item) for item in value]
    if not isinstance(value, dict):
        return value
    sorted_in = {key: dict(sorted(item.items())) if key in _METADATA and item else item for key, item in value.items()}
    return {key: sort_metadata(item) for key, item in sorted_in.items()}


_METADATA = ("meta", "metadata")


def normalize(entries: list[Entry]) -> list[Entry]:
    timed = [entry._replace(at=FIRST_TIMESTAMP + entry.seq, data=sort_metadata(entry.data)) for entry in entries]
    text = dumps([list(entry) for entry in timed]).decode()
    text = rename(text, _UUID, lambda number: f"00000000-0000-7000-8000-{number:012d}")
    text = rename(text, _HASH, lambda number: f"{number:032d}")
    text = rename(text, _TIME, lambda number: f"2023-11-14T22:13:20.{number:06d}+00:00")
    return [Entry(*fields)._replace(ns=tuple(fields[4])) for fields in loads(text)]


# -- files ------------------------------------------------------------------------------------------------------------


def file_name(view: StreamOptions) -> str:
    return f"langgraph-{'+'.join(sorted(view.modes))}{'-subgraphs' if view.subgraphs else ''}.txt"


def write(folder: Path, entries: list[Entry], views: dict[str, tuple[Encoder, Framing]]) -> None:
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    lines = ",\n".join(dumps(entry._asdict()).decode() for entry in entries)
    (folder / "log.json").write_bytes(f"[\n{lines}\n]\n".encode())
    for name, (encoder, framing) in views.items():
        (folder / name).write_bytes(b"".join(framing(encoder.feed(entry), entry.seq) for entry in entries))


def wire_views() -> dict[str, tuple[Encoder, Framing]]:
    return {f"{name}.txt": (ThreadWireEncoder(view), named_events) for name, view in WIRE_VIEWS.items()}


async def record_all(registry: GraphRegistry) -> None:
    for name, record in SCENARIOS.items():
        async with open_memory_storage() as storage:
            run = await record(storage, lambda storage=storage: open_engine(storage, registry, ProjectPersistence()))
            entries = await storage.log.read(THREAD, START, run_id=run.run_id)
        views: dict[str, tuple[Encoder, Framing]] = {
            file_name(view): (RunStreamEncoder(view), named_events) for view in [*VIEWS, *MORE_VIEWS.get(name, [])]
        }
        views["ag-ui.txt"] = (RunEncoder(Options("page-thread")), unnamed_events)
        views["chatkit.txt"] = (ChatKitEncoder("page-thread", AgentFormats()), events)
        write(HERE / name, normalize(entries), views | wire_views())
    for name, record_thread in THREAD_SCENARIOS.items():
        async with open_memory_storage() as storage:
            await record_thread(storage, lambda storage=storage: open_engine(storage, registry, ProjectPersistence()))
            entries = await storage.log.read(THREAD, START)
        views = {
            f"thread-{'+'.join(sorted(modes))}.txt": (ThreadStreamEncoder(modes), named_events)
            for modes in THREAD_VIEWS
        }
        write(HERE / name, normalize(entries), views | wire_views())


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    config = load_config(GRAPHS)
    prepare_environment(config)
    asyncio.run(record_all(load_registry(config)))
