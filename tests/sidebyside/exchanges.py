"""Raw HTTP with a record of requests and responses: no SDK stands between a scenario and the wire."""

import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx

TIMEOUT = 60.0
"""Seconds a scenario waits for an event. The stock server takes one second to start a run, more under load."""

HEADERS = (
    "content-type",
    "location",
    "content-location",
    "x-pagination-total",
    "x-pagination-next",
    "cache-control",
    "x-accel-buffering",
)
"""The headers that clients read. The others come from the HTTP server."""

Frame = dict[str, Any]


class Wire:
    """One server as a scenario sees it. Methods named after HTTP methods are recorded; the others are not."""

    def __init__(self, client: httpx.AsyncClient, folder: Path) -> None:
        self._client = client
        self.exchanges: list[dict[str, Any]] = []
        self.mark = uuid.uuid4().hex
        """A unique tag that distinguishes the rows of this scenario from those of others."""
        self._gate = folder / self.mark

    # -- recorded

    async def get(self, path: str, **options: Any) -> Any:
        return await self.request("GET", path, **options)

    async def post(self, path: str, body: Any = None, **options: Any) -> Any:
        return await self.request("POST", path, body, **options)

    async def put(self, path: str, body: Any = None, **options: Any) -> Any:
        return await self.request("PUT", path, body, **options)

    async def patch(self, path: str, body: Any = None, **options: Any) -> Any:
        return await self.request("PATCH", path, body, **options)

    async def delete(self, path: str, body: Any = None, **options: Any) -> Any:
        return await self.request("DELETE", path, body, **options)

    async def request(self, method: str, path: str, body: Any = None, *, ids: bool = False, **options: Any) -> Any:
        """Return the body of the response: parsed JSON, frames or text. Frames include their ids only with `ids`."""
        response = await self._request(method, path, body, **options)
        exchange = _describe(method, path, response)
        if _is_stream(response):
            exchange["frames"] = frames(response.text, ids=ids)
        else:
            exchange["body"] = _content(response)
        self.exchanges.append(exchange)
        return exchange.get("frames", exchange.get("body"))

    @asynccontextmanager
    async def open(
        self, path: str, *, method: str = "GET", recorded: bool = True, **options: Any
    ) -> AsyncIterator["OpenStream"]:
        """Open a stream to read frame by frame. Leaving the block closes it. The frames read are recorded."""
        async with self._client.stream(method, path, **options) as response:
            read: list[Frame] = []
            exchange = _describe(method, path, response)
            if _is_stream(response):
                exchange["frames"] = read
            else:
                await response.aread()
                exchange["body"] = _content(response)
            if recorded:
                self.exchanges.append(exchange)
            yield OpenStream(response, read)

    # -- not recorded

    async def thread(self, **body: Any) -> str:
        """Create a thread and return its id."""
        return str((await self.unrecorded("POST", "/threads", body))["thread_id"])

    async def thread_after_run(self, graph: str, given: Any, *, thread: str | None = None, **body: Any) -> str:
        """Execute a run on `thread`, by default a new one, and return the thread's id once the run has ended."""
        thread = thread or await self.thread()
        await self.unrecorded("POST", f"/threads/{thread}/runs/wait", {"assistant_id": graph, "input": given, **body})
        return thread

    async def start_slow_run(self, thread: str, **body: Any) -> str:
        """Start a run of the graph `slow` and return its id. Its second node waits until `finish` is called."""
        run = await self.start_run(thread, {"assistant_id": "slow", "input": self.slow, **body})
        await self.until(lambda: self._is_waiting(thread))
        return run

    async def _is_waiting(self, thread: str) -> bool:
        return (await self.unrecorded("GET", f"/threads/{thread}/state"))["next"] == ["wait"]

    async def start_run(self, thread: str, body: Any) -> str:
        """Start a background run and return its id."""
        return str((await self.unrecorded("POST", f"/threads/{thread}/runs", body))["run_id"])

    async def wait_for_end(self, thread: str, run: str) -> str:
        """Wait for the end of a run and return its status."""

        async def status() -> str | None:
            now = (await self.unrecorded("GET", f"/threads/{thread}/runs/{run}")).get("status", "gone")
            return None if now in ("pending", "running") else now

        return str(await self.until(status))

    @property
    def slow(self) -> dict[str, Any]:
        """The input that keeps the graph `slow` waiting for `finish`."""
        return {"until": str(self._gate)}

    def finish(self) -> None:
        """Let the runs of `slow` end."""
        self._gate.touch()

    async def until(self, check: Callable[[], Awaitable[Any]]) -> Any:
        with anyio.fail_after(TIMEOUT):
            while not (found := await check()):  # noqa: ASYNC110 - no event crosses the process boundary
                await anyio.sleep(0.05)
            return found

    async def unrecorded(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        return _content(await self._request(method, path, body, **options))

    async def _request(self, method: str, path: str, body: Any, **options: Any) -> httpx.Response:
        if body is not None:
            options["json"] = body
        return await self._client.request(method, path, **options)


class OpenStream:
    def __init__(self, response: httpx.Response, read: list[Frame]) -> None:
        self._lines = response.aiter_lines()
        self._read = read

    async def until(self, event: str) -> None:
        """Read up to and including the next frame of this name."""
        with anyio.fail_after(TIMEOUT):
            block: list[str] = []
            async for line in self._lines:
                if line:
                    block.append(line)
                    continue
                found = frames("\n".join(block), ids=False)
                self._read.extend(found)
                block = []
                if found and found[0]["event"] == event:
                    return


def _describe(method: str, path: str, response: httpx.Response) -> dict[str, Any]:
    headers = {name: response.headers[name] for name in HEADERS if name in response.headers}
    return {"request": f"{method} {path}", "status": response.status_code, "headers": headers}


def _is_stream(response: httpx.Response) -> bool:
    return response.headers.get("content-type", "").startswith("text/event-stream")


def frames(text: str, *, ids: bool) -> list[Frame]:
    return [_frame(block, ids=ids) for block in text.replace("\r\n", "\n").split("\n\n") if _is_frame(block)]


def _is_frame(block: str) -> bool:
    return bool(block.strip()) and not block.startswith(":")


def _frame(block: str, *, ids: bool) -> Frame:
    fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
    frame: Frame = {"event": fields.get("event"), "data": json.loads(fields["data"]) if "data" in fields else None}
    return {**frame, "id": fields.get("id")} if ids else frame


def _content(response: httpx.Response) -> Any:
    if response.content and response.headers.get("content-type", "").startswith("application/json"):
        return response.json()
    return response.text or None
