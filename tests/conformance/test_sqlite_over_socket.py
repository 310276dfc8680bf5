"""The storage of a worker process: over a socket, to the process that owns the file."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from threadwire.ipc.channel import Channel
from threadwire.storage.abc import Storage
from threadwire.storage.serializer import strict_serializer
from threadwire.storage.sqlite import open_sqlite_storage
from threadwire.storage.sqlite.driver import SqliteStorage, now_ms
from threadwire.storage.sqlite.remote.client import RemoteStorage
from threadwire.storage.sqlite.remote.service import StorageService
from threadwire.testing.conformance import (
    CheckpointsConformance,
    ClaimsConformance,
    LogConformance,
    WorkersConformance,
)

PARTS = ("log", "threads", "runs", "checkpoints", "items")


class _Either:
    """The worker's part where it has one, otherwise the owner's."""

    def __init__(self, worker: object, owner: object) -> None:
        self._worker, self._owner = worker, owner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._worker, name) if hasattr(self._worker, name) else getattr(self._owner, name)


def over_socket(worker: RemoteStorage, owner: Storage) -> Storage:
    """A complete storage that uses the socket for everything for which a worker does."""
    whole = _Either(worker, owner)
    for part in PARTS:
        setattr(whole, part, _Either(getattr(worker, part), getattr(owner, part)))
    return cast("Storage", whole)


class OverSocket:
    @pytest.fixture
    async def owner(self, tmp_path: Path) -> AsyncIterator[Storage]:
        async with open_sqlite_storage(tmp_path) as storage:
            yield storage

    @pytest.fixture
    async def storage(self, owner: Storage) -> AsyncIterator[Storage]:
        ours, theirs = socket.socketpair()
        served, channel = Channel(ours), Channel(theirs)
        service = StorageService(cast("SqliteStorage", owner), served)
        worker = RemoteStorage(channel, strict_serializer(), now_ms)
        served.open()
        channel.open()
        hints = asyncio.create_task(service.forward_hints())
        yield over_socket(worker, owner)
        hints.cancel()
        channel.close()
        served.close()


class TestLog(OverSocket, LogConformance): ...


class TestClaims(OverSocket, ClaimsConformance): ...


class TestCheckpoints(OverSocket, CheckpointsConformance): ...


class TestWorkers(OverSocket, WorkersConformance):
    @pytest.fixture
    def other(self, owner: Storage) -> Storage:
        return owner
