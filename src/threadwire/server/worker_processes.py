"""Starts the worker processes, restarts those that die, and ends all of them.

A worker that dies is restarted immediately if it had lived for a minute, and otherwise after a delay that doubles each
time. Suspects (spec 5.7) are executed by separate workers, which exist only while there are suspects.
"""

import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import anyio
import structlog
from anyio.abc import Process

from threadwire.core.ids import uuid7
from threadwire.core.records import Lease
from threadwire.engine.clock import Clock, system_clock
from threadwire.engine.worker_pool import WorkerConnection, WorkerPool
from threadwire.ipc.channel import Channel
from threadwire.ipc.frames import write_value
from threadwire.settings import Settings
from threadwire.storage.abc import Storage

logger = structlog.get_logger("threadwire.workers")

MAX_AUTOMATIC = 8
"""The maximum number of worker processes, unless the settings name a number. Each imports the whole project."""
FIRST_DELAY = 0.25
MAX_DELAY = 30.0
"""Seconds until a worker that died soon after its start is restarted: the first delay, and the maximum."""
STABLE_SECONDS = 60.0
"""A worker that lived longer than this is restarted immediately."""
SUSPECT_POLL = 5.0
IDLE_SECONDS = 5.0
"""Seconds after which a worker for suspects ends if it has none to execute."""
END_TIMEOUT = 2.0
"""Seconds that a drained worker has to end."""
LEASES_UNTIL_KILLED = 2.0
"""A worker that has been silent for this many leases is killed. Its runs have been recovered by then."""


def automatic_count() -> int:
    """How many worker processes to start so that all cores are used, up to `MAX_AUTOMATIC`. A single core gains nothing
    from a second process."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 0 if cores == 1 else min(cores, MAX_AUTOMATIC)


Service: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class Launch:
    """How worker processes are started."""

    command: Sequence[str]
    """The program, which gets the number of a file descriptor as its last argument."""
    settings: Settings
    count: int
    serve: Callable[[Channel], Service]
    """Serves the requests of a worker over its channel, while the returned function is executed."""

    @property
    def capacity(self) -> int:
        """How many of the concurrent runs each worker executes."""
        return max(1, -(-self.settings.concurrency // self.count))


class WorkerProcesses:
    def __init__(self, pool: WorkerPool, storage: Storage, launch: Launch, clock: Clock = system_clock) -> None:
        self._pool = pool
        self._storage = storage
        self._launch = launch
        self._clock = clock
        self._alone = 0
        """Number of workers for suspects."""

    @asynccontextmanager
    async def running(self, grace: float) -> AsyncIterator[None]:
        """Run the workers for the length of the block, then drain and end them."""
        async with anyio.create_task_group() as tasks:
            for _ in range(self._launch.count):
                tasks.start_soon(self._keep_one_running)
            tasks.start_soon(self._start_workers_for_suspects, tasks)
            try:
                yield
            finally:
                with anyio.CancelScope(shield=True):
                    await self._pool.drain(grace if self._storage.fatal_error is None else 0)
                tasks.cancel_scope.cancel()

    async def _keep_one_running(self) -> None:
        delay = 0.0
        while not self._pool.is_draining:
            started = anyio.current_time()
            await self._run_one(alone=False)
            lived = anyio.current_time() - started
            delay = 0.0 if lived > STABLE_SECONDS else min(max(2 * delay, FIRST_DELAY), MAX_DELAY)
            await anyio.sleep(delay)

    async def _run_one(self, *, alone: bool) -> None:
        """Start a worker process and wait until it has ended."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            channel = Channel(ours)
            capacity = 1 if alone else self._launch.capacity
            lease = Lease(f"worker {uuid7()}", self._pool.lease.milliseconds)
            has_storage = self._launch.settings.is_on_postgres
            connection = WorkerConnection(lease, channel, capacity, alone=alone, has_storage=has_storage)
            service = self._launch.serve(channel)
            async with await self._start(theirs) as process:
                theirs.close()
                write_value(ours, self._introduction(connection))
                await self._supervise(connection, process, service)

    async def _start(self, theirs: socket.socket) -> Process:
        command = [*self._launch.command, str(theirs.fileno())]
        return await anyio.open_process(command, stdin=None, stdout=None, stderr=None, pass_fds=(theirs.fileno(),))

    def _introduction(self, connection: WorkerConnection) -> dict[str, Any]:
        return {
            "settings": self._launch.settings.model_dump_json(),
            "start": {"lease": connection.lease, "capacity": connection.capacity, "alone": connection.alone},
            "path": [each for each in sys.path if isinstance(each, str)],
        }

    async def _supervise(self, connection: WorkerConnection, process: Process, service: Service) -> None:
        pool = self._pool
        pool.connect(connection)
        connection.channel.open()
        ended = False
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(service)
                tasks.start_soon(_kill_if_silent, connection, process)
                tasks.start_soon(_kill_if_abandoned, connection, process)
                if connection.alone:
                    tasks.start_soon(self._end_if_idle, connection)
                await connection.channel.wait_until_ended()
                tasks.cancel_scope.cancel()
            ended = True
        finally:
            died = ended and not pool.is_draining and not connection.drained.is_set()
            connection.channel.close()
            pool.disconnect(connection, died=died)
            with anyio.CancelScope(shield=True):
                code = await _end(process, at_once=died or connection.abandoned.is_set())
            if died:
                logger.error(
                    "worker_died",
                    worker=connection.lease.worker,
                    runs=len(connection.runs),
                    alone=connection.alone,
                    **_describe(code),
                )

    # Suspects

    async def _start_workers_for_suspects(self, tasks: anyio.abc.TaskGroup) -> None:
        with self._storage.runs.watch() as hints:
            while not self._pool.is_draining:
                if self._alone < self._launch.count and await self._suspect_is_due():
                    self._alone += 1
                    tasks.start_soon(self._run_alone)
                await hints.wait(SUSPECT_POLL)

    async def _suspect_is_due(self) -> bool:
        due = await self._storage.runs.next_due(suspects="only")
        return due is not None and due <= self._clock()

    async def _run_alone(self) -> None:
        try:
            await self._run_one(alone=True)
        finally:
            self._alone -= 1

    async def _end_if_idle(self, connection: WorkerConnection) -> None:
        """End a worker for suspects that has had none for a while."""
        idle_since = anyio.current_time()
        while anyio.current_time() - idle_since < IDLE_SECONDS:
            await anyio.sleep(IDLE_SECONDS / 5)
            if connection.runs or not connection.ready:
                idle_since = anyio.current_time()
        connection.channel.notify("drain", 0.0)
        await connection.drained.wait()
        connection.channel.close()


async def _kill_if_silent(connection: WorkerConnection, process: Process) -> None:
    limit = LEASES_UNTIL_KILLED * connection.lease.milliseconds / 1000
    while True:
        await anyio.sleep(limit / 10)
        if connection.ready and connection.silence > limit:
            worker, seconds = connection.lease.worker, round(connection.silence)
            logger.error("worker_timed_out", worker=worker, seconds=seconds, runs=len(connection.runs))
            process.kill()
            return


async def _kill_if_abandoned(connection: WorkerConnection, process: Process) -> None:
    await connection.abandoned.wait()
    process.kill()


async def _end(process: Process, *, at_once: bool) -> int:
    """Wait for the process of a worker whose connection has ended. Kill it if it does not exit."""
    if not at_once:
        with anyio.move_on_after(END_TIMEOUT):
            return await process.wait()
    with anyio.move_on_after(0.5):  # usually it has ended already, and then its exit code says why
        return await process.wait()
    process.kill()
    return await process.wait()


def _describe(code: int) -> dict[str, str | int]:
    return {"signal": signal.Signals(-code).name} if code < 0 else {"exit_code": code}
