from pathlib import Path

import pytest

from threadwire.graphs.config import ProjectConfig, load_config
from threadwire.graphs.registry import GraphRegistry, load_registry


@pytest.fixture(scope="module")
def project() -> ProjectConfig:
    """The graphs that the tests share."""
    return load_config(Path(__file__).parents[2] / "graphs" / "langgraph.json")


@pytest.fixture(scope="module")
def registry(project: ProjectConfig) -> GraphRegistry:
    return load_registry(project)
