"""The thread wire over a WebSocket: the same events and commands, and limits as strict as those of HTTP."""

import json
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from clients import PROJECT, TIMEOUT, fresh_id, human
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from wire import CHANNELS, WireThread, data_of, ends, is_root_end, open_socket, statuses

from threadwire.testing.server import RunningServer, running_server

pytestmark = pytest.mark.anyio


async def test_the_events_are_those_of_the_stream(server: RunningServer, http: httpx.AsyncClient) -> None:
    thread = WireThread(http)
    async with open_socket(server.url, thread.thread_id) as socket:
        subscribed = await socket.result("subscription.subscribe", channels=CHANNELS)
        assert subscribed["replayed_events"] == 0
        await socket.result("run.start", assistant_id="everything", input=human("hello"))
        live = await socket.until(is_root_end)
    assert live == await thread.events(is_root_end)


async def test_past_events_are_replayed_before_the_response(server: RunningServer, http: httpx.AsyncClient) -> None:
    thread = WireThread(http)
    await thread.start("chat", human("hello"))
    past = await thread.events(is_root_end)
    async with open_socket(server.url, thread.thread_id) as socket:
        reply = await socket.command("subscription.subscribe", channels=CHANNELS)
        assert reply["result"]["replayed_events"] == len(past)
        assert reply["meta"]["applied_through_seq"] == past[-1]["seq"]
        assert socket.events == past
        await socket.result("subscription.subscribe", channels=["lifecycle"], since=past[-1]["seq"])
        assert socket.events == past


async def test_interrupts_are_answered_over_the_socket(server: RunningServer) -> None:
    async with open_socket(server.url, fresh_id()) as socket:
        await socket.result("subscription.subscribe", channels=["lifecycle", "input"])
        await socket.result("run.start", assistant_id="approve", input={"topic": "x"})
        (requested,) = data_of(await socket.until(is_root_end), "input.requested")
        await socket.result("input.respond", interrupt_id=requested["interrupt_id"], response={"ok": True})
        resumed = await socket.until(ends(2))
        assert statuses(resumed) == ["running", "interrupted", "running", "completed"]


async def test_nothing_arrives_after_unsubscribing(server: RunningServer) -> None:
    async with open_socket(server.url, fresh_id()) as socket:
        subscribed = await socket.result("subscription.subscribe", channels=CHANNELS)
        assert await socket.result("subscription.unsubscribe", subscription_id=subscribed["subscription_id"]) == {}
        lifecycle = await socket.result("subscription.subscribe", channels=["lifecycle"])
        assert lifecycle["subscription_id"] != subscribed["subscription_id"]
        await socket.result("run.start", assistant_id="chat", input=human("hello"))
        assert {event["method"] for event in await socket.until(is_root_end)} == {"lifecycle"}


async def test_subscriptions_in_the_middle_of_a_run_get_every_event_once_and_in_order(server: RunningServer) -> None:
    """A client treats the end of the run as the end of all events."""
    async with open_socket(server.url, fresh_id()) as socket:
        await socket.result("subscription.subscribe", channels=["messages", "lifecycle"])
        await socket.result("run.start", assistant_id="chat", input={**human("hello"), "delay": 0.05})
        await socket.until(lambda event: event["method"] == "messages")
        subscribed = await socket.result("subscription.subscribe", channels=["values", "lifecycle"])
        replayed = len(socket.events) - subscribed["replayed_events"]
        rest = len(socket.events)
        events = [*await socket.until(is_root_end)]
        await socket.result("subscription.unsubscribe", subscription_id=subscribed["subscription_id"])
        everything = await socket.result("subscription.subscribe", channels=["values", "messages", "lifecycle"])
        past = socket.events[-everything["replayed_events"] :]
    live = events[:replayed] + events[rest:]
    assert [event["seq"] for event in live] == sorted(event["seq"] for event in live)
    shown = {event["event_id"] for event in events}
    assert shown == {event["event_id"] for event in past}
    assert len(live) == len({event["event_id"] for event in live})
    assert events[-1]["params"]["data"]["event"] == "completed"


async def test_a_connection_outlives_its_thread(server: RunningServer, http: httpx.AsyncClient) -> None:
    async with open_socket(server.url, thread_id := fresh_id()) as socket:
        await socket.result("subscription.subscribe", channels=["lifecycle"])
        await socket.result("run.start", assistant_id="chat", input=human("hello"))
        await socket.until(is_root_end)
        assert (await http.delete(f"/threads/{thread_id}")).status_code == 204
        assert (await socket.result("subscription.subscribe", channels=["values"]))["replayed_events"] == 0
        await socket.result("run.start", assistant_id="chat", input=human("hello"))
        assert statuses(await socket.until(ends(2))) == ["running", "completed"] * 2


async def test_a_reconnect_reports_the_namespaces_of_a_run(server: RunningServer) -> None:
    async with open_socket(server.url, fresh_id()) as socket:
        await socket.result("subscription.subscribe", channels=["lifecycle"])
        run = await socket.result("run.start", assistant_id="nested", input=human("hello"))
        await socket.until(is_root_end)
        result = await socket.result("subscription.reconnect", run_id=run["run_id"], subscriptions=["sub-9"])
        assert result["restored"] is False
        assert [each["status"] for each in result["current_namespaces"]] == ["completed", "completed"]


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("subscription.subscribe", {}, "invalid_argument"),
        ("subscription.subscribe", {"channels": ["bogus"]}, "invalid_argument"),
        ("subscription.subscribe", {"channels": ["values"], "since": 9}, "invalid_argument"),
        ("subscription.unsubscribe", {"subscription_id": "sub-1"}, "no_such_subscription"),
        ("subscription.reconnect", {"run_id": "nope"}, "no_such_run"),
        ("state.get", {}, "unknown_error"),
        ("nope", {}, "unknown_command"),
    ],
)
async def test_an_invalid_command_gets_a_code(server: RunningServer, method: str, params: Any, code: str) -> None:
    async with open_socket(server.url, fresh_id()) as socket:
        assert (await socket.command(method, **params))["error"] == code
        assert (await socket.result("subscription.subscribe", channels=["values"]))["replayed_events"] == 0


@pytest.mark.parametrize("frame", ["{", "[]", "7", '{"id": null}', b"\xff", "[" * 200, '{"id": 1}'])
async def test_a_frame_that_is_not_a_command_gets_an_error(server: RunningServer, frame: str | bytes) -> None:
    async with open_socket(server.url, fresh_id()) as socket:
        await socket.socket.send(frame)
        reply = await socket.reply()
        assert (reply["type"], reply["id"], reply["error"]) == ("error", None, "invalid_argument")
        assert (await socket.result("subscription.subscribe", channels=["values"]))["subscription_id"]


async def test_the_number_of_subscriptions_is_limited(server: RunningServer) -> None:
    async with open_socket(server.url, fresh_id()) as socket:
        for _ in range(100):
            await socket.result("subscription.subscribe", channels=["values"])
        assert (await socket.command("subscription.subscribe", channels=["values"]))["error"] == "invalid_argument"


# -- limits -----------------------------------------------------------------------------------------------------------


async def rejection_status(server: RunningServer, path: str, **options: Any) -> int:
    """The status with which a connection is rejected."""
    with pytest.raises(InvalidStatus) as caught:
        async with connect(f"{server.url.replace('http', 'ws')}{path}", **options):
            pass
    return caught.value.response.status_code


async def test_foreign_hosts_and_origins_are_rejected(server: RunningServer) -> None:
    path = f"/threads/{fresh_id()}/stream/events"
    port = server.url.rpartition(":")[2]
    assert await rejection_status(server, path, origin="https://evil.example") == 403
    assert await rejection_status(server, path, origin="null") == 403
    assert await rejection_status(server, path, origin=f"http://localhost:{port}.evil.example") == 403
    assert await rejection_status(server, path, additional_headers={"Host": "evil.example"}) in (400, 421)


async def test_the_servers_own_origin_is_accepted(server: RunningServer) -> None:
    async with open_socket(server.url, fresh_id(), origin=server.url) as socket:
        await socket.result("subscription.subscribe", channels=["values"])


async def test_a_thread_id_must_be_a_uuid(server: RunningServer) -> None:
    assert await rejection_status(server, "/threads/nope/stream/events") == 422


async def test_a_frame_that_is_too_large_closes_the_connection(tmp_path: Path) -> None:
    with running_server(PROJECT, tmp_path / "data", env={"THREADWIRE_MAX_BODY_BYTES": "2000"}) as server:
        async with open_socket(server.url, fresh_id()) as socket:
            with pytest.raises(ConnectionClosed) as caught, anyio.fail_after(TIMEOUT):
                await socket.command("run.start", assistant_id="chat", input="x" * 3000)
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1009


async def test_a_shutdown_closes_the_connection_so_that_clients_reconnect(tmp_path: Path) -> None:
    with running_server(PROJECT, tmp_path / "data") as server:
        thread_id = fresh_id()
        async with open_socket(server.url, thread_id) as socket:
            await socket.result("subscription.subscribe", channels=["lifecycle"])
            await socket.result("run.start", assistant_id="chat", input=human("hello"))
            first = list(await socket.until(is_root_end))
            server.process.terminate()
            with pytest.raises(ConnectionClosed) as caught, anyio.fail_after(TIMEOUT):
                await socket.socket.recv()
        server.wait()
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1012
        server.start()
        async with open_socket(server.url, thread_id) as socket:
            await socket.result("subscription.subscribe", channels=["lifecycle"])
            assert socket.events == first


async def test_a_client_that_does_not_read_does_not_stop_others(server: RunningServer) -> None:
    """The run continues, and another connection receives all of it."""
    thread_id, large = fresh_id(), "x" * 1_000_000
    async with open_socket(server.url, thread_id, max_queue=1) as idle, open_socket(server.url, thread_id) as other:
        await idle.socket.send(
            json.dumps({"id": 1, "method": "subscription.subscribe", "params": {"channels": CHANNELS}})
        )
        await other.result("subscription.subscribe", channels=["lifecycle"])
        for number in range(1, 9):
            await other.result("run.start", assistant_id="echo", input={"text": large})
            await other.until(ends(number))
