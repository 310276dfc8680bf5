"""Serving: the engine is the outer block and the web server lives inside it, so that a dead engine ends the process
instead of leaving a server that answers 200 and does nothing."""

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
from threadwire.server.changes import look
from threadwire.server.connections import Connection
from threadwire.server.forks import disown_forks
from threadwire.server.listening import address_of
from threadwire.server.project import read_project
from threadwire.server.reloading import Report, reload_on_change
from threadwire.settings import Settings

logger = structlog.get_logger("threadwire.server")


class _Server(uvicorn.Server):
    """uvicorn without its own signal handlers: draining is ours."""

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
    """Serve until a signal; with `report`, load the project anew when it changes. Raises what killed the engine, if
    something did."""
    seen = look(read_project(settings)) if report is not None else {}  # before it is loaded: it may be edited meanwhile
    disown_forks(listener)
    async with open_server(settings, dev=dev) as running:
        config = uvicorn.Config(
            running.app,
            interface="asgi3",
            loop="uvloop",
            http=Connection,
            log_config=None,
            access_log=False,
            lifespan="off",
            proxy_headers=False,  # nothing here asks where a request came from
            timeout_graceful_shutdown=5,
        )
        server = _Server(config)
        _spare_the_collector()
        async with anyio.create_task_group() as tasks:
            # Begun, and not only scheduled: whoever reads the announcement may send a signal.
            await tasks.start(_drain_on_signal, server, running.engine, running.streams, settings.drain_seconds)
            announce(address_of(listener), running)
            if report is not None:
                tasks.start_soon(reload_on_change, running, seen, report)
            await server.serve(sockets=[listener])
            tasks.cancel_scope.cancel()


def _spare_the_collector() -> None:
    """Tokens and checkpoints are made and dropped by the thousand and hardly ever form cycles. With Python's defaults
    the collector walks every loaded module again and again for them, at nearly half of the cost of a token."""
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
    """The first signal drains, the second hurries."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for _ in signals:
            break
        logger.info("draining", grace=grace)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_hurry_on_second, signals, tasks.cancel_scope)
            await engine.worker.drain(grace)
            tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await engine.worker.drain(0)
        await streams.close()
        server.should_exit = True


async def _hurry_on_second(signals: object, scope: anyio.CancelScope) -> None:
    async for _ in signals:  # type: ignore[attr-defined]
        scope.cancel()
        return
