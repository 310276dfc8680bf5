"""A project that pins LangGraph and LangChain, like CopilotKit's starter, installs Threadwire and keeps its versions.

Installs packages: `make test-versions` runs it, `make test` does not.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from dialogues import DIALOGUES, PROJECT

from threadwire.testing.server import RunningServer, running_server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

PINS = ("langgraph==1.1.6", "langchain==1.2.15", "langsmith==0.7.33")
ROOT = Path(__file__).parents[2]


def installed(python: Path) -> dict[str, str]:
    listed = subprocess.run([python, "-m", "pip", "freeze"], capture_output=True, text=True, check=True).stdout
    return dict(line.split("==", 1) for line in listed.splitlines() if "==" in line)


def install(python: Path, *arguments: str | Path) -> None:
    command = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", *arguments]
    subprocess.run(command, check=True)


@pytest.fixture(scope="module")
def project_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a project with its pins."""
    folder = tmp_path_factory.mktemp("pinned")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    install(python, *PINS)
    return python


@pytest.fixture(scope="module")
def before(project_python: Path) -> dict[str, str]:
    return installed(project_python)


@pytest.fixture(scope="module")
def with_threadwire(project_python: Path, before: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    sources = tmp_path_factory.mktemp("sources")  # building in the checkout would leave files in it
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources)
    shutil.copytree(ROOT / "src", sources / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    install(project_python, sources)
    return project_python


@pytest.fixture(scope="module")
def server(with_threadwire: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(PROJECT, tmp_path_factory.mktemp("pinned") / "data", python=with_threadwire) as running:
        yield running


def test_none_of_its_versions_changes(before: dict[str, str], with_threadwire: Path) -> None:
    after = installed(with_threadwire)
    assert before["langgraph"] == "1.1.6"
    assert {name: after.get(name) for name in before} == before


async def test_it_runs(server: RunningServer) -> None:
    for dialogue in DIALOGUES:
        await dialogue(server.url)
