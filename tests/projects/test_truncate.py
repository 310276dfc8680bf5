"""`POST /internal/truncate` of `dev`, compared with the stock server's."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from stock_server import stock_server
from threadwire.testing.server import running_server

PROJECT = Path(__file__).parent / "fund"


@pytest.fixture(params=["stock", "threadwire"])
def http(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[httpx.Client]:
    # The stock server writes into its project.
    config = shutil.copytree(PROJECT, tmp_path / "project") / "langgraph.json"
    if request.param == "stock":
        with stock_server(config, tmp_path / "log") as url, httpx.Client(base_url=url, timeout=30) as client:
            yield client
    else:
        with (
            running_server(config, tmp_path / "data", command="dev") as server,
            httpx.Client(base_url=server.url, timeout=30) as client,
        ):
            yield client


def test_truncate_deletes_what_the_stock_server_deletes(http: httpx.Client) -> None:
    """Threads with their runs, crons, and the assistants that clients created; not the store."""
    defaults = found(http)["assistants"]
    thread = http.post("/threads", json={}).json()["thread_id"]
    http.post(f"/threads/{thread}/runs/wait", json={"assistant_id": "fund", "input": {"messages": []}})
    http.post("/assistants", json={"graph_id": "fund", "name": "mine"})
    http.post("/runs/crons", json={"assistant_id": "fund", "schedule": "0 0 1 1 *", "input": {}})
    http.put("/store/items", json={"namespace": ["a"], "key": "k", "value": {"v": 1}})
    assert found(http) == {"threads": 1, "assistants": defaults + 1, "crons": 1, "items": 1}

    response = http.post("/internal/truncate")

    assert (response.status_code, response.json()) == (200, {"ok": True})
    assert found(http) == {"threads": 0, "assistants": defaults, "crons": 0, "items": 1}
    assert http.get(f"/threads/{thread}").status_code == 404
    assert http.get(f"/threads/{thread}/state").status_code == 404
    assert "/internal/truncate" not in http.get("/openapi.json").json()["paths"]


def found(http: httpx.Client) -> dict[str, int]:
    items: Any = http.post("/store/items/search", json={"namespace_prefix": []}).json()["items"]
    paths = {"threads": "/threads", "assistants": "/assistants", "crons": "/runs/crons"}
    return {
        **{name: len(http.post(f"{path}/search", json={}).json()) for name, path in paths.items()},
        "items": len(items),
    }
