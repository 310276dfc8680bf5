"""The thread wire over a WebSocket: commands in, responses and the events of any number of subscriptions out."""

import re
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import structlog
from anyio.abc import TaskGroup
from fastapi import APIRouter
from starlette.websockets import WebSocket, WebSocketDisconnect

from threadwire.core.entries import Json
from threadwire.core.ids import Seq, ThreadId, parse_thread_id
from threadwire.core.json import dumps
from threadwire.engine.followers import Follower
from threadwire.engine.lifecycle import Engine
from threadwire.errors import Invalid, StorageError, ThreadwireError
from threadwire.http.json_socket import SERVICE_RESTART, JsonSocket, SlowReader, json_lines
from threadwire.http.problems import problem, status_of
from threadwire.http.streaming import HEARTBEAT, OpenStreams
from threadwire.protocols.langgraph.thread_wire import command_responses
from threadwire.protocols.langgraph.thread_wire.commands import agent_tree, execute, failure, find_run
from threadwire.protocols.langgraph.thread_wire.decode import (
    Command,
    CommandError,
    EventStreamBody,
    Reconnect,
    Unsubscribe,
    decode_command,
    decode_params,
)
from threadwire.protocols.langgraph.thread_wire.encode import ThreadWireEncoder
from threadwire.protocols.langgraph.thread_wire.following import follow
from threadwire.protocols.langgraph.thread_wire.subscription import Subscription

MAX_SUBSCRIPTIONS = 100
INTERNAL_ERROR = 1011

_SEQ = re.compile(rb'"seq":(\d+)')

logger = structlog.get_logger("threadwire.http")


def thread_socket_routes(router: APIRouter, engine: Engine, streams: OpenStreams) -> None:
    @router.websocket("/threads/{thread_id}/stream/events")
    async def connect(websocket: WebSocket, thread_id: str) -> None:
        try:
            found = parse_thread_id(thread_id)
        except ThreadwireError as error:
            await websocket.send_denial_response(problem(status_of(error), error.message))
            return
        await websocket.accept()
        with streams.track() as serving:
            socket = JsonSocket(websocket)
            try:
                with serving:
                    await ThreadSocket(engine, found, socket).serve()
                if serving.cancelled_caught:
                    await socket.close(SERVICE_RESTART, "the server is shutting down")
            except SlowReader:  # it can reconnect
                socket.abort()
            except StorageError as error:
                logger.warning("stream_aborted", error=error.message)
                await socket.close(INTERNAL_ERROR, "thread stream ended")


class ThreadSocket:
    """One connection. Commands are executed one after another, in the order in which they arrive.

    The events of all subscriptions are sent in the order of the log. Clients treat the end of a run as the end of all
    its events, whatever the subscription.
    """

    def __init__(self, engine: Engine, thread_id: ThreadId, socket: JsonSocket) -> None:
        self._engine = engine
        self._thread_id = thread_id
        self._socket = socket
        self._subscriptions: dict[str, Subscription] = {}
        self._delivery: _Delivery | None = None
        self._opened = 0
        self._last_seq = 0

    async def serve(self) -> None:
        """Serve until the client disconnects. Raises `SlowReader` and `StorageError`."""
        try:
            async with anyio.create_task_group() as tasks:
                await self._receive_all(tasks)
        except* WebSocketDisconnect:
            pass
        except* SlowReader:
            raise SlowReader() from None
        except* StorageError as errors:
            raise errors.exceptions[0] from None

    async def _receive_all(self, tasks: TaskGroup) -> None:
        while True:
            try:
                body = await self._socket.receive()
            except Invalid as error:
                await self._respond(command_responses.error(None, CommandError("invalid_argument", error.message)))
            else:
                await self._handle(tasks, body)

    async def _handle(self, tasks: TaskGroup, body: Any) -> None:
        command: Command | None = None
        try:
            command = decode_command(body)
            result = await self._execute(tasks, command)
        except CommandError as error:
            await self._respond(command_responses.error(None if command is None else command.id, error))
            return
        await self._respond(command_responses.success(command.id, result, self._last_seq))

    async def _respond(self, response: Json) -> None:
        await self._socket.send([dumps(response)])

    async def _execute(self, tasks: TaskGroup, command: Command) -> Json:
        match command.method:
            case "subscription.subscribe":
                return await self._subscribe(tasks, decode_params(EventStreamBody, command.params))
            case "subscription.unsubscribe":
                return await self._unsubscribe(tasks, decode_params(Unsubscribe, command.params).subscription_id)
            case "subscription.reconnect":
                return await self._reconnect(decode_params(Reconnect, command.params))
        return await execute(self._engine, self._thread_id, command)

    # -- subscriptions -------------------------------------------------------------------------------------------

    async def _subscribe(self, tasks: TaskGroup, body: EventStreamBody) -> Json:
        """Replay the events so far before the response, as clients expect, and send what happens afterwards."""
        if len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
            raise CommandError("invalid_argument", f"A connection has at most {MAX_SUBSCRIPTIONS} subscriptions.")
        position = await self._pause()
        try:
            subscription = body.subscription()
            replayed = await self._replay(subscription, body.position, upto=position)
        except StorageError:
            raise
        except Invalid as error:
            raise CommandError("invalid_argument", error.message) from None
        except ThreadwireError as error:
            raise failure(error) from error
        else:
            self._opened += 1
            subscription_id = f"sub-{self._opened}"
            self._subscriptions[subscription_id] = subscription
        finally:
            await self._continue(tasks, position)
        return {"subscription_id": subscription_id, "replayed_events": replayed}

    async def _replay(self, subscription: Subscription, after: Seq, upto: Seq) -> int:
        """Send the events up to the position of the other subscriptions, and return their number."""
        encoder, count = ThreadWireEncoder(subscription), 0
        with await self._engine.joins.past(self._thread_id, encoder, json_lines, after, upto) as past:
            while after < upto and (frames := await past.next(HEARTBEAT)) is not None:
                count += await self._send(frames)
        return count

    async def _unsubscribe(self, tasks: TaskGroup, subscription_id: str) -> Json:
        if subscription_id not in self._subscriptions:
            raise CommandError("no_such_subscription", f"Unknown subscription: {subscription_id[:100]}")
        position = await self._pause()
        del self._subscriptions[subscription_id]
        await self._continue(tasks, position)
        return {}

    async def _pause(self) -> Seq:
        """Stop sending events, and return the position in the log."""
        delivery, self._delivery = self._delivery, None
        stopped_at = None if delivery is None else await delivery.stop()
        last = await self._engine.joins.end_of(self._thread_id)
        return last if stopped_at is None else min(stopped_at, last)  # the thread may have been deleted

    async def _continue(self, tasks: TaskGroup, position: Seq) -> None:
        """Send the events of all subscriptions after a position."""
        if self._subscriptions:
            wanted = self._subscriptions.values()
            follower = await follow(self._engine, self._thread_id, wanted, position, json_lines)
            self._delivery = _Delivery(follower)
            tasks.start_soon(self._delivery.run, self._send)

    async def _send(self, frames: list[bytes]) -> int:
        lines = [line for frame in frames for line in frame.split(b"\n")]
        if lines:
            await self._socket.send(lines)
            last = _SEQ.search(lines[-1])
            assert last is not None, "every event has a seq"
            self._last_seq = max(self._last_seq, int(last[1]))
        return len(lines)

    async def _reconnect(self, wanted: Reconnect) -> Json:
        """Subscriptions end with their connection, so those of an earlier connection cannot be restored."""
        run = await find_run(self._engine, self._thread_id, wanted.run_id)
        tree = await agent_tree(self._engine, run)
        restored = bool(wanted.subscriptions) and all(each in self._subscriptions for each in wanted.subscriptions)
        return {"restored": restored, "current_namespaces": tree.statuses()}


class _Delivery:
    """Sends the events of a connection until it is stopped or the thread is deleted."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._waiting = anyio.CancelScope()
        self._stopped = False
        self._ended = anyio.Event()

    async def run(self, send: Callable[[list[bytes]], Awaitable[object]]) -> None:
        try:
            with self._follower:
                while (frames := await self._next()) is not None:
                    await send(frames)
        finally:
            self._ended.set()

    async def _next(self) -> list[bytes] | None:
        """Return the next events, or None at the end. Only waiting is cancelled: what was taken must be sent."""
        if self._stopped:
            return None
        with anyio.CancelScope() as self._waiting:
            return await self._follower.next(HEARTBEAT)
        return None

    async def stop(self) -> Seq:
        """Return the position after the last event that was sent."""
        self._stopped = True
        self._waiting.cancel()
        await self._ended.wait()
        return self._follower.position
