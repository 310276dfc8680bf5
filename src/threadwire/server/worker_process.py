"""A worker process: executes runs and calls graphs for the process that started it, its owner.

It ends when its owner ends: if only the owner can open the storage, the worker can store nothing without it.
"""

import asyncio
import ctypes
import os
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from threadwire.core.ids import RunId
from threadwire.core.records import CancelAction, Lease, Run, Suspects
from threadwire.core.users import User
from threadwire.engine.access import current_user
from threadwire.engine.worker_engine import WorkerEngine, WorkerOptions, open_worker_engine
from threadwire.engine.workers import Claim
from threadwire.graphs.error_messages import ErrorMessages
from threadwire.http.remote_loopback import RemoteLoopback
from threadwire.ipc.channel import Channel
from threadwire.server.descriptors import raise_descriptor_limit
from threadwire.server.memory import Activity, return_memory_forever, tune_garbage_collection
from threadwire.server.process_patches import patch_process
from threadwire.server.project import import_project, read_project
from threadwire.server.sdk_clients import connected_clients
from threadwire.server.storages import open_worker_storage
from threadwire.settings import Settings
from threadwire.storage.abc import WorkerStorage

ALIVE_INTERVAL = 1.0
"""Seconds between two reports that the worker is alive."""

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """What the owner sends to a worker process when it starts."""

    lease: Lease
    capacity: int
    alone: bool
    """Whether the worker executes only suspects, one at a time."""


async def run_worker(sock: socket.socket, settings: Settings, start: WorkerStart) -> None:
    """Execute runs until the owner ends the connection."""
    patch_process()
    raise_descriptor_limit()
    project = await import_project(read_project(settings), with_app=False)
    channel = Channel(sock)
    loopback = RemoteLoopback(channel, asyncio.get_running_loop())
    reports = _Reports(channel)
    async with (
        open_worker_storage(settings, project.serializer, channel) as (storage, clock),
        open_worker_engine(
            storage,
            project.registry,
            project.persistence,
            WorkerOptions(start.lease, start.capacity, "only" if start.alone else "none", reclaims=False),
            messages=ErrorMessages(settings.shown_errors),
            on_stopped=reports.run_stopped,
            claim=_permitted_claim(storage, channel) if settings.is_on_postgres else None,
            clock=clock,
        ) as engine,
    ):
        reports.engine = engine
        _handle_messages(channel, engine)
        channel.open()
        tune_garbage_collection()
        async with anyio.create_task_group() as tasks:
            with connected_clients(loopback):
                tasks.start_soon(reports.alive_forever)
                tasks.start_soon(return_memory_forever, reports.activity)
                channel.notify("ready")
                await channel.wait_until_ended()
            if engine.worker.is_ready:  # not drained, so the owner has died
                os._exit(1)
            tasks.cancel_scope.cancel()


def _permitted_claim(storage: WorkerStorage, channel: Channel) -> Claim:
    """Claim from the worker's own storage, no more than the owner permits, and report what was claimed."""

    async def claim(limit: int, lease: Lease, *, now: int, suspects: Suspects) -> Sequence[Run]:
        permitted = await channel.request("may_claim", limit)
        claimed = await storage.runs.claim(permitted, lease, now=now, suspects=suspects)
        for run in claimed:
            channel.notify("run_claimed", run)
        return claimed

    return claim


def end_with_owner() -> None:
    """End the process when its owner ends, even if it is blocked, and ignore signals: the owner gets them too."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for number in (signal.SIGTERM, signal.SIGINT):
        # Not SIG_IGN, which processes that the project starts would inherit.
        signal.signal(number, lambda number, frame: None)


class _Reports:
    """What a worker reports to its owner."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._stopped = 0
        self.engine: WorkerEngine | None = None

    def run_stopped(self, run_id: RunId) -> None:
        assert self.engine is not None
        self._stopped += 1
        ended = self.engine.worker.ended
        self._channel.notify("run_stopped", run_id, dict(ended))
        ended.clear()

    async def alive_forever(self) -> None:
        assert self.engine is not None
        while True:
            self._channel.notify("alive", self.engine.loop.is_blocked)
            await anyio.sleep(ALIVE_INTERVAL)

    def activity(self) -> Activity:
        assert self.engine is not None
        return Activity(self._stopped, self.engine.worker.active)


def _handle_messages(channel: Channel, engine: WorkerEngine) -> None:
    """Register the handlers for the messages of the owner."""
    worker = engine.worker
    drains: set[asyncio.Task[None]] = set()

    def start(run: Run) -> None:
        worker.start(run)

    def stop(run_id: RunId, action: CancelAction) -> None:
        worker.stop(run_id, action)

    async def drain_and_report(grace: float) -> None:
        await worker.drain(grace)
        channel.notify("drained")

    def drain(grace: float) -> None:
        task = asyncio.ensure_future(drain_and_report(grace))
        drains.add(task)
        task.add_done_callback(drains.discard)

    async def call_graph(user: User | None, *arguments: Any) -> Any:
        current_user.set(user)  # only in this task
        return await engine.graph_access.call(*arguments)

    channel.on_notification("start", start)
    channel.on_notification("stop", stop)
    channel.on_notification("drain", drain)
    channel.on_request("call_graph", call_graph)
