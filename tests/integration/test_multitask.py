"""Concurrent runs on one thread: no two execute its nodes at the same time, whatever is cancelled (spec 5.8)."""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stream_client import get, new_thread, request

from threadwire.testing.server import RunningServer, running_server

PROJECT = Path(__file__).parent / "project" / "langgraph.json"
CLIENTS = 8
STRATEGIES = ["enqueue", "reject", "interrupt", "rollback"]

run_requests = st.lists(
    st.tuples(st.sampled_from(STRATEGIES), st.sampled_from([0.0, 0.005, 0.03])), min_size=CLIENTS, max_size=CLIENTS
)
numbers = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(PROJECT, tmp_path_factory.mktemp("multitask") / "data") as server:
        yield server


@pytest.mark.with_workers
@pytest.mark.timeout(600)
@pytest.mark.parametrize("graph", ["probe", "probe_sync"])
def test_runs_never_overlap_stay_in_order_and_leave_no_trace_if_rolled_back(
    graph: str, server: RunningServer, tmp_path: Path
) -> None:
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(run_requests)
    def property_holds(requests: list[tuple[str, float]]) -> None:
        thread_id = new_thread(server)
        file = tmp_path / f"{graph}{next(numbers)}.txt"
        file.touch()
        responses = post_concurrently(server, thread_id, graph, file, requests)
        runs = wait_for_all(server, thread_id)
        assert_only_reject_is_rejected(responses, requests)
        assert_no_overlap(file)
        assert_state_matches_runs(server, thread_id, runs)

    property_holds()


def post_concurrently(
    server: RunningServer, thread_id: str, graph: str, file: Path, requests: list[tuple[str, float]]
) -> list[tuple[int, Any]]:
    def post_one(number: int) -> tuple[int, Any]:
        strategy, hold = requests[number]
        body = {
            "assistant_id": graph,
            "input": {"name": str(number), "file": str(file), "hold": hold},
            "multitask_strategy": strategy,
            "metadata": {"name": str(number)},
        }
        return request(server, "POST", f"/threads/{thread_id}/runs", body)

    with ThreadPoolExecutor(CLIENTS) as executor:
        return list(executor.map(post_one, range(len(requests))))


def wait_for_all(server: RunningServer, thread_id: str) -> list[dict[str, Any]]:
    """Wait for all runs to end. Return those that still exist, in the order they were accepted."""
    while True:
        active = [run for run in runs_of(server, thread_id) if run["status"] in ("pending", "running")]
        if not active:
            break
        for run in active:
            request(server, "GET", f"/threads/{thread_id}/runs/{run['run_id']}/join")
    return list(reversed(runs_of(server, thread_id)))


def runs_of(server: RunningServer, thread_id: str) -> list[dict[str, Any]]:
    return list(get(server, f"/threads/{thread_id}/runs?limit=100"))


def assert_only_reject_is_rejected(responses: list[tuple[int, Any]], requests: list[tuple[str, float]]) -> None:
    for (status, response), (strategy, _) in zip(responses, requests, strict=True):
        assert status in ((200, 409) if strategy == "reject" else (200,)), response


def assert_no_overlap(file: Path) -> None:
    inside: str | None = None
    for line in file.read_text().splitlines():
        action, name = line.split()
        if action == "enter":
            assert inside is None, f"{name} entered while {inside} was inside"
            inside = name
        else:
            assert inside == name
            inside = None


def assert_state_matches_runs(server: RunningServer, thread_id: str, runs: list[dict[str, Any]]) -> None:
    """A run that succeeded appears twice, in order; an interrupted one at most twice; a rolled-back one not at all."""
    values = get(server, f"/threads/{thread_id}/state")["values"]
    logged = values.get("log", [])
    statuses = {run["metadata"]["name"]: run["status"] for run in runs}
    assert set(logged) <= set(statuses), "a rolled-back run has left a trace"
    succeeded = [name for name, status in statuses.items() if status == "success"]
    assert [name for name in logged if statuses[name] == "success"] == [name for name in succeeded for _ in range(2)]
    assert all(logged.count(name) <= 2 for name in statuses)
    history = get(server, f"/threads/{thread_id}/history?limit=1000")
    assert {state["metadata"]["run_id"] for state in history} <= {run["run_id"] for run in runs}


def test_a_rollback_restores_the_previous_checkpoint(server: RunningServer, tmp_path: Path) -> None:
    thread_id = new_thread(server)
    request_body: dict[str, Any] = {
        "assistant_id": "probe",
        "input": {"name": "a", "file": str(tmp_path / "f"), "hold": 0},
    }
    request(server, "POST", f"/threads/{thread_id}/runs/wait", request_body)
    before = get(server, f"/threads/{thread_id}/state")
    slow = {**request_body, "input": {**request_body["input"], "name": "b", "hold": 0.5}}
    _, run = request(server, "POST", f"/threads/{thread_id}/runs", slow)
    status, _ = request(server, "POST", f"/threads/{thread_id}/runs/{run['run_id']}/cancel?wait=1&action=rollback", {})
    assert status == 200
    assert get(server, f"/threads/{thread_id}/state") == before
    assert request(server, "GET", f"/threads/{thread_id}/runs/{run['run_id']}")[0] == 404
    thread = get(server, f"/threads/{thread_id}")
    assert (thread["status"], thread["values"]) == ("idle", before["values"])
