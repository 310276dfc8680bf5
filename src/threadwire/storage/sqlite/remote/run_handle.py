"""A worker process's handle on a run."""

from collections.abc import Callable, Sequence

from langgraph.checkpoint.serde.base import SerializerProtocol

from threadwire.core.entries import Draft
from threadwire.core.records import Durability, Ending, Run
from threadwire.errors import Fenced, ThreadwireError
from threadwire.ipc.channel import Channel
from threadwire.storage.segments import encode
from threadwire.storage.sqlite.remote.saver import RemoteSaver


class RemoteCommit:
    """What has been appended so far."""

    __slots__ = ("_handle",)

    def __init__(self, handle: "RemoteRunHandle") -> None:
        self._handle = handle

    async def wait(self) -> None:
        await self._handle.wait_for_commit()


class RemoteRunHandle:
    """Writes are sent without waiting, so a rejected one is noticed only later. From then on, every further write
    raises the same error."""

    __slots__ = ("__weakref__", "_channel", "_clock", "_closed", "_error", "_fence", "_serde", "run")

    def __init__(self, run: Run, channel: Channel, serde: SerializerProtocol, clock: Callable[[], int]) -> None:
        self.run = run
        self._channel = channel
        self._serde = serde
        self._clock = clock
        self._fence = tuple(run.fence)
        self._closed = False
        self._error: ThreadwireError | None = None
        channel.notify("open_attempt", run)

    def append(self, drafts: Sequence[Draft]) -> RemoteCommit:
        self.require_open()
        entries = [(str(kind), data, ns, at) for kind, data, ns, at in encode(drafts, self._clock)]
        self._channel.notify("append", self._fence, entries)
        return RemoteCommit(self)

    def require_open(self) -> None:
        """Raise if the attempt can no longer write."""
        if self._error is not None:
            raise type(self._error)(*self._error.args)
        if self._closed:
            raise Fenced()

    def fail(self, error: ThreadwireError) -> None:
        """Called when a write was rejected."""
        self._error = self._error or error

    async def wait_for_commit(self) -> None:
        await self._channel.request("wait_for_commit", self._fence)

    @property
    def queue_full(self) -> bool:
        return self._channel.is_full

    async def wait_for_room(self) -> None:
        await self._channel.wait_for_room()

    def saver(self, durability: Durability = "async") -> RemoteSaver:
        return RemoteSaver(self._channel, self._serde, self, durability)

    async def flush(self) -> None:
        await self._channel.request("flush", self._fence)

    def flush_blocking(self) -> None:
        self._channel.request_blocking("flush", self._fence)

    async def finish(self, ending: Ending, now: int, *, force: bool = False) -> bool:
        self._closed = True  # a node that is still running must not write after the run has ended
        finished: bool = await self._channel.request("finish", self._fence, ending, now, force)
        return finished

    async def release(self, now: int) -> bool:
        self._closed = True
        released: bool = await self._channel.request("release", self._fence, now)
        return released
