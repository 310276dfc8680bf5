"""Heartbeats on silent connections. Slow by nature: a heartbeat is sent after five seconds of silence."""

import time

import anyio
import pytest

pytestmark = pytest.mark.anyio


async def test_silent_streams_and_waits_send_heartbeats(http, gate):
    delays = {}

    async def listen(kind, heartbeat):
        thread = (await http.post("/threads", json={})).json()
        body = {"assistant_id": "slow", "input": {"until": str(gate)}}
        async with http.stream("POST", f"/threads/{thread['thread_id']}/runs/{kind}", json=body) as response:
            started, received = time.monotonic(), b""
            async for piece in response.aiter_raw():
                received += piece
                if heartbeat in received and kind not in delays:
                    delays[kind] = time.monotonic() - started
                    if len(delays) == 2:
                        gate.touch()
        return received

    results = {}

    async def listen_and_record(kind, heartbeat):
        results[kind] = await listen(kind, heartbeat)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen_and_record, "stream", b"\r\n\r\n: heartbeat\r\n\r\n")
            tasks.start_soon(listen_and_record, "wait", b"\n")
    assert all(4.5 < seconds < 7 for seconds in delays.values())
    assert results["stream"].endswith(b"\r\n\r\n")
    assert b"waited" in results["stream"].rpartition(b": heartbeat\r\n\r\n")[2]
    assert results["wait"].startswith(b'\n{"')
    assert results["wait"].endswith(b'"steps":["begun","waited"]}')
