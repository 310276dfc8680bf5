import json
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from threadwire.engine.followers import Followers
from threadwire.graphs.config import load_config, prepare_environment
from threadwire.graphs.registry import GraphRegistry, load_registry
from threadwire.storage.abc import Storage
from threadwire.storage.memory import open_memory_storage

GRAPH = """
from typing import TypedDict
from langgraph.graph import START, StateGraph
def one(state):
    return {"n": state.get("n", 0) + 1}
graph = StateGraph(TypedDict("S", {"n": int})).add_node("one", one).add_edge(START, "one").compile()
"""


@pytest.fixture
async def storage() -> AsyncIterator[Storage]:
    async with open_memory_storage() as storage:
        yield storage


@pytest.fixture
def followers(storage: Storage) -> Followers:
    return Followers(storage)


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GraphRegistry]:
    """A project with one graph, `agent`, that counts its runs in `n`."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    (tmp_path / "agent.py").write_text(GRAPH)
    (tmp_path / "langgraph.json").write_text(json.dumps({"graphs": {"agent": "./agent.py:graph"}}))
    config = load_config(tmp_path / "langgraph.json")
    prepare_environment(config)
    yield load_registry(config)
    for name in set(sys.modules) - before:
        del sys.modules[name]
