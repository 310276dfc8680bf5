"""Long responses: which end normally, and which are aborted so that no client takes them as complete."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from threadwire.http import streaming
from threadwire.http.streaming import ABORT, LongResponse, OpenStreams, event_stream, slow_json

pytestmark = pytest.mark.anyio

SOON = 5.0


class ScriptedSource:
    """A source of frames that the test provides."""

    def __init__(self) -> None:
        self._frames: list[bytes | None] = []
        self._more = anyio.Event()
        self.finished = False
        self.entered = False

    def add(self, *frames: bytes | None) -> None:
        """None ends the source."""
        self._frames += frames
        self._more.set()

    def __enter__(self) -> "ScriptedSource":
        self.entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.entered = False

    async def next(self, timeout: float) -> list[bytes] | None:
        with anyio.move_on_after(timeout):
            while not self._frames:
                self._more = anyio.Event()
                await self._more.wait()
        if not self._frames:
            return []
        frames = self._frames.pop(0)
        self.finished = frames is None or self._frames == [None]
        return None if frames is None else [frames]


class Client:
    """A client, and the web server in front of the response."""

    def __init__(self, *, abortable: bool = True, method: str = "GET") -> None:
        self.body = b""
        self.complete = False
        self.aborted = False
        self.reads = anyio.Event()
        self.reads.set()
        self._received = anyio.Event()
        self._left = anyio.Event()
        self.scope: dict[str, Any] = {"type": "http", "method": method}
        if abortable:
            self.scope[ABORT] = self._abort

    def leave(self) -> None:
        self._left.set()

    def _abort(self) -> None:
        self.aborted = True
        self._left.set()

    async def receive(self) -> Any:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if not self.reads.is_set():
            await self.reads.wait()
        self.body += message.get("body", b"")
        self.complete |= message.get("more_body") is False
        self._received.set()

    async def wait_for(self, expected: bytes) -> None:
        with anyio.fail_after(SOON):
            while expected not in self.body:
                self._received = anyio.Event()
                await self._received.wait()


async def serve(response: LongResponse, client: Client, meanwhile: Callable[[], Awaitable[None]]) -> None:
    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(response, client.scope, client.receive, client.send)
            await meanwhile()


@pytest.fixture
def streams() -> OpenStreams:
    return OpenStreams()


async def test_response_that_reaches_its_end_is_complete(streams: OpenStreams) -> None:
    source, client = ScriptedSource(), Client()
    source.add(b"a", b"b", None)
    await event_stream(source, streams, first=[b"first "])(client.scope, client.receive, client.send)
    assert (client.body, client.complete, client.aborted) == (b"first ab", True, False)
    assert (len(streams), source.entered) == (0, False)


async def test_head_request_returns_immediately_and_is_not_a_disconnect() -> None:
    left: list[bool] = []

    async def note() -> None:
        left.append(True)

    client, source, streams = Client(method="HEAD"), ScriptedSource(), OpenStreams()
    with anyio.fail_after(SOON):
        await event_stream(source, streams, first=[b"first "], on_disconnect=note)(
            client.scope, client.receive, client.send
        )
    assert (client.body, client.complete, client.aborted, left, len(streams)) == (b"", True, False, [], 0)


@pytest.mark.parametrize("abortable", [True, False])
async def test_shutdown_aborts_streams_that_have_not_ended(streams: OpenStreams, abortable: bool) -> None:
    """Without a function to abort the connection, the response is left incomplete, and the web server aborts it."""
    source, client = ScriptedSource(), Client(abortable=abortable)

    async def meanwhile() -> None:
        source.add(b"a")
        await client.wait_for(b"a")
        await streams.close()
        assert len(streams) == 0

    await serve(event_stream(source, streams), client, meanwhile)
    assert (client.body, client.complete, client.aborted) == (b"a", False, abortable)
    assert not source.entered


async def test_shutdown_sends_pending_frames(streams: OpenStreams) -> None:
    source, client = ScriptedSource(), Client()

    async def meanwhile() -> None:
        source.add(b"a")
        await client.wait_for(b"a")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(streams.close)
            await checkpoint()
            source.add(b"b", b"c", None)

    await serve(event_stream(source, streams), client, meanwhile)
    assert (client.body, client.complete, client.aborted) == (b"abc", True, False)


async def test_stream_opened_during_shutdown_sends_pending_frames_and_is_aborted(
    streams: OpenStreams,
) -> None:
    await streams.close()
    source, client = ScriptedSource(), Client()
    source.add(b"a", b"b")
    with anyio.fail_after(SOON):
        await event_stream(source, streams, first=[b"first "])(client.scope, client.receive, client.send)
    assert (client.body, client.complete, client.aborted) == (b"first ab", False, True)


async def test_nothing_is_sent_after_an_abandoned_send(streams: OpenStreams) -> None:
    """Otherwise the client would resume from a position after the lost frames."""
    source, client = ScriptedSource(), Client()

    async def meanwhile() -> None:
        source.add(b"a")
        await client.wait_for(b"a")
        client.reads = anyio.Event()
        source.add(b"b", b"c")
        await anyio.wait_all_tasks_blocked()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(streams.close)
            await checkpoint()
            client.reads.set()

    await serve(event_stream(source, streams), client, meanwhile)
    assert (client.body, client.complete, client.aborted) == (b"a", False, True)


async def test_client_that_does_not_read_is_aborted_and_counts_as_disconnected(
    streams: OpenStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "SEND_TIMEOUT", 0.01)
    source, client, left = ScriptedSource(), Client(), anyio.Event()

    async def leave() -> None:
        left.set()

    async def meanwhile() -> None:
        source.add(b"a")
        await client.wait_for(b"a")
        client.reads = anyio.Event()
        source.add(b"b")
        await left.wait()

    await serve(event_stream(source, streams, on_disconnect=leave), client, meanwhile)
    assert (client.body, client.complete, client.aborted) == (b"a", False, True)


@pytest.mark.parametrize("how", ["disconnects", "is aborted"])
async def test_only_a_client_that_disconnects_triggers_on_disconnect(streams: OpenStreams, how: str) -> None:
    source, client, left = ScriptedSource(), Client(), []

    async def leave() -> None:
        left.append("left")

    async def meanwhile() -> None:
        source.add(b"a")
        await client.wait_for(b"a")
        if how == "disconnects":
            client.leave()
        else:
            await streams.close()

    await serve(event_stream(source, streams, on_disconnect=leave), client, meanwhile)
    assert left == (["left"] if how == "disconnects" else [])


async def test_slow_json_response_is_complete_or_aborted(streams: OpenStreams, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty response would be read as null."""
    monkeypatch.setattr(streaming, "HEARTBEAT", 0.01)
    result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    whole, cut = Client(), Client()
    others = OpenStreams()

    async def both() -> None:
        for client in (whole, cut):
            await client.wait_for(b"\n")
        await others.close()
        result.set_result({"a": 1})

    async def compute() -> Any:
        return await asyncio.shield(result)

    async def second() -> None:
        await serve(slow_json(compute, others), cut, both)

    await serve(slow_json(compute, streams), whole, second)
    assert (whole.body.strip(b"\n"), whole.complete, whole.aborted) == (b'{"a":1}', True, False)
    assert (cut.body.strip(b"\n"), cut.complete, cut.aborted) == (b"", False, True)


async def test_closing_twice_returns(streams: OpenStreams) -> None:
    with anyio.fail_after(SOON):
        await streams.close()
        await streams.close()


async def test_closing_does_not_wait_for_streams_that_are_opened_meanwhile(streams: OpenStreams) -> None:
    """Clients that reconnect again and again would keep the server from shutting down."""
    closed = anyio.Event()

    async def close() -> None:
        await streams.close()
        closed.set()

    async with anyio.create_task_group() as tasks:
        with ExitStack() as later:
            with streams.track():
                tasks.start_soon(close)
                await anyio.wait_all_tasks_blocked()
                later.enter_context(streams.track())
                assert not closed.is_set()
            with anyio.fail_after(SOON):
                await closed.wait()
            assert len(streams) == 1


async def test_closing_does_not_wait_forever_for_a_stream(
    streams: OpenStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "CLOSE_TIMEOUT", 0.01)
    with streams.track(), anyio.fail_after(SOON):
        await streams.close()
        monkeypatch.setattr(streaming, "CLOSE_TIMEOUT", 10 * SOON)
        await streams.close()  # the time counts from the first call
        assert len(streams) == 1
