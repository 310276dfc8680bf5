"""The loopback of a worker process: requests of the project's code, executed by the process that serves the API.

The two sides exchange what `Exchange` does within a process: the request, then the messages of the response one by one,
each after the caller has taken the previous one.
"""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

import httpx
from starlette.types import Scope

from threadwire.core.users import User
from threadwire.http.loopback import CUT_OFF, Exchange, Loopback, Outcome
from threadwire.ipc.channel import Channel


class RemoteLoopback(Loopback):
    """In the worker: sends requests to the process that serves the API."""

    def __init__(self, channel: Channel, loop: asyncio.AbstractEventLoop) -> None:
        self._channel = channel
        self._loop = loop
        self._numbers = count(1)
        self._waiting: dict[int, Callable[[Outcome], object]] = {}
        channel.on_notification("http_message", self._receive)

    def start_as(
        self, user: User | None, scope: Scope, body: bytes, deliver: Callable[[Outcome], object]
    ) -> "RemoteExchange":
        number = next(self._numbers)
        self._waiting[number] = deliver
        self._channel.notify("http_request", number, user, scope, body)
        return RemoteExchange(self._channel, number)

    def _receive(self, number: int, message: Any, cut_off: bool) -> None:
        is_last = message is None
        deliver = self._waiting.pop(number, None) if is_last else self._waiting.get(number)
        if deliver is not None:
            deliver(httpx.RemoteProtocolError(CUT_OFF) if cut_off else message)


class RemoteExchange(Exchange):
    def __init__(self, channel: Channel, number: int) -> None:
        self._channel = channel
        self._number = number

    def take(self) -> None:
        self._channel.notify("http_take", self._number)

    def close(self) -> None:
        self._channel.notify("http_close", self._number)


class LoopbackService:
    """In the process that serves the API: executes the requests of one worker."""

    def __init__(self, loopback: Loopback, channel: Channel) -> None:
        self._loopback = loopback
        self._channel = channel
        self._exchanges: dict[int, Exchange] = {}
        channel.on_notification("http_request", self._start)
        channel.on_notification("http_take", self._take)
        channel.on_notification("http_close", self._close)
        channel.on_end(self.close)

    def _start(self, number: int, user: User | None, scope: Scope, body: bytes) -> None:
        exchange = self._loopback.start_as(user, scope, body, lambda outcome: self._send(number, outcome))
        self._exchanges[number] = exchange

    def _send(self, number: int, outcome: Outcome) -> None:
        cut_off = isinstance(outcome, httpx.RemoteProtocolError)
        if outcome is None or cut_off:
            self._exchanges.pop(number, None)
            self._channel.notify("http_message", number, None, cut_off)
        else:
            self._channel.notify("http_message", number, outcome, False)

    def _take(self, number: int) -> None:
        if (exchange := self._exchanges.get(number)) is not None:
            exchange.take()

    def _close(self, number: int) -> None:
        if (exchange := self._exchanges.pop(number, None)) is not None:
            exchange.close()

    def close(self) -> None:
        """Disconnect every request of a worker that has ended."""
        for exchange in self._exchanges.values():
            exchange.close()
        self._exchanges.clear()
