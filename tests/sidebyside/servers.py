"""The stock dev server and Threadwire: the same project, each server in its own process."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from threadwire.testing.server import running_server

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
GRAPHS = HERE.parent / "graphs"
STOCK = ROOT / ".venv-stock" / "bin" / "langgraph"
START_WITHIN = 90.0
JOBS = 64
"""Concurrent runs. With the stock server's default of one, scenarios would wait for each other."""


@contextmanager
def both_servers(folder: Path) -> Iterator[tuple[str, str]]:
    """The addresses of the stock server and of Threadwire."""
    project = copy_project(folder / "project")
    with stock_server(project, folder / "stock.log") as stock, running_server(project, folder / "data") as ours:
        yield stock, ours.url


def copy_project(folder: Path) -> Path:
    """Copy the agents of tests/graphs and the configuration in this folder, because the stock server writes into its
    project."""
    folder.mkdir(parents=True)
    shutil.copy(GRAPHS / "agents.py", folder)
    return Path(shutil.copy(HERE / "langgraph.json", folder))


@contextmanager
def stock_server(project: Path, log: Path) -> Iterator[str]:
    assert STOCK.exists(), "The stock server is not installed: run `make stock`"
    port = _free_port()
    with log.open("w") as output:
        process = subprocess.Popen(
            [STOCK, "dev", "--no-browser", "--no-reload", "--allow-blocking",
             "--port", str(port), "--n-jobs-per-worker", str(JOBS), "--config", project.name],
            cwd=project.parent, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            env=_environment(), start_new_session=True,
        )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_until_ok(url, process, log)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _environment() -> dict[str, str]:
    """Without API keys, tracing and analytics. A fixed hash seed fixes the order of sets, also in messages."""
    foreign = ("LANGSMITH_", "LANGCHAIN_", "LANGGRAPH_", "THREADWIRE_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    quiet = {"LANGSMITH_TRACING": "false", "LANGGRAPH_CLI_NO_ANALYTICS": "1", "LOG_LEVEL": "warning"}
    return {**inherited, **quiet, "PYTHONHASHSEED": "0"}


def _wait_until_ok(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_WITHIN
    while not _is_ok(url):
        if process.poll() is not None or time.monotonic() > deadline:
            raise TimeoutError(f"The stock server does not respond. Its output:\n{log.read_text()}")
        time.sleep(0.1)


def _is_ok(url: str) -> bool:
    try:
        return httpx.get(f"{url}/ok", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
