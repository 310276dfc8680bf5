"""Fixtures shared by the worker tests."""

import json
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
from worker_harness import GRAPHS, NAMES, graphs_module

from threadwire.graphs.config import load_config, prepare_environment
from threadwire.graphs.registry import GraphRegistry, load_registry


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GraphRegistry]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "worker_graphs.py").write_text(GRAPHS)
    (tmp_path / "broken_graphs.py").write_text("raise RuntimeError('cannot be imported')")
    graphs = {name: f"worker_graphs:{name}" for name in NAMES}
    graphs["broken"] = "broken_graphs:graph"
    (tmp_path / "langgraph.json").write_text(json.dumps({"dependencies": ["."], "graphs": graphs}))
    config = load_config(tmp_path / "langgraph.json")
    prepare_environment(config)
    yield load_registry(config)
    graphs_module().gates.clear()
    del sys.modules["worker_graphs"]


@pytest.fixture
def gate(registry: GraphRegistry) -> Iterator["Future[None]"]:
    """The gate that the holding graphs wait for. It opens when the test ends, at the latest."""
    gate: Future[None] = Future()
    graphs_module().gates["gate"] = gate
    yield gate
    if not gate.done():
        gate.set_result(None)
