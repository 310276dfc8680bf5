"""Runs beyond the number that may be pending are rejected on every protocol, in its own format."""

import httpx
import pytest
from clients import OPENERS, PROJECT, wait_for_start
from pages import COPILOTKIT, hello

from threadwire.testing.server import running_server

pytestmark = pytest.mark.anyio

LIMITS = {
    "THREADWIRE_MAX_PENDING_RUNS_PER_THREAD": "1",
    "THREADWIRE_MAX_PENDING_RUNS": "3",
    "THREADWIRE_WHEN_BUSY": "enqueue",
}
FULL = "The thread already has 1 pending runs. Retry when some of them have ended."


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running_server(PROJECT, tmp_path_factory.mktemp("limits") / "data", env=LIMITS) as running:
        yield running


@pytest.fixture
async def full_thread(server, gate):
    """A thread with a running and a pending run."""
    async with OPENERS["async"](server.url) as sdk:
        thread_id = await sdk.thread()
        running = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)})
        await wait_for_start(sdk, running)
        pending = await sdk.runs.create(thread_id, "echo", input={})
        yield thread_id
        gate.touch()
        await sdk.runs.join(thread_id, pending["run_id"])


@pytest.mark.parametrize("kind", ["", "/stream", "/wait"])
async def test_the_langgraph_api_says_when_to_retry(http: httpx.AsyncClient, full_thread: str, kind: str) -> None:
    response = await http.post(f"/threads/{full_thread}/runs{kind}", json={"assistant_id": "echo", "input": {}})
    assert (response.status_code, response.json()) == (429, {"detail": FULL})
    assert response.headers["retry-after"] == "10"


async def test_ag_ui_says_when_to_retry(http: httpx.AsyncClient, full_thread: str) -> None:
    response = await http.post("/ag-ui/echo", json=hello(full_thread))
    assert (response.status_code, response.json()) == (429, {"detail": FULL})
    assert response.headers["retry-after"] == "10"


async def test_copilotkit_says_when_to_retry(http: httpx.AsyncClient, full_thread: str) -> None:
    envelope = {"method": "agent/run", "params": {"agentId": "echo"}, "body": hello(full_thread)}
    for path, body in ((f"{COPILOTKIT}/agent/echo/run", hello(full_thread)), (COPILOTKIT, envelope)):
        response = await http.post(path, json=body)
        assert response.status_code == 429
        assert response.json() == {"error": "Too many pending runs", "message": FULL, "retryable": True}
        assert response.headers["retry-after"] == "10"


async def test_batch_that_exceeds_the_limit_starts_nothing(http: httpx.AsyncClient) -> None:
    run = {"assistant_id": "echo", "input": {}, "on_completion": "keep"}
    threads_before = (await http.post("/threads/count", json={})).json()
    response = await http.post("/runs/batch", json=[run] * 4)
    assert response.status_code == 429
    assert response.json()["detail"] == "The server cannot hold more than 3 pending runs. Retry later."
    assert (await http.post("/threads/count", json={})).json() == threads_before
    assert (await http.post("/runs/batch", json=[run] * 3)).status_code == 200
