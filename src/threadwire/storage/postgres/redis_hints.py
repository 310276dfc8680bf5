"""Hints over the pub/sub of Redis or Valkey.

Redis stores nothing for us. A message that is lost, late or repeated changes when followers read, never what they read:
a gap is filled from PostgreSQL. So nothing here retries a message. While the connection is down, hints are counted as
missed and dropped.

Only PUBLISH, SUBSCRIBE, UNSUBSCRIBE and PING are used, which Redis 6.2 and Valkey 7.2 have in common.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from struct import Struct
from struct import error as StructError
from typing import Any, TypeVar

import structlog
from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from threadwire.core.addresses import redacted
from threadwire.core.ids import Seq, ThreadId
from threadwire.core.records import QueueHint
from threadwire.errors import ConfigError
from threadwire.storage.postgres.hints import HintReceiver, HintTransport, SegmentHint, unknown_growth

logger = structlog.get_logger("threadwire.hints")

TIMEOUT = 2.0
"""Seconds to connect, to send a command, and to wait for its response."""
PING_INTERVAL = 2.0
"""Seconds between two pings of the subscription. Two unanswered ones mean that the connection is dead."""
RECONNECT_DELAY = 0.5
CANCEL_INTERVAL = 0.1
"""Seconds until a task that has not ended is cancelled again."""
MAX_QUEUED = 10_000
"""Messages that wait to be sent. Further ones are dropped."""
MAX_SEGMENT_BYTES = 64 * 1024
"""Followers read a larger segment from PostgreSQL."""
MAX_PER_PIPELINE = 200

_HEADER = Struct("<QI")
"""The first sequence number of a segment, and how many entries it has."""

T = TypeVar("T")
_Message = tuple[bytes, bytes]
"""A channel and what to publish in it."""


@asynccontextmanager
async def open_redis_hints(url: str, deployment: str, receiver: HintReceiver) -> AsyncIterator[HintTransport]:
    """Publish and receive hints until the block ends, on the current event loop. Redis need not be reachable.

    `deployment` identifies the database, so that servers of different databases can share a Redis. Raises `ConfigError`
    if the URL is invalid.
    """
    try:
        client = Redis.from_url(
            url,
            socket_timeout=TIMEOUT,
            socket_connect_timeout=TIMEOUT,
            retry=_NoRetry(NoBackoff(), 0),
            protocol=2,
        )
    except ValueError as error:
        raise ConfigError(f"{redacted(url)} is not the address of a Redis server: {error}.") from None
    hints = RedisHints(client, redacted(url), f"threadwire:{deployment}".encode(), receiver)
    tasks = [asyncio.create_task(hints.send_forever()), asyncio.create_task(hints.receive_forever())]
    try:
        yield hints
    finally:
        await _end(tasks)
        await client.aclose()


class _NoRetry(Retry):
    """Neither repeats a command nor connects again. redis-py connects again after every error, even if it does not
    repeat the command. If a connection is lost while a command is sent, its reader and its writer would do so at the
    same time."""

    async def call_with_retry(self, do: Callable[[], Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        return await do()


async def _end(tasks: "Sequence[asyncio.Task[None]]") -> None:
    """Cancel the tasks until they have ended.

    Once is not enough. Before Python 3.12, `asyncio.wait_for` suppresses a cancellation that arrives when what it waits
    for has just ended, and redis-py uses it to send commands.
    """
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=CANCEL_INTERVAL)


class RedisHints:
    def __init__(self, client: Redis, address: str, prefix: bytes, receiver: HintReceiver) -> None:
        self._client = client
        self._address = address
        self._prefix = prefix
        self._queue_channel = prefix + b":queue"
        self._thread_prefix = prefix + b":thread:"
        self._receiver = receiver
        self._loop = asyncio.get_running_loop()
        self._watched: set[ThreadId] = set()
        self._outbox: deque[_Message] = deque()
        self._has_mail = asyncio.Event()
        self._is_subscribed = False
        self._was_lost = False
        self._receiving: PubSub | None = None
        self._changed = asyncio.Event()
        """Set when the watched threads are no longer the subscribed ones."""
        self._can_send = True
        self.missed = 0

    @property
    def is_connected(self) -> bool:
        return self._is_subscribed and self._can_send

    # Sending

    def publish(self, segments: Sequence[SegmentHint], queue: QueueHint = QueueHint.NOTHING) -> None:
        messages = [(self._channel(hint.thread_id), _encoded(hint)) for hint in segments]
        if queue:
            messages.append((self._queue_channel, str(queue.value).encode()))
        with suppress(RuntimeError):  # the loop is closed, so nothing is sent any more
            self._loop.call_soon_threadsafe(self._enqueue, messages)

    def _enqueue(self, messages: list[_Message]) -> None:
        accepted = max(0, MAX_QUEUED - len(self._outbox)) if self._can_send else 0
        self.missed += max(0, len(messages) - accepted)
        self._outbox.extend(messages[:accepted])
        self._has_mail.set()

    async def send_forever(self) -> None:
        while True:
            await self._has_mail.wait()
            self._has_mail.clear()
            while self._outbox:
                await self._send_some()

    async def _send_some(self) -> None:
        batch = [self._outbox.popleft() for _ in range(min(len(self._outbox), MAX_PER_PIPELINE))]
        pipeline = self._client.pipeline(transaction=False)
        for channel, message in batch:
            pipeline.publish(channel, message)
        try:
            await pipeline.execute()
        except (RedisError, OSError) as error:
            self.missed += len(batch) + len(self._outbox)
            self._outbox.clear()
            await self._wait_until_sending_works(error)

    async def _wait_until_sending_works(self, error: Exception) -> None:
        self._can_send = False
        logger.warning("redis_write_failed", address=self._address, error=str(error) or type(error).__name__)
        while not self._can_send:
            await asyncio.sleep(RECONNECT_DELAY)
            with suppress(RedisError, OSError):
                await self._client.ping()
                self._can_send = True

    # Receiving

    def watch(self, thread_id: ThreadId) -> None:
        self._watched.add(thread_id)
        self._changed.set()

    def unwatch(self, thread_id: ThreadId) -> None:
        self._watched.discard(thread_id)
        self._changed.set()

    async def receive_forever(self) -> None:
        """Receive, and connect again after every error. A connection that is lost while a command is sent may raise
        anything."""
        while True:
            try:
                async with self._client.pubsub() as connection:
                    await self._receive(connection)
            except* Exception as group:
                self._disconnected(group.exceptions[0])
            await asyncio.sleep(RECONNECT_DELAY)

    async def _receive(self, connection: PubSub) -> None:
        """Receive until the connection fails. A dead connection is one on which not even pings are answered."""
        async with asyncio.timeout(TIMEOUT):
            await connection.subscribe(self._queue_channel)
        self._connected()
        async with asyncio.TaskGroup() as tasks:
            self._receiving = connection
            tasks.create_task(self._subscribe_forever(connection))
            try:
                while True:
                    async with asyncio.timeout(2 * PING_INTERVAL):
                        message = await connection.get_message(timeout=None)
                    if message is not None:
                        self._deliver(message)
            finally:
                self._receiving = None
                self._changed.set()

    async def _subscribe_forever(self, connection: PubSub) -> None:
        """Subscribe to the watched threads, and unsubscribe from all others, until the connection is given up.

        Being cancelled is not enough to end this: sending a command may suppress the cancellation (see `_end`).
        """
        subscribed: set[ThreadId] = set()
        self._changed.set()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(PING_INTERVAL):
                    await self._changed.wait()
            if self._receiving is not connection:
                return
            self._changed.clear()
            added, removed = self._watched - subscribed, subscribed - self._watched
            if added:
                await connection.subscribe(*map(self._channel, added))
            if removed:
                await connection.unsubscribe(*map(self._channel, removed))
            if not added and not removed:
                await connection.ping()
            subscribed = (subscribed | added) - removed

    def _deliver(self, message: Mapping[str, Any]) -> None:
        channel, data = message["channel"], message["data"]
        match message["type"]:
            case "message" if channel == self._queue_channel:
                self._receiver.queue_changed(_decoded_queue_hint(data))
            case "message":
                self._receiver.segment_committed(_decoded(self._thread_of(channel), data))
            case "subscribe" if channel != self._queue_channel:
                self._receiver.watch_began(self._thread_of(channel))

    def _connected(self) -> None:
        self._is_subscribed = True
        if self._was_lost:
            self._was_lost = False
            logger.info("redis_connected", address=self._address)
            self._receiver.hints_missed()

    def _disconnected(self, error: BaseException) -> None:
        self._is_subscribed = False
        if not self._was_lost:
            self._was_lost = True
            logger.warning("redis_lost", address=self._address, error=str(error) or type(error).__name__)

    def _channel(self, thread_id: ThreadId) -> bytes:
        return self._thread_prefix + thread_id.encode(errors="surrogatepass")

    def _thread_of(self, channel: bytes) -> ThreadId:
        return ThreadId(channel[len(self._thread_prefix) :].decode(errors="surrogatepass"))


def _encoded(hint: SegmentHint) -> bytes:
    segment = hint.segment if len(hint.segment) <= MAX_SEGMENT_BYTES else b""
    return _HEADER.pack(hint.first_seq, hint.count) + segment


def _decoded(thread_id: ThreadId, message: bytes) -> SegmentHint:
    """Other programs can publish too: a message that is not a hint of ours only wakes the thread's watchers."""
    try:
        first_seq, count = _HEADER.unpack_from(message)
    except StructError:
        return unknown_growth(thread_id)
    return SegmentHint(thread_id, Seq(first_seq), count, message[_HEADER.size :])


def _decoded_queue_hint(message: bytes) -> QueueHint:
    try:
        return QueueHint(int(message))
    except ValueError:
        return QueueHint.WORK | QueueHint.STOPS
