"""A node that blocks affects its run, never the server."""

import re
import time

import anyio
import httpx
import pytest
from clients import collect, eventually, human, open_async

from threadwire.testing.server import running_server

pytestmark = [pytest.mark.anyio, pytest.mark.with_workers]

BLOCKED_FOR = 3.0
SOON = 1.0
"""Seconds within which a server that is not blocked responds, on a busy machine with two cores."""


@pytest.fixture(scope="module")
def own_server(project, tmp_path_factory):
    """A server for this module only: the tests read its log and block its worker."""
    with running_server(project, tmp_path_factory.mktemp("blocking") / "data") as running:
        yield running


@pytest.fixture
async def own_sdk(own_server):
    async with open_async(own_server.url) as opened:
        yield opened


@pytest.mark.parametrize(
    ("graph", "given"),
    [
        ("slow_sync", {"seconds": BLOCKED_FOR}),
        ("blocking", {"seconds": BLOCKED_FOR}),
        ("blocking", {"seconds": BLOCKED_FOR, "spin": True}),
    ],
    ids=["sync-node", "sleep-in-async-node", "cpu-loop"],
)
async def test_the_server_responds_while_a_node_blocks(own_sdk, own_server, graph, given):
    sdk = own_sdk
    other = await sdk.thread()
    parts = await collect(sdk.runs.stream(other, "chat", input=human("hello"), stream_mode="messages-tuple"))
    blocked = await sdk.thread()
    run = await sdk.runs.create(blocked, graph, input=given, stream_mode="updates")
    await _wait_for_first_step(sdk, run)

    calls = {
        "ok": lambda: sdk.http.get("/ok"),
        "the thread": lambda: sdk.threads.get(blocked),
        "a new thread": lambda: sdk.threads.create(),
        "the state of another thread": lambda: sdk.threads.get_state(other),
        "the state of the blocked thread": lambda: sdk.threads.get_state(blocked),
        "history": lambda: sdk.threads.get_history(other),
        "a search": lambda: sdk.threads.search(limit=5),
        "a new run": lambda: sdk.runs.create(other, "echo", input={}),
        "a replay": lambda: collect(sdk.runs.join_stream(other, parts[0].data["run_id"], last_event_id="-1")),
        "the stream of the blocked run": lambda: _first_two_parts(sdk, run),
    }
    took, results = {}, {}
    for name, call in calls.items():
        started = time.monotonic()
        results[name] = await call()
        took[name] = time.monotonic() - started
    still = await sdk.runs.get(blocked, run["run_id"])
    assert still["status"] == "running", f"the node no longer blocks; the calls took {took}"
    assert all(seconds < SOON for seconds in took.values()), took
    assert results["a replay"] == parts
    assert results["the state of the blocked thread"]["next"] == ["wait"]
    assert [part.event for part in results["the stream of the blocked run"]] == ["metadata", "updates"]
    assert (await sdk.runs.join(blocked, run["run_id"]))["steps"] == ["begun", "waited"]


async def test_the_log_names_the_node_and_the_line_that_blocks(own_sdk, own_server):
    sdk, before = own_sdk, len(own_server.log())
    await sdk.runs.wait(await sdk.thread(), "blocking", input={"seconds": 1.5})
    lines = [line for line in own_server.log()[before:].splitlines() if "loop_blocked" in line]
    assert len(lines) == 1
    assert "node=wait" in lines[0]
    assert re.search(r"agents\.py:\d+ in block\b", lines[0])
    own_server.wait_for_log("loop_unblocked")


async def test_a_sync_node_is_not_reported_as_blocking(own_sdk, own_server):
    sdk, before = own_sdk, len(own_server.log())
    await sdk.runs.wait(await sdk.thread(), "slow_sync", input={"seconds": 1.5})
    assert "loop_blocked" not in own_server.log()[before:]


async def _wait_for_first_step(sdk, run):
    async def check():
        try:
            with anyio.fail_after(SOON):
                return (await sdk.threads.get_state(run["thread_id"]))["next"] == ["wait"]
        except httpx.HTTPError:
            return False

    await eventually(check)


async def _first_two_parts(sdk, run):
    seen = []
    async for part in sdk.runs.join_stream(run["thread_id"], run["run_id"], last_event_id="-1"):
        seen.append(part)
        if len(seen) == 2:
            return seen
    raise AssertionError(f"the stream ended after {seen}")
