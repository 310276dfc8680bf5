"""Simulated AG-UI pages: what they hold, what they send and what they receive."""

import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

import httpx
from agui_checker import AgUiChecker, StreamResult


class Page:
    """One thread on one device. Clients of both generations check every stream that it receives."""

    base, run_path = "/ag-ui", ""

    def __init__(self, http: httpx.AsyncClient, agui: AgUiChecker, agent: str, thread_id: str | None = None) -> None:
        self._http = http
        self._agui = agui
        self.url = f"{self.base}/{agent}"
        self.thread_id = thread_id or f"page {uuid.uuid4()}"
        self.messages: list[dict[str, Any]] = []
        self.state: Any = {}
        self.interrupts: list[dict[str, Any]] = []
        self.cursor: str | None = None

    def another(self) -> Self:
        """The same thread on another device that has no data yet."""
        return type(self)(self._http, self._agui, self.url.rpartition("/")[2], self.thread_id)

    def body(self, **fields: Any) -> dict[str, Any]:
        return {
            "threadId": self.thread_id,
            "runId": str(uuid.uuid4()),
            "messages": self.messages,
            "state": self.state,
            "tools": [],
            "context": [],
            **fields,
        }

    async def send(self, text: Any, message_id: str | None = None, **fields: Any) -> StreamResult:
        message = {"id": message_id or str(uuid.uuid4()), "role": "user", "content": text}
        return await self.run(messages=[*self.messages, message], **fields)

    async def run(self, **fields: Any) -> StreamResult:
        body = self.body(**fields)
        self.messages = body["messages"]
        response = await self._http.post(self.url + self.run_path, json=body)
        assert response.status_code == 200, response.text
        return self._apply(response.content, modern="protocolVersion" in body)

    async def connect(self, cursor: str | None = None, *, by: str = "header") -> StreamResult:
        headers = {"last-event-id": cursor} if cursor is not None and by == "header" else {}
        body = {"lastSeenEventId": cursor} if cursor is not None and by == "body" else {}
        response = await self._http.post(
            f"{self.url}/connect", json={**self.body(messages=[], state={}), **body}, headers=headers
        )
        assert response.status_code == 200, response.text
        return self._apply(response.content)

    async def stop(self, run_id: str | None = None) -> Any:
        response = await self._http.post(
            f"{self.url}/stop/{self.thread_id}", json={} if run_id is None else {"runId": run_id}
        )
        assert response.status_code == 200, response.text
        return response.json()

    def _apply(self, sent: bytes, *, modern: bool = False) -> StreamResult:
        seen = self._agui.check(
            sent, generations=["1.0"] if modern else ("1.0", "0.0.59"), messages=self.messages, state=self.state
        )
        self.messages, self.state, self.interrupts = seen.messages, seen.state, seen.interrupts
        self.cursor = next((each for each in reversed(seen.ids) if each), self.cursor)
        return seen

    @property
    def texts(self) -> list[tuple[str, Any]]:
        return [(each["role"], each.get("content")) for each in self.messages]

    @asynccontextmanager
    async def open(self, path: str = "", *, cursor: str | None = None, **fields: Any) -> AsyncIterator["OpenStream"]:
        """Open a stream that is read in pieces and may be left early."""
        headers = {} if cursor is None else {"last-event-id": cursor}
        body = self.body(messages=[], state={}) if path else self.body()
        async with self._http.stream(
            "POST", self.url + (path or self.run_path), json={**body, **fields}, headers=headers
        ) as response:
            assert response.status_code == 200, await response.aread()
            yield OpenStream(response)

    def receive(self, sent: bytes) -> StreamResult:
        return self._apply(sent)


class CopilotKitPage(Page):
    """The same with the protocol of CopilotKit's runtime."""

    base, run_path = "/copilotkit/agent", "/run"


OpenPage = Callable[..., Page]
OpenCopilotKitPage = Callable[..., CopilotKitPage]
COPILOTKIT = "/copilotkit"


def hello(thread_id: str = "some thread", **fields: Any) -> dict[str, Any]:
    """The body that starts a run."""
    message = {"id": "u1", "role": "user", "content": "hello"}
    return {
        "threadId": thread_id,
        "runId": str(uuid.uuid4()),
        "messages": [message],
        "tools": [],
        "context": [],
        **fields,
    }


class OpenStream:
    def __init__(self, response: httpx.Response) -> None:
        self._chunks = response.aiter_raw()
        self.sent = b""

    async def until(self, text: str) -> bytes:
        """Read until `text` has been received."""
        while text.encode() not in self.sent:
            self.sent += await anext(self._chunks)
        return self.sent

    async def rest(self) -> bytes:
        async for chunk in self._chunks:
            self.sent += chunk
        return self.sent


def events_in(sent: bytes) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in sent.split(b"\n") if line.startswith(b"data: ")]


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [each["type"] for each in events]
