"""CopilotKit's own Node runtime and AG-UI's `LangGraphAgent`, from tests/copilotkit-runtime."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "copilotkit-runtime"
ENVIRONMENT = {**os.environ, "COPILOTKIT_TELEMETRY_DISABLED": "true"}


def node_runtime() -> AbstractContextManager[str]:
    """The URL of a runtime whose agent `default` replies to `hello`, streams forever on `slow`, fails on `fail`."""
    return _listening("server.js")


def node_runtime_for(url: str, *graphs: str) -> AbstractContextManager[str]:
    """The URL of a runtime whose agents are these graphs of the LangGraph API at `url`."""
    return _listening("langgraph-runtime.js", url, *graphs)


def run_langgraph_agent(url: str, graph: str, run: dict[str, Any]) -> list[dict[str, Any]]:
    """Run `LangGraphAgent` once against the LangGraph API at `url`, and return the events it emits."""
    done = subprocess.run(
        [*_node("langgraph-agent.js"), url, graph],
        cwd=FOLDER,
        input=json.dumps(run),
        capture_output=True,
        text=True,
        timeout=60,
        env=ENVIRONMENT,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def _node(script: str) -> list[str]:
    assert (FOLDER / "node_modules").is_dir(), "CopilotKit's runtime is not installed: run `make test`"
    executable = shutil.which("node")
    assert executable, "These tests need Node 20 or later"
    return [executable, script]


@contextmanager
def _listening(script: str, *arguments: str) -> Iterator[str]:
    with subprocess.Popen(
        [*_node(script), *arguments],
        cwd=FOLDER,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=ENVIRONMENT,
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("Listening on "):
                    yield line.split()[-1]
                    break
            else:
                raise AssertionError("CopilotKit's runtime did not start")
        finally:
            process.kill()
