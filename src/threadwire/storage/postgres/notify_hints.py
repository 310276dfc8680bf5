"""Hints through PostgreSQL itself: one NOTIFY for everything that has been committed since the last one.

A notification carries small segments, like a Redis message, so that followers need not read them from the table. It
is sent after the commit and by a connection of its own, because all transactions that notify are committed one after
the other. What they announce is durable already, so these commits do not wait for the disk.
"""

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress

import asyncpg
import structlog

from threadwire.core.ids import Seq, ThreadId
from threadwire.core.records import QueueHint
from threadwire.storage.postgres.connections import Connection, connect
from threadwire.storage.postgres.failures import LOST
from threadwire.storage.postgres.hints import HintReceiver, HintTransport, SegmentHint, unknown_growth

_CHANNEL = "threadwire"
_MAX_PAYLOAD = 7900
"""Bytes. PostgreSQL allows 7999."""
_MAX_SEGMENT = 4000
"""Bytes. Followers read a larger segment from the table."""
_MAX_QUEUED = 32 * 1024
"""Bytes of segments that wait to be sent. If there are more, only the ids of their threads are sent."""
_NOTIFY = "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload"
_RECONNECT_INTERVAL = 0.5
_PING_INTERVAL = 5.0
_TIMEOUT = 5.0
"""Seconds after which a connection that does not respond counts as lost."""

_log = structlog.get_logger(__name__)


class NotifyHints:
    def __init__(self, dsn: str, receiver: HintReceiver) -> None:
        self._dsn = dsn
        self._receiver = receiver
        self._loop = asyncio.get_running_loop()
        self._watched: set[ThreadId] = set()
        self._segments: list[SegmentHint] = []
        self._bytes = 0
        self._queue = QueueHint.NOTHING
        self._changed = asyncio.Event()
        self._connection: Connection | None = None
        self.missed = 0

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    def publish(self, segments: Sequence[SegmentHint], queue: QueueHint = QueueHint.NOTHING) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._add, segments, queue)

    def watch(self, thread_id: ThreadId) -> None:
        self._watched.add(thread_id)

    def unwatch(self, thread_id: ThreadId) -> None:
        self._watched.discard(thread_id)

    def _add(self, segments: Sequence[SegmentHint], queue: QueueHint) -> None:
        if self._connection is None:
            self.missed += 1
            return
        self._segments += segments
        self._bytes += sum(len(hint.segment) for hint in segments)
        if self._bytes > _MAX_QUEUED:
            self._segments = [*map(unknown_growth, {hint.thread_id for hint in self._segments})]
        self._queue |= queue
        self._changed.set()

    async def listen(self) -> None:
        connection = await connect(self._dsn, command_timeout=_TIMEOUT)
        await connection.execute("SET synchronous_commit TO off")
        await connection.add_listener(_CHANNEL, self._receive)
        self._connection = connection

    async def work(self) -> None:
        """Send what is published, and reconnect whenever the connection is lost."""
        while True:
            try:
                if self._connection is None:
                    await self.listen()
                    self._receiver.hints_missed()
                assert self._connection is not None
                await self._send(self._connection)
            except (*LOST, asyncpg.PostgresError) as error:
                _log.warning("notifications_lost", error=str(error))
            finally:
                if self._connection is not None:
                    self._connection.terminate()
                    self._connection = None
            await asyncio.sleep(_RECONNECT_INTERVAL)

    async def _send(self, connection: Connection) -> None:
        connection.add_termination_listener(lambda _: self._changed.set())
        while not connection.is_closed():
            try:
                async with asyncio.timeout(_PING_INTERVAL):
                    await self._changed.wait()
            except TimeoutError:  # check that the server still responds
                await connection.execute("SELECT 1")
                continue
            self._changed.clear()
            if not connection.is_closed():
                await self._notify(connection)

    async def _notify(self, connection: Connection) -> None:
        segments, self._segments, self._bytes = self._segments, [], 0
        queue, self._queue = self._queue, QueueHint.NOTHING
        await connection.execute(_NOTIFY, _CHANNEL, [*_payloads(queue, segments)])

    def _receive(self, connection: object, backend: int, channel: str, payload: object) -> None:
        own = self._connection
        if own is not None and backend == own.get_server_pid():
            return
        queue, *segments = json.loads(str(payload))
        for thread_id, first, count, segment in segments:
            if thread_id not in self._watched:  # every process receives all notifications
                continue
            self._receiver.segment_committed(SegmentHint(ThreadId(thread_id), Seq(first), count, b64decode(segment)))
        if queue:
            self._receiver.queue_changed(QueueHint(queue))


def _payloads(queue: QueueHint, segments: Sequence[SegmentHint]) -> Iterator[str]:
    """Divide hints among as few notifications as possible. The first one carries the hint about the queue."""
    payload = str(queue.value)
    for hint in segments:
        encoded = _encoded(hint)
        if len(payload) + len(encoded) > _MAX_PAYLOAD:
            yield f"[{payload}]"
            payload = str(QueueHint.NOTHING.value)
        payload += f",{encoded}"
    yield f"[{payload}]"


def _encoded(hint: SegmentHint) -> str:
    segment = hint.segment if len(hint.segment) <= _MAX_SEGMENT else b""
    return json.dumps([hint.thread_id, hint.first_seq, hint.count, b64encode(segment).decode()])


@asynccontextmanager
async def open_notify_hints(dsn: str, receiver: HintReceiver) -> AsyncIterator[HintTransport]:
    hints = NotifyHints(dsn, receiver)
    await hints.listen()
    working = asyncio.ensure_future(hints.work())
    try:
        yield hints
    finally:
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working
