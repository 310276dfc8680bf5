"""The listening socket. It is opened before any slow import: while a restarted server loads its graphs, reconnecting
clients wait in the backlog instead of being rejected."""

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from threadwire.errors import ConfigError

OTHER_PORTS = 20
"""How many further ports to try if the default one is in use."""

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@contextmanager
def listening(host: str, port: int, *, beyond_loopback: bool, or_next: bool = False) -> Iterator[socket.socket]:
    """Open a socket on that port or, with `or_next`, on the next free one. Only with `beyond_loopback` may other
    machines reach it."""
    _require_loopback(host, beyond_loopback)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _bind(listener, host, port, port + OTHER_PORTS if or_next else port)
        listener.listen(2048)
        listener.setblocking(False)
        yield listener


def _bind(listener: socket.socket, host: str, port: int, last: int) -> None:
    try:
        listener.bind((host, port))
    except OverflowError as error:
        raise ConfigError(f"Cannot listen on {host}:{port}: the port must be between 0 and 65535") from error
    except OSError as error:
        if error.errno != errno.EADDRINUSE or port >= last:
            raise ConfigError(f"Cannot listen on {host}:{port}: {error.strerror}") from error
        _bind(listener, host, port + 1, last)


def _require_loopback(host: str, beyond_loopback: bool) -> None:
    if host not in LOOPBACK and not beyond_loopback:
        raise ConfigError(
            f'Cannot listen on {host} without authentication. Add "auth" to the project file, create an API key with'
            " `threadwire keys create`, or pass --insecure-no-auth if a proxy authenticates clients."
        )


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
