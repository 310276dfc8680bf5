"""HEAD works wherever GET does, for health checks: the same status and headers, and no body."""

import httpx
import pytest
from clients import fresh_id, wait_for_start, wait_for_status

pytestmark = pytest.mark.anyio

BODY_HEADERS = {"date", "content-length", "transfer-encoding"}
COPILOTKIT = "/copilotkit"
"""Its clients send no HEAD, and its runtime rejects it with its own errors."""
DOCUMENTATION = ("/docs", "/openapi.json")


@pytest.fixture
async def paths(http, mark) -> list[str]:
    """Every path that supports GET, with the ids of existing objects."""
    thread_id = (await http.post("/threads", json={})).json()["thread_id"]
    body = {"assistant_id": "echo", "input": {"text": mark}}
    run = await http.post(f"/threads/{thread_id}/runs/wait", json=body)
    cron = (await http.post("/runs/crons", json={"assistant_id": "echo", "schedule": "@yearly"})).json()
    image = {"file": ("a.png", b"\x89PNG\r\n\x1a\n", "image/png")}
    attachment = (await http.post("/chatkit/echo/attachments", files=image)).json()
    known = {
        "thread_id": thread_id,
        "run_id": run.headers["content-location"].rpartition("/")[2],
        "cron_id": cron["cron_id"],
        "assistant_id": cron["assistant_id"],
        "checkpoint_id": (await http.get(f"/threads/{thread_id}/state")).json()["checkpoint_id"],
        "namespace": "inner",
        "graph_id": "echo",
        "file": "entrypoint.js",
        "agent": "echo",
        "attachment_id": attachment["id"],
    }
    described = (await http.get("/openapi.json")).json()["paths"]
    read = (path for path, methods in described.items() if "get" in methods and not path.startswith(COPILOTKIT))
    return [*(path.format_map(known) for path in read), *DOCUMENTATION]


async def test_head_is_get_without_the_body(http, paths):
    assert {"/", "/ok", "/info", "/metrics"} < set(paths)
    for path in paths:
        async with http.stream("GET", path) as read:  # some streams do not end
            head = await http.head(path)
            assert (head.status_code, head.content) == (read.status_code, b""), path
            assert stable_headers(head) == stable_headers(read), path


def stable_headers(response: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name not in BODY_HEADERS}


async def test_head_returns_the_content_length_of_get(http):
    assert (await http.head("/ok")).headers["content-length"] == str(len((await http.get("/ok")).content))


async def test_head_of_a_stream_neither_waits_for_its_end_nor_stops_the_run(sdk, http, gate):
    run = await sdk.runs.create(await sdk.thread(), "slow", input={"until": str(gate)})
    await wait_for_start(sdk, run)
    path = f"/threads/{run['thread_id']}/runs/{run['run_id']}"
    for ending in ("join", "stream"):
        assert (await http.head(f"{path}/{ending}?cancel_on_disconnect=true")).status_code == 200
    assert (await http.get(path)).json()["status"] == "running"
    gate.touch()
    await wait_for_status(sdk, run, "success")


async def test_head_of_an_unknown_path_or_one_without_get_is_rejected(http):
    assert (await http.head(f"/threads/{fresh_id()}")).status_code == 404
    assert (await http.head("/nowhere")).status_code == 404
    assert (await http.head("/threads")).status_code == 405


async def test_head_is_not_in_the_openapi_document(http):
    described = (await http.get("/openapi.json")).json()["paths"]
    assert not [path for path, methods in described.items() if "head" in methods]
