"""How messages between the processes of one server are encoded.

A frame is a short header and a pickled value. Pickle keeps the types of our records and is fast, but it can construct
any object. So only values of our own modules are loaded: a worker executes the project's code, and what it sends must
not execute anything in the process that owns the database.
"""

import io
import pickle
import socket
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from threadwire.errors import ConnectionLost, ForbiddenType

_HEADER = struct.Struct("!IBQ")
_MODULES = ("threadwire.core.", "threadwire.errors", "threadwire.engine.graph_operations")
_BUILTINS = frozenset({"frozenset", "set", "complex", "bytearray"})


class Frame(NamedTuple):
    kind: int
    number: int
    """Matches a response to its request."""
    body: bytes

    def content(self) -> Any:
        """Return the unpickled value. Raises `ForbiddenType`."""
        return _Unpickler(io.BytesIO(self.body)).load()


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module.startswith(_MODULES) or (module == "builtins" and name in _BUILTINS):
            return super().find_class(module, name)
        raise ForbiddenType(f"A message between processes contains {module}.{name}, which is not allowed.")


def encode(kind: int, number: int, content: Any) -> bytes:
    body = pickle.dumps(content, protocol=5)
    return _HEADER.pack(len(body), kind, number) + body


class FrameReader:
    """Splits a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are complete now."""
        self._buffer += data
        start = 0
        try:
            while (frame := self._next(start)) is not None:
                start += _HEADER.size + len(frame.body)
                yield frame
        finally:
            del self._buffer[:start]

    def _next(self, start: int) -> Frame | None:
        body = start + _HEADER.size
        if len(self._buffer) < body:
            return None
        length, kind, number = _HEADER.unpack_from(self._buffer, start)
        end = body + length
        if len(self._buffer) < end:
            return None
        with memoryview(self._buffer) as view:
            return Frame(kind, number, bytes(view[body:end]))


def write_value(sock: socket.socket, value: Any) -> None:
    """Send a value before a channel uses the socket."""
    sock.setblocking(True)
    sock.sendall(encode(0, 0, value))
    sock.setblocking(False)


def read_value(sock: socket.socket) -> Any:
    """Receive a value before a channel uses the socket."""
    length, kind, number = _HEADER.unpack(_read_exactly(sock, _HEADER.size))
    return Frame(kind, number, _read_exactly(sock, length)).content()


def _read_exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            raise ConnectionLost()
        data += part
    return data
