"""`@threadwire/ag-ui`, as `make test` builds it, against a running server: see tests/js/threadwire-agent."""

from pathlib import Path

import pytest
from relay import relay_to
from test_js_clients import JS, NO_DRAIN, NODE_TIMEOUT, node, restart_on_request

from threadwire.testing.server import RunningServer, running_server

PACKAGE = JS.parent.parent / "js" / "packages" / "ag-ui" / "dist" / "index.js"


def test_streams_survive_lost_connections(server: RunningServer) -> None:
    assert PACKAGE.exists(), "The package is not built: run `make test`"
    with node("threadwire-agent/thread.test.js", "@ag-ui/client", server.url) as process:
        printed, _ = process.communicate(timeout=NODE_TIMEOUT)
    assert process.returncode == 0, printed


@pytest.mark.parametrize("stop", ["kill", "terminate"])
def test_a_stream_survives_a_server_restart(project: Path, tmp_path: Path, stop: str) -> None:
    with (
        running_server(project, tmp_path / "data", env=NO_DRAIN) as server,
        relay_to(server.url) as url,
        node("threadwire-agent/killed.test.js", "@ag-ui/client", url) as process,
    ):
        restart_on_request(server, process, stop)
