"""Many posters on one thread: never two runs inside its nodes at once, whatever was cancelled meanwhile (spec 5.8)."""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from watching import get, new_thread, request

from threadwire.testing.server import RunningServer, running_server

PROJECT = Path(__file__).parent / "project" / "langgraph.json"
POSTERS = 8
STRATEGIES = ["enqueue", "reject", "interrupt", "rollback"]

posts = st.lists(
    st.tuples(st.sampled_from(STRATEGIES), st.sampled_from([0.0, 0.005, 0.03])), min_size=POSTERS, max_size=POSTERS
)
numbers = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(PROJECT, tmp_path_factory.mktemp("multitask") / "data") as server:
        yield server


@pytest.mark.timeout(600)
@pytest.mark.parametrize("graph", ["probe", "probe_sync"])
def test_never_two_at_once_order_kept_and_no_trace_of_what_was_rolled_back(
    graph: str, server: RunningServer, tmp_path: Path
) -> None:
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(posts)
    def property_holds(asked: list[tuple[str, float]]) -> None:
        thread_id = new_thread(server)
        file = tmp_path / f"{graph}{next(numbers)}.txt"
        file.touch()
        answers = post_at_once(server, thread_id, graph, file, asked)
        runs = settle(server, thread_id)
        assert_refused_only_where_asked(answers, asked)
        assert_never_two_at_once(file)
        assert_state_tells_the_story(server, thread_id, runs)

    property_holds()


def post_at_once(
    server: RunningServer, thread_id: str, graph: str, file: Path, asked: list[tuple[str, float]]
) -> list[tuple[int, Any]]:
    def post_one(number: int) -> tuple[int, Any]:
        strategy, hold = asked[number]
        body = {
            "assistant_id": graph,
            "input": {"name": str(number), "file": str(file), "hold": hold},
            "multitask_strategy": strategy,
            "metadata": {"name": str(number)},
        }
        return request(server, "POST", f"/threads/{thread_id}/runs", body)

    with ThreadPoolExecutor(POSTERS) as posters:
        return list(posters.map(post_one, range(len(asked))))


def settle(server: RunningServer, thread_id: str) -> list[dict[str, Any]]:
    """Wait for everything to end; the runs that are left, in the order they were accepted."""
    while True:
        active = [run for run in runs_of(server, thread_id) if run["status"] in ("pending", "running")]
        if not active:
            break
        for run in active:
            request(server, "GET", f"/threads/{thread_id}/runs/{run['run_id']}/join")
    return list(reversed(runs_of(server, thread_id)))


def runs_of(server: RunningServer, thread_id: str) -> list[dict[str, Any]]:
    return list(get(server, f"/threads/{thread_id}/runs?limit=100"))


def assert_refused_only_where_asked(answers: list[tuple[int, Any]], asked: list[tuple[str, float]]) -> None:
    for (status, answer), (strategy, _) in zip(answers, asked, strict=True):
        assert status in ((200, 409) if strategy == "reject" else (200,)), answer


def assert_never_two_at_once(file: Path) -> None:
    inside: str | None = None
    for line in file.read_text().splitlines():
        what, name = line.split()
        if what == "enter":
            assert inside is None, f"{name} entered while {inside} was inside"
            inside = name
        else:
            assert inside == name
            inside = None


def assert_state_tells_the_story(server: RunningServer, thread_id: str, runs: list[dict[str, Any]]) -> None:
    """Who succeeded is there twice, in order; who was interrupted at most twice; who was rolled back not at all."""
    values = get(server, f"/threads/{thread_id}/state")["values"]
    told = values.get("log", [])
    left = {run["metadata"]["name"]: run["status"] for run in runs}
    assert set(told) <= set(left), "a rolled-back run has left a trace"
    succeeded = [name for name, status in left.items() if status == "success"]
    assert [name for name in told if left[name] == "success"] == [name for name in succeeded for _ in range(2)]
    assert all(told.count(name) <= 2 for name in left)
    history = get(server, f"/threads/{thread_id}/history?limit=1000")
    assert {state["metadata"]["run_id"] for state in history} <= {run["run_id"] for run in runs}


def test_rolling_back_leaves_the_checkpoint_from_before(server: RunningServer, tmp_path: Path) -> None:
    thread_id = new_thread(server)
    asked: dict[str, Any] = {"assistant_id": "probe", "input": {"name": "a", "file": str(tmp_path / "f"), "hold": 0}}
    request(server, "POST", f"/threads/{thread_id}/runs/wait", asked)
    before = get(server, f"/threads/{thread_id}/state")
    slow = {**asked, "input": {**asked["input"], "name": "b", "hold": 0.5}}
    _, run = request(server, "POST", f"/threads/{thread_id}/runs", slow)
    status, _ = request(server, "POST", f"/threads/{thread_id}/runs/{run['run_id']}/cancel?wait=1&action=rollback", {})
    assert status == 200
    assert get(server, f"/threads/{thread_id}/state") == before
    assert request(server, "GET", f"/threads/{thread_id}/runs/{run['run_id']}")[0] == 404
    thread = get(server, f"/threads/{thread_id}")
    assert (thread["status"], thread["values"]) == ("idle", before["values"])
