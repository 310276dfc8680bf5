"""Run the web server inside the engine, so that a failed engine ends the process instead of leaving a server that
responds with 200 and does nothing."""

import gc
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio
import structlog
import uvicorn
from anyio.abc import TaskStatus

from threadwire.engine.lifecycle import Engine
from threadwire.http.streaming import OpenStreams
from threadwire.server.app import Server, open_server
from threadwire.server.connections import Connection
from threadwire.server.file_changes import snapshot_files
from threadwire.server.fork_safety import detach_forked_children
from threadwire.server.listening import address_of
from threadwire.server.project import read_project
from threadwire.server.reloading import Report, reload_on_change
from threadwire.settings import Settings

logger = structlog.get_logger("threadwire.server")


class _Server(uvicorn.Server):
    """uvicorn without its own signal handlers: we drain runs first."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(
    settings: Settings,
    listener: socket.socket,
    *,
    dev: bool,
    announce: Callable[[str, Server], None],
    report: Report | None = None,
) -> None:
    """Serve until a signal arrives. With `report`, reload the project when its files change. If the engine fails, raise
    its error."""
    seen = (
        snapshot_files(read_project(settings)) if report is not None else {}
    )  # before loading, to catch edits during it
    detach_forked_children(listener)
    async with open_server(settings, dev=dev) as running:
        config = uvicorn.Config(
            running.app,
            interface="asgi3",
            loop="uvloop",
            http=Connection,
            log_config=None,
            access_log=False,
            lifespan="off",
            proxy_headers=False,  # client addresses are not used
            timeout_graceful_shutdown=5,
        )
        server = _Server(config)
        _tune_garbage_collection()
        async with anyio.create_task_group() as tasks:
            # Wait until the handler is installed: a signal may arrive as soon as the address is announced.
            await tasks.start(_drain_on_signal, server, running.engine, running.streams, settings.drain_seconds)
            announce(address_of(listener), running)
            if report is not None:
                tasks.start_soon(reload_on_change, running, seen, report)
            await server.serve(sockets=[listener])
            tasks.cancel_scope.cancel()


def _tune_garbage_collection() -> None:
    """Collect less often. Tokens and checkpoints are created and dropped by the thousand and hardly ever form cycles.
    With Python's defaults, the collector keeps traversing every loaded module, at nearly half the cost of a token."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


async def _drain_on_signal(
    server: uvicorn.Server,
    engine: Engine,
    streams: OpenStreams,
    grace: float,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Drain on the first signal; stop draining on the second."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for _ in signals:
            break
        logger.info("drain_started", seconds=grace)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cancel_on_signal, signals, tasks.cancel_scope)
            await engine.worker.drain(grace)
            tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await engine.worker.drain(0)
        await streams.close()
        server.should_exit = True


async def _cancel_on_signal(signals: object, scope: anyio.CancelScope) -> None:
    async for _ in signals:  # type: ignore[attr-defined]
        scope.cancel()
        return
