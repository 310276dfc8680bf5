"""The memory that clients and bursts cost, and how long a large state holds up other clients."""

import http.client
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from threadwire.testing.server import RunningServer, running_server

STREAMS = int(os.environ.get("MEMORY_STREAMS", "40"))
LIMITS = [(0, 200)] if STREAMS <= 40 else [(2, 200), (0, 300)]
"""Worker processes, and the megabytes that each process may have: `make soak-memory` measures both setups."""

PROJECT = """
import operator
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

from threadwire.testing.scripted import ScriptedChatModel


class Talk(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    words: int


async def model(state: Talk) -> Talk:
    words = " ".join(f"word{number}" for number in range(state["words"]))
    return {"messages": [await ScriptedChatModel(reply=lambda conversation: AIMessage(words)).ainvoke("go")]}


talk = StateGraph(Talk).add_node("model", model).add_edge(START, "model").compile()


class Large(TypedDict, total=False):
    rows: Any
    steps: Annotated[list[int], operator.add]


def grow(state: Large) -> Large:
    return {"rows": [{"number": number, "text": "x" * 1000} for number in range(20_000)], "steps": [1]}


large = StateGraph(Large).add_node("grow", grow).add_edge(START, "grow").compile()
"""

CONFIG = '{"graphs": {"talk": "./agents.py:talk", "large": "./agents.py:large"}}'

pytestmark = pytest.mark.timeout(1800 if STREAMS > 40 else 300)


@pytest.fixture
def server(tmp_path: Path, request: pytest.FixtureRequest, new_processes: None) -> Iterator[RunningServer]:
    (tmp_path / "agents.py").write_text(PROJECT)
    (tmp_path / "langgraph.json").write_text(CONFIG)
    options = ["--workers", str(getattr(request, "param", 0))]
    with running_server(tmp_path / "langgraph.json", tmp_path / "data", options=options) as server:
        yield server


def resident(server: RunningServer) -> float:
    """The memory of the serving process in megabytes."""
    return resident_of(server.process.pid)


def resident_of(pid: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1000


def resident_by_process(server: RunningServer) -> list[float]:
    """The memory of the serving process and of each of its workers, in megabytes."""
    serving = server.process.pid
    children = [
        int(pid) for each in Path(f"/proc/{serving}/task").iterdir() for pid in (each / "children").read_text().split()
    ]
    return [resident_of(pid) for pid in [serving, *children]]


def words(count: int) -> dict[str, Any]:
    return {"assistant_id": "talk", "input": {"words": count}, "stream_mode": ["messages-tuple"]}


def test_readers_that_stall_cost_little(server: RunningServer) -> None:
    with httpx.Client(base_url=server.url, timeout=60) as client:
        thread = client.post("/threads", json={}).json()["thread_id"]
        run = client.post(f"/threads/{thread}/runs", json=words(5000)).json()["run_id"]
        client.get(f"/threads/{thread}/runs/{run}/join")
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    head = f"GET /threads/{thread}/runs/{run}/stream HTTP/1.1\r\nhost: {host}\r\nlast-event-id: -1\r\n\r\n"
    before = resident(server)
    with ExitStack() as opened:
        for _ in range(200):
            reader = opened.enter_context(socket.socket())
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect((host, int(port)))
            reader.sendall(head.encode())
        streams, deadline = 0, time.monotonic() + 60
        while streams < 200:  # each of them has filled its buffers soon after it was accepted
            assert time.monotonic() < deadline, f"{streams} streams"
            streams = open_streams(server)
            assert resident(server) - before <= 64
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            assert resident(server) - before <= 64
            time.sleep(0.1)


def open_streams(server: RunningServer) -> int:
    found = re.search(r"^threadwire_streams (\d+)$", httpx.get(f"{server.url}/metrics", timeout=30).text, re.MULTILINE)
    assert found is not None
    return int(found[1])


@pytest.mark.extended
@pytest.mark.parametrize(("server", "limit"), LIMITS, indirect=["server"])
def test_a_burst_of_streams_leaves_little_memory_in_use(server: RunningServer, limit: int) -> None:
    """Each process may keep `limit` megabytes. A worker process takes 110 when it is idle, the serving process 120."""

    def stream() -> None:
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=600)
        connection.request("POST", "/runs/stream", httpx.Request("POST", "/", json=words(2000)).content)
        connection.getresponse().read()
        connection.close()

    streams = [threading.Thread(target=stream) for _ in range(STREAMS)]
    for thread in streams:
        thread.start()
    for thread in streams:
        thread.join()
    deadline = time.monotonic() + 75
    while max(kept := resident_by_process(server)) > limit:
        assert time.monotonic() < deadline, f"{kept} MB"
        time.sleep(1)


def api_seconds(server: RunningServer) -> float:
    """CPU seconds that the API thread has used. Wall-clock time would depend on what else runs on this machine."""
    pid = server.process.pid
    fields = Path(f"/proc/{pid}/task/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_state_of_20_megabytes_does_not_hold_up_other_clients(server: RunningServer) -> None:
    held, done = [], threading.Event()

    def check_health() -> None:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            while not done.is_set():
                before = api_seconds(server)
                assert client.get("/ok").status_code == 200
                held.append(api_seconds(server) - before)

    checks = threading.Thread(target=check_health)
    checks.start()
    with httpx.Client(base_url=server.url, timeout=60) as client:
        thread = client.post("/threads", json={}).json()["thread_id"]
        run = {"assistant_id": "large", "input": {"steps": [0]}, "stream_mode": ["values", "updates"]}
        page = {"threadId": thread, "runId": "r", "messages": [], "tools": [], "context": []}
        sizes = [
            len(client.post(path, json=body).content)
            for path, body in [
                (f"/threads/{thread}/runs/stream", run),
                (f"/threads/{thread}/runs/wait", run),
                ("/ag-ui/large/connect", page),
            ]
        ]
        sizes.append(len(client.get(f"/threads/{thread}/state").content))
    done.set()
    checks.join()
    assert min(sizes) > 20_000_000
    assert max(held) < 0.5
