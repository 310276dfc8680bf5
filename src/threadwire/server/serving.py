"""Serving: the engine is the outer block and the web server lives inside it, so that a dead engine ends the process
instead of leaving a server that answers 200 and does nothing."""

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio
import structlog
import uvicorn

from threadwire.engine.lifecycle import Engine
from threadwire.errors import ConfigError
from threadwire.http.streaming import OpenStreams
from threadwire.server.app import open_server
from threadwire.settings import Settings

logger = structlog.get_logger("threadwire.server")

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class _Server(uvicorn.Server):
    """uvicorn without its own signal handlers: draining is ours."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(settings: Settings, *, dev: bool, announce: Callable[[str, Engine], None]) -> None:
    """Serve until a signal. Raises what killed the engine, if something did."""
    refuse_open_door(settings)
    with _listening(settings) as listener:
        async with open_server(settings, dev=dev) as (app, engine, streams):
            config = uvicorn.Config(
                app,
                loop="uvloop",
                http="httptools",
                log_config=None,
                access_log=False,
                lifespan="off",
                timeout_graceful_shutdown=5,
            )
            server = _Server(config)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_drain_on_signal, server, engine, streams, settings.drain_seconds)
                announce(_address(listener), engine)
                await server.serve(sockets=[listener])
                tasks.cancel_scope.cancel()


def refuse_open_door(settings: Settings) -> None:
    if settings.host not in LOOPBACK and not settings.insecure_no_auth:
        raise ConfigError(
            f"Refusing to listen on {settings.host}: nobody would be asked who they are."
            " Keep to 127.0.0.1, or say --insecure-no-auth if something in front checks that."
        )


async def _drain_on_signal(server: uvicorn.Server, engine: Engine, streams: OpenStreams, grace: float) -> None:
    """The first signal drains, the second hurries."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            break
        logger.info("draining", grace=grace)
        server.should_exit = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_hurry_on_second, signals, tasks.cancel_scope)
            await engine.worker.drain(grace)
            tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await engine.worker.drain(0)
        streams.close()
        server.should_exit = True


async def _hurry_on_second(signals: object, scope: anyio.CancelScope) -> None:
    async for _ in signals:  # type: ignore[attr-defined]
        scope.cancel()
        return


@contextmanager
def _listening(settings: Settings) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((settings.host, settings.port))
        except OSError as error:
            raise ConfigError(f"Cannot listen on {settings.host}:{settings.port}: {error.strerror}") from error
        listener.listen(2048)
        listener.setblocking(False)
        yield listener


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
