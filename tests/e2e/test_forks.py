"""Processes that a node forks, as `multiprocessing` does on Linux, do not act as the server."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from threadwire.testing.server import RunningServer, running_server

FORKING = """
import os
import signal
import time
from typing import TypedDict

from langgraph.graph import START, StateGraph

State = TypedDict("State", {"ended_by": int, "child": int, "stays": bool})


def fork(state: State) -> State:
    if not (child := os.fork()):
        os.closerange(1, 3)  # the test reads both streams to their end
        time.sleep(60)
        os._exit(0)
    if state.get("stays"):
        return {"child": child}
    time.sleep(0.1)
    os.kill(child, signal.SIGTERM)
    return {"child": child, "ended_by": os.WTERMSIG(os.waitpid(child, 0)[1])}


forking = StateGraph(State).add_node("fork", fork).add_edge(START, "fork").compile()
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    (tmp_path / "forking.py").write_text(FORKING)
    config = tmp_path / "langgraph.json"
    config.write_text(json.dumps({"graphs": {"forking": "./forking.py:forking"}}))
    with running_server(config, tmp_path / "data") as server:
        yield server


def run(server: RunningServer, **state: Any) -> dict[str, Any]:
    body = {"assistant_id": "forking", "input": state}
    response = httpx.post(f"{server.url}/runs/wait", json=body, timeout=30)
    return response.raise_for_status().json()


def test_a_signal_to_a_forked_process_does_not_reach_the_server(server: RunningServer) -> None:
    assert run(server)["ended_by"] == signal.SIGTERM
    assert run(server)["ended_by"] == signal.SIGTERM
    assert "drain_started" not in server.log()


def test_a_forked_process_that_outlives_the_server_does_not_block_a_restart(server: RunningServer) -> None:
    """It holds neither the data directory nor the port."""
    child = run(server, stays=True)["child"]
    try:
        server.kill()
        server.start()
        assert run(server)["ended_by"] == signal.SIGTERM
    finally:
        os.kill(child, signal.SIGKILL)
