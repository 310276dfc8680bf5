"""The process: how it stops, how it resumes after a restart, and when it does not start."""

import contextlib
import json
import os
import re
import resource
import socket
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path

import anyio
import apsw
import httpx
import pytest
from clients import OPENERS, TIMEOUT, collect, eventually, human, open_async, open_sync, wait_for_start, wait_for_status

from threadwire.testing.server import running_server

pytestmark = pytest.mark.anyio

MANY = httpx.Limits(max_connections=100)
MARGIN = 3
"""Seconds that a loaded machine may add to a shutdown."""


@pytest.fixture
def no_drain(project, tmp_path):
    """A server that does not wait for its runs when it stops."""
    with running_server(project, tmp_path / "data", env={"THREADWIRE_DRAIN_SECONDS": "0"}) as running:
        yield running


def threadwire(*arguments, env=None, cwd=None):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("THREADWIRE_")}
    return subprocess.run(
        [sys.executable, "-m", "threadwire", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        env={**environment, "NO_COLOR": "1", **(env or {})},
        cwd=cwd,
    )


def startup_error(*arguments, **kwargs):
    """Return the single line with which the command failed."""
    ended = threadwire(*arguments, **kwargs)
    assert ended.returncode == 1
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    return line.removeprefix("threadwire: ")


async def test_sigterm_aborts_streams_and_the_run_resumes_after_the_restart(no_drain, gate):
    """A client would treat a response that ends cleanly as the end of the run."""
    server = no_drain
    async with open_async(server.url) as sdk, httpx.AsyncClient(base_url=server.url, timeout=30) as http:
        thread_id = await sdk.thread()
        run = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)}, stream_mode="updates")
        await wait_for_start(sdk, run)
        pieces = []
        at = f"/threads/{thread_id}/runs/{run['run_id']}"
        with pytest.raises(httpx.RemoteProtocolError):  # noqa: PT012 - reading the response must fail
            async with http.stream("GET", f"{at}/stream", headers={"Last-Event-ID": "-1"}) as response:
                async for piece in response.aiter_raw():
                    pieces.append(piece)
                    if b"begun" in piece:
                        server.process.terminate()
        assert b"event: error" not in b"".join(pieces)
    assert await anyio.to_thread.run_sync(server.wait) == 0
    assert "Traceback" not in server.log()
    assert "ASGI" not in server.log()

    gate.touch()
    await anyio.to_thread.run_sync(server.start)
    async with open_async(server.url) as sdk:
        await wait_for_status(sdk, run, "success")
        parts = await collect(sdk.runs.join_stream(thread_id, run["run_id"], last_event_id="-1"))
        assert [part.data for part in parts] == [
            {"run_id": run["run_id"], "attempt": 1},
            {"begin": {"steps": ["begun"]}},
            {"run_id": run["run_id"], "attempt": 2},
            {"wait": {"steps": ["waited"]}},
        ]
        assert (await sdk.threads.get_state(thread_id))["values"]["steps"] == ["begun", "waited"]


async def test_a_run_is_not_charged_for_the_servers_restarts(no_drain, gate):
    """Three crashes end a run in error; four shutdowns do not."""
    server = no_drain
    async with open_async(server.url) as sdk:
        run = await sdk.runs.create(await sdk.thread(), "slow", input={"until": str(gate)})
        await wait_for_start(sdk, run)
    for _ in range(4):
        assert await anyio.to_thread.run_sync(server.terminate) == 0
        await anyio.to_thread.run_sync(server.start)
        async with open_async(server.url) as sdk:
            await wait_for_status(sdk, run, "running")
    gate.touch()
    async with open_async(server.url) as sdk:
        await wait_for_status(sdk, run, "success")
        parts = await collect(sdk.runs.join_stream(run["thread_id"], run["run_id"], last_event_id="-1"))
        assert [part.data["attempt"] for part in parts if part.event == "metadata"] == [1, 2, 3, 4, 5]


async def test_a_shutdown_lets_runs_end_within_the_grace_period(project, tmp_path, gate):
    with running_server(project, tmp_path / "data", env={"THREADWIRE_DRAIN_SECONDS": "20"}) as server:
        async with open_async(server.url) as sdk:
            run = await sdk.runs.create(await sdk.thread(), "slow", input={"until": str(gate)})
            await wait_for_start(sdk, run)
            server.process.terminate()
            await anyio.to_thread.run_sync(server.wait_for_log, "drain_started")
            gate.touch()
            assert await anyio.to_thread.run_sync(server.wait) == 0
        await anyio.to_thread.run_sync(server.start)
        async with open_async(server.url) as sdk:
            assert (await sdk.runs.get(run["thread_id"], run["run_id"]))["status"] == "success"


@pytest.mark.parametrize("graph", ["blocking", "stubborn", "slow_below"])
async def test_a_shutdown_ends_even_if_a_node_does_not(no_drain, gate, graph):
    """The node blocks the loop of all runs, ignores its cancellation, or waits in a thread that Python would join."""
    server = no_drain
    async with open_async(server.url) as sdk:
        run = await sdk.runs.create(await sdk.thread(), graph, input={"until": str(gate)}, stream_mode="updates")
        await wait_for_start(sdk, run)
        other = await sdk.runs.create(await sdk.thread(), "slow", input={"until": str(gate)})
        await wait_for_status(sdk, other, "running")
    assert await anyio.to_thread.run_sync(server.terminate) == 0
    assert "Traceback" not in server.log()
    left_behind = [line for line in server.log().splitlines() if "run_stop_timed_out" in line and run["run_id"] in line]
    if graph == "slow_below":  # LangGraph abandons it like any sync node
        assert left_behind == []
    else:
        assert "nodes=['wait']" in left_behind[0]
    if graph == "blocking":
        # The node spends most of its time in `block`, and some in the function that it calls.
        assert re.search(r"loop_abandoned .*agents\.py:\d+ in (block|arrived)' .*node=wait$", server.log(), re.M)

    gate.touch()
    await anyio.to_thread.run_sync(server.start)
    assert "run_recovered" not in server.log(), "the run was charged for a crash"
    async with open_async(server.url) as sdk:
        await wait_for_status(sdk, other, "success")
        await wait_for_status(sdk, run, "success")
        parts = await collect(sdk.runs.join_stream(run["thread_id"], run["run_id"], last_event_id="-1"))
        assert [part.data for part in parts] == [
            {"run_id": run["run_id"], "attempt": 1},
            {"begin": {"steps": ["begun"]}},
            {"run_id": run["run_id"], "attempt": 2},
            {"wait": {"steps": ["waited"]}},
        ]


async def test_a_second_signal_shortens_the_shutdown(project, tmp_path, gate):
    with running_server(project, tmp_path / "data", env={"THREADWIRE_DRAIN_SECONDS": "600"}) as server:
        async with open_async(server.url) as sdk:
            run = await sdk.runs.create(await sdk.thread(), "slow", input={"until": str(gate)})
            await wait_for_start(sdk, run)
        server.process.terminate()
        await anyio.to_thread.run_sync(server.wait_for_log, "drain_started")
        assert await anyio.to_thread.run_sync(server.terminate) == 0


async def test_a_shutdown_ends_although_clients_reconnect(no_drain):
    """Each client opens its stream again as soon as it is cut off, on new and on open connections."""
    server = no_drain
    async with open_async(server.url) as sdk, httpx.AsyncClient(base_url=server.url, timeout=30, limits=MANY) as http:
        thread_id = await sdk.thread()

        async def follow():
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    await http.get(f"/threads/{thread_id}/stream")
                await anyio.sleep(0.02)

        async with anyio.create_task_group() as clients:
            for _ in range(30):
                clients.start_soon(follow)
            await eventually(partial(open_streams_are, http, 30))
            assert await anyio.to_thread.run_sync(server.terminate, 5 + MARGIN) == 0
            clients.cancel_scope.cancel()
    assert "shutdown_timed_out" not in server.log()


async def test_a_server_that_drains_accepts_no_new_connections_and_serves_the_open_ones(project, tmp_path, gate):
    with running_server(project, tmp_path / "data", env={"THREADWIRE_DRAIN_SECONDS": "600"}) as server:
        async with open_async(server.url) as sdk, httpx.AsyncClient(base_url=server.url, timeout=30) as http:
            run = await sdk.runs.create(await sdk.thread(), "slow", input={"until": str(gate)})
            await wait_for_start(sdk, run)
            assert (await http.get("/ok")).status_code == 200
            server.process.terminate()
            await anyio.to_thread.run_sync(server.wait_for_log, "drain_started")
            assert (await http.get("/ok")).status_code == 200
            async with httpx.AsyncClient(base_url=server.url) as other:

                async def refused():
                    try:
                        await other.get("/ok", headers={"connection": "close"})
                    except httpx.ConnectError:
                        return True
                    return False

                await eventually(refused)
            gate.touch()
        assert await anyio.to_thread.run_sync(server.wait) == 0


HANGING = """
from contextlib import asynccontextmanager
import asyncio
from fastapi import FastAPI


@asynccontextmanager
async def lifespan(app):
    yield
    await asyncio.Event().wait()


app = FastAPI(lifespan=lifespan)


@app.get("/hang")
async def hang():
    print("request has started", flush=True)
    await asyncio.Event().wait()
"""


@pytest.fixture
def hanging_server(project, tmp_path):
    (tmp_path / "hanging.py").write_text(HANGING)
    config = tmp_path / "langgraph.json"
    graphs = {"slow": f"{project.parent / 'agents.py'}:slow"}
    config.write_text(json.dumps({"dependencies": ["."], "graphs": graphs, "http": {"app": "./hanging.py:app"}}))
    with running_server(config, tmp_path / "data", env={"THREADWIRE_DRAIN_SECONDS": "0"}) as server:
        yield server


async def test_a_shutdown_ends_although_the_lifespan_of_the_project_does_not(hanging_server):
    assert await anyio.to_thread.run_sync(hanging_server.terminate, 5 + MARGIN) == 1
    assert "shutdown_timed_out" in hanging_server.log()


async def test_a_second_signal_ends_a_shutdown_that_waits_for_a_request_and_a_lifespan(hanging_server):
    async with httpx.AsyncClient(base_url=hanging_server.url, timeout=30) as http, anyio.create_task_group() as tasks:

        async def call():
            with contextlib.suppress(httpx.HTTPError):
                await http.get("/hang")

        tasks.start_soon(call)
        await anyio.to_thread.run_sync(hanging_server.wait_for_log, "request has started")
        hanging_server.process.terminate()
        await anyio.to_thread.run_sync(hanging_server.wait_for_log, "drain_started")
        assert await anyio.to_thread.run_sync(hanging_server.terminate, 1 + MARGIN) == 1


async def test_streams_of_runs_that_end_within_the_grace_period_are_complete(project, tmp_path, gate):
    with running_server(project, tmp_path / "data", env={"THREADWIRE_DRAIN_SECONDS": "20"}) as server:
        async with open_async(server.url) as sdk, httpx.AsyncClient(base_url=server.url, timeout=30) as http:
            run = await sdk.runs.create(await sdk.thread(), "slow", input={"until": str(gate)}, stream_mode="updates")
            await wait_for_start(sdk, run)
            at = f"/threads/{run['thread_id']}/runs/{run['run_id']}"
            got = {}

            async def get(path):
                got[path] = await http.get(
                    at + path, headers={"Last-Event-ID": "-1"}
                )  # raises if the response is aborted

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(get, "/stream")
                tasks.start_soon(get, "/join")
                await eventually(partial(open_streams_are, http, 2))
                server.process.terminate()
                await anyio.to_thread.run_sync(server.wait_for_log, "drain_started")
                gate.touch()
        assert await anyio.to_thread.run_sync(server.wait) == 0
        assert b'{"wait":{"steps":["waited"]}}' in got["/stream"].content
        assert got["/join"].json()["steps"] == ["begun", "waited"]


async def open_streams_are(http, count):
    """Whether exactly `count` streams are open."""
    return f"threadwire_streams {count}\n" in (await http.get("/metrics")).text


async def test_a_client_that_does_not_read_does_not_delay_a_shutdown(no_drain, gate):
    server = no_drain
    async with open_async(server.url) as sdk:
        given = {**human("word " * 3000), "delay": 0}
        run = await sdk.runs.create(await sdk.thread(), "chat", input=given, stream_mode=["messages", "values"])
        await wait_for_status(sdk, run, "success")
        host, port = server.url.removeprefix("http://").split(":")
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect((host, int(port)))
            request = f"GET /threads/{run['thread_id']}/runs/{run['run_id']}/stream HTTP/1.1"
            client.sendall(f"{request}\r\nHost: {host}\r\nLast-Event-ID: -1\r\n\r\n".encode())
            assert client.recv(12) == b"HTTP/1.1 200"
            assert await anyio.to_thread.run_sync(server.terminate) == 0
    assert "graceful shutdown exceeded" not in server.log()


@pytest.mark.parametrize("stop", ["terminate", "kill"])
async def test_both_clients_survive_a_restart_without_losing_or_repeating_an_event(no_drain, stop):
    server, seen = no_drain, {}
    words = " ".join(f"w{number}" for number in range(100))
    given = {**human(words), "delay": 0.02}

    async def follow(name, sdk):
        seen[name] = []
        thread_id = await sdk.thread()
        async for part in sdk.runs.stream(
            thread_id, "chat", input=given, stream_mode=["messages-tuple", "values"], stream_resumable=True
        ):
            seen[name].append(part)
        seen[name, "replay"] = await collect(
            sdk.runs.join_stream(thread_id, seen[name][0].data["run_id"], last_event_id="-1")
        )

    async def some_tokens():
        return all(len(seen.get(name, [])) > 10 for name in ("async", "sync"))

    async with open_async(server.url) as one, open_sync(server.url) as other:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(follow, "async", one)
                tasks.start_soon(follow, "sync", other)
                await eventually(some_tokens)
                await anyio.to_thread.run_sync(getattr(server, stop))
                await anyio.to_thread.run_sync(server.start)
    for name in ("async", "sync"):
        parts = seen[name]
        assert parts == seen[name, "replay"]
        assert [part.data["attempt"] for part in parts if part.event == "metadata"] == [1, 2]
        restarted = max(index for index, part in enumerate(parts) if part.event == "metadata")
        tokens = [part.data[0]["content"] for part in parts[restarted:] if part.event == "messages"]
        assert "".join(tokens) == f"You said: {words}"
        assert parts[-1].data["messages"][-1]["content"] == f"You said: {words}"


@pytest.mark.parametrize("opened", ["async", "sync"])
async def test_a_client_that_waits_for_a_run_gets_its_result_from_the_next_server(no_drain, gate, opened):
    server, results = no_drain, {}

    async def wait(sdk, thread_id):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the client warns that it reconnects
            results["wait"] = await sdk.runs.wait(thread_id, "slow", input={"until": str(gate)})

    async with OPENERS[opened](server.url) as sdk, open_async(server.url) as other:
        thread_id = await sdk.thread()
        with anyio.fail_after(TIMEOUT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait, sdk, thread_id)
                [run] = await eventually(partial(other.runs.list, thread_id))
                await wait_for_start(other, run)
                assert await anyio.to_thread.run_sync(server.terminate) == 0
                gate.touch()
                await anyio.to_thread.run_sync(server.start)
    assert results["wait"]["steps"] == ["begun", "waited"]


async def test_a_failing_disk_is_reported_and_ends_the_process_when_the_engine_fails(project, tmp_path):
    """Requests are rejected. But a worker that cannot even claim a run must end the process, instead of being dead
    behind a server that still responds."""
    with running_server(project, tmp_path / "data") as server:
        async with open_async(server.url) as sdk:
            await sdk.runs.create(await sdk.thread(), "echo", input={}, after_seconds=1)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (4096, 4096))
        async with httpx.AsyncClient(base_url=server.url, timeout=10) as http:
            response = await http.post("/threads", json={})
        assert response.status_code == 503
        assert response.json() == {"detail": "The database write failed: disk I/O error"}
        assert await anyio.to_thread.run_sync(server.wait) == 1


async def test_the_process_also_ends_when_the_end_of_a_run_cannot_be_written(project, tmp_path, gate):
    with running_server(project, tmp_path / "data") as server:
        async with open_async(server.url) as sdk:
            run = await sdk.runs.create(await sdk.thread(), "slow", input={"until": str(gate)})
            await wait_for_start(sdk, run)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (4096, 4096))
        gate.touch()
        assert await anyio.to_thread.run_sync(server.wait) == 1
        await anyio.to_thread.run_sync(server.start)
        async with open_async(server.url) as sdk:
            await wait_for_status(sdk, run, "success")


def overwrite(database, *tables):
    """Damage the root page of each table."""
    db = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
    sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
    pages = [db.execute(sql, (table,)).get for table in tables]
    db.close()
    with database.open("r+b") as file:
        for page in pages:
            file.seek(4096 * (page - 1))
            file.write(b"\xff" * 4096)


async def test_a_database_damaged_at_runtime_is_reported_and_the_readable_rest_is_served(project, tmp_path):
    database = tmp_path / "data" / "threadwire.db"
    with running_server(project, database.parent) as server:
        async with open_async(server.url) as sdk:
            thread_id = await sdk.thread()
            [started, *_] = await collect(sdk.runs.stream(thread_id, "echo", input={"text": "hi"}))
        assert await anyio.to_thread.run_sync(server.terminate) == 0
        await anyio.to_thread.run_sync(server.start)
        overwrite(database, "threads", "segments")
        async with httpx.AsyncClient(base_url=server.url, timeout=10) as http:
            item = {"namespace": ["a"], "key": "b", "value": {}}
            await http.put("/store/items", json=item)  # a write makes every connection read the file again
            path = f"/threads/{thread_id}/runs/{started.data['run_id']}"
            for response in (
                await http.get(f"/threads/{thread_id}"),
                await http.post("/threads/search", json={}),
                await http.get(f"{path}/stream", headers={"Last-Event-ID": "-1"}),
            ):
                assert response.status_code == 503
                assert response.json()["detail"].startswith("The database or its disk is damaged: database disk image")
            with pytest.raises(httpx.TransportError):  # the response has already started when the damage is found
                await http.get(f"{path}/join")
            assert (await http.get(path)).json()["status"] == "success"
            assert (await http.get("/ok")).status_code == 200
        log = await anyio.to_thread.run_sync(server.log)
        assert f"file={database}" in log
        assert "PRAGMA integrity_check" in log
        assert "Traceback" not in log


async def test_a_damaged_database_is_rejected_in_one_line(project, tmp_path):
    database = tmp_path / "data" / "threadwire.db"
    with running_server(project, database.parent) as server:
        assert await anyio.to_thread.run_sync(server.terminate) == 0
    overwrite(database, "threads")
    start = partial(startup_error, "serve", "--config", project, "--data", database.parent, "--port", 0)
    assert start().startswith(f"The database {database} is damaged or not a SQLite database: ")
    database.with_name("threadwire.db-wal").write_bytes(database.read_bytes())
    database.unlink()
    assert start().startswith(f"The database {database} is missing, but threadwire.db-wal next to it contains ")


async def test_only_one_server_uses_a_data_directory(project, tmp_path, no_drain):
    line = startup_error("serve", "--config", project, "--data", no_drain.data, "--port", 0)
    assert "is in use by another Threadwire process" in line


@pytest.mark.parametrize("below", ["", "data"], ids=["itself", "something-below"])
def test_a_file_is_rejected_as_data_directory(project, tmp_path, below):
    (tmp_path / "notes").write_text("mine")
    data = tmp_path / "notes" / below
    line = startup_error("serve", "--config", project, "--data", data, "--port", 0)
    assert line.startswith(f"The data directory {data} cannot be used: ")
    assert (tmp_path / "notes").read_text() == "mine"


def test_listening_beyond_loopback_must_be_explicit(project, tmp_path):
    line = startup_error("serve", "--config", project, "--data", tmp_path / "data", "--host", "0.0.0.0", "--port", 0)
    assert line.startswith("Cannot listen on 0.0.0.0 without authentication")
    assert "--insecure-no-auth" in line


def test_a_missing_project_file_is_named(tmp_path):
    missing = tmp_path / "nowhere" / "langgraph.json"
    assert str(missing) in startup_error("serve", "--config", missing, "--data", tmp_path / "data", "--port", 0)


def test_an_invalid_project_file_is_rejected(tmp_path):
    config = tmp_path / "langgraph.json"
    config.write_text("{nope")
    assert str(config) in startup_error("serve", "--config", config, "--data", tmp_path / "data", "--port", 0)


def test_a_misspelt_setting_is_rejected(project, tmp_path):
    arguments = ("serve", "--config", project, "--data", tmp_path / "data", "--port", 0)
    line = startup_error(*arguments, env={"THREADWIRE_CONCURENCY": "3"})
    assert line.startswith("THREADWIRE_CONCURENCY is not a Threadwire setting")


def test_an_invalid_setting_is_rejected(project, tmp_path):
    arguments = ("serve", "--config", project, "--data", tmp_path / "data")
    line = startup_error(*arguments, "--port", 0, env={"THREADWIRE_CONCURRENCY": "many"})
    assert line.startswith("Invalid value for THREADWIRE_CONCURRENCY: ")
    invalid_port = startup_error(*arguments, "--port", 99_999)
    assert invalid_port == "Cannot listen on 127.0.0.1:99999: the port must be between 0 and 65535"


def test_a_port_in_use_is_named(project, tmp_path, server):
    port = server.url.rpartition(":")[2]
    line = startup_error("serve", "--config", project, "--data", tmp_path / "data", "--port", port)
    assert line == f"Cannot listen on 127.0.0.1:{port}: Address already in use"


async def test_a_graph_that_cannot_be_loaded_does_not_affect_the_others(tmp_path):
    (tmp_path / "good.py").write_text(
        "from langgraph.graph import START, StateGraph\n"
        "graph = StateGraph(dict).add_node('n', lambda s: s).add_edge(START, 'n').compile()\n"
    )
    (tmp_path / "bad.py").write_text("raise RuntimeError('not today')\n")
    config = tmp_path / "langgraph.json"
    config.write_text(
        json.dumps({"dependencies": ["."], "graphs": {"good": "./good.py:graph", "bad": "./bad.py:graph"}})
    )
    with running_server(config, tmp_path / "data") as server:
        assert "not today" in server.log()
        async with open_async(server.url) as sdk:
            assert await sdk.runs.wait(await sdk.thread(), "good", input={"a": 1}) == {"a": 1}
            failed = await sdk.runs.wait(await sdk.thread(), "bad", input={}, raise_error=False)
            assert failed["__error__"]["error"] == "GraphUnavailable"
            assert "not today" in failed["__error__"]["message"]


async def test_an_error_in_the_project_file_does_not_affect_the_rest(tmp_path):
    (tmp_path / "good.py").write_text(
        "from langgraph.graph import START, StateGraph\n"
        "graph = StateGraph(dict).add_node('n', lambda s: s).add_edge(START, 'n').compile()\n"
    )
    content = {
        "dependencies": [".", "./nowhere"],
        "env": {"NOT_A_TEXT": None},
        "ui": 3,
        "graphs": {"nameless": "./good.py", "dotted": "./good.py:graph.copy", "good": "./good.py:graph", "odd": 3},
    }
    (tmp_path / "langgraph.json").write_text(json.dumps(content))
    with running_server(tmp_path / "langgraph.json", tmp_path / "data") as server:
        errors = [line.strip() for line in server.log().splitlines() if "✗" in line]
        assert [re.split("  +", line, maxsplit=1)[1].partition(":")[0] for line in errors] == [
            "nameless",
            "dotted",
            "odd",
            *["langgraph.json"] * 3,
        ]
        async with open_async(server.url) as sdk:
            assert await sdk.runs.wait(await sdk.thread(), "good", input={"a": 1}) == {"a": 1}
            failed = await sdk.runs.wait(await sdk.thread(), "nameless", input={}, raise_error=False)
            assert "does not name an object" in failed["__error__"]["message"]


async def test_a_module_may_run_its_own_event_loop_while_it_is_imported(tmp_path):
    """For example, to fetch its tools."""
    (tmp_path / "agent.py").write_text(
        "import asyncio\n"
        "from langgraph.graph import START, StateGraph\n"
        "async def fetch(): return 'a tool'\n"
        "TOOL = asyncio.run(fetch())\n"
        "graph = StateGraph(dict).add_node('n', lambda s: {'tool': TOOL}).add_edge(START, 'n').compile()\n"
    )
    (tmp_path / "langgraph.json").write_text('{"graphs": {"agent": "./agent.py:graph"}}')
    with running_server(tmp_path / "langgraph.json", tmp_path / "data") as server:
        async with open_async(server.url) as sdk:
            assert await sdk.runs.wait(await sdk.thread(), "agent", input={"a": 1}) == {"tool": "a tool"}


@pytest.mark.parametrize(
    ("rest", "error"),
    [
        ({"auth": {"path": "./auth.py:auth"}}, '"auth"."path": file not found: ./auth.py'),
        ({"http": {"enable_custom_route_auth": True}}, 'uses "http"."enable_custom_route_auth", but neither'),
        ({"http": {"app": "./nowhere.py:app"}}, '"http"."app": file not found: ./nowhere.py'),
        ({"http": {"mount_prefix": "api"}}, '"http"."mount_prefix": must look like "/api".'),
    ],
)
def test_a_project_that_needs_an_unsupported_feature_is_not_served(tmp_path, rest, error):
    config = tmp_path / "langgraph.json"
    config.write_text(json.dumps({"graphs": {"echo": "./agents.py:echo"}, **rest}))
    line = startup_error("serve", "--config", config, "--data", tmp_path / "data", "--port", 0)
    assert line.startswith(str(config))
    assert error in line


def test_dev_takes_the_next_free_port_by_default(tmp_path):
    config = Path(__file__).parent.parent / "graphs" / "langgraph.json"
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):  # if another process uses it, the port is taken as well
            taken.bind(("127.0.0.1", 2024))
            taken.listen()
        arguments = ["dev", "--config", str(config), "--data", str(tmp_path / "data")]
        command = [sys.executable, "-m", "threadwire", *arguments]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "NO_COLOR": "1"}
        ) as server:
            try:
                port = int(server.stdout.readline().rstrip().rpartition(":")[2])
            finally:
                server.kill()
        assert 2024 < port <= 2044


def test_a_signal_drains_as_soon_as_the_address_is_printed(project, tmp_path):
    arguments = ["serve", "--config", str(project), "--data", str(tmp_path / "data"), "--port", "0"]
    command = [sys.executable, "-m", "threadwire", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "NO_COLOR": "1"}) as server:
        try:
            assert "listening on" in server.stdout.readline()
            server.terminate()
            assert "drain_started" in server.communicate(timeout=TIMEOUT)[0]
            assert server.returncode == 0
        finally:
            server.kill()
