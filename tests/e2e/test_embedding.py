"""`threadwire.create_app`: the server mounted in a host application under a prefix, and alone under uvicorn."""

import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from clients import OPENERS, TIMEOUT, collect, event_names, human, rejected, wait_for_start, wait_for_status
from structlog.testing import capture_logs

from threadwire import create_app
from threadwire.errors import ConfigError, DataDirectoryLocked
from threadwire.testing.server import running_server

pytestmark = pytest.mark.anyio

HOST = Path(__file__).with_name("host.py")
UNKNOWN_ID = "01a1e183-0dd8-7743-a540-18f62baab368"


@pytest.fixture
def mounted(project, tmp_path):
    with running_server(project, tmp_path / "data", program=HOST, env={"THREADWIRE_DRAIN_SECONDS": "0"}) as running:
        yield running


@pytest.fixture(params=OPENERS)
async def sdk(request, mounted):
    async with OPENERS[request.param](f"{mounted.url}/agents") as opened:
        yield opened


async def test_both_clients_work_under_the_prefix(sdk, mounted):
    thread_id = await sdk.thread()
    assert await sdk.runs.wait(thread_id, "echo", input={"text": "hi"}) == {"text": "hi", "echoed": "hi"}
    parts = await collect(sdk.runs.stream(thread_id, "chat", input=human("a b"), stream_mode=["values", "updates"]))
    assert event_names(parts)[0] == "metadata"
    assert parts[-1].data["messages"][-1]["content"] == "You said: a b"
    with rejected(404, f"Thread with ID {UNKNOWN_ID} not found"):
        await sdk.threads.get(UNKNOWN_ID)
    async with httpx.AsyncClient(base_url=mounted.url) as http:
        assert (await http.get("/ok")).json() == "hello"
        assert (await http.get("/agents/ok")).json()["ok"] is True
        assert (await http.get("/info")).status_code == 404


async def test_a_stream_under_the_prefix_is_resumed_after_a_restart(sdk, mounted, gate):
    thread_id = await sdk.thread()
    parts = []
    async for part in sdk.runs.stream(
        thread_id, "slow", input={"until": str(gate)}, stream_mode="updates", stream_resumable=True
    ):
        parts.append(part.data)
        if "begin" in part.data:
            mounted.kill()
            gate.touch()
            mounted.start()
    assert [next(iter(data)) for data in parts] == ["run_id", "begin", "run_id", "wait"]
    assert ("GET", f"/agents/threads/{thread_id}/runs/{parts[0]['run_id']}/stream") in sdk.requests


async def test_waiting_under_the_prefix_survives_a_lost_connection(mounted, gate):
    """The SDK follows `Location`, which it appends to its base URL."""
    async with OPENERS["async"](f"{mounted.url}/agents") as sdk:
        thread_id = await sdk.thread()
        async with httpx.AsyncClient(base_url=mounted.url, timeout=30) as http:
            run = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)})
            await wait_for_start(sdk, run)
            joining = http.build_request("GET", f"/agents/threads/{thread_id}/runs/{run['run_id']}/join")
            response = await http.send(joining, stream=True)
            assert response.headers["location"] == f"/threads/{thread_id}/runs/{run['run_id']}/join"
            assert response.headers["content-location"] == f"/threads/{thread_id}/runs/{run['run_id']}"
            await response.aclose()
        gate.touch()
        assert (await sdk.runs.join(thread_id, run["run_id"]))["steps"] == ["begun", "waited"]


async def test_a_shutdown_of_the_host_releases_runs_until_the_next_start(mounted, gate):
    async with OPENERS["async"](f"{mounted.url}/agents") as sdk:
        run = await sdk.runs.create(await sdk.thread(), "slow", input={"until": str(gate)})
        await wait_for_start(sdk, run)
    assert mounted.terminate() in (0, -15)
    assert "Traceback" not in mounted.log()
    gate.touch()
    mounted.start()
    async with OPENERS["async"](f"{mounted.url}/agents") as sdk:
        await wait_for_status(sdk, run, "success")


async def test_it_runs_alone_under_any_asgi_server(project, tmp_path):
    with running_server(project, tmp_path / "data", program=HOST, env={"HOST_ALONE": "1"}) as server:
        async with OPENERS["async"](server.url) as sdk:
            assert await sdk.runs.wait(await sdk.thread(), "echo", input={"text": 1}) == {"text": 1, "echoed": 1}


# -- without a process -----------------------------------------------------------------------------------------------


def client_of(app, **options):
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost", **options)


async def test_requests_outside_the_lifespan_are_rejected_with_a_reason(project):
    app = create_app(project, storage="memory")
    async with client_of(app) as http:
        before = await http.get("/ok")
        assert before.status_code == 503
        assert "pass its lifespan" in before.json()["detail"]
        async with app.lifespan():
            assert (await http.get("/ok")).status_code == 200
        after = await http.get("/ok")
        assert (after.status_code, after.json()) == (503, {"detail": "Threadwire has stopped."})
        async with app.lifespan():
            assert (await http.get("/ok")).status_code == 200, "it can be started again"


async def test_hosts_and_origins_are_checked(project):
    app = create_app(project, storage="memory", allowed_hosts={"agents.example"}, allowed_origins={"https://a.example"})
    async with app.lifespan(), client_of(app) as http:
        for host, status in {"agents.example": 200, "localhost": 200, "evil.example": 421}.items():
            assert (await http.get("/ok", headers={"host": host})).status_code == status
        for origin, status in {"https://a.example": 200, "https://evil.example": 403}.items():
            assert (await http.post("/threads", json={}, headers={"origin": origin})).status_code == status


async def test_invalid_arguments_are_rejected(project, tmp_path):
    with pytest.raises(ConfigError, match="Invalid setting concurency: "):
        create_app(project, concurency=3)
    with pytest.raises(ConfigError, match="Invalid setting concurrency: "):
        create_app(project, concurrency=0)
    with pytest.raises(ConfigError, match="Invalid setting port: configure it in the server"):
        create_app(project, port=80)
    with pytest.raises(ConfigError, match="does not exist"):
        async with create_app(tmp_path / "nothing.json").lifespan():
            pass
    app, same_data = (create_app(project, data=tmp_path / "data") for _ in range(2))
    async with app.lifespan():
        with pytest.raises(ConfigError, match="is already running"):
            async with app.lifespan():
                pass
        with pytest.raises(DataDirectoryLocked):
            async with same_data.lifespan():
                pass


async def test_errors_in_a_project_are_logged(tmp_path):
    graphs = {"good": "./agent.py:graph", "bad": "./agent.py"}
    (tmp_path / "langgraph.json").write_text(json.dumps({"graphs": graphs, "env": True}))
    app = create_app(tmp_path / "langgraph.json", storage="memory")
    with capture_logs() as logs:
        async with app.lifespan():
            pass
    errors = [(each["event"], each.get("graph_id"), each["log_level"]) for each in logs if each["log_level"] == "error"]
    assert errors == [
        ("graph_load_failed", "good", "error"),
        ("graph_load_failed", "bad", "error"),
        ("config_entry_ignored", None, "error"),
    ]


def test_importing_threadwire_imports_nothing_heavy():
    code = "import sys, threadwire; print(sorted({'fastapi', 'langgraph', 'uvicorn', 'pydantic'} & set(sys.modules)))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT, check=True)
    assert printed.stdout == "[]\n"
    with pytest.raises(ImportError):
        from threadwire import nothing  # noqa: F401
