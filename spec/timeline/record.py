"""Record the vectors that start from a log: `.venv/bin/python spec/timeline/record.py`.

The logs of the example agents, and of a graph that interrupts in every way, are recorded from real runs over the memory
storage, with ids and times replaced by stable names. Those of spec/transcripts are only named. Each vector then gets
the blocks and values that the fold makes of its log: read the diff before you commit it.
"""

import asyncio
import itertools
import json
import logging
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import structlog

from threadwire.core.entries import START, Entry, Kind
from threadwire.core.ids import ThreadId
from threadwire.core.json import dumps, loads
from threadwire.core.timeline import Timeline
from threadwire.engine.lifecycle import open_engine
from threadwire.engine.runs import StartRun
from threadwire.graphs.config import load_config, prepare_environment
from threadwire.graphs.project_persistence import ProjectPersistence
from threadwire.graphs.registry import GraphRegistry, load_registry
from threadwire.storage.memory import open_memory_storage

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
THREAD = ThreadId("5b8a5c0e-8d0f-4d4e-9d7f-2f4b1c7c0001")
FIRST_TIMESTAMP = 1_700_000_000_000

Answer = Callable[[Any], Any]
"""From the value of an interrupt to the response; None if it is not answered this time."""

Step = dict[str, Any] | Answer
"""A run: its arguments, or how it answers what is pending."""


def message(text: str, number: int = 1, **more: Any) -> dict[str, Any]:
    return {"input": {"messages": [{"role": "user", "content": text, "id": f"user-{number}"}]}, **more}


def only(*wanted: str) -> Answer:
    """Answer the questions that hold one of the words."""
    return lambda value: "yes" if any(word in str(value) for word in wanted) else None


def office(value: Any) -> Any:
    """Answers to every question of the approvals example, except that the lunch waits."""
    if "action_requests" in value:
        return {"decisions": [{"type": "approve"} for _ in value["action_requests"]]}
    answers: dict[str, Any] = {"choice": "Research", "text": "Monday", "sign_off": {"approved": True}}
    waits = value.get("claim_id") == "c_lunch"
    return None if waits else answers.get(value["type"], {"approved": True})


LOGS: dict[str, tuple[str, str, str, Sequence[Step]]] = {
    "log-report": (
        "examples",
        "report",
        "The report example: a widget that moves, a subgraph, and a chart below its message",
        [message("Report on tin.", context={"seconds": 0})],
    ),
    "log-approvals": (
        "examples",
        "approvals",
        "The approvals example: interrupts in parallel, in sequence and in subgraphs, answered and abandoned",
        [
            message("Review the expenses"),
            office,
            message("Buy 12 laptops", 2),
            *[office] * 4,
            message("Publish: We moved.", 3),
            office,
        ],
    ),
    "log-expenses": (
        "examples",
        "approvals",
        "What tasks returned while another one waited stays where it is when that one is answered",
        [message("Review the expenses"), office, lambda value: {"approved": False}],
    ),
    "log-dashboard": (
        "examples",
        "dashboard",
        "The dashboard example: a background run and a question",
        [{"input": {"refresh": True}}, message("What is our APY?")],
    ),
    "log-scheduling": (
        "examples",
        "scheduling",
        "The scheduling example: two turns with tools",
        [message("Find conflicts"), message("Assign s_geometry to t_bob", 2)],
    ),
    "log-approve-many": (
        "tests/graphs",
        "approve_many",
        "Interrupts in parallel, nested and in sequence, answered one by one",
        [{"input": {}}, only("left"), only("right", "deep"), only("first"), only("second")],
    ),
    "log-breakpoint": (
        "tests/graphs",
        "echo",
        "A run that stops before a node, and one that continues",
        [{"input": {"text": "a"}, "interrupt_before": ["say_again"]}, {"input": None}],
    ),
}


# -- recording --------------------------------------------------------------------------------------------------------


async def record(registry: GraphRegistry, graph: str, steps: Sequence[Step]) -> list[Entry]:
    async with open_memory_storage() as storage, open_engine(storage, registry, ProjectPersistence()) as engine:
        for step in steps:
            kwargs = step if isinstance(step, dict) else resumed(await storage.log.read(THREAD, START), step)
            run = await engine.runs.start(StartRun(graph, THREAD, kwargs, create_thread=True))
            await engine.runs.outcome(run)
        return await storage.log.read(THREAD, START)


def resumed(log: list[Entry], answer: Answer) -> dict[str, Any]:
    """A run that answers what the last one left pending."""
    pending = next(entry for entry in reversed(log) if entry.kind == Kind.RUN_ENDED).data["interrupts"]
    answers = {each["id"]: answer(each["value"]) for each in pending}
    return {"command": {"resume": {each: response for each, response in answers.items() if response is not None}}}


_NAMES: list[tuple[re.Pattern[str], Callable[[int], str]]] = [
    (
        re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"),
        "00000000-0000-7000-8000-{:012d}".format,
    ),
    (re.compile(r"\b[0-9a-f]{32}\b"), "{:032d}".format),  # the id of an interrupt
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?\+00:00"), "2023-11-14T22:13:20.{:06d}+00:00".format),
]


def normalized(entries: list[Entry]) -> list[Entry]:
    """The entries with ids and times that do not change from one recording to the next."""
    text = dumps([list(in_order(entry._replace(at=FIRST_TIMESTAMP + entry.seq))) for entry in entries]).decode()
    for pattern, name in _NAMES:
        numbers = itertools.count(1)
        names: dict[str, str] = {}
        text = pattern.sub(lambda found: names.get(found[0]) or names.setdefault(found[0], name(next(numbers))), text)  # noqa: B023
    return [Entry(*fields)._replace(ns=tuple(fields[4])) for fields in loads(text)]


def in_order(entry: Entry) -> Entry:
    """The entry with the keys of metadata sorted: LangChain passes them through sets."""
    if entry.kind == Kind.MESSAGES and isinstance(entry.data, dict) and entry.data.get("meta"):
        return entry._replace(data={**entry.data, "meta": dict(sorted(entry.data["meta"].items()))})
    return entry


# -- files ------------------------------------------------------------------------------------------------------------


def write(name: str, vector: dict[str, Any], entries: list[Entry]) -> None:
    timeline = Timeline()
    for entry in entries:
        timeline.feed(entry)
    vector = {**vector, "blocks": timeline.blocks(), "values": timeline.values}
    parts = [f"{json.dumps(key)}: {_shown(value)}" for key, value in vector.items()]
    (HERE / f"{name}.json").write_text("{\n  " + ",\n  ".join(parts) + "\n}\n")


def _shown(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n    " + ",\n    ".join(json.dumps(each, ensure_ascii=False) for each in value) + "\n  ]"
    return json.dumps(value, ensure_ascii=False)


async def record_all() -> None:
    registries = {}
    for folder in ("examples", "tests/graphs"):
        config = load_config(ROOT / folder / "langgraph.json")
        prepare_environment(config)
        registries[folder] = load_registry(config)
    for name, (folder, graph, title, steps) in LOGS.items():
        entries = normalized(await record(registries[folder], graph, steps))
        shown = [{**entry._asdict(), "ns": list(entry.ns)} for entry in entries]
        write(name, {"title": title, "rules": ["13.2"], "entries": shown}, entries)


def fold_transcripts() -> None:
    for path in sorted((HERE.parent / "transcripts").glob("*/log.json")):
        entries = [Entry(**each)._replace(ns=tuple(each["ns"])) for each in loads(path.read_bytes())]
        name = path.parent.name
        vector = {"title": f"The transcript {name}", "rules": ["13.2"], "log": f"transcripts/{name}/log.json"}
        write(f"log-transcript-{name}", vector, entries)


if __name__ == "__main__":
    os.environ.update(THREADWIRE_EXAMPLE_MODEL="scripted", THREADWIRE_EXAMPLE_DELAY="0")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    asyncio.run(record_all())
    fold_transcripts()
