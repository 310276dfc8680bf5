"""`POST /internal/truncate` deletes threads and assistants, in `dev` and for this machine only."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from threadwire.server.app import open_server
from threadwire.server.combined_settings import combined_settings

pytestmark = pytest.mark.anyio

GRAPHS = Path(__file__).parents[2] / "graphs"
PATH = "/internal/truncate"


@asynccontextmanager
async def client(folder: Path, *, dev: bool, address: str = "127.0.0.1") -> AsyncIterator[httpx.AsyncClient]:
    config = folder / "langgraph.json"
    config.write_text(json.dumps({"dependencies": [str(GRAPHS)], "graphs": {"echo": f"{GRAPHS}/agents.py:echo"}}))
    settings = combined_settings()(config=config, data=folder, storage="memory")
    async with open_server(settings, dev=dev) as server:
        transport = httpx.ASGITransport(server.app, client=(address, 1234))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            yield http


async def fill(http: httpx.AsyncClient) -> None:
    for _ in range(2):
        thread = (await http.post("/threads", json={})).json()
        await http.post(
            f"/threads/{thread['thread_id']}/runs/wait", json={"assistant_id": "echo", "input": {"text": ""}}
        )
    await http.post("/assistants", json={"graph_id": "echo", "name": "mine"})
    await http.post("/runs/crons", json={"assistant_id": "echo", "schedule": "0 0 1 1 *", "input": {}})
    await http.put("/store/items", json={"namespace": ["a"], "key": "k", "value": {"v": 1}})


async def counts(http: httpx.AsyncClient) -> dict[str, int]:
    items = (await http.post("/store/items/search", json={"namespace_prefix": []})).json()["items"]
    found: dict[str, Any] = {"items": items}
    for name, path in (("threads", "/threads"), ("assistants", "/assistants"), ("crons", "/runs/crons")):
        found[name] = (await http.post(f"{path}/search", json={})).json()
    return {name: len(each) for name, each in found.items()}


async def test_everything_is_deleted_except_the_store_and_the_default_assistants(tmp_path: Path) -> None:
    async with client(tmp_path, dev=True) as http:
        await fill(http)
        assert await counts(http) == {"items": 1, "threads": 2, "assistants": 2, "crons": 1}

        response = await http.post(PATH)

        assert (response.status_code, response.json()) == (200, {"ok": True})
        assert await counts(http) == {"items": 1, "threads": 0, "assistants": 1, "crons": 0}


async def test_a_body_chooses_what_is_deleted(tmp_path: Path) -> None:
    async with client(tmp_path, dev=True) as http:
        await fill(http)
        await http.post(PATH, json={"store": True, "threads": False})
        assert await counts(http) == {"items": 0, "threads": 2, "assistants": 2, "crons": 1}
        await http.post(PATH, json={"checkpointer": True})
        assert await counts(http) == {"items": 0, "threads": 0, "assistants": 2, "crons": 0}
        assert (await http.post(PATH, json={"everything": True})).status_code == 422


async def test_serve_does_not_have_the_route(tmp_path: Path) -> None:
    async with client(tmp_path, dev=False) as http:
        assert (await http.post(PATH)).status_code == 404


async def test_other_machines_do_not_reach_the_route(tmp_path: Path) -> None:
    async with client(tmp_path, dev=True, address="10.0.0.7") as http:
        await fill(http)
        assert (await http.post(PATH)).status_code == 404
        assert (await counts(http))["threads"] == 2
