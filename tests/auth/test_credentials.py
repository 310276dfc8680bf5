"""Credentials while a server runs: keys, tickets, streams that end with them, and the users that runs act as."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from auth_clients import PROJECT, client_of, revoke_key, store_key
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from threadwire.testing.server import RunningServer, running_server

WAITING = {"assistant_id": "agent", "input": {"do": "wait"}}
WITHIN = 30


def run(client: httpx.Client, **values: Any) -> dict[str, Any]:
    response = client.post("/runs/wait", json={"assistant_id": "agent", "input": values}).raise_for_status()
    seen: dict[str, Any] = response.json()["seen"]
    return seen


def new_thread(client: httpx.Client) -> str:
    return str(client.post("/threads", json={}).raise_for_status().json()["thread_id"])


def ticket_of(client: httpx.Client) -> str:
    return str(client.post("/tickets").raise_for_status().json()["ticket"])


# -- the user of a run ------------------------------------------------------------------------------------------------


def test_a_run_has_its_user(ada: httpx.Client) -> None:
    assert run(ada) == {"id": "ada", "permissions": ["chat"], "user": {"identity": "ada", "attribute": "ada"}}


def test_a_client_cannot_choose_the_user_of_a_run(ada: httpx.Client) -> None:
    forged = {"langgraph_auth_user": {"identity": "eve"}, "langgraph_auth_user_id": "eve", "user_id": "eve"}
    body = {"assistant_id": "agent", "input": {}, "config": {"configurable": forged}}
    assert ada.post("/runs/wait", json=body).json()["seen"]["id"] == "ada"
    assistant = ada.post("/assistants", json={"graph_id": "agent", "config": {"configurable": forged}}).json()
    body = {"assistant_id": assistant["assistant_id"], "input": {}}
    assert ada.post("/runs/wait", json=body).json()["seen"]["id"] == "ada"


def test_a_factory_gets_the_user(ada: httpx.Client) -> None:
    body = {"assistant_id": "made", "input": {}}
    assert ada.post("/runs/wait", json=body).json()["seen"] == {"runtime": "ada"}


@pytest.mark.parametrize("how", ["call", "call sync"])
def test_the_client_in_a_run_acts_as_its_user(ada: httpx.Client, bob: httpx.Client, how: str) -> None:
    adas, bobs = new_thread(ada), new_thread(bob)
    assert adas in (found := run(ada, do=how)["threads"])
    assert bobs not in found
    assert adas not in run(bob, do=how)["threads"]


def test_a_cron_acts_as_its_creator(ada: httpx.Client, bob: httpx.Client) -> None:
    thread = new_thread(ada)
    every_second = {"assistant_id": "agent", "schedule": "* * * * * *", "input": {"do": "call"}}
    cron = ada.post(f"/threads/{thread}/runs/crons", json=every_second).raise_for_status().json()
    assert cron["user_id"] == "ada"
    try:
        seen = _until(lambda: (ada.get(f"/threads/{thread}").json()["values"] or {}).get("seen"))
    finally:
        ada.delete(f"/runs/crons/{cron['cron_id']}").raise_for_status()
    assert seen["id"] == "ada"
    assert thread in seen["threads"]
    assert bob.get(f"/threads/{thread}").status_code == 404


def test_a_run_that_resumes_in_another_process_keeps_its_user(tmp_path: Path) -> None:
    with running_server(PROJECT, tmp_path / "data") as server:
        with client_of(server, {"authorization": "Bearer ada"}) as ada:
            thread = new_thread(ada)
            body = {"assistant_id": "agent", "input": {"do": "ask"}}
            ada.post(f"/threads/{thread}/runs/wait", json=body).raise_for_status()
            delayed = {"assistant_id": "agent", "command": {"resume": "yes"}, "after_seconds": 3}
            created = ada.post(f"/threads/{thread}/runs", json=delayed).raise_for_status().json()
        server.kill()
        server.start()
        with client_of(server, {"authorization": "Bearer ada"}) as ada:
            ended = ada.get(f"/threads/{thread}/runs/{created['run_id']}/join").raise_for_status().json()
    assert (ended["seen"]["id"], ended["seen"]["answer"]) == ("ada", "yes")


def _until(read: Any) -> Any:
    deadline = time.monotonic() + WITHIN
    while not (found := read()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


# -- keys -------------------------------------------------------------------------------------------------------------


def keys_command(data: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "threadwire", "keys", *arguments, "--config", str(PROJECT), "--data", str(data)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_key_is_created_used_listed_and_revoked_while_the_server_runs(server: RunningServer) -> None:
    key = keys_command(server.data, "create", "--user", "carol", "--name", "laptop", "--permission", "chat")
    key_id = key.split("_")[1]
    for headers in ({"x-api-key": key}, {"authorization": f"Bearer {key}"}):
        with client_of(server, headers) as carol:
            assert run(carol)["id"] == "carol"
    listed = keys_command(server.data, "list")
    assert key_id in listed
    assert key not in listed
    stored = (server.data / "keys.db").read_bytes() + (server.data / "keys.db-wal").read_bytes()
    assert key_id.encode() in stored
    assert key.split("_")[2].encode() not in stored
    keys_command(server.data, "revoke", key_id)
    with client_of(server, {"x-api-key": key}) as carol:
        assert carol.get("/threads/search").status_code == 401


# -- streams end with their credential ---------------------------------------------------------------------------------


def test_a_stream_ends_when_its_key_is_revoked(server: RunningServer) -> None:
    key = store_key(server.data, 20, user="dora")
    with client_of(server, {"x-api-key": key}) as dora:
        thread = new_thread(dora)
        path = f"/threads/{thread}/runs/stream"
        with dora.stream("POST", path, json=WAITING, timeout=WITHIN) as response:
            parts = response.iter_raw()
            assert b"metadata" in next(parts)
            revoke_key(server.data, 20)
            with pytest.raises(httpx.RemoteProtocolError):  # cut off: it must not look complete
                list(parts)
        assert dora.get(f"/threads/{thread}/stream").status_code == 401


def test_a_stream_ends_when_the_exp_of_its_user_passes(server: RunningServer) -> None:
    token = f"emma.{time.time() + 3}"
    with client_of(server, {"authorization": f"Bearer {token}"}) as emma:
        thread = new_thread(emma)
        with emma.stream("GET", f"/threads/{thread}/timeline/stream", timeout=WITHIN) as response:
            assert response.status_code == 200
            with pytest.raises(httpx.RemoteProtocolError):
                list(response.iter_raw())
        assert emma.get(f"/threads/{thread}").status_code == 401


def test_a_socket_ends_when_its_key_is_revoked(server: RunningServer) -> None:
    key = store_key(server.data, 21, user="dora")
    with client_of(server, {"x-api-key": key}) as dora:
        thread = new_thread(dora)
    url = f"{server.url.replace('http', 'ws')}/threads/{thread}/stream/events"
    with connect(url, additional_headers={"x-api-key": key}) as socket:
        socket.send(json.dumps({"id": 1, "method": "subscription.subscribe", "params": {"channels": ["values"]}}))
        assert json.loads(socket.recv(WITHIN))["type"] == "success"
        revoke_key(server.data, 21)
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(WITHIN)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008


# -- sockets and tickets ----------------------------------------------------------------------------------------------


def test_a_socket_needs_a_credential(server: RunningServer, ada: httpx.Client) -> None:
    url = f"{server.url.replace('http', 'ws')}/threads/{new_thread(ada)}/stream/events"
    with pytest.raises(InvalidStatus) as rejected, connect(url):
        pass
    assert rejected.value.response.status_code == 401


def test_a_socket_shows_a_foreign_thread_as_unknown(
    server: RunningServer, ada: httpx.Client, bob: httpx.Client
) -> None:
    thread = new_thread(ada)
    ada.post(f"/threads/{thread}/runs/wait", json={"assistant_id": "agent", "input": {}}).raise_for_status()
    url = f"{server.url.replace('http', 'ws')}/threads/{thread}/stream/events?ticket={ticket_of(bob)}"
    with connect(url) as socket:
        socket.send(json.dumps({"id": 1, "method": "subscription.subscribe", "params": {"channels": ["values"]}}))
        subscribed = json.loads(socket.recv(WITHIN))
        assert subscribed["result"]["replayed_events"] == 0
        for method in ("state.get", "state.listCheckpoints", "agent.getTree"):
            socket.send(json.dumps({"id": 2, "method": method, "params": {}}))
            assert json.loads(socket.recv(WITHIN))["type"] == "error"


def test_a_ticket_opens_one_stream(server: RunningServer, ada: httpx.Client) -> None:
    thread, ticket = new_thread(ada), ticket_of(ada)
    url = f"{server.url}/threads/{thread}/timeline/stream"
    with httpx.stream("GET", url, params={"ticket": ticket}) as response:
        assert response.status_code == 200
    again = httpx.get(url, params={"ticket": ticket})
    assert again.status_code == 401
    assert httpx.get(url, params={"ticket": "0" * 64}).json() == again.json()
    assert ticket not in server.log()


def test_a_ticket_acts_as_the_user_that_it_was_issued_to(
    server: RunningServer, ada: httpx.Client, bob: httpx.Client
) -> None:
    url = f"{server.url}/threads/{new_thread(ada)}"
    assert httpx.get(url, params={"ticket": ticket_of(ada)}).status_code == 200
    assert httpx.get(url, params={"ticket": ticket_of(bob)}).status_code == 404


def test_a_ticket_changes_nothing(server: RunningServer, ada: httpx.Client) -> None:
    url = f"{server.url}/threads/{new_thread(ada)}"
    assert httpx.delete(url, params={"ticket": ticket_of(ada)}).status_code == 401
    assert httpx.post(f"{server.url}/tickets", params={"ticket": ticket_of(ada)}).status_code == 401


def test_a_ticket_ends_with_its_key(server: RunningServer) -> None:
    key = store_key(server.data, 22, user="dora")
    with client_of(server, {"x-api-key": key}) as dora:
        ticket = ticket_of(dora)
    revoke_key(server.data, 22)
    assert httpx.get(f"{server.url}/metrics", params={"ticket": ticket}).status_code == 401


# -- secrets ----------------------------------------------------------------------------------------------------------

CANARY = "canary7f3a91d2"


def test_credentials_and_the_environment_appear_nowhere(tmp_path: Path) -> None:
    environment = {"CANARY": f"{CANARY}environment", "THREADWIRE_LOG_LEVEL": "debug"}
    with running_server(PROJECT, tmp_path / "data", env=environment) as server:
        headers = {
            "authorization": f"Bearer broken{CANARY}token",
            "cookie": f"session={CANARY}cookie",
            "x-api-key": f"{CANARY}key",
        }
        shown = ""
        with client_of(server, headers) as client:
            for path in ("/threads/x", "/info", "/metrics", "/ok", "/openapi.json"):
                shown += client.get(path).text
            failed = client.post("/threads", json={})
        assert failed.status_code == 500
        assert "Traceback" not in failed.text
        with client_of(server, {"authorization": "Bearer ada", "cookie": f"session={CANARY}cookie"}) as ada:
            run(ada)
            shown += ada.get("/metrics").text + ada.get("/info").text + ada.get("/threads/nonsense").text
        assert "auth_handler_failed" in server.log()
        assert CANARY not in shown + failed.text + server.log()
