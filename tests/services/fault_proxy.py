"""A TCP proxy in front of PostgreSQL or Redis that fails on demand.

with fault_proxy(server.port) as proxy:
    dsn = server.dsn("test", port=proxy.port)
    proxy.cut()                      # every connection breaks, and no new one is accepted
    proxy.mend()
    proxy.stall()                    # connections stay open, and nothing arrives any more
    proxy.cut_at_commit("before")    # the next COMMIT never reaches the server
    proxy.cut_at_commit("after")     # the next COMMIT is executed, and its result is lost
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal

CommitFault = Literal["before", "after"]

_COMMIT = (b"COMMIT;\0", b"COMMIT\0")
"""The text of the statement in a message of the client."""
_COMMITTED = b"C\x00\x00\x00\x0bCOMMIT\x00"
"""CommandComplete of a COMMIT."""


class FaultProxy:
    """Forwards connections to a port of loopback. Every method may be called from any thread."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)
        self._links: set[_Link] = set()
        self._is_cut = False
        self._is_flowing = asyncio.Event()
        self._is_flowing.set()
        self._commit_faults: list[CommitFault] = []
        self.port = 0
        self.commits_cut = 0
        """How many connections were cut at a COMMIT."""

    def open(self) -> None:
        self._thread.start()
        self.port = self._call(self._open())

    def close(self) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def cut(self) -> None:
        """Break every connection, and refuse new ones."""
        self._call(self._cut())

    def cut_connections(self) -> None:
        """Break every connection. New ones are accepted at once."""
        self._call(self._cut_connections())

    def stall(self) -> None:
        """Let nothing pass in any direction, without breaking a connection: a partition."""
        self._call(self._set_flowing(False))

    def mend(self) -> None:
        """Forward again. What was held up during a stall arrives late."""
        self._call(self._mend())

    def cut_at_commit(self, fault: CommitFault, times: int = 1) -> None:
        """Break the connections that send the next COMMITs, before or after the server has executed them."""
        self._loop.call_soon_threadsafe(self._commit_faults.extend, [fault] * times)

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _open(self) -> int:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def _close(self) -> None:
        self._server.close()
        await self._cut()

    async def _cut(self) -> None:
        self._is_cut = True
        await self._cut_connections()

    async def _cut_connections(self) -> None:
        tasks = [link.abort() for link in self._links]
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _set_flowing(self, flowing: bool) -> None:
        (self._is_flowing.set if flowing else self._is_flowing.clear)()

    async def _mend(self) -> None:
        self._is_cut = False
        self._is_flowing.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(self, writer)
        self._links.add(link)
        try:
            if not self._is_cut:
                await link.forward(reader, self._target)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            link.abort()
            self._links.discard(link)

    async def wait_until_flowing(self) -> None:
        await self._is_flowing.wait()

    def take_commit_fault(self) -> CommitFault | None:
        if not self._commit_faults:
            return None
        self.commits_cut += 1
        return self._commit_faults.pop(0)


class _Link:
    """One connection through the proxy."""

    def __init__(self, proxy: FaultProxy, near: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._proxy = proxy
        self._writers = [near]
        self._task = task
        self._cut_after_commit = False

    def abort(self) -> "asyncio.Task[Any]":
        """Break the connection. Returns the task that ends with it."""
        for writer in self._writers:
            writer.transport.abort()
        if self._task is not asyncio.current_task():
            self._task.cancel()
        return self._task

    async def forward(self, reader: asyncio.StreamReader, port: int) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        self._writers.append(far_writer)
        pumps = [
            asyncio.create_task(self._requests(reader, far_writer)),
            asyncio.create_task(self._responses(far_reader, self._writers[0])),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await self._proxy.wait_until_flowing()
            if any(text in data for text in _COMMIT):
                match self._proxy.take_commit_fault():
                    case "before":
                        return
                    case "after":
                        self._cut_after_commit = True
            writer.write(data)
            await writer.drain()

    async def _responses(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._proxy.wait_until_flowing()
                if self._cut_after_commit and _COMMITTED in data:
                    return
                writer.write(data)
                await writer.drain()


@contextmanager
def fault_proxy(port: int) -> Iterator[FaultProxy]:
    """Run a proxy to a port of loopback until the block ends."""
    proxy = FaultProxy(port)
    proxy.open()
    try:
        yield proxy
    finally:
        proxy.close()
