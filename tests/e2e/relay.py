"""An address that outlives the server behind it, like that of a load balancer: a client that connects while no server
is running waits for the next one."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

RETRY = 0.02


@contextmanager
def relay_to(url: str) -> Iterator[str]:
    """Yield the URL of a relay to the server at `url`."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    relay = _Relay(urlsplit(url).port or 80)
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
            pumps = [asyncio.create_task(_pump(reader, far_writer)), asyncio.create_task(_pump(far_reader, writer))]
            _, unfinished = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in unfinished:
                pump.cancel()
            with suppress(OSError):
                writer.close()
                await writer.wait_closed()
        finally:
            far_writer.transport.abort()

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
