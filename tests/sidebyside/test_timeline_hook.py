"""`useStream` of @threadwire/react works with the stock server, which has no timelines, and with Threadwire."""

import os
import subprocess
from pathlib import Path

import pytest

REACT = Path(__file__).parents[2] / "js" / "packages" / "react"


@pytest.mark.parametrize("server", ["stock", "threadwire"])
def test_the_hook_shows_conversations_and_interrupts(servers: tuple[str, str], server: str) -> None:
    assert (REACT / "dist" / "index.js").exists(), "The package is not built: run `npm run build --prefix js`"
    url = servers[("stock", "threadwire").index(server)]
    done = subprocess.run(
        ["node", "--test-reporter=spec", "test/servers/use-stream.test.js"],
        cwd=REACT,
        env={**os.environ, "SERVER_URL": url},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout
