"""Signs of life on silent connections. Slow by nature: the silence lasts five seconds."""

import time

import anyio
import pytest

pytestmark = pytest.mark.anyio


async def test_silent_streams_and_waits_show_that_they_are_alive(http, gate):
    heard = {}

    async def listen(kind, sign):
        thread = (await http.post("/threads", json={})).json()
        body = {"assistant_id": "slow", "input": {"until": str(gate)}}
        async with http.stream("POST", f"/threads/{thread['thread_id']}/runs/{kind}", json=body) as response:
            started, received = time.monotonic(), b""
            async for piece in response.aiter_raw():
                received += piece
                if sign in received and kind not in heard:
                    heard[kind] = time.monotonic() - started
                    if len(heard) == 2:
                        gate.touch()
        return received

    results = {}

    async def note(kind, sign):
        results[kind] = await listen(kind, sign)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(note, "stream", b"\r\n\r\n: heartbeat\r\n\r\n")
            tasks.start_soon(note, "wait", b"\n")
    assert all(4.5 < seconds < 7 for seconds in heard.values())
    assert results["stream"].endswith(b"\r\n\r\n")
    assert b"waited" in results["stream"].rpartition(b": heartbeat\r\n\r\n")[2]
    assert results["wait"].startswith(b'\n{"')
    assert results["wait"].endswith(b'"steps":["begun","waited"]}')
