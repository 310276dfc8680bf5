"""Which messages of a graph's exceptions clients receive."""

import json

import httpx
import pytest

from threadwire.testing.server import running_server

AGENT = """
from typing import TypedDict
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph

class DatabaseError(Exception):
    pass

@tool
def look_up():
    'Look up an order.'
    raise DatabaseError("password=hunter2")

def fail(state, config):
    look_up.invoke({"name": "look_up", "args": {}, "id": "call-1", "type": "tool_call"}, config)

graph = StateGraph(TypedDict("State", {"n": int})).add_node(fail).add_edge(START, "fail").compile()

def make():
    raise DatabaseError("password=hunter2")
"""
MODES = ["values", "updates", "messages-tuple", "custom", "tasks", "checkpoints", "debug", "events"]


@pytest.fixture
def project(tmp_path):
    (tmp_path / "agent.py").write_text(AGENT)
    graphs = {"agent": "./agent.py:graph", "made": "./agent.py:make"}
    (tmp_path / "langgraph.json").write_text(json.dumps({"graphs": graphs}))
    return tmp_path / "langgraph.json"


def everything(http, thread_id):
    """Every response that may contain the message of the exception."""
    run = {"assistant_id": "agent", "input": {"n": 1}}
    stream = http.post(f"/threads/{thread_id}/runs/stream", json={**run, "stream_mode": MODES}).text
    waited = http.post(f"/threads/{thread_id}/runs/wait", json=run).text
    reads = [http.get(f"/threads/{thread_id}{path}").text for path in ("", "/state", "/history", "/runs", "/timeline")]
    agent = {"threadId": thread_id, "runId": "r", "state": {}, "messages": [], "tools": [], "context": []}
    page = http.post("/ag-ui/agent", json={**agent, "forwardedProps": {}}).text
    return [stream, waited, *reads, page]


def test_serve_hides_messages_and_logs_them_under_an_id(project, tmp_path):
    with (
        running_server(project, tmp_path / "data") as server,
        httpx.Client(base_url=server.url, timeout=30) as http,
    ):
        thread_id = http.post("/threads", json={}).json()["thread_id"]
        texts = everything(http, thread_id)
        assert "on_tool_error" in texts[0]
        assert [text for text in texts if "hunter2" in text] == []
        (*_, run) = http.get(f"/threads/{thread_id}/runs").json()
        error = http.get(f"/threads/{thread_id}/runs/{run['run_id']}/join").json()["__error__"]
        assert error == {"error": "DatabaseError", "message": f"An internal error occurred (id {run['run_id']})"}
        server.wait_for_log(rf"run_id={run['run_id']}(?s:.)*DatabaseError: password=hunter2")

        made = http.post("/assistants/search", json={"graph_id": "made"}).json()[0]["assistant_id"]
        response = http.get(f"/assistants/{made}/graph")
        assert (response.status_code, "hunter2" in response.text) == (502, False)
        error_id = response.json()["detail"].partition("(id ")[2].rstrip(")")
        server.wait_for_log(rf"error_id={error_id}(?s:.)*DatabaseError: password=hunter2")


@pytest.mark.parametrize(("command", "shown"), [("dev", "[]"), ("serve", '["DatabaseError"]')])
def test_dev_and_listed_exceptions_show_messages(project, tmp_path, command, shown):
    with running_server(project, tmp_path / "data", command=command, env={"THREADWIRE_SHOWN_ERRORS": shown}) as server:
        run = {"assistant_id": "agent", "input": {"n": 1}}
        outcome = httpx.post(f"{server.url}/runs/wait", json=run, timeout=30).json()
    assert outcome == {"__error__": {"error": "DatabaseError", "message": "password=hunter2"}}
