"""Reading the body of an ASGI request, and passing a body on."""

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive


async def read_body(receive: Receive) -> bytes:
    """Raises `ClientDisconnect`."""
    chunks: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect()
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def body_first(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that first returns the body, then the client's further messages, such as its disconnect."""
    received = False

    async def receive_body_first() -> Message:
        nonlocal received
        if received:
            return await receive()
        received = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_body_first
