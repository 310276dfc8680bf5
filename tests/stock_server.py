"""The stock LangGraph dev server in a process of its own."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

STOCK = Path(__file__).parents[1] / ".venv-stock" / "bin" / "langgraph"
START_WITHIN = 90.0
JOBS = 64
"""Concurrent runs. With the stock server's default of one, they would wait for each other."""


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
