"""What uvicorn leaves open about one connection."""

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from threadwire.http.streaming import CUT

MAX_HEAD_BYTES = 64 * 1024
_TOO_LARGE = b'{"detail":"The request line and headers are larger than 64 kB."}'
_REFUSAL = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: application/json\r\n"
    b"content-length: " + str(len(_TOO_LARGE)).encode() + b"\r\n"
    b"connection: close\r\n\r\n" + _TOO_LARGE
)


class Connection(HttpToolsProtocol):
    """uvicorn's, with two differences. A response can break it off: whatever middleware is in between, nothing can end
    it properly then, and what the client does not read is not waited for. And a head has a limit: until it is complete
    everything that comes is kept, and looked at again with each piece."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._head: int | None = None
        """Bytes that have come of a head which is not complete."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head = 0
        self.scope[CUT] = self.transport.abort  # type: ignore[literal-required]

    def on_headers_complete(self) -> None:
        self._head = None
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head is not None and not self.transport.is_closing():
            self._head += len(data)
            if self._head > MAX_HEAD_BYTES:
                self.transport.write(_REFUSAL)
                self.transport.close()
