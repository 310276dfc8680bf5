"""Webhooks with the official clients and a receiver on loopback, which a project must allow."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from clients import OPENERS, eventually, rejected, wait_for_start

from threadwire.testing.server import running_server

pytestmark = pytest.mark.anyio

AGENTS = Path(__file__).parent.parent / "graphs" / "agents.py"
BLOCKED = "Webhook host blocked: loopback IP range"


class Receiver(ThreadingHTTPServer):
    """Records deliveries by path. A path in `failing` returns 500."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.deliveries: dict[str, list[tuple[dict[str, str], dict]]] = {}
        self.failing: set[str] = set()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{path}"

    async def wait_for_delivery(self, path: str, times: int = 1) -> dict:
        async def check():
            return len(self.deliveries.get(path, [])) >= times

        await eventually(check)
        return self.deliveries[path][-1][1]


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.deliveries.setdefault(self.path, []).append(({k.lower(): v for k, v in self.headers.items()}, body))
        self.send_response(500 if self.path in self.server.failing else 200)
        self.end_headers()

    def log_message(self, *args: object) -> None: ...


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def open_project(tmp_path_factory):
    path = tmp_path_factory.mktemp("project") / "langgraph.json"
    graphs = {name: f"{AGENTS}:{name}" for name in ("echo", "fails", "slow", "approve", "private")}
    webhooks = {
        "url": {"require_https": False, "disable_loopback": False},
        "headers": {"X-Project": "mine", "Authorization": "Bearer ${{ env.LG_WEBHOOK_TOKEN }}"},
    }
    content = {"graphs": graphs, "webhooks": webhooks, "env": {"LG_WEBHOOK_TOKEN": "secret"}}
    path.write_text(json.dumps(content))
    return path


@pytest.fixture(scope="module")
def open_server(open_project, tmp_path_factory):
    with running_server(open_project, tmp_path_factory.mktemp("data")) as running:
        yield running


@pytest.fixture(params=OPENERS)
async def open_sdk(request, open_server):
    async with OPENERS[request.param](open_server.url) as opened:
        yield opened


async def test_the_end_of_a_run_is_delivered(open_sdk, receiver, mark):
    sdk, path = open_sdk, f"/{mark}?q=1"
    thread_id = await sdk.thread()
    run = await sdk.runs.create(thread_id, "private", input={"question": "why"}, webhook=receiver.url(path))
    assert run["kwargs"]["webhook"] == receiver.url(path)
    delivered = await receiver.wait_for_delivery(path)
    row = await sdk.runs.get(thread_id, run["run_id"])
    assert {key: delivered[key] for key in row} == row
    assert set(delivered) - set(row) == {"run_started_at", "run_ended_at", "webhook_sent_at", "values"}
    assert delivered["status"] == "success"
    assert (
        delivered["created_at"]
        <= delivered["run_started_at"]
        <= delivered["run_ended_at"]
        <= delivered["webhook_sent_at"]
    )
    assert delivered["values"] == (await sdk.threads.get(thread_id))["values"]
    headers = receiver.deliveries[path][0][0]
    assert headers["content-type"] == "application/json"
    assert (headers["x-project"], headers["authorization"]) == ("mine", "Bearer secret")


async def test_webhooks_of_streams_and_waits_are_delivered(open_sdk, receiver, mark):
    sdk = open_sdk
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "echo", input={"text": 1}, webhook=receiver.url(f"/{mark}/wait"))
    async for _ in sdk.runs.stream(thread_id, "echo", input={"text": 2}, webhook=receiver.url(f"/{mark}/stream")):
        pass
    assert (await receiver.wait_for_delivery(f"/{mark}/wait"))["values"]["echoed"] == 1
    assert (await receiver.wait_for_delivery(f"/{mark}/stream"))["values"]["echoed"] == 2


async def test_the_error_of_a_failed_run_is_delivered(open_sdk, receiver, mark):
    thread_id = await open_sdk.thread()
    await open_sdk.runs.create(thread_id, "fails", input={}, webhook=receiver.url(f"/{mark}"))
    delivered = await receiver.wait_for_delivery(f"/{mark}")
    assert (delivered["status"], delivered["error"]) == ("error", {"error": "ValueError", "message": "boom!"})


async def test_the_end_of_an_interrupted_run_is_delivered(open_sdk, receiver, mark):
    thread_id = await open_sdk.thread()
    await open_sdk.runs.create(thread_id, "approve", input={"text": "go"}, webhook=receiver.url(f"/{mark}"))
    assert (await receiver.wait_for_delivery(f"/{mark}"))["status"] in ("success", "interrupted")


async def test_the_end_of_a_cancelled_run_is_delivered(open_sdk, receiver, mark, gate):
    sdk = open_sdk
    thread_id = await sdk.thread()
    run = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)}, webhook=receiver.url(f"/{mark}/a"))
    await wait_for_start(sdk, run)
    await sdk.runs.cancel(thread_id, run["run_id"])
    delivered = await receiver.wait_for_delivery(f"/{mark}/a")
    assert (delivered["status"], delivered["error"]["error"]) == ("interrupted", "UserInterrupt")
    later = await sdk.runs.create(thread_id, "echo", after_seconds=300, webhook=receiver.url(f"/{mark}/b"))
    await sdk.runs.cancel(thread_id, later["run_id"], action="rollback")
    delivered = await receiver.wait_for_delivery(f"/{mark}/b")
    assert (delivered["run_started_at"], delivered["values"], delivered["error"]["error"]) == (
        None,
        None,
        "UserRollback",
    )


async def test_the_values_of_a_stateless_run_are_delivered(open_sdk, receiver, mark):
    await open_sdk.runs.create(None, "echo", input={"text": 7}, webhook=receiver.url(f"/{mark}"))
    delivered = await receiver.wait_for_delivery(f"/{mark}")
    assert (delivered["kwargs"]["temporary"], delivered["values"]) == (True, {"text": 7, "echoed": 7})


async def test_each_run_of_a_batch_is_delivered(open_sdk, receiver, mark):
    await open_sdk.runs.create_batch(
        [{"assistant_id": "echo", "input": {"text": n}, "webhook": receiver.url(f"/{mark}")} for n in range(3)]
    )
    await receiver.wait_for_delivery(f"/{mark}", times=3)
    assert sorted(body["values"]["echoed"] for _, body in receiver.deliveries[f"/{mark}"]) == [0, 1, 2]


async def test_the_runs_of_a_cron_are_delivered(open_sdk, receiver, mark):
    cron = await open_sdk.crons.create("echo", schedule="* * * * * *", webhook=receiver.url(f"/{mark}/a"))
    try:
        assert cron["payload"]["webhook"] == receiver.url(f"/{mark}/a")
        await receiver.wait_for_delivery(f"/{mark}/a")
        await open_sdk.crons.update(cron["cron_id"], webhook=receiver.url(f"/{mark}/b"))
        await receiver.wait_for_delivery(f"/{mark}/b")
    finally:
        await open_sdk.crons.delete(cron["cron_id"])


async def test_a_failed_delivery_is_retried(open_sdk, receiver, mark):
    receiver.failing.add(f"/{mark}")
    await open_sdk.runs.create(None, "echo", input={"text": 1}, webhook=receiver.url(f"/{mark}"))
    await receiver.wait_for_delivery(f"/{mark}")
    receiver.failing.discard(f"/{mark}")
    await receiver.wait_for_delivery(f"/{mark}", times=2)


async def test_undelivered_webhooks_are_delivered_after_a_crash(open_project, receiver, mark, tmp_path):
    path = f"/{mark}"
    receiver.failing.add(path)
    with running_server(open_project, tmp_path / "data") as server:
        async with OPENERS["async"](server.url) as sdk:
            run = await sdk.runs.create(None, "echo", input={"text": 1}, webhook=receiver.url(path))
            await receiver.wait_for_delivery(path)
        server.kill()
        seen = len(receiver.deliveries[path])
        receiver.failing.discard(path)
        server.start()
        delivered = await receiver.wait_for_delivery(path, times=seen + 1)
        assert (delivered["run_id"], delivered["values"]["echoed"]) == (run["run_id"], 1)


async def test_a_webhook_is_rejected_unless_the_project_allows_its_host(sdk):
    thread_id = await sdk.thread()
    url = "https://127.0.0.1:9/x"
    for start in (sdk.runs.wait, sdk.runs.create):
        with rejected(422, BLOCKED):
            await start(thread_id, "echo", input={}, webhook=url)
    with rejected(422, BLOCKED):
        async for _ in sdk.runs.stream(thread_id, "echo", input={}, webhook=url):
            pass
    with rejected(422, BLOCKED):
        await sdk.runs.create(None, "echo", input={}, webhook=url)
    with rejected(422, BLOCKED):
        await sdk.runs.create_batch([{"assistant_id": "echo", "thread_id": thread_id, "webhook": url}])
    with rejected(422, BLOCKED):
        await sdk.crons.create("echo", schedule="@daily", webhook=url)
    with rejected(422, BLOCKED):
        await sdk.crons.create_for_thread(thread_id, "echo", schedule="@daily", webhook=url)
    cron = await sdk.crons.create("echo", schedule="@yearly")
    with rejected(422, BLOCKED):
        await sdk.crons.update(cron["cron_id"], webhook=url)
    await sdk.crons.delete(cron["cron_id"])
    assert await sdk.runs.list(thread_id) == []


async def test_a_rejected_webhook_is_reported_with_the_reason(http):
    thread_id = (await http.post("/threads", json={})).json()["thread_id"]
    for url, reason in [
        ("http://8.8.8.8/x", "Webhook host blocked: only https is allowed"),
        ("https://localhost/x", "Webhook host blocked: localhost address"),
        ("https://10.0.0.1/x", "Webhook host blocked: private IP range"),
        ("https://169.254.169.254/latest", "Webhook host blocked: blocked IP range"),
        ("https://nothing.invalid/x", "Webhook host blocked: DNS resolution failed"),
        ("/path", "Webhook URL is relative; only absolute URLs are supported"),
        ("ftp://example.com", "Webhook host blocked: scheme 'ftp' not allowed"),
        ("https://", "Invalid webhook hostname ''"),
    ]:
        response = await http.post(f"/threads/{thread_id}/runs", json={"assistant_id": "echo", "webhook": url})
        assert (response.status_code, response.json()) == (422, {"detail": reason})
    for invalid in ("", 5):
        response = await http.post(f"/threads/{thread_id}/runs", json={"assistant_id": "echo", "webhook": invalid})
        assert response.status_code == 422


async def test_a_project_can_disable_its_webhooks(open_project, receiver, mark, tmp_path):
    content = json.loads(open_project.read_text())
    disabled = tmp_path / "langgraph.json"
    disabled.write_text(json.dumps({**content, "http": {"disable_webhooks": True}}))
    with running_server(disabled, tmp_path / "data") as server:
        async with OPENERS["async"](server.url) as sdk:
            for path in ("http://169.254.169.254/x", receiver.url(f"/{mark}")):
                thread_id = await sdk.thread()
                assert (await sdk.runs.wait(thread_id, "echo", input={"text": 1}, webhook=path))["echoed"] == 1
        disabled.write_text(json.dumps(content))
        server.terminate()
        server.start()
        async with OPENERS["async"](server.url) as sdk:
            await sdk.runs.create(None, "echo", input={"text": 2}, webhook=receiver.url(f"/{mark}"))
        await receiver.wait_for_delivery(f"/{mark}")
    assert [body["values"]["text"] for _, body in receiver.deliveries[f"/{mark}"]] == [2]
