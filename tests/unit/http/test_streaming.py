"""Long responses: what ends properly, and what is cut off so that nobody takes it for the whole."""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from threadwire.http import streaming
from threadwire.http.streaming import CUT, LongResponse, OpenStreams, event_stream, patient_json

pytestmark = pytest.mark.anyio

SOON = 5.0


class Spoken:
    """A watcher of what a test says."""

    def __init__(self) -> None:
        self._said: list[bytes | None] = []
        self._more = anyio.Event()
        self.finished = False
        self.watched = False

    def say(self, *frames: bytes | None) -> None:
        """None is the end."""
        self._said += frames
        self._more.set()

    def __enter__(self) -> "Spoken":
        self.watched = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.watched = False

    async def next(self, timeout: float) -> bytes | None:
        with anyio.move_on_after(timeout):
            while not self._said:
                self._more = anyio.Event()
                await self._more.wait()
        if not self._said:
            return b""
        frames = self._said.pop(0)
        self.finished = frames is None or self._said == [None]
        return frames


class Client:
    """One who asked for a response, and the server that is between."""

    def __init__(self, *, can_be_cut: bool = True, method: str = "GET") -> None:
        self.got = b""
        self.complete = False
        self.cut = False
        self.reads = anyio.Event()
        self.reads.set()
        self._heard = anyio.Event()
        self._gone = anyio.Event()
        self.scope: dict[str, Any] = {"type": "http", "method": method}
        if can_be_cut:
            self.scope[CUT] = self._cut_off

    def leave(self) -> None:
        self._gone.set()

    def _cut_off(self) -> None:
        self.cut = True
        self._gone.set()

    async def receive(self) -> Any:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if not self.reads.is_set():
            await self.reads.wait()
        self.got += message.get("body", b"")
        self.complete |= message.get("more_body") is False
        self._heard.set()

    async def has(self, what: bytes) -> None:
        with anyio.fail_after(SOON):
            while what not in self.got:
                self._heard = anyio.Event()
                await self._heard.wait()


async def serve(response: LongResponse, client: Client, meanwhile: Callable[[], Awaitable[None]]) -> None:
    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(response, client.scope, client.receive, client.send)
            await meanwhile()


@pytest.fixture
def streams() -> OpenStreams:
    return OpenStreams()


async def test_what_comes_to_its_end_is_complete(streams: OpenStreams) -> None:
    spoken, client = Spoken(), Client()
    spoken.say(b"a", b"b", None)
    await event_stream(spoken, streams, first=b"first ")(client.scope, client.receive, client.send)
    assert (client.got, client.complete, client.cut) == (b"first ab", True, False)
    assert (len(streams), spoken.watched) == (0, False)


async def test_whoever_asks_for_the_headers_alone_gets_them_at_once_and_has_not_left() -> None:
    left: list[bool] = []

    async def note() -> None:
        left.append(True)

    client, spoken, streams = Client(method="HEAD"), Spoken(), OpenStreams()
    with anyio.fail_after(SOON):
        await event_stream(spoken, streams, first=b"first ", on_disconnect=note)(
            client.scope, client.receive, client.send
        )
    assert (client.got, client.complete, client.cut, left, len(streams)) == (b"", True, False, [], 0)


@pytest.mark.parametrize("can_be_cut", [True, False])
async def test_a_shutdown_cuts_off_what_has_not_ended(streams: OpenStreams, can_be_cut: bool) -> None:
    """Where the connection cannot be broken off, the response is left incomplete, and the server does it."""
    spoken, client = Spoken(), Client(can_be_cut=can_be_cut)

    async def meanwhile() -> None:
        spoken.say(b"a")
        await client.has(b"a")
        await streams.close()
        assert len(streams) == 0

    await serve(event_stream(spoken, streams), client, meanwhile)
    assert (client.got, client.complete, client.cut) == (b"a", False, can_be_cut)
    assert not spoken.watched


async def test_a_shutdown_lets_out_what_is_on_its_way(streams: OpenStreams) -> None:
    spoken, client = Spoken(), Client()

    async def meanwhile() -> None:
        spoken.say(b"a")
        await client.has(b"a")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(streams.close)
            await checkpoint()
            spoken.say(b"b", b"c", None)

    await serve(event_stream(spoken, streams), client, meanwhile)
    assert (client.got, client.complete, client.cut) == (b"abc", True, False)


async def test_a_stream_that_is_opened_during_a_shutdown_shows_what_there_is_and_is_cut_off(
    streams: OpenStreams,
) -> None:
    await streams.close()
    spoken, client = Spoken(), Client()
    spoken.say(b"a", b"b")
    with anyio.fail_after(SOON):
        await event_stream(spoken, streams, first=b"first ")(client.scope, client.receive, client.send)
    assert (client.got, client.complete, client.cut) == (b"first ab", False, True)


async def test_nothing_is_sent_after_a_piece_that_was_given_up(streams: OpenStreams) -> None:
    """Or the client would come back with a place behind it."""
    spoken, client = Spoken(), Client()

    async def meanwhile() -> None:
        spoken.say(b"a")
        await client.has(b"a")
        client.reads = anyio.Event()
        spoken.say(b"b", b"c")
        await anyio.wait_all_tasks_blocked()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(streams.close)
            await checkpoint()
            client.reads.set()

    await serve(event_stream(spoken, streams), client, meanwhile)
    assert (client.got, client.complete, client.cut) == (b"a", False, True)


async def test_a_client_that_does_not_read_is_cut_off_and_has_left(
    streams: OpenStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "SEND_WITHIN", 0.01)
    spoken, client, left = Spoken(), Client(), anyio.Event()

    async def leave() -> None:
        left.set()

    async def meanwhile() -> None:
        spoken.say(b"a")
        await client.has(b"a")
        client.reads = anyio.Event()
        spoken.say(b"b")
        await left.wait()

    await serve(event_stream(spoken, streams, on_disconnect=leave), client, meanwhile)
    assert (client.got, client.complete, client.cut) == (b"a", False, True)


@pytest.mark.parametrize("how", ["leaves", "is cut off"])
async def test_only_a_client_that_leaves_is_one_that_left(streams: OpenStreams, how: str) -> None:
    spoken, client, left = Spoken(), Client(), []

    async def leave() -> None:
        left.append("left")

    async def meanwhile() -> None:
        spoken.say(b"a")
        await client.has(b"a")
        if how == "leaves":
            client.leave()
        else:
            await streams.close()

    await serve(event_stream(spoken, streams, on_disconnect=leave), client, meanwhile)
    assert left == (["left"] if how == "leaves" else [])


async def test_an_answer_that_takes_a_while_is_whole_or_cut_off(
    streams: OpenStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty answer would be read as null."""
    monkeypatch.setattr(streaming, "HEARTBEAT", 0.01)
    found: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    whole, cut = Client(), Client()
    others = OpenStreams()

    async def both() -> None:
        for client in (whole, cut):
            await client.has(b"\n")
        await others.close()
        found.set_result({"a": 1})

    async def asked() -> Any:
        return await asyncio.shield(found)

    async def second() -> None:
        await serve(patient_json(asked, others), cut, both)

    await serve(patient_json(asked, streams), whole, second)
    assert (whole.got.strip(b"\n"), whole.complete, whole.cut) == (b'{"a":1}', True, False)
    assert (cut.got.strip(b"\n"), cut.complete, cut.cut) == (b"", False, True)


async def test_closing_again_waits_for_nobody(streams: OpenStreams) -> None:
    with anyio.fail_after(SOON):
        await streams.close()
        await streams.close()
