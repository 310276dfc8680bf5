"""The handlers in the how-to pages work as the pages say."""

import json
import re
import time
from pathlib import Path

import httpx
import jwt

from threadwire.testing.server import running_server

DOCS = Path(__file__).parents[2] / "docs" / "how-to"
GRAPH = Path(__file__).parent / "project" / "agent.py"
SECRET = "a secret that is long enough for HS256"


def snippet(page: str, title: str) -> str:
    found = re.search(rf'```\w+ title="{title}"\n(.*?)```', (DOCS / page).read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def project(folder: Path, *pages: str) -> Path:
    first = "authenticate-with-your-own-tokens.md"
    (folder / "agent.py").write_text(GRAPH.read_text())
    (folder / "auth.py").write_text("\n\n".join(snippet(page, "auth.py") for page in (first, *pages)))
    config = folder / "langgraph.json"
    config.write_text(snippet(first, "langgraph.json"))
    assert json.loads(config.read_text())["auth"]
    return config


def token(user: str, *scopes: str, expires_in: float = 600) -> dict[str, str]:
    claims = {"sub": user, "aud": "my-agents", "scope": " ".join(scopes), "exp": time.time() + expires_in}
    return {"authorization": f"Bearer {jwt.encode(claims, SECRET, 'HS256')}"}


def test_tokens_and_own_threads(tmp_path: Path) -> None:
    config = project(tmp_path, "give-users-their-own-threads.md")
    with running_server(config, tmp_path / "data", env={"JWT_SECRET": SECRET}) as server:
        url = f"{server.url}/threads"
        thread = httpx.post(url, json={}, headers=token("ada")).raise_for_status().json()
        assert thread["metadata"] == {"owner": "ada"}
        assert httpx.get(f"{url}/{thread['thread_id']}", headers=token("bob")).status_code == 404
        assert httpx.post(url, json={}).status_code == 401
        assert httpx.post(url, json={}, headers=token("ada", expires_in=-5)).status_code == 401
        item = {"namespace": ["notes"], "key": "k", "value": {"a": 1}}
        assert httpx.put(f"{server.url}/store/items", json=item, headers=token("ada")).status_code == 204
        found = httpx.post(f"{server.url}/store/namespaces", json={}, headers=token("ada")).json()
        assert found == {"namespaces": [["ada", "notes"]]}


def test_roles(tmp_path: Path) -> None:
    config = project(tmp_path, "give-users-roles.md")
    with running_server(config, tmp_path / "data", env={"JWT_SECRET": SECRET}) as server:
        url = f"{server.url}/threads"
        thread = httpx.post(url, json={}, headers=token("ada")).raise_for_status().json()["thread_id"]
        support = token("eve", "support", "threads:delete")
        assert httpx.get(f"{url}/{thread}", headers=support).status_code == 200
        assert httpx.get(f"{url}/{thread}", headers=token("bob")).status_code == 404
        assert httpx.delete(f"{url}/{thread}", headers=token("ada")).status_code == 403
        assert httpx.delete(f"{url}/{thread}", headers=support).status_code == 204
        assert httpx.post(f"{server.url}/assistants", json={"graph_id": "agent"}, headers=support).status_code == 403
