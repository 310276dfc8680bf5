"""One interface for both official Python clients, so that each end-to-end test is written once and runs with both."""

import json
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from anyio import to_thread
from langgraph_sdk import get_client, get_sync_client

TIMEOUT = 60.0
"""Seconds a test waits for an expected event; far longer than it ever takes."""

PROJECT = Path(__file__).parent.parent / "graphs" / "langgraph.json"
GRAPHS: list[str] = list(json.loads(PROJECT.read_text())["graphs"])
"""The graphs of the project that the end-to-end tests serve."""

_DONE = object()


class ThreadedClient:
    """A sync client with an async interface: each call, and each step of a stream, runs in a thread."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._target, name)
        if not callable(attribute):
            return ThreadedClient(attribute)
        return partial(_steps if name in ("stream", "join_stream") else _call, attribute)


async def _call(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return await to_thread.run_sync(partial(method, *args, **kwargs))


async def _steps(method: Callable[..., Iterator[Any]], *args: Any, **kwargs: Any) -> AsyncGenerator[Any]:
    iterator: Any = method(*args, **kwargs)
    try:
        while (part := await to_thread.run_sync(next, iterator, _DONE)) is not _DONE:
            yield part
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(iterator.close)


class Sdk:
    """An SDK client that records every request it makes."""

    def __init__(self, client: Any, requests: list[tuple[str, str]]) -> None:
        self.assistants = client.assistants
        self.threads = client.threads
        self.runs = client.runs
        self.crons = client.crons
        self.store = client.store
        self.http = client.http
        self.requests = requests

    async def thread(self, **kwargs: Any) -> str:
        return (await self.threads.create(**kwargs))["thread_id"]


@asynccontextmanager
async def open_async(url: str) -> AsyncIterator[Sdk]:
    requests: list[tuple[str, str]] = []

    async def record(request: httpx.Request) -> None:
        requests.append((request.method, request.url.path))

    async with get_client(url=url) as client:
        client.http.client.event_hooks["request"].append(record)
        yield Sdk(client, requests)


@asynccontextmanager
async def open_sync(url: str) -> AsyncIterator[Sdk]:
    requests: list[tuple[str, str]] = []
    with get_sync_client(url=url) as client:
        client.http.client.event_hooks["request"].append(
            lambda request: requests.append((request.method, request.url.path))
        )
        yield Sdk(ThreadedClient(client), requests)


OPENERS = {"async": open_async, "sync": open_sync}


async def collect(stream: AsyncIterator[Any]) -> list[Any]:
    return [part async for part in stream]


async def eventually(check: Callable[[], Awaitable[Any]], *, within: float = TIMEOUT) -> Any:
    """Wait until `check` returns a truthy value, and return it."""
    with anyio.fail_after(within):
        while not (found := await check()):  # noqa: ASYNC110 - no event crosses the process boundary
            await anyio.sleep(0.02)
        return found


async def wait_for_status(sdk: Sdk, run: dict[str, Any], status: str) -> dict[str, Any]:
    """Wait until the run has this status, and return it."""

    async def check() -> Any:
        now = await sdk.runs.get(run["thread_id"], run["run_id"])
        return now if now["status"] == status else None

    return await eventually(check)


async def wait_for_start(sdk: Sdk, run: dict[str, Any]) -> None:
    """Wait until a run of one of the `slow` graphs is in its waiting node."""
    await wait_for_status(sdk, run, "running")

    async def check() -> bool:
        return (await sdk.threads.get_state(run["thread_id"]))["next"] == ["wait"]

    await eventually(check)


@contextmanager
def rejected(status: int, detail: str) -> Iterator[None]:
    """Assert that the request in the block fails with exactly this status and detail."""
    with pytest.raises(httpx.HTTPStatusError) as caught:
        yield
    response = caught.value.response
    assert (response.status_code, response.json()) == (status, {"detail": detail})


def fresh_id() -> str:
    return str(uuid.uuid4())


def human(text: str, message_id: str = "human-1") -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text, "id": message_id}]}


def event_names(parts: list[Any]) -> list[str]:
    return [part.event for part in parts]


def data_of(parts: list[Any], event: str) -> list[Any]:
    return [part.data for part in parts if part.event == event]
