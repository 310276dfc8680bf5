"""The time to live of threads."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import anyio
import pytest
from clients import eventually, fresh_id, open_async, rejected, wait_for_start

from threadwire.testing.server import running_server

pytestmark = pytest.mark.anyio

SHORT = 0.001
"""In minutes: sixty milliseconds."""


async def ttl_of(sdk, thread_id):
    thread = await sdk.threads.get(thread_id, include=["ttl"])
    ttl = thread.get("ttl")
    if ttl is not None:
        expires = datetime.fromisoformat(thread["updated_at"]) + timedelta(minutes=ttl["ttl_minutes"])
        assert datetime.fromisoformat(ttl["expires_at"]) == expires
        return ttl["ttl_minutes"], ttl["strategy"]
    return None


async def test_the_ttl_of_a_thread_is_returned_only_on_request(sdk):
    thread = await sdk.threads.create(ttl=60)
    assert "ttl" not in thread
    assert "ttl" not in await sdk.threads.get(thread["thread_id"])
    assert await ttl_of(sdk, thread["thread_id"]) == (60, "delete")
    assert await ttl_of(sdk, await sdk.thread()) is None


async def test_a_ttl_is_minutes_or_minutes_and_a_strategy(sdk, http):
    assert await ttl_of(sdk, await sdk.thread(ttl={"ttl": 1.5, "strategy": "keep_latest"})) == (1.5, "keep_latest")
    assert await ttl_of(sdk, await sdk.thread(ttl={"ttl": 90})) == (90, "delete")
    plain = (await http.post("/threads", json={"ttl": 30})).json()
    assert await ttl_of(sdk, plain["thread_id"]) == (30, "delete")


async def test_an_update_can_change_the_ttl_and_otherwise_keeps_it(sdk):
    thread_id = await sdk.thread()
    await sdk.threads.update(thread_id, metadata={}, ttl={"ttl": 5, "strategy": "keep_latest"})
    assert await ttl_of(sdk, thread_id) == (5, "keep_latest")
    await sdk.threads.update(thread_id, metadata={"a": 1})
    assert await ttl_of(sdk, thread_id) == (5, "keep_latest")
    await sdk.threads.update(thread_id, metadata={}, ttl=7)
    assert await ttl_of(sdk, thread_id) == (7, "delete")


async def test_null_removes_the_ttl(sdk, http):
    thread_id = await sdk.thread(ttl=60, metadata={"a": 1})
    updated = await http.patch(f"/threads/{thread_id}", json={"ttl": None})
    assert (updated.status_code, updated.json()["metadata"]) == (200, {"a": 1})
    assert await ttl_of(sdk, thread_id) is None


async def test_copies_and_supersteps_have_a_ttl_too(sdk):
    source = await sdk.thread(ttl=60)
    assert await ttl_of(sdk, (await sdk.threads.copy(source))["thread_id"]) == (60, "delete")
    steps = [{"updates": [{"values": {"text": "x"}, "as_node": "__start__"}]}]
    assert await ttl_of(sdk, await sdk.thread(graph_id="echo", supersteps=steps, ttl=5)) == (5, "delete")


async def test_an_invalid_ttl_is_rejected(sdk, http):
    thread_id = await sdk.thread()
    for ttl in (
        0,
        -1,
        "x",
        True,
        {"ttl": 0},
        {"strategy": "delete"},
        {"ttl": 5, "strategy": "nope"},
        {"ttl": 1e300},
        [],
    ):
        for response in (
            await http.post("/threads", json={"ttl": ttl}),
            await http.patch(f"/threads/{thread_id}", json={"ttl": ttl}),
        ):
            assert response.status_code == 422, ttl
            assert "ttl" in response.json()["detail"]
    with rejected(422, "include: 'nope' is not one of ttl"):
        await sdk.threads.get(thread_id, include=["ttl", "nope"])
    unknown = fresh_id()
    with rejected(404, f"Thread with ID {unknown} not found"):
        await sdk.threads.get(unknown, include=["ttl"])


# -- sweeping ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def sweeping(tmp_path, project):
    """Writes a project with this thread TTL that is swept several times a second."""

    def config(**ttl):
        content = json.loads(project.read_text())
        content["dependencies"] = [str(project.parent)]
        for name, graph in content["graphs"].items():
            path = graph if isinstance(graph, str) else graph["path"]
            content["graphs"][name] = str(project.parent / path)
        content["checkpointer"] = {"ttl": {"sweep_interval_minutes": 0.002, **ttl}}
        path = tmp_path / "langgraph.json"
        path.write_text(json.dumps(content))
        return path

    return config


async def wait_until_deleted(sdk, thread_id):
    async def check():
        return await sdk.threads.search(ids=[thread_id]) == []

    await eventually(check)


async def test_expired_threads_are_deleted_and_busy_ones_are_not(sweeping, tmp_path: Path, gate):
    with running_server(sweeping(default_ttl=SHORT), tmp_path / "data") as server:
        async with open_async(server.url) as sdk:
            long_lived = await sdk.thread(ttl=60)
            permanent = (await sdk.http.post("/threads", json={"ttl": None}))["thread_id"]
            busy = await sdk.thread(ttl=60)
            run = await sdk.runs.create(busy, "slow", input={"until": str(gate)})
            await wait_for_start(sdk, run)
            await sdk.threads.update(busy, metadata={}, ttl=SHORT)
            short = await sdk.thread()
            created_by_run = fresh_id()
            await sdk.runs.wait(created_by_run, "echo", input={"text": 1}, if_not_exists="create")
            await wait_until_deleted(sdk, short)
            await wait_until_deleted(sdk, created_by_run)
            assert (await sdk.threads.get(busy))["status"] == "busy"
            gate.touch()
            await wait_until_deleted(sdk, busy)
            for thread_id in (long_lived, permanent):
                assert (await sdk.threads.get(thread_id))["status"] == "idle"


async def test_a_thread_can_expire_its_history_and_keep_its_state(sweeping, tmp_path: Path):
    with running_server(sweeping(), tmp_path / "data") as server:
        async with open_async(server.url) as sdk:
            thread_id = await sdk.thread()
            await sdk.runs.wait(thread_id, "steps", input={"count": 3})
            assert len(await sdk.threads.get_history(thread_id)) == 5
            await sdk.threads.update(thread_id, metadata={}, ttl={"ttl": SHORT, "strategy": "keep_latest"})

            async def pruned():
                return len(await sdk.threads.get_history(thread_id)) == 1

            await eventually(pruned)
            assert (await sdk.threads.get_state(thread_id))["values"]["done"] == [1, 2, 3]
            await sdk.runs.wait(thread_id, "steps", input={"count": 4})
            await eventually(pruned)


async def test_threads_that_expired_while_the_server_was_down_are_deleted_at_startup(sweeping, tmp_path: Path):
    config = sweeping(sweep_interval_minutes=60)
    with running_server(config, tmp_path / "data") as server:
        async with open_async(server.url) as sdk:
            thread_id = await sdk.thread(ttl=SHORT)
            await anyio.sleep(2 * SHORT * 60)
            assert (await sdk.threads.get(thread_id))["status"] == "idle"
        server.kill()
        server.start()
        async with open_async(server.url) as sdk:
            await wait_until_deleted(sdk, thread_id)
