"""Two API processes and three workers on PostgreSQL and Redis, behind nginx, as plain processes."""

import asyncio
import json
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import pytest
from chaos import close_clients, fail_early, open_clients, wait_until_idle
from faults import chosen_faults
from history import read_history
from stream_client import TERMINAL, StreamClient, get, new_thread, post, replay, request

from cluster import Cluster, running_cluster
from threadwire.storage.postgres.id_keys import key_of
from threadwire.testing.server import RunningServer

pytestmark = pytest.mark.timeout(600)

CYCLES = int(os.environ.get("CLUSTER_CYCLES", "6"))
SEED = int(os.environ.get("CLUSTER_SEED", "7"))
ROUNDS = int(os.environ.get("CLUSTER_ROUNDS", "1"))
ZOMBIES = int(os.environ.get("ZOMBIES", "1"))
WITHIN = 90.0
"""Seconds that anything may take. A lease that expires takes up to 25."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    env = {"THREADWIRE_DRAIN_SECONDS": "2", "THREADWIRE_KEEP_TEMPORARY_SECONDS": "100000"}
    with running_cluster(apis=2, workers=3, env=env) as running:
        yield running


def until(holds: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + WITHIN
    while not (found := holds()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def race(**given: Any) -> dict[str, Any]:
    values = {"messages": [{"role": "user", "content": "go"}], "count": 5, "words": 20, "delay": 0.01, **given}
    return {"assistant_id": "marathon", "input": values, "stream_mode": ["values", "messages-tuple", "updates"]}


def query(cluster: Cluster, sql: str, *values: Any) -> list[Any]:
    async def fetch() -> list[Any]:
        connection = await asyncpg.connect(cluster.database)
        try:
            return list(await connection.fetch(sql, *values))
        finally:
            await connection.close()

    return asyncio.run(fetch())


def executing(cluster: Cluster) -> RunningServer:
    """A worker that executes runs."""
    found: RunningServer = until(lambda: next((each for each in cluster.workers if _executes(each)), None))
    return found


def _executes(server: RunningServer) -> bool:
    return "threadwire_runs_executing 0" not in httpx.get(f"{server.url}/metrics", timeout=10).text


def test_a_run_continues_in_another_process_when_the_one_it_was_started_through_is_killed(cluster: Cluster) -> None:
    first, second = cluster.apis
    client = StreamClient(first, new_thread(first), race(count=40, delay=0.05, words=40))
    watching = threading.Thread(target=client.watch)
    watching.start()
    until(lambda: len(client.frames) > 20)
    run_path = client.run_path or until(lambda: client.run_path)
    first.kill()
    watching.join(WITHIN)
    try:
        assert get(second, str(run_path))["status"] == "running"
        client.server = second
        assert client.watch()
        assert client.ids == sorted(set(client.ids))
        assert client.received == replay(second, f"{run_path}/stream")
        assert client.status() == "success"
    finally:
        first.start()


def test_a_run_is_followed_through_another_process_while_it_runs(cluster: Cluster) -> None:
    first, second = cluster.apis
    thread_id = new_thread(first)
    run = post(first, f"/threads/{thread_id}/runs", race(count=10, delay=0.05))
    path = f"/threads/{thread_id}/runs/{run['run_id']}"
    followed = replay(second, f"{path}/stream")  # to its end
    assert followed == replay(first, f"{path}/stream")
    assert get(second, path)["status"] == "success"


def test_runs_by_graph_use_the_assistant_that_another_process_has_changed(cluster: Cluster) -> None:
    first, second = cluster.apis
    tones = ["warm", "cold"]
    for changing, starting, tone in zip((first, second), (second, first), tones, strict=True):
        [assistant] = post(changing, "/assistants/search", {"graph_id": "marathon"})
        change = {"config": {"configurable": {"tone": tone}}}
        status, changed = request(changing, "PATCH", f"/assistants/{assistant['assistant_id']}", change)
        assert status == 200, changed
        run = post(starting, f"/threads/{new_thread(starting)}/runs", race(count=1, words=1))
        assert run["kwargs"]["config"]["configurable"]["tone"] == tone


def test_ag_ui_connect_and_the_timeline_work_across_processes(cluster: Cluster) -> None:
    first, second = cluster.apis
    thread_id = new_thread(first)
    post(first, f"/threads/{thread_id}/runs", race(count=30, delay=0.05))
    body = {"threadId": thread_id, "runId": str(uuid4()), "state": {}, "messages": [], "tools": [], "context": []}
    with httpx.stream(
        "POST", f"{second.url}/ag-ui/marathon/connect", json={**body, "forwardedProps": {}}, timeout=WITHIN
    ) as response:
        assert response.status_code == 200
        data = [line.removeprefix("data: ") for line in response.iter_lines() if line.startswith("data: ")]
    kinds = [json.loads(each)["type"] for each in data]
    assert kinds[0] == "RUN_STARTED"
    assert "TEXT_MESSAGE_CONTENT" in kinds
    assert kinds[-1] == "RUN_FINISHED"
    timelines = [httpx.get(f"{api.url}/threads/{thread_id}/timeline", timeout=30).json() for api in cluster.apis]
    assert timelines[0] == timelines[1]
    assert timelines[0]["blocks"]


def test_a_cancellation_reaches_the_worker(cluster: Cluster) -> None:
    first, second = cluster.apis
    thread_id = new_thread(first)
    run = post(first, f"/threads/{thread_id}/runs", race(count=10_000, delay=0.05))
    path = f"/threads/{thread_id}/runs/{run['run_id']}"
    until(lambda: get(first, path)["status"] == "running")
    started = time.monotonic()
    httpx.post(f"{second.url}{path}/cancel?wait=true", timeout=WITHIN).raise_for_status()
    assert get(first, path)["status"] == "interrupted"
    sys.stderr.write(f"cancelled in {time.monotonic() - started:.2f} s\n")


def test_readiness_follows_redis_and_the_database(cluster: Cluster) -> None:
    """Without Redis a process is degraded, and without the database it is not ready. It recovers by itself."""
    assert cluster.redis_proxy is not None
    for process in (cluster.apis[0], cluster.workers[0]):
        until(lambda process=process: readiness(process) == (200, False))
    cluster.redis_proxy.cut()
    until(lambda: readiness(cluster.apis[0]) == (200, True))
    cluster.redis_proxy.mend()
    until(lambda: readiness(cluster.apis[0]) == (200, False))
    cluster.postgres_proxy.cut()
    until(lambda: readiness(cluster.apis[0])[0] == 503)
    assert httpx.get(f"{cluster.apis[0].url}/ok", timeout=30).status_code == 200
    rejected = httpx.post(f"{cluster.apis[0].url}/threads", json={}, timeout=30)
    assert rejected.status_code == 503
    assert "retry-after" in rejected.headers
    cluster.postgres_proxy.mend()
    for process in (*cluster.apis, *cluster.workers):
        until(lambda process=process: readiness(process) == (200, False))


def readiness(process: RunningServer) -> tuple[int, bool | None]:
    response = httpx.get(f"{process.url}/ready", timeout=30)
    return response.status_code, response.json().get("degraded")


def test_a_worker_serves_no_protocol(cluster: Cluster) -> None:
    paths = ("/ok", "/ready", "/info", "/metrics", "/threads", "/assistants", "/ag-ui/marathon")
    statuses = [httpx.get(f"{cluster.workers[0].url}{path}", timeout=30).status_code for path in paths]
    assert statuses == [200, 200, 200, 200, 404, 404, 404]


@pytest.mark.timeout(7200)
def test_a_worker_that_hangs_is_replaced_and_writes_nothing_when_it_continues(cluster: Cluster) -> None:
    """A zombie: it was stopped for longer than its lease, without noticing."""
    api = cluster.apis[0]
    for _ in range(ZOMBIES):
        runs = [post(api, f"/threads/{new_thread(api)}/runs", race(count=100, delay=0.1)) for _ in range(ZOMBIES)]
        zombie = executing(cluster)
        zombie.pause()
        stopped = time.monotonic()
        until(lambda runs=runs: any(attempt_of(cluster, run) == 2 for run in runs))
        sys.stderr.write(f"taken over after {time.monotonic() - stopped:.1f} s\n")
        zombie.resume()
        zombie.wait_for_log("run_lost|lease_upkeep_failed", WITHIN)
        for run in runs:
            check_single_history(cluster, run)


def attempt_of(cluster: Cluster, run: dict[str, Any]) -> int:
    """The attempt of a run that is running, or 0."""
    sql = "SELECT attempt FROM runs WHERE run = $1 AND status = 'running'"
    rows = query(cluster, sql, key_of(run["run_id"]))
    return rows[0]["attempt"] if rows else 0


def check_single_history(cluster: Cluster, run: dict[str, Any]) -> None:
    """The run succeeds, no attempt wrote after the next one had started, and no step was repeated or lost."""
    api, thread_id = cluster.apis[0], run["thread_id"]
    path = f"/threads/{thread_id}/runs/{run['run_id']}"
    until(lambda: get(api, path)["status"] in TERMINAL)
    assert get(api, path)["status"] == "success"
    sql = "SELECT attempt FROM segments WHERE thread = $1 AND run = $2 AND attempt > 0 ORDER BY first_seq"
    attempts = [row["attempt"] for row in query(cluster, sql, key_of(thread_id), key_of(run["run_id"]))]
    assert attempts == sorted(attempts)
    assert get(api, f"/threads/{thread_id}/state")["values"]["done"] == list(range(1, 101))


def test_restarting_every_process_in_turn_ends_no_run_in_error(cluster: Cluster) -> None:
    clients = open_clients(cluster, 11)  # type: ignore[arg-type]
    try:
        for process in cluster.processes * ROUNDS:
            assert process.terminate() == 0, process.log()[-4000:]
            process.start()
            fail_early(clients)
    finally:
        outcomes = close_clients(clients)
    wait_until_idle(cluster)  # type: ignore[arg-type]
    for client in clients:
        client.check()
    assert not any(name.endswith(".error") or name.endswith("RUN_ERROR") for name in outcomes), outcomes
    assert query(cluster, "SELECT run FROM runs WHERE crashes > 0 AND status <> 'success'") == []


@pytest.mark.timeout(7200)
def test_nothing_is_lost_or_repeated_whatever_fails(cluster: Cluster) -> None:
    """The last test of this file: it ends the processes, and reads what they leave behind."""
    rng = random.Random(SEED)
    faults = chosen_faults(os.environ.get("CLUSTER_FAULTS"))
    done: Counter[str] = Counter()
    clients = open_clients(cluster, SEED)  # type: ignore[arg-type]
    for _ in range(CYCLES):
        time.sleep(rng.uniform(0.1, 2))
        fault = rng.choice(faults)
        fault(cluster, rng)
        done[fault.__name__] += 1
        try:
            fail_early(clients)
        except AssertionError:
            sys.stderr.write(f"{dict(done)}\n{cluster.logged_errors()}\n")
            raise
    outcomes = close_clients(clients)
    wait_until_idle(cluster)  # type: ignore[arg-type]
    for client in clients:
        client.check()
    for process in cluster.processes:
        assert process.terminate() == 0, process.log()[-4000:]
    history = asyncio.run(read_history(cluster.database))
    slowest = max(history.recoveries, default=0)
    sys.stderr.write(f"{dict(done)}, {history.entries} entries, recovery <= {slowest:.1f} s, {dict(outcomes)}\n")
    assert history.violations == []
    assert history.strays == []
    assert history.entries > 0
    assert slowest <= WITHIN
