"""The stream of one run, selected from the events of its thread."""

from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType

import anyio

from threadwire.core.ids import RunId
from threadwire.engine.followers import Follower
from threadwire.protocols.chatkit import wire

_TAG = 1 + len(wire.NO_RUN)

Personalize = Callable[[bytes], Awaitable[bytes]]
"""Returns frames, which all readers of the thread share, as this client needs them."""

Closing = Callable[[], Awaitable[Sequence[bytes]]]
"""Returns the events that follow the last one of the run."""


def frames_of(events: Sequence[bytes]) -> bytes:
    return b"".join(b"data: %b\n\n" % event for event in events)


class RunEvents:
    """The source of a response: the events of one run, and those that belong to no run, up to the end of the run."""

    def __init__(
        self, follower: Follower, run_id: RunId, sent: Sequence[bytes], personalize: Personalize, closing: Closing
    ) -> None:
        self._follower = follower
        self._run_id = run_id.encode()
        self._token_tag = b"." + self._run_id
        self._sent = {b"data: %b\n\n" % event for event in sent}
        """Events that the client already has. They occur again in the log, and are skipped there."""
        self._personalize = personalize
        self._closing = closing
        self.finished = False

    def __enter__(self) -> "RunEvents":
        self._follower.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._follower.__exit__(kind, error, trace)

    async def next(self, timeout: float) -> list[bytes] | None:
        deadline = anyio.current_time() + timeout
        while not self.finished:
            frames = await self._follower.next(max(0.0, deadline - anyio.current_time()))
            if frames is None:  # the thread was deleted
                self.finished = True
                return None
            selected = [await self._personalize(body) for frame in frames if (body := self._selected(frame))]
            if self.finished:
                return [*selected, frames_of(await self._closing())]
            if selected or not frames:
                return selected
        return None

    def _selected(self, frame: bytes) -> bytes:
        if frame.startswith(self._token_tag) and not (self._sent or self.finished):  # nearly every frame
            return frame[_TAG:]
        run_id = frame[1:_TAG]
        if self.finished or run_id not in (self._run_id, wire.NO_RUN):
            return b""
        self.finished = frame.startswith(b"!")
        body = frame[_TAG:]
        for event in self._sent:
            if event in body:
                body = body.replace(event, b"", 1)
                self._sent = self._sent - {event}
                break
        return body
