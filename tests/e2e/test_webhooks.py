"""Webhooks with the official clients, and a receiver on loopback, which a project must allow."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from clients import OPENERS, eventually, has_begun, refused

from threadwire.testing.server import running_server

pytestmark = pytest.mark.anyio

AGENTS = Path(__file__).parent.parent / "graphs" / "agents.py"
BLOCKED = "Webhook host blocked: loopback IP range"


class Receiver(ThreadingHTTPServer):
    """Keeps what it was told, by path. A path that is failing answers 500."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.told: dict[str, list[tuple[dict[str, str], dict]]] = {}
        self.failing: set[str] = set()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{path}"

    async def is_told(self, path: str, times: int = 1) -> dict:
        async def check():
            return len(self.told.get(path, [])) >= times

        await eventually(check)
        return self.told[path][-1][1]


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.told.setdefault(self.path, []).append(({k.lower(): v for k, v in self.headers.items()}, body))
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


async def test_a_run_that_ends_is_told(open_sdk, receiver, mark):
    sdk, path = open_sdk, f"/{mark}?q=1"
    thread_id = await sdk.thread()
    run = await sdk.runs.create(thread_id, "private", input={"question": "why"}, webhook=receiver.url(path))
    assert run["kwargs"]["webhook"] == receiver.url(path)
    told = await receiver.is_told(path)
    row = await sdk.runs.get(thread_id, run["run_id"])
    assert {key: told[key] for key in row} == row
    assert set(told) - set(row) == {"run_started_at", "run_ended_at", "webhook_sent_at", "values"}
    assert told["status"] == "success"
    assert told["created_at"] <= told["run_started_at"] <= told["run_ended_at"] <= told["webhook_sent_at"]
    assert told["values"] == (await sdk.threads.get(thread_id))["values"]
    headers = receiver.told[path][0][0]
    assert headers["content-type"] == "application/json"
    assert (headers["x-project"], headers["authorization"]) == ("mine", "Bearer secret")


async def test_streaming_and_waiting_runs_tell_too(open_sdk, receiver, mark):
    sdk = open_sdk
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "echo", input={"text": 1}, webhook=receiver.url(f"/{mark}/wait"))
    async for _ in sdk.runs.stream(thread_id, "echo", input={"text": 2}, webhook=receiver.url(f"/{mark}/stream")):
        pass
    assert (await receiver.is_told(f"/{mark}/wait"))["values"]["echoed"] == 1
    assert (await receiver.is_told(f"/{mark}/stream"))["values"]["echoed"] == 2


async def test_a_run_that_fails_tells_why(open_sdk, receiver, mark):
    thread_id = await open_sdk.thread()
    await open_sdk.runs.create(thread_id, "fails", input={}, webhook=receiver.url(f"/{mark}"))
    told = await receiver.is_told(f"/{mark}")
    assert (told["status"], told["error"]) == ("error", {"error": "ValueError", "message": "boom!"})


async def test_a_run_that_asks_tells_that_it_has_ended(open_sdk, receiver, mark):
    thread_id = await open_sdk.thread()
    await open_sdk.runs.create(thread_id, "approve", input={"text": "go"}, webhook=receiver.url(f"/{mark}"))
    assert (await receiver.is_told(f"/{mark}"))["status"] in ("success", "interrupted")


async def test_a_run_that_is_cancelled_tells_too(open_sdk, receiver, mark, gate):
    sdk = open_sdk
    thread_id = await sdk.thread()
    run = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)}, webhook=receiver.url(f"/{mark}/a"))
    await has_begun(sdk, run)
    await sdk.runs.cancel(thread_id, run["run_id"])
    told = await receiver.is_told(f"/{mark}/a")
    assert (told["status"], told["error"]["error"]) == ("interrupted", "UserInterrupt")
    later = await sdk.runs.create(thread_id, "echo", after_seconds=300, webhook=receiver.url(f"/{mark}/b"))
    await sdk.runs.cancel(thread_id, later["run_id"], action="rollback")
    told = await receiver.is_told(f"/{mark}/b")
    assert (told["run_started_at"], told["values"], told["error"]["error"]) == (None, None, "UserRollback")


async def test_a_stateless_run_tells_with_its_values(open_sdk, receiver, mark):
    await open_sdk.runs.create(None, "echo", input={"text": 7}, webhook=receiver.url(f"/{mark}"))
    told = await receiver.is_told(f"/{mark}")
    assert (told["kwargs"]["temporary"], told["values"]) == (True, {"text": 7, "echoed": 7})


async def test_a_batch_tells_for_each_run(open_sdk, receiver, mark):
    await open_sdk.runs.create_batch(
        [{"assistant_id": "echo", "input": {"text": n}, "webhook": receiver.url(f"/{mark}")} for n in range(3)]
    )
    await receiver.is_told(f"/{mark}", times=3)
    assert sorted(body["values"]["echoed"] for _, body in receiver.told[f"/{mark}"]) == [0, 1, 2]


async def test_the_runs_of_a_cron_tell(open_sdk, receiver, mark):
    cron = await open_sdk.crons.create("echo", schedule="* * * * * *", webhook=receiver.url(f"/{mark}/a"))
    try:
        assert cron["payload"]["webhook"] == receiver.url(f"/{mark}/a")
        await receiver.is_told(f"/{mark}/a")
        await open_sdk.crons.update(cron["cron_id"], webhook=receiver.url(f"/{mark}/b"))
        await receiver.is_told(f"/{mark}/b")
    finally:
        await open_sdk.crons.delete(cron["cron_id"])


async def test_a_receiver_that_fails_is_told_again(open_sdk, receiver, mark):
    receiver.failing.add(f"/{mark}")
    await open_sdk.runs.create(None, "echo", input={"text": 1}, webhook=receiver.url(f"/{mark}"))
    await receiver.is_told(f"/{mark}")
    receiver.failing.discard(f"/{mark}")
    await receiver.is_told(f"/{mark}", times=2)


async def test_what_was_not_told_is_told_after_a_crash(open_project, receiver, mark, tmp_path):
    path = f"/{mark}"
    receiver.failing.add(path)
    with running_server(open_project, tmp_path / "data") as server:
        async with OPENERS["async"](server.url) as sdk:
            run = await sdk.runs.create(None, "echo", input={"text": 1}, webhook=receiver.url(path))
            await receiver.is_told(path)
        server.kill()
        seen = len(receiver.told[path])
        receiver.failing.discard(path)
        server.start()
        told = await receiver.is_told(path, times=seen + 1)
        assert (told["run_id"], told["values"]["echoed"]) == (run["run_id"], 1)


async def test_a_webhook_is_refused_where_the_project_allows_none(sdk):
    thread_id = await sdk.thread()
    url = "https://127.0.0.1:9/x"
    for start in (sdk.runs.wait, sdk.runs.create):
        with refused(422, BLOCKED):
            await start(thread_id, "echo", input={}, webhook=url)
    with refused(422, BLOCKED):
        async for _ in sdk.runs.stream(thread_id, "echo", input={}, webhook=url):
            pass
    with refused(422, BLOCKED):
        await sdk.runs.create(None, "echo", input={}, webhook=url)
    with refused(422, BLOCKED):
        await sdk.runs.create_batch([{"assistant_id": "echo", "thread_id": thread_id, "webhook": url}])
    with refused(422, BLOCKED):
        await sdk.crons.create("echo", schedule="@daily", webhook=url)
    with refused(422, BLOCKED):
        await sdk.crons.create_for_thread(thread_id, "echo", schedule="@daily", webhook=url)
    cron = await sdk.crons.create("echo", schedule="@yearly")
    with refused(422, BLOCKED):
        await sdk.crons.update(cron["cron_id"], webhook=url)
    await sdk.crons.delete(cron["cron_id"])
    assert await sdk.runs.list(thread_id) == []


async def test_the_reason_of_a_refusal_is_told(http):
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
        answer = await http.post(f"/threads/{thread_id}/runs", json={"assistant_id": "echo", "webhook": url})
        assert (answer.status_code, answer.json()) == (422, {"detail": reason})
    for wrong in ("", 5):
        answer = await http.post(f"/threads/{thread_id}/runs", json={"assistant_id": "echo", "webhook": wrong})
        assert answer.status_code == 422


async def test_a_project_can_mute_its_webhooks(open_project, receiver, mark, tmp_path):
    content = json.loads(open_project.read_text())
    muted = tmp_path / "langgraph.json"
    muted.write_text(json.dumps({**content, "http": {"disable_webhooks": True}}))
    with running_server(muted, tmp_path / "data") as server:
        async with OPENERS["async"](server.url) as sdk:
            for path in ("http://169.254.169.254/x", receiver.url(f"/{mark}")):
                thread_id = await sdk.thread()
                assert (await sdk.runs.wait(thread_id, "echo", input={"text": 1}, webhook=path))["echoed"] == 1
        muted.write_text(json.dumps(content))
        server.terminate()
        server.start()
        async with OPENERS["async"](server.url) as sdk:
            await sdk.runs.create(None, "echo", input={"text": 2}, webhook=receiver.url(f"/{mark}"))
        await receiver.is_told(f"/{mark}")
    assert [body["values"]["text"] for _, body in receiver.told[f"/{mark}"]] == [2]
