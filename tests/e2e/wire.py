"""A plain client of the thread wire, over HTTP or a WebSocket, without an SDK."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import anyio
import httpx
from clients import TIMEOUT, fresh_id
from websockets.asyncio.client import ClientConnection, connect

CHANNELS = ["values", "updates", "messages", "tools", "custom", "lifecycle", "input", "checkpoints", "tasks"]
TERMINAL = ("completed", "failed", "interrupted")

Event = dict[str, Any]


def is_root_end(event: Event) -> bool:
    params = event["params"]
    return event["method"] == "lifecycle" and not params["namespace"] and params["data"]["event"] in TERMINAL


def ends(count: int) -> Callable[[Event], bool]:
    """Whether this is the end of the `count`th run."""
    seen = iter(range(1, count + 1))
    return lambda event: is_root_end(event) and next(seen) == count


def data_of(events: list[Event], method: str) -> list[Any]:
    return [event["params"]["data"] for event in events if event["method"] == method]


def statuses(events: list[Event]) -> list[str]:
    """The statuses of the root."""
    return [each["params"]["data"]["event"] for each in events if each["method"] == "lifecycle" and not _ns(each)]


def text_of(events: list[Event]) -> str:
    deltas = [each["delta"] for each in data_of(events, "messages") if each["event"] == "content-block-delta"]
    return "".join(delta.get("text", "") for delta in deltas)


def _ns(event: Event) -> list[str]:
    return event["params"]["namespace"]


class WireThread:
    """One thread over HTTP."""

    def __init__(self, http: httpx.AsyncClient, thread_id: str | None = None) -> None:
        self._http = http
        self.thread_id = thread_id or fresh_id()
        self._commands = 0

    async def command(self, method: str, **params: Any) -> Any:
        """Send a command, and return its response."""
        self._commands += 1
        number = self._commands
        body = {"id": number, "method": method, "params": params}
        response = await self._http.post(f"/threads/{self.thread_id}/commands", json=body)
        assert response.status_code == 200, response.text
        reply = response.json()
        assert reply["id"] == number
        return reply

    async def result(self, method: str, **params: Any) -> Any:
        reply = await self.command(method, **params)
        assert reply["type"] == "success", reply
        assert reply["meta"] == {"applied_through_seq": 0}
        return reply["result"]

    async def start(self, assistant: str, input: Any, **params: Any) -> str:
        return (await self.result("run.start", assistant_id=assistant, input=input, **params))["run_id"]

    @asynccontextmanager
    async def open(self, *channels: str, **body: Any) -> AsyncIterator[AsyncIterator[Event]]:
        path, body = f"/threads/{self.thread_id}/stream/events", {"channels": list(channels or CHANNELS), **body}
        async with self._http.stream("POST", path, json=body) as response:
            assert response.status_code == 200, await response.aread()
            async with aclosing(_events(response)) as events:
                yield events

    async def events(self, until: Callable[[Event], bool], *channels: str, **body: Any) -> list[Event]:
        """The events up to the first one for which `until` is true."""
        async with self.open(*channels, **body) as events:
            return await take(events, until)


async def take(events: AsyncIterator[Event], until: Callable[[Event], bool]) -> list[Event]:
    taken = []
    with anyio.fail_after(TIMEOUT):
        async for event in events:
            taken.append(event)
            if until(event):
                break
    return taken


async def _events(response: httpx.Response) -> AsyncIterator[Event]:
    frame: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            frame[name] = value
        elif "data" in frame:
            event = json.loads(frame["data"])
            assert frame["event"] == event["method"]
            if "id" in frame:
                assert frame["id"] == str(event["seq"])
            yield event
            frame = {}


class WireSocket:
    """A connection to a thread over a WebSocket."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.events: list[Event] = []
        self._commands = 0

    async def command(self, method: str, **params: Any) -> Any:
        """Send a command, and return its response. Events that arrive before are added to `events`."""
        self._commands += 1
        await self.socket.send(json.dumps({"id": self._commands, "method": method, "params": params}))
        return await self.reply()

    async def reply(self) -> Any:
        with anyio.fail_after(TIMEOUT):
            while (message := json.loads(await self.socket.recv()))["type"] == "event":
                self.events.append(message)
        return message

    async def result(self, method: str, **params: Any) -> Any:
        reply = await self.command(method, **params)
        assert reply["type"] == "success", reply
        return reply["result"]

    async def until(self, wanted: Callable[[Event], bool]) -> list[Event]:
        """All events of the connection up to the first one for which `wanted` is true."""
        if not any(wanted(event) for event in self.events):
            with anyio.fail_after(TIMEOUT):
                while not wanted(event := json.loads(await self.socket.recv())):
                    self.events.append(event)
                self.events.append(event)
        return self.events


@asynccontextmanager
async def open_socket(url: str, thread_id: str, **options: Any) -> AsyncIterator[WireSocket]:
    address = url.replace("http://", "ws://")
    async with connect(f"{address}/threads/{thread_id}/stream/events", **options) as socket:
        yield WireSocket(socket)
