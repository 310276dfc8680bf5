"""Options and variables of the stock server."""

import json

import httpx
import pytest

from threadwire.testing.server import running_server

AGENT = """
from typing import TypedDict
from langgraph.graph import START, StateGraph

def read(state, config):
    return {"n": config["configurable"].get("n", 0)}

graph = StateGraph(TypedDict("State", {"n": int})).add_node(read).add_edge(START, "read").compile()
"""
OPTIONS = ["--no-browser", "--no-reload", "--allow-blocking", "--n-jobs-per-worker", "3"]
CONFIG = json.dumps({"agent": {"configurable": {"n": 7}, "tags": ["configured"]}})


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    root = tmp_path_factory.mktemp("stock")
    (root / "agent.py").write_text(AGENT)
    (root / "langgraph.json").write_text(json.dumps({"graphs": {"agent": "./agent.py:graph"}}))
    env = {"LANGGRAPH_CONFIG": CONFIG, "LANGGRAPH_HTTP": "{}", "BG_JOB_TIMEOUT_SECS": "60"}
    with running_server(root / "langgraph.json", root / "data", command="dev", options=OPTIONS, env=env) as running:
        yield running


def test_what_has_no_effect_is_printed_at_startup(server):
    lines = server.log().splitlines()
    assert "  warning         --allow-blocking has no effect: a node that blocks is only logged" in lines
    ignored = "these variables of the stock server have no effect: BG_JOB_TIMEOUT_SECS, LANGGRAPH_HTTP"
    assert f"  warning         {ignored}" in lines


def test_langgraph_config_configures_the_assistant_of_a_graph(server):
    (assistant,) = httpx.post(f"{server.url}/assistants/search", json={}).json()
    assert assistant["config"] == {"configurable": {"n": 7}, "tags": ["configured"]}
    assert assistant["context"] == {"n": 7}
    run = {"assistant_id": "agent", "input": {}}
    assert httpx.post(f"{server.url}/runs/wait", json=run, timeout=30).json() == {"n": 7}
    run["config"] = {"configurable": {"n": 8}}
    assert httpx.post(f"{server.url}/runs/wait", json=run, timeout=30).json() == {"n": 8}


def test_a_changed_langgraph_config_does_not_change_an_existing_assistant_and_says_so(tmp_path):
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "langgraph.json").write_text(json.dumps({"graphs": {"agent": "./agent.py:graph"}}))
    logs = []
    for number in (7, 7, 8):
        env = {"LANGGRAPH_CONFIG": json.dumps({"agent": {"configurable": {"n": number}}})}
        with running_server(tmp_path / "langgraph.json", tmp_path / "data", env=env) as server:
            (assistant,) = httpx.post(f"{server.url}/assistants/search", json={}).json()
            assert assistant["config"] == {"configurable": {"n": 7}}
            logs.append(server.log())
    assert ["graph_config_ignored" in log for log in logs] == [False, False, True]
