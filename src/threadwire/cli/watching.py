"""`threadwire watch`: a thread as it happens, run after run, from any LangGraph API server.

Each run is joined on its own, because a run can be joined in other modes than it was started in: tokens and custom
events are shown also of runs whose clients asked for neither.
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

from threadwire.cli.frames import FrameReader
from threadwire.cli.transcript import Piece, Transcript
from threadwire.errors import Invalid, NotFound, ThreadwireError

Show = Callable[[Iterable[Piece]], None]
T = TypeVar("T")

MODES = ("messages-tuple", "updates", "custom")
NEWS_EVERY = 1.0
SILENCE = 20.0
"""Seconds without even a heartbeat after which a connection is dead. A server sends one every five."""
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 3.0
PAGE = 100


class Lost(Exception):
    """The server cannot be reached at the moment."""


async def watch(thread_id: str, url: str, api_key: str | None, show: Show) -> None:
    """Until cancelled. Raises `ThreadwireError` if there is no such thread or no such server."""
    headers = {"x-api-key": api_key} if api_key else {}
    timeout = httpx.Timeout(SILENCE, connect=5.0)
    try:
        client = httpx.AsyncClient(base_url=url, headers=headers, timeout=timeout)
    except httpx.InvalidURL as error:
        raise Invalid(f"{url} is not a URL: {error}") from error
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
        except Lost as error:
            raise ThreadwireError(f"Cannot reach {self._client.base_url}: {error.__cause__ or error}") from error
        self._seen.update(run["run_id"] for run in runs[:-1])
        runs = runs[-1:]
        while True:
            for run in runs:
                await self._follow(run)
            await anyio.sleep(0 if runs else NEWS_EVERY)
            runs = await self._patiently(self._new_runs)

    async def _new_runs(self) -> list[dict[str, Any]]:
        """Those that have begun and have not been shown, oldest first. What is only queued may yet be overtaken."""
        runs: list[dict[str, Any]] = []
        while True:
            page = await self._get(f"{self._thread}/runs?limit={PAGE}&offset={len(runs)}")
            runs += page
            if len(page) < PAGE or not self._seen or any(run["run_id"] in self._seen for run in page):
                break
        return [run for run in reversed(runs) if run["run_id"] not in self._seen and run["status"] != "pending"]

    async def _follow(self, run: dict[str, Any]) -> None:
        """One run from its first event to its end, through any number of connections."""
        self._seen.add(run["run_id"])
        self._show(self._transcript.begin(run))
        joining = _Joining(self._client, f"{self._thread}/runs/{run['run_id']}", self._shown)
        status = await self._patiently(joining.to_the_end)
        self._show(self._transcript.end(status))

    def _shown(self, event: str, data: Any) -> None:
        self._show(self._transcript.feed(event, data))

    async def _get(self, path: str) -> Any:
        return (await answered(self._client.get(path))).json()

    async def _patiently(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Again and again until the server is there."""
        pause = FIRST_PAUSE
        while True:
            began = anyio.current_time()
            try:
                return await operation()
            except Lost:
                if anyio.current_time() - began > LONGEST_PAUSE:  # it had been there in the meantime
                    pause = FIRST_PAUSE
                if pause == FIRST_PAUSE:
                    self._show(self._transcript.note("connection lost, trying again"))
                await anyio.sleep(pause)
                pause = min(LONGEST_PAUSE, pause * 2)


class _Joining:
    """A run being joined, and how far it has been shown."""

    def __init__(self, client: httpx.AsyncClient, path: str, shown: Callable[[str, Any], None]) -> None:
        self._client = client
        self._path = path
        self._shown = shown
        self._cursor = "-1"

    async def to_the_end(self) -> str:
        """Show the rest of the run; how it ended. Raises `Lost` if the connection breaks off."""
        try:
            await self._stream()
            run = (await answered(self._client.get(self._path))).json()
        except NotFound:
            return "taken back"
        if run["status"] in ("pending", "running"):  # a server that stops ends its streams, but not its runs
            raise Lost("the stream ended before the run")
        return str(run["status"])

    async def _stream(self) -> None:
        reader = FrameReader()
        request = self._client.build_request(
            "GET",
            f"{self._path}/stream",
            params=[("stream_mode", mode) for mode in MODES],
            headers={"last-event-id": self._cursor, "accept": "text/event-stream"},
        )
        response = await answered(self._client.send(request, stream=True))
        try:
            async for line in response.aiter_lines():
                for frame in reader.feed(line):
                    self._shown(frame.event, frame.data)
                    self._cursor = frame.id or self._cursor
        except httpx.TransportError as error:
            raise Lost from error
        finally:
            await response.aclose()


async def answered(request: Awaitable[httpx.Response]) -> httpx.Response:
    """The response, if it is a good one. Raises `Lost` for what a server that restarts answers, or does not."""
    try:
        response = await request
    except httpx.TransportError as error:
        raise Lost from error
    if response.is_success:
        return response
    await response.aread()
    await response.aclose()
    if response.status_code == 429 or response.status_code >= 500:
        raise Lost(f"the server answered {response.status_code}")
    raise (NotFound if response.status_code == 404 else Invalid)(_detail(response))


def _detail(response: httpx.Response) -> str:
    try:
        return str(response.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return f"{response.request.url} answered {response.status_code}"


async def _until_interrupted(operation: Callable[..., Awaitable[None]], *arguments: Any) -> None:
    """With a handler of our own: a shell that starts something in the background has it ignore Ctrl-C, and Python then
    leaves it at that. The loop is woken by the signal itself; and a scope that is cancelled stays so, whatever the code
    below makes of it."""
    with anyio.CancelScope() as scope:
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, scope.cancel)
        await operation(*arguments)


def run_watch(thread_id: str, url: str, api_key: str | None, console: Console) -> None:
    """Watch until Ctrl-C, or until nobody reads what is printed."""

    def show(pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            console.print(Text(piece.text, style=piece.style), end="", soft_wrap=True)

    try:
        with suppress(KeyboardInterrupt):  # from before the loop was there to be told
            anyio.run(_until_interrupted, watch, thread_id, url, api_key, show)
        console.print()
    except BrokenPipeError:
        # Python would complain when it flushes the pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
