"""An address that outlives the server behind it, like that of a load balancer: a client that connects while no server
is running waits for the next one. And an address that cuts connections."""

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

RETRY = 0.02


@contextmanager
def relay_to(url: str) -> Iterator[str]:
    """Yield the URL of a relay to the server at `url`."""
    with _serving(_Relay(urlsplit(url).port or 80)) as address:
        yield address


@contextmanager
def cutting_relay_to(url: str) -> Iterator[tuple[str, Counter[str]]]:
    """Yield the URL of a relay that cuts event streams of the thread wire, and how often it did, by `<name>/<n>`. Below
    `/cut/<name>/<n>`, it cuts one connection that carries `values`, after `n` events. Other paths are not cut."""
    relay = _CuttingRelay(urlsplit(url).port or 80)
    with _serving(relay) as address:
        yield address, relay.cuts


@contextmanager
def _serving(relay: "_Relay") -> Iterator[str]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{asyncio.run_coroutine_threadsafe(relay.open(), loop).result(5)}"
    finally:
        asyncio.run_coroutine_threadsafe(relay.close(), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()


class _Relay:
    def __init__(self, port: int) -> None:
        self._port = port
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self) -> int:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._forward(reader, writer)
        except asyncio.CancelledError:
            pass  # asyncio would log the cancellation of a connection as an error
        finally:
            writer.transport.abort()
            self._connections.discard(task)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await self._connect()
        try:
            pumps = [asyncio.create_task(each) for each in self._pumps(reader, far_writer, far_reader, writer)]
            _, unfinished = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in unfinished:
                pump.cancel()
            with suppress(OSError):
                writer.close()
                await writer.wait_closed()
        finally:
            far_writer.transport.abort()

    def _pumps(
        self,
        reader: asyncio.StreamReader,
        far_writer: asyncio.StreamWriter,
        far_reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> tuple[Coroutine[Any, Any, None], Coroutine[Any, Any, None]]:
        return _pump(reader, far_writer), _pump(far_reader, writer)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while True:
            with suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", self._port)
            await asyncio.sleep(RETRY)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


class _CuttingRelay(_Relay):
    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.cuts: Counter[str] = Counter()

    def _pumps(
        self,
        reader: asyncio.StreamReader,
        far_writer: asyncio.StreamWriter,
        far_reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> tuple[Coroutine[Any, Any, None], Coroutine[Any, Any, None]]:
        cut = _Cut(self.cuts)
        return cut.requests(reader, far_writer), cut.responses(far_reader, writer)


_PREFIX = re.compile(rb" /cut/(\w+/(\d+))/")
_EVENT = b'{"type":"event"'


class _Cut:
    """One connection, which ends at the start of the event after the last one."""

    def __init__(self, cuts: Counter[str]) -> None:
        self._cuts = cuts
        self._name = ""
        self._after: int | None = None
        self._carries_values = False
        self._events = 0

    async def requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(self._request(data))
                await writer.drain()

    async def responses(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                at = self._cut_at(data)
                writer.write(data[:at])
                await writer.drain()
                if at is not None:
                    return

    def _request(self, data: bytes) -> bytes:
        if found := _PREFIX.search(data):
            self._name, self._after = found[1].decode(), int(found[2])
            data = _PREFIX.sub(b" /", data).replace(b"permessage-deflate", b"x-none")
        if b'"values"' in data or b'"values"' in _unmasked(data):
            self._carries_values = True
        return data

    def _cut_at(self, data: bytes) -> int | None:
        """Where the connection ends; None if it continues."""
        if self._after is None or not self._carries_values or self._cuts[self._name]:
            return None
        found = [each.start() for each in re.finditer(re.escape(_EVENT), data)]
        self._events += len(found)
        if self._events <= self._after:
            return None
        self._cuts[self._name] += 1
        return found[self._after - self._events]


def _unmasked(frame: bytes) -> bytes:
    """The text of a small WebSocket frame of a client."""
    start = 4 if len(frame) > 1 and frame[1] & 127 == 126 else 2
    mask, text = frame[start : start + 4], frame[start + 4 :]
    return bytes(byte ^ mask[at % 4] for at, byte in enumerate(text)) if len(mask) == 4 else b""
