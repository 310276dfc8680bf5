"""A Redis server of its own, on a free port of loopback. It stores nothing on disk.

with running_redis() as server:
    server.url
    server.kill()
    server.start()
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from services.service_process import ServiceProcess


class RedisServer:
    def __init__(self) -> None:
        self._process = ServiceProcess("redis", ready="Ready to accept connections", account="nobody")

    @property
    def port(self) -> int:
        return self._process.port

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def url(self) -> str:
        return self.url_at(self.port)

    def url_at(self, port: int) -> str:
        """The address of a proxy in front of the server."""
        return f"redis://127.0.0.1:{port}/0"

    def start(self) -> None:
        program = shutil.which("redis-server") or shutil.which("valkey-server")
        assert program is not None, "Redis is not installed: run `make setup`"
        self._process.start(
            [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
             "--dir", str(self._process.folder)]
        )  # fmt: skip

    def stop(self) -> None:
        self._process.stop()

    def restart(self) -> None:
        self.stop()
        self.start()

    def kill(self) -> None:
        self._process.kill()

    def pause(self) -> None:
        self._process.pause()

    def resume(self) -> None:
        self._process.resume()

    def remove(self) -> None:
        self._process.remove()


@contextmanager
def running_redis() -> Iterator[RedisServer]:
    server = RedisServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()
