"""The `http` section of langgraph.json, custom routes, and what the server reports about itself."""

import json
import re
import shutil
from pathlib import Path

import anyio
import httpx
import pytest
from clients import collect, human, open_async, open_sync, rejected, wait_for_start

from threadwire.testing.server import running_server

pytestmark = pytest.mark.anyio

AGENTS = Path(__file__).parent.parent / "graphs" / "agents.py"

ROUTES = """
import asyncio
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, WebSocket
from pydantic import BaseModel


class Word(BaseModel):
    text: str


@asynccontextmanager
async def lifespan(app):
    app.state.counter = 40
    print("own lifespan started", flush=True)
    yield {"opened": "yes"}
    print("own lifespan ended", flush=True)


app = FastAPI(title="Mine", lifespan=lifespan)


@app.middleware("http")
async def mark(request, call_next):
    response = await call_next(request)
    response.headers["x-marked"] = "by the user"
    return response


@app.get("/hello")
async def hello(request: Request):
    request.app.state.counter += 1
    return {"counter": request.app.state.counter, "opened": request.state.opened}


@app.post("/words")
async def words(word: Word):
    return word


@app.get("/ok")
@app.get("/metrics")
@app.get("/info")
@app.post("/threads/count")
async def mine():
    return "mine"


@app.get("/broken")
async def broken():
    raise RuntimeError("an error in user code")
"""

CONFIGURED = """
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph


def show(state: dict, config: RunnableConfig) -> dict:
    return {"shown": {key: value for key, value in config["configurable"].items() if key[:2] in ("x-", "au")}}


graph = StateGraph(dict).add_node("show", show).add_edge(START, "show").compile()
"""


@pytest.fixture
def serving(tmp_path):
    """Serves a project with this `http` section."""
    shutil.copy(AGENTS, tmp_path / "agents.py")
    (tmp_path / "routes.py").write_text(ROUTES)
    (tmp_path / "configured.py").write_text(CONFIGURED)

    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "entrypoint.js").write_text("// a component")

    def serve(http, **options):
        config = tmp_path / "langgraph.json"
        graphs = {"chat": "./agents.py:chat", "slow": "./agents.py:slow", "configured": "./configured.py:graph"}
        content = {"dependencies": ["."], "graphs": graphs, "ui": {"chat": "./bundle"}, "http": http}
        config.write_text(json.dumps(content))
        return running_server(config, tmp_path / "data", **options)

    return serve


def client_of(server):
    return httpx.AsyncClient(base_url=server.url, timeout=30)


# -- what is served --------------------------------------------------------------------------------------------------

ROUTES_OF = {
    "assistants": [("POST", "/assistants/search")],
    "threads": [("POST", "/threads"), ("POST", "/threads/search"), ("GET", "/threads/{id}/state")],
    "runs": [("POST", "/threads/{id}/runs"), ("POST", "/threads/{id}/runs/wait"), ("GET", "/threads/{id}/runs")],
    "ui": [("POST", "/ui/chat"), ("GET", "/ui/chat/entrypoint.js")],
    "meta": [("GET", "/info"), ("GET", "/metrics"), ("GET", "/docs"), ("GET", "/openapi.json")],
}


async def test_only_disabled_routes_are_not_found(serving):
    """One server per disabled area. Other tests cover what the enabled routes return."""
    missing = "01a1e183-0dd8-7743-a540-18f62baab368"
    for disabled in ROUTES_OF:
        with serving({f"disable_{disabled}": True}) as server:
            async with client_of(server) as http:
                for area, routes in ROUTES_OF.items():
                    for method, path in routes:
                        body = {"assistant_id": "chat", "name": "card"}
                        response = await http.request(method, path.format(id=missing), json=body)
                        not_found = response.status_code == 404 and response.json() == {"detail": "Not Found"}
                        assert not_found == (area == disabled), (disabled, method, path)
                assert (await http.get("/ok")).json()["ok"] is True


async def test_all_routes_are_below_the_prefix_and_both_clients_work_there(serving, tmp_path):
    """The address of a run has no prefix, because the SDKs append it to their base URL."""
    gate = tmp_path / "gate"
    with serving({"mount_prefix": "/api/v1"}, env={"THREADWIRE_DRAIN_SECONDS": "0"}) as server:
        assert f"LangGraph API   {server.url}/api/v1" in server.log()
        async with client_of(server) as http:
            assert (await http.get("/ok")).status_code == (await http.get("/api/v1/ok")).status_code == 200
            for path in ("/info", "/threads/search", "/"):
                response = await http.get(path)
                assert (response.status_code, response.json()) == (404, {"detail": "Not Found"})
            described = (await http.get("/api/v1/openapi.json")).json()
            assert described["servers"] == [{"url": "/api/v1"}]
            assert "/threads/search" in described["paths"]
            assert "openapi.json" in (await http.get("/api/v1/docs")).text
            loader = (await http.post("/api/v1/ui/chat", json={"name": "card"})).text
            (script,) = re.findall(r'src="([^"]+)"', loader)
            assert script == f"{server.url}/api/v1/ui/chat/entrypoint.js"
            assert (await http.get(script)).text == "// a component"
        for opener in (open_async, open_sync):
            gate.unlink(missing_ok=True)
            async with opener(f"{server.url}/api/v1") as sdk:
                thread_id = await sdk.thread()
                parts = []
                async for part in sdk.runs.stream(
                    thread_id, "slow", input={"until": str(gate)}, stream_mode="updates", stream_resumable=True
                ):
                    parts.append(part.data)
                    if "begin" in part.data:
                        assert server.terminate() == 0
                        server.start()
                    elif part.data.get("attempt") == 2:  # the client has reconnected, so the run may end
                        gate.touch()
                assert [next(iter(data)) for data in parts] == ["run_id", "begin", "run_id", "wait"]
                at = f"/api/v1/threads/{thread_id}/runs/{parts[0]['run_id']}"
                assert ("GET", f"{at}/stream") in sdk.requests


# -- origins ---------------------------------------------------------------------------------------------------------


async def test_cors_is_configured_by_the_project(serving):
    cors = {
        "allow_origins": ["https://app.example"],
        "allow_origin_regex": r"https://[a-z]+\.preview\.example",
        "allow_methods": ["GET", "POST"],
        "allow_headers": ["x-mine"],
        "allow_credentials": True,
        "expose_headers": ["x-own"],
        "max_age": 7,
    }
    preflight = {"access-control-request-method": "POST", "access-control-request-headers": "x-mine"}
    with serving({"cors": cors}) as server:
        async with client_of(server) as http:
            for origin in ("https://app.example", "https://one.preview.example"):
                response = await http.options("/threads", headers={"origin": origin, **preflight})
                assert response.status_code == 200
                assert response.headers["access-control-allow-origin"] == origin
                assert response.headers["access-control-allow-credentials"] == "true"
                assert response.headers["access-control-max-age"] == "7"
                written = await http.post("/threads", headers={"origin": origin}, json={})
                exposed = written.headers["access-control-expose-headers"].lower().split(", ")
                assert written.status_code == 200
                assert set(exposed) == {
                    "location", "content-location", "x-pagination-total", "x-pagination-next", "retry-after", "x-own",
                }  # fmt: skip
            other = {"origin": "https://elsewhere.example"}
            assert (await http.options("/threads", headers={**other, **preflight})).status_code == 400
            assert (await http.post("/threads", headers=other, json={})).status_code == 403
            invalid = {"origin": "https://app.example", "access-control-request-method": "DELETE"}
            assert (await http.options("/threads", headers=invalid)).status_code == 400


async def test_any_origin_can_be_allowed_without_credentials(serving):
    with serving({"cors": {"allow_origins": ["*"]}}) as server:
        async with client_of(server) as http:
            response = await http.post("/threads", headers={"origin": "https://any.example"}, json={})
            assert response.status_code == 200
            assert response.headers["access-control-allow-origin"] in ("*", "https://any.example")
            assert "access-control-allow-credentials" not in response.headers


# -- headers ---------------------------------------------------------------------------------------------------------


async def test_selected_headers_are_configurable_in_the_graph(serving):
    headers = {
        "X-Tenant": "blue",
        "x-tenant-secret": "no",
        "x-other": "no",
        "authorization": "Bearer no",
        "x-body": "header",
        "checkpoint_id": "no",
    }
    choice = {"includes": ["x-tenant*", "x-body", "auth*", "check*"], "excludes": ["*-secret"]}
    with serving({"configurable_headers": choice}) as server:
        async with open_async(server.url) as sdk, client_of(server) as http:
            thread_id = await sdk.thread()
            body = {"assistant_id": "configured", "input": {}, "config": {"configurable": {"x-body": "body", "x-b": 1}}}
            response = await http.post(f"/threads/{thread_id}/runs/wait", json=body, headers=headers)
            assert response.json()["shown"] == {"x-tenant": "blue", "x-body": "header", "x-b": 1}
            (run,) = await sdk.runs.list(thread_id)
            stored = run["kwargs"]["config"]["configurable"]
            assert stored["x-tenant"] == "blue"
            assert not {"authorization", "x-other", "x-tenant-secret", "checkpoint_id"} & set(stored)
            without = await http.post(f"/threads/{thread_id}/runs/wait", json=body)
            assert without.json()["shown"] == {"x-body": "body", "x-b": 1}


async def test_no_header_is_configurable_unless_selected(serving):
    with serving({}) as server:
        async with open_async(server.url) as sdk:
            values = await sdk.runs.wait(await sdk.thread(), "configured", input={}, headers={"x-tenant": "blue"})
            assert values["shown"] == {}


async def test_requests_are_logged_with_the_selected_headers(serving):
    chosen = {"logging_headers": {"excludes": ["x-secret"]}}
    with serving(chosen, env={"THREADWIRE_LOG_LEVEL": "debug"}) as server:
        async with client_of(server) as http:
            headers = {"x-seen": "yes", "x-secret": "hidden-1", "authorization": "hidden-2", "cookie": "hidden-3"}
            assert (await http.get("/threads/none", headers=headers)).status_code == 422
        line = next(line for line in server.wait_for_log(r"request_completed .*/threads/none.*\n").string.splitlines()
                    if "/threads/none" in line)  # fmt: skip
        assert "422" in line
        assert "'x-seen': 'yes'" in line
        assert "hidden" not in server.log()


# -- custom routes ---------------------------------------------------------------------------------------------------


@pytest.fixture
def with_routes(serving):
    with serving({"app": "./routes.py:app"}) as server:
        yield server


async def test_custom_routes_take_precedence_except_for_health_and_metrics(with_routes):
    async with client_of(with_routes) as http:
        assert (await http.get("/hello")).json() == {"counter": 41, "opened": "yes"}
        assert (await http.get("/hello")).json() == {"counter": 42, "opened": "yes"}
        assert (await http.get("/info")).json() == "mine"
        assert (await http.post("/threads/count", json={})).json() == "mine"
        assert (await http.get("/ok")).json() == {"ok": True, "services": {}}
        assert (await http.get("/metrics")).text.startswith("# HELP threadwire_info")
        assert (await http.get("/nowhere")).json() == {"detail": "Not Found"}
        assert (await http.post("/hello")).status_code == 404, "the API has no such route"
        assert (await http.get("/broken")).status_code == 500


async def test_custom_middleware_sees_every_request_and_does_not_break_streams(with_routes):
    async with client_of(with_routes) as http, open_async(with_routes.url) as sdk:
        for path in ("/hello", "/ok", "/docs"):
            assert (await http.get(path)).headers["x-marked"] == "by the user"
        parts = await collect(
            sdk.runs.stream(await sdk.thread(), "chat", input=human("one two three"), stream_mode="messages-tuple")
        )
        tokens = [part.data[0]["content"] for part in parts if part.event == "messages"]
        assert "".join(tokens) == "You said: one two three"
        assert len(tokens) > 3
        with rejected(404, "Thread with ID 01a1e183-0dd8-7743-a540-18f62baab368 not found"):
            await sdk.threads.get("01a1e183-0dd8-7743-a540-18f62baab368")


async def test_a_shutdown_aborts_streams_through_custom_middleware_too(serving, gate):
    """Otherwise the middleware would end them cleanly, and clients would not reconnect for the rest."""
    with serving({"app": "./routes.py:app"}, env={"THREADWIRE_DRAIN_SECONDS": "0"}) as server:
        async with client_of(server) as http, open_async(server.url) as sdk:
            run = await sdk.runs.create(await sdk.thread(), "slow", input={"until": str(gate)})
            await wait_for_start(sdk, run)
            at = f"/threads/{run['thread_id']}/runs/{run['run_id']}"
            for path in ("/stream", "/join"):
                async with http.stream("GET", at + path) as response:
                    assert response.headers["x-marked"] == "by the user"
                    server.process.terminate()
                    with pytest.raises(httpx.RemoteProtocolError):
                        await response.aread()
                assert await anyio.to_thread.run_sync(server.wait) == 0
                assert "Traceback" not in server.log()
                await anyio.to_thread.run_sync(server.start)


async def test_custom_routes_are_in_the_openapi_document(with_routes):
    async with client_of(with_routes) as http:
        described = (await http.get("/openapi.json")).json()
        assert described["info"]["title"] == "Threadwire"
        assert {"/hello", "/words", "/threads/{thread_id}/runs/stream"} <= set(described["paths"])
        assert {"Word", "RunBody"} <= set(described["components"]["schemas"])
        page = (await http.get("/docs")).text
        assert "/hello" in page
        assert "/threads/{thread_id}/runs/stream" in page
        assert (await http.get("/redoc")).status_code == 404


async def test_the_custom_lifespan_spans_that_of_the_server(with_routes):
    assert "own lifespan started" in with_routes.log()
    assert with_routes.terminate() == 0
    assert "own lifespan ended" in with_routes.log()
    assert "Traceback" not in with_routes.log()


async def test_custom_routes_are_below_the_prefix_too(serving):
    with serving({"app": "./routes.py:app", "mount_prefix": "/api"}) as server:
        async with client_of(server) as http:
            assert (await http.get("/api/hello")).json()["counter"] == 41
            assert (await http.get("/hello")).status_code == 404
            assert (await http.post("/api/threads/search", json={})).json() == []


async def test_a_foreign_host_is_rejected_on_custom_routes_too(with_routes):
    async with client_of(with_routes) as http:
        response = await http.get("/hello", headers={"host": "evil.example"})
        assert response.status_code == 421


# -- what the server reports about itself ----------------------------------------------------------------------------


async def test_info_has_the_shape_that_the_sdks_expect(server, http):
    info = (await http.get("/info")).json()
    assert set(info) == {"version", "langgraph_py_version", "flags", "host"}
    assert set(info["flags"]) == {
        "assistants", "crons", "langsmith", "langsmith_tracing_replicas", "langsmith_tracing_session_on_runs",
        "strict_resume",
    }  # fmt: skip
    assert info["host"] == {
        "kind": "self-hosted", "project_id": None, "host_revision_id": None, "revision_id": None, "tenant_id": None,
    }  # fmt: skip


ANSWER_PATH = "/threads/{thread_id}/timeline/interrupts/{interrupt_id}"
COMMANDS_PATH = "/threads/{thread_id}/commands"
OWN_SHAPES = {("put", ANSWER_PATH, "409"): "AnswerProblem", ("post", COMMANDS_PATH, "400"): "NoCommand"}
"""Errors with more than a text: the answer that won, and the error of a command."""


async def test_the_openapi_document_and_the_docs_page_are_complete(server, http):
    described = (await http.get("/openapi.json")).json()
    assert described["info"]["title"] == "Threadwire"
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            assert operation["tags"], (method, path)
            for status, response in operation["responses"].items():
                if status >= "400":
                    shape = response["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
                    usual = "RuntimeProblem" if path.startswith("/copilotkit") else "Problem"
                    assert shape == OWN_SHAPES.get((method, path, status), usual)
    page = (await http.get("/docs")).text
    assert all(f"</b>{path}<" in page for path in described["paths"])
    assert "http://" not in page, "nothing is loaded from another host"
    assert "https://" not in page


def samples(text):
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


async def test_metrics_report_runs_streams_and_the_log(serving, tmp_path):
    gate = tmp_path / "gate"
    with serving({}) as server:
        async with client_of(server) as http, open_async(server.url) as sdk:
            response = await http.get("/metrics")
            assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
            before = samples(response.text)
            thread_id = await sdk.thread()
            async with http.stream(
                "POST",
                f"/threads/{thread_id}/runs/stream",
                json={"assistant_id": "slow", "input": {"until": str(gate)}, "stream_mode": "updates"},
            ) as response:
                async for line in response.aiter_lines():
                    if "begin" in line:
                        queued = await sdk.runs.create(thread_id, "slow", input={})
                        during = samples((await http.get("/metrics")).text)
                        await sdk.runs.cancel(thread_id, queued["run_id"], wait=True)
                        gate.touch()
            after = samples((await http.get("/metrics")).text)
    runs, ended = 'threadwire_runs{{status="{}"}}', 'threadwire_runs_ended_total{{status="{}"}}'
    assert (during[runs.format("running")], during[runs.format("pending")]) == (1, 1)
    assert (before["threadwire_streams"], during["threadwire_streams"], after["threadwire_streams"]) == (0, 1, 0)
    assert (after[runs.format("running")], after[runs.format("pending")]) == (0, 0)
    assert (after[ended.format("success")], after[ended.format("interrupted")]) == (1, 1)
    assert after["threadwire_log_entries_total"] > before["threadwire_log_entries_total"]
    assert after["threadwire_log_commits_total"] > before["threadwire_log_commits_total"]
