"""A run with answers resumes its thread if the thread waits for one of them, and starts with its input otherwise."""

from typing import Any

import pytest

from threadwire.core.ids import ThreadId, uuid7
from threadwire.core.records import Run, Thread
from threadwire.engine.lifecycle import open_engine
from threadwire.engine.runs import StartRun
from threadwire.graphs.project_persistence import ProjectPersistence
from threadwire.graphs.registry import GraphRegistry
from threadwire.storage.abc import Storage

pytestmark = pytest.mark.anyio

PENDING = {"task": [{"id": "one", "value": "?"}, {"id": "two", "value": "?"}]}


@pytest.mark.parametrize(
    ("given", "command"),
    [
        ({"one": "yes"}, {"resume": {"one": "yes"}}),
        ({"one": None, "two": 2, "of another thread": 3}, {"resume": {"one": None, "two": 2}}),
        ({"of another thread": 3}, None),
        ({}, None),
    ],
)
async def test_only_answers_that_the_thread_waits_for_resume_it(
    storage: Storage, registry: GraphRegistry, given: dict[str, Any], command: Any
) -> None:
    run = await start(storage, registry, given, interrupts=PENDING)
    assert (run.kwargs["command"], run.kwargs["input"]) == (command, None if command else {"n": 1})


async def test_a_command_takes_precedence(storage: Storage, registry: GraphRegistry) -> None:
    run = await start(storage, registry, {"one": "yes"}, interrupts=PENDING, command={"goto": "one"})
    assert run.kwargs["command"] == {"goto": "one"}


async def test_a_new_thread_waits_for_nothing(storage: Storage, registry: GraphRegistry) -> None:
    run = await start(storage, registry, {"one": "yes"})
    assert (run.kwargs["command"], run.kwargs["input"]) == (None, {"n": 1})


async def start(
    storage: Storage,
    registry: GraphRegistry,
    given: dict[str, Any],
    interrupts: dict[str, Any] | None = None,
    command: Any = None,
) -> Run:
    """Accept a run that does not start during the test."""
    thread_id = ThreadId(uuid7())
    if interrupts is not None:
        await storage.threads.create(Thread(thread_id, 0, 0, status="interrupted", interrupts=interrupts))
    async with open_engine(storage, registry, ProjectPersistence()) as engine:
        kwargs = {"input": {"n": 1}, "command": command}
        return await engine.runs.start(
            StartRun("agent", thread_id, kwargs, answers_if_pending=given, create_thread=True, after_seconds=3600)
        )
