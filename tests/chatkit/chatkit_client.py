"""A client of `/chatkit`, as strict as the checker: every response is validated and applied."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from chatkit_checker import ITEM, StrictClient, events_of, validate

PROJECT = Path(__file__).parent / "project" / "langgraph.json"

Event = dict[str, Any]
Item = dict[str, Any]


def message(text: str, **fields: Any) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}] if text else []
    return {"content": content, "attachments": [], "inference_options": {}, **fields}


class Chat:
    """A page with one thread."""

    def __init__(self, http: httpx.AsyncClient, agent: str, thread_id: str | None = None) -> None:
        self.http = http
        self.path = f"/chatkit/{agent}" if agent else "/chatkit"
        self.thread_id = thread_id
        self.page = StrictClient()
        self.events: list[Event] = []
        """The events of the last stream."""

    # -- requests -----------------------------------------------------------------------------------------------------

    async def post(self, operation: str, **params: Any) -> httpx.Response:
        return await self.http.post(self.path, json={"type": operation, "params": params})

    async def call(self, operation: str, **params: Any) -> Any:
        response = await self.post(operation, **params)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == "application/json"
        return response.json()

    async def stream(self, operation: str, **params: Any) -> list[Event]:
        """Send an operation, and apply the whole response to the page."""
        response = await self.post(operation, **params)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        self.apply(events_of(response.content))
        return self.events

    def apply(self, events: list[Event]) -> None:
        self.events = events
        self.page.apply_all(events)
        assert not self.page.open, "an item is still open at the end of a stream"
        for event in events:
            if event["type"] == "thread.created":
                self.thread_id = event["thread"]["id"]

    async def send(self, text: str, **fields: Any) -> list[Event]:
        if self.thread_id is None:
            return await self.stream("threads.create", input=message(text, **fields))
        return await self.stream("threads.add_user_message", thread_id=self.thread_id, input=message(text, **fields))

    async def act(self, item_id: str | None, action: dict[str, Any]) -> list[Event]:
        return await self.stream("threads.custom_action", thread_id=self.thread_id, item_id=item_id, action=action)

    @asynccontextmanager
    async def streaming(self, operation: str, **params: Any) -> AsyncIterator[AsyncIterator[Event]]:
        """A stream that is read event by event."""
        body = {"type": operation, "params": params}
        async with self.http.stream("POST", self.path, json=body) as response:
            assert response.status_code == 200
            yield _events(response)

    # -- what the server has ------------------------------------------------------------------------------------------

    async def thread(self) -> dict[str, Any]:
        return dict(await self.call("threads.get_by_id", thread_id=self.thread_id))

    async def stored(self) -> list[Item]:
        """All items, page by page."""
        items: list[Item] = []
        after: dict[str, str] = {}
        while True:
            page = await self.call("items.list", thread_id=self.thread_id, order="asc", limit=7, **after)
            items += page["data"]
            if not page["has_more"]:
                break
            after = {"after": page["after"]}
        for item in items:
            validate(ITEM, item)
        return items

    async def require_reload_is_equal(self) -> list[Item]:
        """A page that loads the thread has exactly what this one has, byte for byte."""
        stored, streamed = await self.stored(), list(self.page.items.values())
        assert stored == streamed
        assert json.dumps(stored) == json.dumps(streamed)  # the order of fields, and numbers, too
        return stored

    # -- what the page shows ------------------------------------------------------------------------------------------

    def last(self, kind: str) -> Item:
        return [item for item in self.page.items.values() if item["type"] == kind][-1]

    @property
    def answer(self) -> str:
        return str(self.last("assistant_message")["content"][0]["text"])

    @property
    def types(self) -> list[str]:
        return [item["type"] for item in self.page.items.values()]


OpenChat = Callable[..., Chat]
"""Opens a page for an agent, with a new thread or an existing one."""


async def first_token(chat: Chat, operation: str, **params: object) -> None:
    """Start a stream, and leave it after the first token."""
    async with chat.streaming(operation, **params) as events:
        async for event in events:
            if event["type"] == "thread.created":
                chat.thread_id = event["thread"]["id"]
            if event.get("update", {}).get("type", "").endswith("text_delta"):
                return


def release(gate: Path) -> None:
    """Let a model that waits for this file continue."""
    gate.touch()


async def _events(response: httpx.Response) -> AsyncIterator[Event]:
    buffer = b""
    async for chunk in response.aiter_bytes():
        buffer += chunk
        whole, separator, buffer = buffer.rpartition(b"\n\n")
        for event in events_of(whole + separator):
            yield event
