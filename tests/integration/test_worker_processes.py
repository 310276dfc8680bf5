"""Worker processes: whatever happens to one of them affects only its own runs, and costs each at most one attempt.

On PostgreSQL, worker processes open the database themselves. The tests that this affects run there too.
"""

import asyncio
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

import pytest
from stream_client import StreamClient, get, new_thread, post, replay, request

from services.fixtures import postgres_server as postgres_server
from services.postgres_server import PostgresServer
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import Run
from threadwire.storage.abc import Storage
from threadwire.storage.postgres import open_postgres_storage
from threadwire.storage.sqlite import open_sqlite_storage
from threadwire.testing.server import RunningServer, running_server

PROJECT = Path(__file__).parent / "project" / "langgraph.json"
RUNS = 20
"""How many runs each of the two workers has."""
PATIENCE = 90.0
"""The maximum wait in seconds. Starting a worker takes one or two."""
PAUSE = 5.0
"""The maximum seconds between two steps of a run that is not affected. Usually it is a tenth of a second."""
TAKEOVER = 3.0
"""The maximum seconds until the runs of a worker that died continue. Usually it is 0.1, and 0.2 on PostgreSQL."""
ZOMBIES = int(os.environ.get("ZOMBIES", "1"))
"""How often a worker is stopped and continued."""

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(400)]


class Database(NamedTuple):
    settings: dict[str, str]
    open: Callable[[], AbstractAsyncContextManager[Storage]]
    """Opens it once the server has ended."""


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.extended)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        yield Database({}, lambda: open_sqlite_storage(tmp_path / "data"))
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    dsn = asyncio.run(server.create_database())
    yield Database({"THREADWIRE_STORAGE": dsn}, lambda: open_postgres_storage(dsn))
    asyncio.run(server.drop_database(dsn))


class Step(NamedTuple):
    number: int
    process: int
    at: float


@contextmanager
def server_with_workers(tmp_path: Path, **env: str) -> Iterator[RunningServer]:
    settings = {"THREADWIRE_WORKERS": "2", "OPENED_FILE": str(tmp_path / "opened.txt"), **env}
    with running_server(PROJECT, tmp_path / "data", env=settings) as server:
        wait_until(lambda: len(ready_workers(server)) == 2, server)
        yield server


def wait_until(condition: Callable[[], bool], server: RunningServer) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, server.log()
        time.sleep(0.02)


def metric(server: RunningServer, sample: str) -> int:
    with urlopen(f"{server.url}/metrics", timeout=60) as response:
        text = response.read().decode()
    found = re.search(rf"^{re.escape(sample)} (\d+)", text, re.MULTILINE)
    assert found is not None, text
    return int(found[1])


def ready_workers(server: RunningServer) -> list[int]:
    """The worker processes, once all of them are ready."""
    if metric(server, 'threadwire_workers{state="starting"}'):
        return []
    return workers(server)


def workers(server: RunningServer) -> list[int]:
    pid = server.process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def traced(tmp_path: Path, name: str, *, count: int = 20, delay: float = 0.1, **fields: Any) -> dict[str, Any]:
    given = {"file": str(tmp_path / f"{name}.txt"), "count": count, "delay": delay, **fields}
    return {"assistant_id": "traced", "input": given, "stream_mode": ["values", "custom"]}


def longest_pause(client: StreamClient) -> float:
    """The longest time between two steps of the run, in seconds."""
    return max(later.at - earlier.at for earlier, later in pairwise(steps(client)))


def steps(client: StreamClient) -> list[Step]:
    file = Path(client.body["input"]["file"])
    lines = file.read_text().splitlines() if file.exists() else []
    return [Step(int(number), int(process), float(at)) for number, process, at in map(str.split, lines)]


class Race:
    """Runs on both workers, each followed by a client."""

    def __init__(
        self, server: RunningServer, folder: Path, *, count: int = 20, delay: float = 0.1, runs: int = 2 * RUNS
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.server = server
        self.clients = [
            StreamClient(server, new_thread(server), traced(folder, f"run{number}", count=count, delay=delay))
            for number in range(runs)
        ]
        self._executor = ThreadPoolExecutor(len(self.clients))
        self._ends: list[Future[bool]] = [self._executor.submit(client.watch) for client in self.clients]
        wait_until(lambda: all(len(steps(client)) >= 2 for client in self.clients), server)

    def of(self, process: int) -> list[StreamClient]:
        return [client for client in self.clients if steps(client)[0].process == process]

    def wait(self) -> None:
        assert all(end.result(PATIENCE) for end in self._ends), self.server.log()
        self._executor.shutdown()

    def assert_nothing_was_lost(self) -> None:
        for client in self.clients:
            assert client.ids == sorted(set(client.ids))
            assert client.received == replay(self.server, f"{client.run_path}/stream")
            assert client.status() == "success"
            given = client.body["input"]
            state = get(self.server, f"/threads/{client.thread_id}/state")
            assert state["values"]["done"] == list(range(1, given["count"] + 1))


def attempts_of(client: StreamClient) -> int:
    """How many attempts the run has had, from what its client received."""
    return max(int(found) for found in re.findall(rb'"attempt":(\d+)', client.received))


# -- a worker that dies ------------------------------------------------------------------------------------------------


def test_the_runs_of_a_worker_that_dies_continue_and_those_of_the_other_are_not_affected(
    database: Database, tmp_path: Path
) -> None:
    with server_with_workers(tmp_path, **database.settings) as server:
        race = Race(server, tmp_path, count=30)
        dead, other = workers(server)
        lost, kept = race.of(dead), race.of(other)
        assert min(len(lost), len(kept)) >= RUNS // 4, "the runs are distributed"
        os.kill(dead, signal.SIGKILL)
        killed_at = time.time()
        race.wait()
        race.assert_nothing_was_lost()
        for client in kept:
            assert {step.process for step in steps(client)} == {other}, "it was never interrupted"
            assert [step.number for step in steps(client)] == list(range(1, 31))
            assert longest_pause(client) < PAUSE, "it did not wait either"
            assert attempts_of(client) == 1
        for client in lost:
            again = next(step for step in steps(client) if step.process != dead)
            assert again.at - killed_at < TAKEOVER, "it continued"
            assert attempts_of(client) == 2
        assert metric(server, "threadwire_leases_lost_total") == len(lost)
        assert metric(server, "threadwire_workers_died_total") == 1
        wait_until(lambda: len(ready_workers(server)) == 2, server)
        assert get(server, "/ready")["ready"]


def test_a_command_that_only_executes_runs_supervises_processes_too(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    dsn = asyncio.run(postgres_server.create_database())
    env = {"THREADWIRE_STORAGE": dsn, "THREADWIRE_ROLE": "api"}
    with running_server(PROJECT, None, env=env) as api:
        client = StreamClient(api, new_thread(api), traced(tmp_path, "run"))
        supervisor = running_server(
            PROJECT, None, command="worker", options=["--workers", "1"], env={"THREADWIRE_STORAGE": dsn}
        )
        with supervisor as server, ThreadPoolExecutor(1) as executor:
            end = executor.submit(client.watch)
            wait_until(lambda: len(steps(client)) >= 3, server)
            [dead] = workers(server)
            os.kill(dead, signal.SIGKILL)
            assert end.result(PATIENCE), server.log()
            [restarted] = workers(server)
            assert [step.process for step in steps(client)][-1] == restarted != dead
            assert {step.process for step in steps(client)} == {dead, restarted}
        assert client.status() == "success"
        assert client.received == replay(api, f"{client.run_path}/stream")
        assert attempts_of(client) == 2


@pytest.mark.parametrize("harm", ["exit", "segfault"])
def test_a_poison_run_ends_in_error_and_other_runs_succeed(harm: str, database: Database, tmp_path: Path) -> None:
    with server_with_workers(tmp_path, **database.settings) as server:
        healthy = [new_thread(server) for _ in range(6)]
        for number, thread_id in enumerate(healthy):
            post(server, f"/threads/{thread_id}/runs", traced(tmp_path, f"healthy{number}", count=10))
        poisoned = new_thread(server)
        body = traced(tmp_path, "poison", harm=harm)
        run = post(server, f"/threads/{poisoned}/runs", body)
        error = get(server, f"/threads/{poisoned}/runs/{run['run_id']}/join")["__error__"]
        assert error["error"] == "max_attempts"
        for thread_id in healthy:
            [run] = get(server, f"/threads/{thread_id}/runs")
            assert "__error__" not in get(server, f"/threads/{thread_id}/runs/{run['run_id']}/join")
        lines = [line.split() for line in Path(body["input"]["file"]).read_text().splitlines()]
        victims = {process for _, process, _ in lines}
        assert len(victims) == 3
        _, third, at = lines[2]
        for number in range(6):
            others = [line.split() for line in (tmp_path / f"healthy{number}.txt").read_text().splitlines()]
            assert all(time < at for _, process, time in others if process == third), "the last attempt was alone"
        assert metric(server, "threadwire_workers_died_total") == 3
        assert server.process.poll() is None


def test_a_run_that_blocks_its_worker_delays_neither_the_other_worker_nor_reads(
    database: Database, tmp_path: Path
) -> None:
    with server_with_workers(tmp_path, **database.settings) as server:
        blocking = new_thread(server)
        run = post(server, f"/threads/{blocking}/runs", traced(tmp_path, "blocking", harm="block"))
        server.wait_for_log("loop_blocked", PATIENCE)
        for number in range(6):
            thread_id = new_thread(server)
            free = post(server, f"/threads/{thread_id}/runs", traced(tmp_path, f"free{number}", count=1, delay=0))
            assert get(server, f"/threads/{thread_id}/runs/{free['run_id']}/join")["done"] == [1]
            assert get(server, f"/threads/{blocking}/state")["next"] == ["step"]
        assert get(server, f"/threads/{blocking}/runs/{run['run_id']}")["status"] == "running"
        assert server.terminate(60) == 0, "a shutdown does not wait for it"


def test_runs_that_cannot_start_because_their_worker_is_blocked_continue_in_the_other(
    database: Database, tmp_path: Path
) -> None:
    """They were assigned to it before the owner knew that it was blocked."""
    with server_with_workers(tmp_path, **database.settings) as server:
        post(server, f"/threads/{new_thread(server)}/runs", traced(tmp_path, "blocking", harm="block", delay=0))
        wait_until(lambda: (tmp_path / "blocking.txt").exists(), server)
        runs = []
        for number in range(12):
            thread_id = new_thread(server)
            body = traced(tmp_path, f"free{number}", count=1, delay=0)
            runs.append((thread_id, post(server, f"/threads/{thread_id}/runs", body)["run_id"]))
        for thread_id, run_id in runs:
            assert get(server, f"/threads/{thread_id}/runs/{run_id}/join")["done"] == [1]
        assert "run_handed_over" in server.log()
        assert server.terminate(60) == 0


def test_a_blocked_process_that_only_executes_runs_leaves_them_to_others(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    dsn = asyncio.run(postgres_server.create_database())
    env = {"THREADWIRE_STORAGE": dsn}
    with (
        running_server(PROJECT, None, env={**env, "THREADWIRE_ROLE": "api"}) as api,
        running_server(PROJECT, None, command="worker", env=env) as blocked,
    ):
        post(api, f"/threads/{new_thread(api)}/runs", traced(tmp_path, "blocking", harm="block", delay=0))
        wait_until(lambda: (tmp_path / "blocking.txt").exists(), blocked)
        runs = [
            post(api, f"/threads/{new_thread(api)}/runs", traced(tmp_path, f"free{number}", count=1, delay=0))
            for number in range(6)
        ]
        blocked.wait_for_log("run_handed_over", PATIENCE)
        with running_server(PROJECT, None, command="worker", env=env) as other:
            for number, run in enumerate(runs):
                assert get(api, f"/threads/{run['thread_id']}/runs/{run['run_id']}/join")["done"] == [1]
                assert (tmp_path / f"free{number}.txt").read_text().split()[1] == str(other.process.pid)
        assert blocked.terminate(60) == 0, "a shutdown does not wait for the node"


# -- a worker that stops responding ------------------------------------------------------------------------------------


@pytest.mark.timeout(400 * ZOMBIES)
async def test_a_worker_that_was_stopped_writes_nothing_after_its_leases_were_taken(
    database: Database, tmp_path: Path
) -> None:
    seized: list[Takeover] = []
    with server_with_workers(tmp_path, THREADWIRE_LEASE_SECONDS="6", **database.settings) as server:
        for number in range(ZOMBIES):
            seized += stop_and_continue_a_worker(server, tmp_path / f"zombie{number}")
            wait_until(lambda: len(ready_workers(server)) == 2, server)
        assert server.terminate() == 0
    async with database.open() as storage:
        for client, zombie, successor in seized:
            run_id = RunId(str(client.run_path).rsplit("/", 1)[1])
            entries = await storage.log.read(ThreadId(client.thread_id), Seq(0), limit=10_000, run_id=run_id)
            attempts = [entry.attempt for entry in entries]
            assert attempts == sorted(attempts), "the zombie wrote nothing (5.4)"
            written_by = {entry.data["value"]["process"] for entry in entries if entry.kind == "custom"}
            assert written_by == {zombie, successor}


class Takeover(NamedTuple):
    client: StreamClient
    zombie: int
    successor: int


def stop_and_continue_a_worker(server: RunningServer, folder: Path) -> list[Takeover]:
    """Stop a worker until its runs were taken over. Returns those runs, once they have ended."""
    race = Race(server, folder, count=100, runs=RUNS)
    stopped, other = workers(server)
    lost, kept = race.of(stopped), race.of(other)
    assert lost
    assert kept
    os.kill(stopped, signal.SIGSTOP)
    wait_until(lambda: all(steps(client)[-1].process == other for client in lost), server)
    os.kill(stopped, signal.SIGCONT)
    race.wait()
    race.assert_nothing_was_lost()
    assert {attempts_of(client) for client in lost} == {2}
    assert {attempts_of(client) for client in kept} == {1}
    assert max(map(longest_pause, kept)) < PAUSE
    return [Takeover(client, stopped, other) for client in lost]


# -- the owner ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("also", ["nothing", "a worker"])
def test_workers_end_with_their_owner_and_runs_continue_after_a_restart(
    also: str, database: Database, tmp_path: Path
) -> None:
    with server_with_workers(tmp_path, THREADWIRE_LEASE_SECONDS="6", **database.settings) as server:
        client = StreamClient(server, new_thread(server), traced(tmp_path, "run"))
        with ThreadPoolExecutor(1) as executor:
            cut_off = executor.submit(client.watch)
            wait_until(lambda: len(steps(client)) >= 3, server)
            processes = workers(server)
            if also == "a worker":
                os.kill(processes[0], signal.SIGKILL)
            server.kill()
            assert not cut_off.result(PATIENCE)
        wait_until(lambda: not any(map(is_running, processes)), server)
        server.start()
        while not client.watch():
            pass
        assert client.received == replay(server, f"{client.run_path}/stream")
        assert client.status() == "success"
        times = [step.number for step in steps(client)]
        assert sorted(set(times)) == list(range(1, 21))
        assert len(times) - 20 <= 2, "each kill repeats at most one step"


@pytest.mark.parametrize("stopped", [False, True], ids=["all respond", "one does not respond"])
async def test_a_shutdown_is_bounded_and_charges_no_run(stopped: bool, database: Database, tmp_path: Path) -> None:
    with server_with_workers(tmp_path, THREADWIRE_DRAIN_SECONDS="1", **database.settings) as server:
        thread_ids = [new_thread(server) for _ in range(6)]
        for number, thread_id in enumerate(thread_ids):
            post(server, f"/threads/{thread_id}/runs", traced(tmp_path, f"run{number}", count=200))
        files = [tmp_path / f"run{number}.txt" for number in range(6)]
        wait_until(lambda: all(file.exists() for file in files), server)
        processes = workers(server)
        if stopped:
            os.kill(processes[0], signal.SIGSTOP)
        assert server.terminate(60) == 0
        assert not any(map(is_running, processes))
    async with database.open() as storage:
        runs = await runs_of(storage, thread_ids)
    assert [(run.status, run.crashes) for run in runs] == [("pending", 0)] * 6


async def runs_of(storage: Storage, thread_ids: Sequence[str]) -> list[Run]:
    return [run for thread_id in thread_ids for run in await storage.runs.list(ThreadId(thread_id))]


# -- reads -------------------------------------------------------------------------------------------------------------


def test_states_and_schemas_are_read_in_worker_processes(database: Database, tmp_path: Path) -> None:
    with server_with_workers(tmp_path, **database.settings) as server:
        thread_id = new_thread(server)
        run = post(server, f"/threads/{thread_id}/runs", traced(tmp_path, "run", count=1, delay=0))
        get(server, f"/threads/{thread_id}/runs/{run['run_id']}/join")
        opened = tmp_path / "opened.txt"
        opened.write_text("")
        assistant_id = run["assistant_id"]
        assert get(server, f"/threads/{thread_id}/state")["values"]["done"] == [1]
        assert get(server, f"/threads/{thread_id}/history")
        assert get(server, f"/assistants/{assistant_id}/graph")["nodes"]
        assert get(server, f"/assistants/{assistant_id}/schemas")["graph_id"] == "traced"
        status, _ = request(server, "POST", f"/threads/{thread_id}/state", {"values": {"done": [7]}})
        assert status == 200
        assert get(server, f"/threads/{thread_id}/state")["values"]["done"] == [1, 7]
        status, problem = request(server, "POST", f"/threads/{thread_id}/state", {"values": {}, "as_node": "nowhere"})
        assert status == 400, problem
        used = set(map(int, opened.read_text().split()))
        assert used
        assert used <= set(workers(server))
