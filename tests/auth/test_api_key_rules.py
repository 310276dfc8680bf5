"""A server with API keys and a project without `auth`."""

import subprocess
import sys
from pathlib import Path

import httpx
from auth_clients import client_of, store_key

from threadwire.testing.server import running_server

OTHER = "127.0.0.2"
"""An address that only this machine can reach, but that does not count as loopback."""

GRAPH = Path(__file__).parent / "project" / "agent.py"


def project(folder: Path) -> Path:
    (folder / "agent.py").write_text(GRAPH.read_text())
    config = folder / "langgraph.json"
    config.write_text('{"dependencies": ["."], "graphs": {"agent": "./agent.py:graph"}}')
    return config


def test_users_with_keys_see_only_their_own_rows(tmp_path: Path) -> None:
    config, data = project(tmp_path), tmp_path / "data"
    adas, bobs = store_key(data, 1, user="ada"), store_key(data, 2, user="bob")
    with running_server(config, data) as server:
        assert httpx.post(f"{server.url}/threads", json={}).json() == {
            "detail": "An API key is required: send it as x-api-key"
        }
        with client_of(server, {"x-api-key": adas}) as ada, client_of(server, {"x-api-key": bobs}) as bob:
            thread = ada.post("/threads", json={"metadata": {"owner": "bob"}}).json()
            assert thread["metadata"] == {"owner": "ada"}
            run = {"assistant_id": "agent", "input": {}}
            assert ada.post(f"/threads/{thread['thread_id']}/runs/wait", json=run).json()["seen"]["id"] == "ada"
            assert bob.post(f"/threads/{thread['thread_id']}/runs/wait", json=run).status_code == 404
            assert bob.post("/threads/search", json={}).json() == []
            moved = ada.patch(f"/threads/{thread['thread_id']}", json={"metadata": {"owner": "bob"}}).json()
            assert moved["metadata"]["owner"] == "ada"
            item = {"namespace": ["ada"], "key": "k", "value": {}}
            assert ada.put("/store/items", json=item).status_code == 204
            assert bob.get("/store/items", params={"namespace": "ada", "key": "k"}).status_code == 403
            assert bob.post("/store/items/search", json={"namespace_prefix": []}).status_code == 403


def test_a_server_without_auth_stays_on_loopback_until_there_is_a_key(tmp_path: Path) -> None:
    config, data = project(tmp_path), tmp_path / "data"
    command = [sys.executable, "-m", "threadwire", "serve", "--host", OTHER, "--port", "0"]
    options = ["--config", str(config), "--data", str(data)]
    rejected = subprocess.run([*command, *options], capture_output=True, text=True, timeout=60, check=False)
    assert rejected.returncode == 1
    assert f"Cannot listen on {OTHER} without authentication" in rejected.stderr
    store_key(data, 1)
    allowed = {"THREADWIRE_ALLOWED_HOSTS": f'["{OTHER}"]'}
    with running_server(config, data, options=["--host", OTHER], env=allowed) as server:
        assert httpx.post(f"{server.url}/threads", json={}).status_code == 401
