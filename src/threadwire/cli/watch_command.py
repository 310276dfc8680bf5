"""`threadwire watch`: follow a thread live, run after run, on any LangGraph API server.

Each run is joined separately, because a run can be joined with stream modes other than those it was started with. So
tokens and custom events are also shown for runs whose clients did not ask for them.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import quote

import anyio
import httpx
from rich.console import Console
from rich.text import Text

from threadwire.cli.sse import FrameReader
from threadwire.cli.transcript import Piece, Transcript
from threadwire.errors import Invalid, NotFound, ThreadwireError

Show = Callable[[Iterable[Piece]], None]
T = TypeVar("T")

MODES = ("messages-tuple", "updates", "custom")
POLL_SECONDS = 1.0
READ_TIMEOUT = 20.0
"""Seconds without even a heartbeat after which a connection is considered dead. The server sends one every five."""
MIN_BACKOFF, MAX_BACKOFF = 0.2, 3.0
PAGE_SIZE = 100


class ConnectionLost(Exception):
    """The server is temporarily unreachable."""


async def watch(thread_id: str, url: str, api_key: str | None, show: Show) -> None:
    """Watch until cancelled. Raise `ThreadwireError` if the thread does not exist or the server cannot be reached."""
    headers = {"x-api-key": api_key} if api_key else {}
    timeout = httpx.Timeout(READ_TIMEOUT, connect=5.0)
    try:
        client = httpx.AsyncClient(base_url=url, headers=headers, timeout=timeout)
    except httpx.InvalidURL as error:
        raise Invalid(f"Invalid value for --url: {url!r}: {error}") from error
    async with client:
        await Watcher(client, thread_id, show).watch()


class Watcher:
    def __init__(self, client: httpx.AsyncClient, thread_id: str, show: Show) -> None:
        self._client = client
        self._thread = f"/threads/{quote(thread_id, safe='')}"
        self._show = show
        self._transcript = Transcript()
        self._seen: set[str] = set()

    async def watch(self) -> None:
        try:
            thread = await self._get(self._thread)
            self._show(self._transcript.thread(thread))
            runs = await self._new_runs()
        except ConnectionLost as error:
            raise ThreadwireError(f"Cannot reach {self._client.base_url}: {error.__cause__ or error}") from error
        self._seen.update(run["run_id"] for run in runs[:-1])
        runs = runs[-1:]
        while True:
            for run in runs:
                await self._follow(run)
            await anyio.sleep(0 if runs else POLL_SECONDS)
            runs = await self._retrying(self._new_runs)

    async def _new_runs(self) -> list[dict[str, Any]]:
        """Return the started runs not shown yet, oldest first. Pending runs are not included, because
        they may start in another order."""
        runs: list[dict[str, Any]] = []
        while True:
            page = await self._get(f"{self._thread}/runs?limit={PAGE_SIZE}&offset={len(runs)}")
            runs += page
            if len(page) < PAGE_SIZE or not self._seen or any(run["run_id"] in self._seen for run in page):
                break
        return [run for run in reversed(runs) if run["run_id"] not in self._seen and run["status"] != "pending"]

    async def _follow(self, run: dict[str, Any]) -> None:
        """Show one run from its first event to its end, reconnecting as often as necessary."""
        self._seen.add(run["run_id"])
        self._show(self._transcript.start(run))
        joined = _JoinedRun(self._client, f"{self._thread}/runs/{run['run_id']}", self._show_event)
        status = await self._retrying(joined.follow_to_end)
        self._show(self._transcript.end(status))

    def _show_event(self, event: str, data: Any) -> None:
        self._show(self._transcript.feed(event, data))

    async def _get(self, path: str) -> Any:
        return (await checked_response(self._client.get(path))).json()

    async def _retrying(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Retry with backoff until the server is reachable."""
        pause = MIN_BACKOFF
        while True:
            started = anyio.current_time()
            try:
                return await operation()
            except ConnectionLost:
                if anyio.current_time() - started > MAX_BACKOFF:  # it was connected in the meantime
                    pause = MIN_BACKOFF
                if pause == MIN_BACKOFF:
                    self._show(self._transcript.note("connection lost, reconnecting"))
                await anyio.sleep(pause)
                pause = min(MAX_BACKOFF, pause * 2)


class _JoinedRun:
    """A run that is being followed, and the cursor of its stream."""

    def __init__(self, client: httpx.AsyncClient, path: str, show_event: Callable[[str, Any], None]) -> None:
        self._client = client
        self._path = path
        self._show_event = show_event
        self._cursor = "-1"

    async def follow_to_end(self) -> str:
        """Show the rest of the run and return its final status. Raise `ConnectionLost` if the connection breaks."""
        try:
            await self._stream()
            run = (await checked_response(self._client.get(self._path))).json()
        except NotFound:
            return "rolled back or deleted"
        if run["status"] in ("pending", "running"):  # a server that shuts down ends its streams, but not its runs
            raise ConnectionLost("the stream ended before the run did")
        return str(run["status"])

    async def _stream(self) -> None:
        reader = FrameReader()
        request = self._client.build_request(
            "GET",
            f"{self._path}/stream",
            params=[("stream_mode", mode) for mode in MODES],
            headers={"last-event-id": self._cursor, "accept": "text/event-stream"},
        )
        response = await checked_response(self._client.send(request, stream=True))
        try:
            async for line in response.aiter_lines():
                for frame in reader.feed(line):
                    self._show_event(frame.event, frame.data)
                    self._cursor = frame.id or self._cursor
        except httpx.TransportError as error:
            raise ConnectionLost from error
        finally:
            await response.aclose()


async def checked_response(request: Awaitable[httpx.Response]) -> httpx.Response:
    """Return a successful response. Raise `ConnectionLost` if the server does not respond or is restarting."""
    try:
        response = await request
    except httpx.TransportError as error:
        raise ConnectionLost from error
    if response.is_success:
        return response
    await response.aread()
    await response.aclose()
    if response.status_code == 429 or response.status_code >= 500:
        raise ConnectionLost(f"the server responded with status {response.status_code}")
    raise (NotFound if response.status_code == 404 else Invalid)(_detail(response))


def _detail(response: httpx.Response) -> str:
    try:
        return str(response.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return f"{response.request.url} responded with status {response.status_code}"


async def _until_interrupted(operation: Callable[..., Awaitable[None]], *arguments: Any) -> None:
    """Run the operation until Ctrl-C. An explicit handler is needed: a shell starts background processes with SIGINT
    ignored, and Python then does not install its own. The handler wakes the loop immediately, and a cancelled scope
    stays cancelled even if the code inside catches the cancellation."""
    with anyio.CancelScope() as scope:
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, scope.cancel)
        await operation(*arguments)


def run_watch(thread_id: str, url: str, api_key: str | None, console: Console) -> None:
    """Watch until Ctrl-C, or until the reader of a pipe closes it."""

    def show(pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            console.print(Text(piece.text, style=piece.style), end="", soft_wrap=True)

    try:
        with suppress(KeyboardInterrupt):  # Ctrl-C before the handler was installed
            anyio.run(_until_interrupted, watch, thread_id, url, api_key, show)
        console.print()
    except BrokenPipeError:
        # Otherwise Python reports an error when it flushes the pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
