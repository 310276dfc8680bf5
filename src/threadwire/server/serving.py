"""Run the web server inside the engine, so that a failed engine ends the process instead of leaving a server that
responds with 200 and does nothing."""

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import anyio
import structlog
import uvicorn
from anyio.abc import TaskStatus

from threadwire.engine.lifecycle import Engine
from threadwire.http.streaming import OpenStreams
from threadwire.server.app import Server, open_server
from threadwire.server.descriptors import divide, raise_descriptor_limit
from threadwire.server.file_changes import snapshot_files
from threadwire.server.fork_safety import detach_forked_children
from threadwire.server.listening import address_of
from threadwire.server.memory import Activity, return_memory_forever, tune_garbage_collection
from threadwire.server.process_patches import patch_process
from threadwire.server.project import read_project
from threadwire.server.reloading import Report, reload_on_change
from threadwire.server.uvicorn_connection import Connection, SocketConnection
from threadwire.server.waiting_connections import ConnectionLimits, WaitingConnections
from threadwire.settings import Settings

STOP_TIMEOUT = 5.0
"""Seconds within which the process exits once the grace period of active runs is over."""

FORCED_STOP_TIMEOUT = 1.0
"""The same after a second signal, once the runs are released."""

SWEEP_INTERVAL = 1.0
"""Seconds between two checks for clients that take too long."""

CLEANUP_SECONDS = 2.0
"""The part of `STOP_TIMEOUT` that is reserved for what comes after the last response."""

logger = structlog.get_logger("threadwire.server")


class _Server(uvicorn.Server):
    """uvicorn without its own signal handlers: we drain runs first."""

    def __init__(self, config: uvicorn.Config, waiting: WaitingConnections) -> None:
        super().__init__(config)
        self.server_state.connections = waiting.connections
        self.servers = []
        self._accepting = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self._accepting:
            self.stop_accepting()

    def stop_accepting(self) -> None:
        """Accept no new connections. Requests on open connections are still served."""
        self._accepting = False
        for each in self.servers:
            each.close()

    def stop(self, within: float) -> None:
        """Make `serve` return. Responses that have not been sent within that many seconds are aborted."""
        self.config.timeout_graceful_shutdown = within  # type: ignore[assignment]  # uvicorn passes it to `wait_for`
        self.should_exit = True


async def serve(
    settings: Settings,
    listener: socket.socket,
    *,
    dev: bool,
    announce: Callable[[str, Server], None],
    report: Report | None = None,
    worker_command: Sequence[str] | None = None,
) -> None:
    """Serve until a signal arrives. With `report`, reload the project when its files change. With `worker_command`, let
    worker processes execute the runs. If the engine fails, raise its error."""
    # Before the project is loaded, so that edits in the meantime are noticed.
    seen = snapshot_files(read_project(settings)) if report is not None else {}
    detach_forked_children(listener)
    patch_process()
    settings = _fit_descriptors(settings)
    waiting = WaitingConnections(_connection_limits(settings))
    async with open_server(settings, dev=dev, connections=waiting, worker_command=worker_command) as running:
        config = uvicorn.Config(
            running.app,
            interface="asgi3",
            loop="uvloop",
            http=cast("Any", partial(Connection, waiting=waiting)),
            timeout_keep_alive=cast("Any", settings.keep_alive_seconds),  # uvicorn passes it to `call_later`
            ws=SocketConnection,
            ws_max_size=settings.max_body_bytes,
            ws_per_message_deflate=False,  # it would take a third of a megabyte per connection
            log_config=None,
            access_log=False,
            lifespan="off",
            proxy_headers=False,  # client addresses are not used
        )
        server = _Server(config, waiting)
        tune_garbage_collection()
        async with anyio.create_task_group() as tasks:
            # Wait until the handler is installed: a signal may arrive as soon as the address is announced.
            await tasks.start(_drain_on_signal, server, running.engine, running.streams, settings.drain_seconds)
            tasks.start_soon(_close_expired, waiting)
            tasks.start_soon(return_memory_forever, partial(_activity, running.engine))
            announce(address_of(listener), running)
            if report is not None:
                tasks.start_soon(reload_on_change, running, seen, report)
            await server.serve(sockets=[listener])
            tasks.cancel_scope.cancel()


def _fit_descriptors(settings: Settings) -> Settings:
    """Lower the numbers of connections and runs to what the process has file descriptors for."""
    descriptors = raise_descriptor_limit()
    budget = divide(descriptors, settings.max_connections, settings.concurrency)
    if budget != (settings.max_connections, settings.concurrency):
        logger.warning(
            "limits_lowered",
            max_connections=budget.connections,
            concurrency=budget.runs,
            reason=f"The process may open at most {descriptors} files.",
        )
    return settings.model_copy(update={"max_connections": budget.connections, "concurrency": budget.runs})


def _connection_limits(settings: Settings) -> ConnectionLimits:
    return ConnectionLimits(
        max_connections=settings.max_connections,
        idle_seconds=settings.keep_alive_seconds,
        head_seconds=settings.request_head_seconds,
        body_seconds=settings.request_body_seconds,
    )


def _activity(engine: Engine) -> Activity:
    return Activity(engine.runs.counters().entries, engine.worker.active)


async def _close_expired(waiting: WaitingConnections) -> None:
    while True:
        await anyio.sleep(SWEEP_INTERVAL)
        waiting.close_expired()


async def _drain_on_signal(
    server: _Server,
    engine: Engine,
    streams: OpenStreams,
    grace: float,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Drain on the first signal; skip every wait on the second. In any case, the process exits no later than
    `STOP_TIMEOUT` seconds after the grace period."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for _ in signals:
            break
        logger.info("drain_started", seconds=grace)
        deadline = anyio.current_time() + grace + STOP_TIMEOUT
        _exit_after(grace + STOP_TIMEOUT)
        server.stop_accepting()  # first, or clients that reconnect would keep the server busy
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cancel_on_signal, signals, tasks.cancel_scope)
            await engine.worker.drain(grace)
            await streams.close()
            server.stop(within=max(0.0, deadline - CLEANUP_SECONDS - anyio.current_time()))
            await anyio.sleep_forever()  # until the server has stopped, or a second signal arrives
        _exit_after(STOP_TIMEOUT)
        with anyio.CancelScope(shield=True):
            await engine.worker.drain(0)
        _exit_after(FORCED_STOP_TIMEOUT)
        server.stop(within=0)


async def _cancel_on_signal(signals: object, scope: anyio.CancelScope) -> None:
    async for _ in signals:  # type: ignore[attr-defined]
        scope.cancel()
        return


def _exit_after(seconds: float) -> None:
    """Exit the process after that many seconds, even if something still waits, such as the lifespan of the project's
    application. In a thread, because the event loop may be blocked."""
    timer = threading.Timer(seconds, _exit)
    timer.daemon = True
    timer.start()


def _exit() -> None:
    logger.error("shutdown_timed_out")
    for output in (sys.stdout, sys.stderr):
        output.flush()
    os._exit(1)
