"""CopilotKit's own clients, unmodified, against a running server without a Node runtime: see tests/js/copilotkit."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from threadwire.testing.server import RunningServer

JS = Path(__file__).parent.parent / "js"
FILES = sorted(str(path.relative_to(JS)) for path in (JS / "copilotkit").glob("*.test.js"))
NODE_TIMEOUT = 240.0


@pytest.mark.parametrize("transport", ["rest", "single"])
@pytest.mark.parametrize("file", FILES)
def test_the_clients_of_copilotkit_work_unchanged(server: RunningServer, file: str, transport: str) -> None:
    executable = shutil.which("node")
    assert executable, "These tests need Node 20 or later"
    finished = subprocess.run(
        [executable, "--test-reporter=spec", "--test-force-exit", file],
        cwd=JS,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=NODE_TIMEOUT,
        check=False,
        env={**os.environ, "TRANSPORT": transport, "SERVER_URL": server.url},
    )
    assert finished.returncode == 0, finished.stdout
