"""The events of a long thread are sent piece by piece, without holding up other clients."""

import json
import time

import anyio
import anyio.lowlevel
import pytest

from threadwire.core.entries import Draft, Kind
from threadwire.engine.lifecycle import open_engine
from threadwire.graphs.project_persistence import ProjectPersistence
from threadwire.graphs.registry import GraphRegistry
from threadwire.protocols.ag_ui.encode import Options
from threadwire.protocols.copilotkit.thread_contents import events_of
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.samples import start_on_new_thread, the_thread

pytestmark = pytest.mark.anyio

MESSAGES = 1000
PIECES = 20


async def test_a_long_log_is_sent_in_many_pieces_between_which_others_are_served(
    storage: Storage, registry: GraphRegistry
) -> None:
    async with open_engine(storage, registry, ProjectPersistence(), capacity=0) as engine:
        run = await start_on_new_thread(storage)
        started = {"attempt": 1, "graph_id": "g", "assistant_id": "a", "stream_mode": ["values"], "subgraphs": False}
        storage.handle(run).append([Draft(Kind.RUN_STARTED, started)])
        for number in range(MESSAGES):
            chunk = {"type": "AIMessageChunk", "content": "", "id": f"m{number}"}
            first = Draft(Kind.MESSAGES, {"i": number, "chunk": chunk, "meta": {"langgraph_node": "n"}})
            pieces = [Draft(Kind.MESSAGES, [number, "word "]) for _ in range(PIECES)]
            await storage.handle(run).append([first, *pieces]).wait()
        thread = await the_thread(storage, run.thread_id)
        slowest, served = 0.0, 0

        async def others() -> None:
            nonlocal slowest, served
            while True:
                before = time.monotonic()
                await anyio.lowlevel.checkpoint()
                slowest = max(slowest, time.monotonic() - before)
                served += 1

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(others)
            body = [piece async for piece in events_of(engine, thread, Options("t"))]
            tasks.cancel_scope.cancel()
    events = json.loads(b"".join(body))["events"]
    texts = [event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT"]
    assert texts == ["word " * PIECES] * MESSAGES
    assert len(body) > 20
    assert max(map(len, body)) < 200_000
    assert served > 20
    assert slowest < 0.5
