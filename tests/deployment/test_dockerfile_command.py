"""`threadwire dockerfile`. There is no Docker here: the tests follow the instructions in a folder instead."""

import json
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
import yaml
from image_build import ImageBuild, build
from rich.console import Console
from typer.testing import CliRunner

from threadwire import __version__
from threadwire.cli import app
from threadwire.cli.dockerfile_command import write_dockerfile
from threadwire.errors import ConfigError

GRAPH = """
from langgraph.graph import START, MessagesState, StateGraph
from parts import NAME

graph = StateGraph(MessagesState).add_node("step", lambda state: {}).add_edge(START, "step").compile(name=NAME)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a folder to import from, one to install, and one with requirements."""
    folder = tmp_path / "my agents"
    for name in ("code", "package", "listed"):
        (folder / name).mkdir(parents=True)
    (folder / "agent.py").write_text(GRAPH)
    (folder / "code" / "parts.py").write_text("NAME = 'parts'\n")
    (folder / "package" / "pyproject.toml").write_text('[project]\nname = "package"\nversion = "1"\n')
    (folder / "listed" / "requirements.txt").write_text("orjson\n")
    (folder / ".env").write_text("SECRET=1\n")
    (folder / ".git").mkdir()
    return folder


def written(folder: Path, *, option: str | None = None, compose: bool = False, **keys: object) -> ImageBuild:
    (folder / "langgraph.json").write_text(json.dumps({"graphs": {"agent": "./agent.py:graph"}, **keys}))
    write_dockerfile(
        folder / "Dockerfile",
        folder / "langgraph.json",
        Console(file=StringIO()),
        base_image=option,
        compose=compose,
    )
    return build(folder / "Dockerfile", folder, folder.parent / "image")


def test_the_project_loads_from_where_the_image_has_it(project: Path) -> None:
    image = written(project, dependencies=["./code", "./package", "./listed", "langchain_openai"])
    assert image.command == ["threadwire", "serve"]
    assert image.env["THREADWIRE_CONFIG"] == "/deps/my agents/langgraph.json"
    config = image.inside(image.env["THREADWIRE_CONFIG"])
    done = subprocess.run(
        [sys.executable, "-m", "threadwire", "check", "--config", config], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_packages_folders_and_requirements_are_installed(project: Path) -> None:
    image = written(project, dependencies=["./code", "./package", "./listed", "langchain_openai>=1", "."])
    installs = [command.removeprefix("pip install --no-cache-dir ") for command in image.commands if "pip" in command]
    assert installs == [
        f"'threadwire[postgres]=={__version__}' 'langchain_openai>=1'",
        "--editable ./package",
        "--requirement listed/requirements.txt",
    ]


def test_secrets_and_history_are_not_copied_and_the_server_is_not_root(project: Path) -> None:
    image = written(project)
    assert not image.inside(".env").exists()
    assert not image.inside(".git").exists()
    assert image.user == "10001"
    assert image.ports == [int(image.env["THREADWIRE_PORT"])]


def test_the_keys_for_images_are_applied(project: Path) -> None:
    (project / "pip.conf").write_text("[global]\n")
    lines = ["RUN apt-get update"]
    image = written(
        project, python_version="3.13", dockerfile_lines=lines, pip_config_file="pip.conf", ui={"agent": "./ui.tsx"}
    )
    assert image.base == ["python:3.13-slim"]
    assert image.commands[0] == "apt-get update"
    assert "nodejs" in image.commands[1]
    assert image.inside(image.env["PIP_CONFIG_FILE"]).read_text() == "[global]\n"


@pytest.mark.parametrize(
    ("given", "keys", "base"), [("a:1", {"base_image": "b:1"}, "a:1"), (None, {"base_image": "b"}, "b")]
)
def test_the_base_image_can_be_chosen(project: Path, given: str | None, keys: dict[str, str], base: str) -> None:
    assert written(project, option=given, **keys).base == [base]


def test_compose_files_are_written_and_existing_ones_kept(project: Path) -> None:
    image = written(project, compose=True)
    services = yaml.safe_load((project / "docker-compose.yml").read_text())["services"]
    assert set(services) == {"postgres", "redis", "threadwire"}
    assert services["threadwire"]["build"] == {"context": ".", "dockerfile": "Dockerfile"}
    assert services["threadwire"]["ports"] == [f"127.0.0.1:{image.ports[0]}:{image.ports[0]}"]
    assert (project / ".env").read_text() == "SECRET=1\n"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"dependencies": ["../elsewhere"]}, "outside of"),
        ({"pip_config_file": "missing.conf"}, "does not exist"),
        ({"python_version": "2.7"}, '"python_version"'),
        ({"python_version": 3.11}, '"python_version"'),
        ({"dockerfile_lines": "RUN x"}, '"dockerfile_lines"'),
        ({"graphs": {}}, '"graphs" is empty'),
    ],
)
def test_bad_keys_are_reported_and_nothing_is_written(project: Path, keys: dict[str, object], message: str) -> None:
    (project.parent / "elsewhere").mkdir()
    with pytest.raises(ConfigError, match=message):
        written(project, **keys)
    assert not (project / "Dockerfile").exists()


def test_a_path_that_cannot_be_written_is_reported(project: Path) -> None:
    written(project)
    result = CliRunner().invoke(
        app, ["dockerfile", str(project / "no" / "Dockerfile"), "--config", str(project / "langgraph.json")]
    )
    assert "cannot be written: No such file or directory" in str(result.exception)
