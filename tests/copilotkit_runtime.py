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
    """The URL of a runtime whose agent `default` responds to `hello`, streams forever on `slow`, fails on `fail`."""
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


def connecting_runtime_for(url: str, *graphs: str) -> AbstractContextManager[str]:
    """The same, with our `LangGraphAgent`, which connects."""
    return _listening("connecting-runtime.js", url, *graphs)


class ConnectedAgent:
    """Our `LangGraphAgent`, connected to threads of a LangGraph API by a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.events: dict[str, list[dict[str, Any]]] = {}
        self.held: dict[str, dict[str, Any]] = {}
        self._joined = False

    def until(self, kind: str) -> None:
        """Read until an event of this type has been received by any of the agents."""
        while not any(event["type"] == kind for events in self.events.values() for event in events):
            self._read(self._output.readline())

    def until_joined(self) -> None:
        """Read until the server streams a run to the agent."""
        while not self._joined:
            self._read(self._output.readline())

    def rest(self) -> None:
        for line in self._output:
            self._read(line)
        assert self._process.wait(30) == 0

    @property
    def _output(self) -> Any:
        assert self._process.stdout is not None
        return self._process.stdout

    def _read(self, text: str) -> None:
        line = json.loads(text)
        if "event" in line:
            self.events.setdefault(line["threadId"], []).append(line["event"])
        elif "joined" in line:
            self._joined = True
        else:
            self.held[line["threadId"]] = line["held"]


@contextmanager
def connected_agent(url: str, graph: str, *threads: str, last_event_id: str | None = None) -> Iterator[ConnectedAgent]:
    request = {"threadIds": threads, **({} if last_event_id is None else {"lastEventId": last_event_id})}
    with subprocess.Popen(
        [*_node("connect-agent.js"), url, graph],
        cwd=FOLDER,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as process:
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(request))
            process.stdin.close()
            yield ConnectedAgent(process)
        finally:
            process.kill()


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
