"""kill -9, at random times and at crash points: what a client has received stays valid, and every run ends."""

import http.client
import os
import random
import subprocess
import threading
import time
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from crashing_server import ANSWER_POINTS, POINTS, SLOT_POINTS
from stream_client import StreamClient, get, new_thread, post, replay, request

from threadwire.testing.server import RunningServer, running_server

PROJECT = Path(__file__).parent / "project" / "langgraph.json"
CRASHING = Path(__file__).parent / "crashing_server.py"
CYCLES = int(os.environ.get("KILL_CYCLES", "8"))
MODES = ["values", "messages-tuple", "updates", "custom", "tasks", "checkpoints"]

pytestmark = pytest.mark.timeout(7200 if CYCLES > 50 else 900)


def race(tmp_path: Path, name: str, *, count: int = 12, words: int = 60, delay: float = 0.004) -> dict[str, Any]:
    """A run of many fast steps, each recorded in an external file. The user's message has no id."""
    return {
        "assistant_id": "marathon",
        "input": {
            "messages": [{"role": "user", "content": "run!"}],
            "count": count,
            "words": words,
            "delay": delay,
            "file": str(tmp_path / f"{name}.txt"),
        },
        "stream_mode": MODES,
        "stream_subgraphs": True,
    }


def watch_to_the_end(client: StreamClient, server: RunningServer) -> None:
    """Follow the run to its end. Whenever the server has crashed, restart it and resume."""
    for _ in range(20):
        if client.watch():
            return
        with suppress(subprocess.TimeoutExpired):  # the stream is cut off shortly before the process exits
            server.process.wait(1)
            server.start()
    raise AssertionError(f"the run never ended: {server.log()}")


def assert_nothing_was_lost(client: StreamClient) -> None:
    """What the client received, across any number of crashes, equals a replay byte for byte."""
    assert client.ids == sorted(set(client.ids))
    assert client.received == replay(client.server, f"{client.run_path}/stream")


def assert_correct_result(client: StreamClient, kills: int) -> None:
    given = client.body["input"]
    assert client.status() == "success"
    state = get(client.server, f"/threads/{client.thread_id}/state")
    assert state["next"] == []
    assert state["values"]["done"] == list(range(1, given["count"] + 1))
    assert [message["type"] for message in state["values"]["messages"]] == ["human", "ai"]
    assert state["values"]["messages"][1]["content"].split() == [f"word{n}" for n in range(given["words"])]
    assert_at_most_one_step_repeated(Path(given["file"]), given["count"], kills)


def assert_at_most_one_step_repeated(file: Path, count: int, kills: int) -> None:
    """With the default durability, each kill repeats at most one superstep."""
    times = Counter(int(line) for line in file.read_text().split())
    assert sorted(times) == list(range(1, count + 1))
    assert sum(times.values()) - count <= kills, times


@pytest.mark.with_workers
def test_kill_at_random_times(tmp_path: Path) -> None:
    rng = random.Random(int(os.environ.get("KILL_SEED", "7")))
    with running_server(PROJECT, tmp_path / "data") as server:
        for cycle in range(CYCLES):
            client = StreamClient(server, new_thread(server), race(tmp_path, f"cycle{cycle}"))
            kills = rng.choice([1, 1, 1, 2])
            for _ in range(kills):
                killer = threading.Timer(rng.uniform(0.0, 0.45), server.process.kill)
                killer.start()
                ended = client.watch()
                killer.cancel()
                killer.join()
                if server.process.poll() is not None or not ended:
                    server.process.kill()
                    server.process.wait()
                    server.start()
            watch_to_the_end(client, server)
            assert_nothing_was_lost(client)
            assert_correct_result(client, kills)


def crash_point(point: str, time: int) -> Any:
    """Worker processes have no crash points, so with them only those of the commits are reached."""
    with_workers = (point, time) in {("before-checkpoint-commit", 5), ("after-terminal-commit", 1)}
    return pytest.param(point, time, marks=pytest.mark.with_workers if with_workers else ())


@pytest.mark.parametrize(
    ("point", "time"), [crash_point(point, time) for point in POINTS if "recovery" not in point for time in (1, 5)]
)
def test_kill_at_a_crash_point(point: str, time: int, tmp_path: Path) -> None:
    times = time if "checkpoint" in point else 1
    if time > times:
        times = 2  # a run reaches these points only once, so crash in the second run
    with running_server(PROJECT, tmp_path / "data", program=CRASHING, env={"CRASH_AT": f"{point}:{times}"}) as server:
        clients = [
            StreamClient(server, new_thread(server), race(tmp_path, f"run{number}", count=6, words=8, delay=0))
            for number in range(2)
        ]
        for client in clients:
            ended = client.watch()
            if not ended:
                server.process.wait(10)
                server.program = None
                server.start()
                watch_to_the_end(client, server)
        assert server.program is None, "the server never reached the crash point"
        for client in clients:
            assert_nothing_was_lost(client)
            assert_correct_result(client, kills=1)


@pytest.mark.parametrize("point", ["before-recovery", "after-recovery"])
def test_kill_during_recovery(point: str, tmp_path: Path) -> None:
    with running_server(PROJECT, tmp_path / "data") as server:
        client = StreamClient(server, new_thread(server), race(tmp_path, "run", delay=0.01))
        threading.Timer(0.15, server.process.kill).start()
        assert not client.watch()
        server.process.wait(10)
        server.program, server.env["CRASH_AT"] = CRASHING, f"{point}:1"
        with pytest.raises(TimeoutError):
            server.start()
        server.program = None
        server.start()
        watch_to_the_end(client, server)
        assert_nothing_was_lost(client)
        assert_correct_result(client, kills=2)


@pytest.mark.parametrize("point", SLOT_POINTS)
def test_kill_as_a_cron_fires(point: str, tmp_path: Path) -> None:
    """Each slot starts exactly one run."""
    with running_server(PROJECT, tmp_path / "data", program=CRASHING, env={"CRASH_AT": f"{point}:1"}) as server:
        thread_id = new_thread(server)
        slot = datetime.now(UTC) + timedelta(seconds=3)
        schedule = f"{slot.minute} {slot.hour} {slot.day} {slot.month} * {slot.second}"
        body = {**race(tmp_path, "run", count=3, words=3, delay=0), "schedule": schedule}
        cron = post(server, f"/threads/{thread_id}/runs/crons", body)
        server.process.wait(30)
        server.program = None
        server.start()
        run = wait_for_a_run(server, thread_id)
        assert "__error__" not in get(server, f"/threads/{thread_id}/runs/{run['run_id']}/join")
        assert len(get(server, f"/threads/{thread_id}/runs")) == 1
        next_run = datetime.fromisoformat(get(server, f"/runs/crons/{cron['cron_id']}")["next_run_date"])
        assert next_run > slot + timedelta(days=300)
        assert_at_most_one_step_repeated(tmp_path / "run.txt", count=3, kills=1)


@pytest.mark.parametrize("point", ANSWER_POINTS)
def test_kill_as_a_widget_is_submitted(point: str, tmp_path: Path) -> None:
    """Its interrupt is frozen and answered, or neither."""
    crash = {"CRASH_AT": f"{point}:2"}  # the first run asks, the second one carries the answer
    with running_server(PROJECT, tmp_path / "data", program=CRASHING, env=crash) as server:
        thread_id = new_thread(server)
        post(server, f"/threads/{thread_id}/runs/wait", {"assistant_id": "asking", "input": {}})
        [asked] = get(server, f"/threads/{thread_id}/timeline")["interrupts"]
        path = f"/threads/{thread_id}/timeline/interrupts/{asked['interruptId']}"
        body = {"frozenValue": "shown", "response": "yes", "resume": True}
        with suppress(ConnectionError, http.client.HTTPException):
            request(server, "PUT", path, body)
        server.process.wait(10)
        server.program = None
        server.start()

        [block] = get(server, f"/threads/{thread_id}/timeline")["blocks"]
        runs = get(server, f"/threads/{thread_id}/runs")
        if point == "before-answer-commit":
            assert (block, len(runs)) == (asked, 1)
        else:
            assert (block["frozenValue"], block["completed"], len(runs)) == ("shown", True, 2)

        status, submitted = request(server, "PUT", path, body)
        assert status == 200, submitted
        assert get(server, f"/threads/{thread_id}/runs/{submitted['runId']}/join")["answer"] == "yes"
        [block] = get(server, f"/threads/{thread_id}/timeline")["blocks"]
        assert (block["frozenValue"], block["response"], block["outcome"]) == ("shown", "yes", "answered")
        assert len(get(server, f"/threads/{thread_id}/runs")) == 2


def wait_for_a_run(server: RunningServer, thread_id: str) -> Any:
    deadline = time.monotonic() + 20
    while not (runs := get(server, f"/threads/{thread_id}/runs")):
        assert time.monotonic() < deadline, "the slot was lost"
        time.sleep(0.05)
    return runs[0]


@pytest.mark.with_workers
def test_a_kill_inside_a_subgraph_repeats_none_of_its_finished_steps(tmp_path: Path) -> None:
    """7.4: each step was recorded externally, and its checkpoint was durable before the next step started."""
    with running_server(PROJECT, tmp_path / "data") as server:
        body = race(tmp_path, "nested", count=5, delay=0) | {"assistant_id": "nested"}
        client = StreamClient(server, new_thread(server), body)
        watch_to_the_end(client, server)
        assert client.status() == "success"
        assert_nothing_was_lost(client)
    assert (tmp_path / "nested.txt").read_text().split() == ["1", "2", "3", "4", "5", "killed"]


def test_a_poison_run_ends_in_error_and_other_runs_succeed(tmp_path: Path) -> None:
    with running_server(PROJECT, tmp_path / "data") as server:
        healthy = []
        for number in range(10):
            thread_id = new_thread(server)
            body = race(tmp_path, f"healthy{number}", count=5, words=20, delay=0.02)
            run = post(server, f"/threads/{thread_id}/runs", body)
            healthy.append(f"/threads/{thread_id}/runs/{run['run_id']}")
        thread_id = new_thread(server)
        run = post(server, f"/threads/{thread_id}/runs", {"assistant_id": "poison", "input": {"count": 1}})
        poison = f"/threads/{thread_id}/runs/{run['run_id']}"
        for _ in range(3):
            server.process.wait(30)
            server.start()
        for path in healthy:
            assert "__error__" not in get(server, f"{path}/join")
            assert get(server, path)["status"] == "success"
        assert get(server, f"{poison}/join") == {
            "__error__": {
                "error": "max_attempts",
                "message": "The server died 3 times while this run was in flight.",
            }
        }
        assert get(server, poison)["status"] == "error"
        assert server.process.poll() is None
