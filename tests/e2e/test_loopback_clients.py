"""`get_client()` without a URL, in nodes and in custom routes, calls the server it runs in."""

import json

import httpx
import pytest
from clients import open_async

from threadwire.testing.server import running_server

pytestmark = pytest.mark.anyio

AGENT = """
from typing import TypedDict

from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph
from langgraph_sdk import get_client, get_sync_client

early, early_sync = get_client(), get_sync_client()
VERSION = 1


class State(TypedDict, total=False):
    word: str
    result: dict


def shout(state):
    get_stream_writer()("shouting")
    return {"word": state["word"].upper()}


async def ask(state):
    results = {}
    for name, client in {"early": early, "late": get_client()}.items():
        results[name] = await client.runs.wait(None, "shouter", input={"word": state["word"]})
        parts = client.runs.stream(None, "shouter", input={"word": name}, stream_mode=["custom", "values"])
        results[f"{name} stream"] = [part.event async for part in parts]
    return {"result": {**results, "version": VERSION}}


def ask_in_a_thread(state):
    results = {}
    for name, client in {"early": early_sync, "late": get_sync_client()}.items():
        results[name] = client.runs.wait(None, "shouter", input={"word": state["word"]})
        parts = client.runs.stream(None, "shouter", input={"word": name}, stream_mode=["custom", "values"])
        results[f"{name} stream"] = [part.event for part in parts]
    return {"result": {**results, "version": VERSION}}


shouter = StateGraph(State).add_node(shout).add_edge(START, "shout").compile()
asker = StateGraph(State).add_node(ask).add_edge(START, "ask").compile()
sync_asker = StateGraph(State).add_node(ask_in_a_thread).add_edge(START, "ask_in_a_thread").compile()
"""

WEB = """
from langgraph_sdk import get_client
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route


async def shout(request):
    result = await get_client().runs.wait(None, "shouter", input={"word": "hey"})
    return JSONResponse(result)


app = Starlette(routes=[Route("/shout", shout)])
"""

EVENTS = ["metadata", "values", "custom", "values"]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    root = tmp_path_factory.mktemp("loopback")
    (root / "agent.py").write_text(AGENT)
    (root / "web.py").write_text(WEB)
    graphs = {name: f"./agent.py:{name}" for name in ("shouter", "asker", "sync_asker")}
    http = {"app": "./web.py:app", "mount_prefix": "/api"}
    (root / "langgraph.json").write_text(json.dumps({"graphs": graphs, "http": http}))
    return root


@pytest.fixture(scope="module")
def server(project):
    with running_server(project / "langgraph.json", project / "data", command="dev") as running:
        yield running


@pytest.fixture
async def own_sdk(server):
    async with open_async(f"{server.url}/api") as opened:
        yield opened


@pytest.fixture
async def http(server):
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as client:
        yield client


def expected(version):
    results = {name: {"word": "HELLO"} for name in ("early", "late")}
    return {**results, "early stream": EVENTS, "late stream": EVENTS, "version": version}


@pytest.mark.parametrize("graph", ["asker", "sync_asker"])
async def test_a_node_starts_runs_and_streams_them(own_sdk, graph):
    values = await own_sdk.runs.wait(None, graph, input={"word": "hello"})
    assert values["result"] == expected(1)


async def test_a_custom_route_starts_a_run(http):
    assert (await http.get("/api/shout")).json() == {"word": "HEY"}


@pytest.mark.parametrize("graph", ["asker", "sync_asker"])
async def test_the_output_of_the_inner_run_is_not_part_of_the_outer_one(own_sdk, graph):
    parts = [part async for part in own_sdk.runs.stream(None, graph, input={"word": "hello"}, stream_mode="custom")]
    assert [part.event for part in parts] == ["metadata"]


async def test_nothing_outside_the_process_reaches_the_loopback(http):
    assert (await http.get("/ok", headers={"host": "api"})).status_code == 421
    assert (await http.get("/noauth/ok")).status_code == 404
    assert (await http.get("/api/noauth/ok")).status_code == 404
    body = {"assistant_id": "shouter", "input": {"word": "x"}, "webhook": "/threads"}
    response = await http.post("/api/runs/wait", json=body)
    assert (response.status_code, "relative" in response.text) == (422, True)


async def test_clients_work_after_a_reload(own_sdk, server, project):
    (project / "agent.py").write_text(AGENT.replace("VERSION = 1", "VERSION = 2"))
    server.wait_for_log(r"\nReloaded")
    for graph in ("asker", "sync_asker"):
        values = await own_sdk.runs.wait(None, graph, input={"word": "hello"})
        assert values["result"] == expected(2)
