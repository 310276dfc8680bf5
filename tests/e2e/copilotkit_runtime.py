"""CopilotKit's own Node runtime with a toy agent, for comparison: see tests/copilotkit-runtime."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "copilotkit-runtime"


@contextmanager
def node_runtime() -> Iterator[str]:
    """Yield its URL. The agent `default` replies to `hello`, streams forever on `slow`, and fails on `fail`."""
    assert (FOLDER / "node_modules").is_dir(), "CopilotKit's runtime is not installed: run `make test`"
    executable = shutil.which("node")
    assert executable, "These tests need Node 20 or later"
    with subprocess.Popen(
        [executable, "server.js"],
        cwd=FOLDER,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "COPILOTKIT_TELEMETRY_DISABLED": "true"},
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
