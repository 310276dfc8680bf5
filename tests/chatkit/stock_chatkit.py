"""The oracle: OpenAI's own `ChatKitServer` with a store in memory, and the adapter in front of a graph."""

import json
from collections.abc import AsyncIterator
from typing import Any

from chatkit.server import ChatKitServer, StreamingResult
from chatkit.store import NotFoundError, Store
from chatkit.types import Attachment, Page, ThreadItem, ThreadMetadata, ThreadStreamEvent, UserMessageItem

from threadwire.chatkit import LangGraphAdapter

Context = dict[str, Any]


class MemoryStore(Store[Context]):
    def __init__(self) -> None:
        self.threads: dict[str, ThreadMetadata] = {}
        self.items: dict[str, dict[str, ThreadItem]] = {}
        self.attachments: dict[str, Attachment] = {}

    async def load_thread(self, thread_id: str, context: Context) -> ThreadMetadata:
        if thread_id not in self.threads:
            raise NotFoundError(f"Thread {thread_id} not found")
        return self.threads[thread_id].model_copy(deep=True)

    async def save_thread(self, thread: ThreadMetadata, context: Context) -> None:
        self.threads[thread.id] = thread.model_copy(deep=True)
        self.items.setdefault(thread.id, {})

    async def load_thread_items(
        self, thread_id: str, after: str | None, limit: int, order: str, context: Context
    ) -> Page[ThreadItem]:
        return _page(list(self.items.get(thread_id, {}).values()), after, limit, order)

    async def save_attachment(self, attachment: Attachment, context: Context) -> None:
        self.attachments[attachment.id] = attachment

    async def load_attachment(self, attachment_id: str, context: Context) -> Attachment:
        if attachment_id not in self.attachments:
            raise NotFoundError(f"Attachment {attachment_id} not found")
        return self.attachments[attachment_id]

    async def delete_attachment(self, attachment_id: str, context: Context) -> None:
        self.attachments.pop(attachment_id, None)

    async def load_threads(self, limit: int, after: str | None, order: str, context: Context) -> Page[ThreadMetadata]:
        return _page(list(self.threads.values()), after, limit, order)

    async def add_thread_item(self, thread_id: str, item: ThreadItem, context: Context) -> None:
        self.items.setdefault(thread_id, {})[item.id] = item

    async def save_item(self, thread_id: str, item: ThreadItem, context: Context) -> None:
        self.items[thread_id][item.id] = item

    async def load_item(self, thread_id: str, item_id: str, context: Context) -> ThreadItem:
        if item_id not in self.items.get(thread_id, {}):
            raise NotFoundError(f"Item {item_id} not found")
        return self.items[thread_id][item_id]

    async def delete_thread(self, thread_id: str, context: Context) -> None:
        self.threads.pop(thread_id, None)
        self.items.pop(thread_id, None)

    async def delete_thread_item(self, thread_id: str, item_id: str, context: Context) -> None:
        self.items[thread_id].pop(item_id, None)


def _page(found: list[Any], after: str | None, limit: int, order: str) -> Page[Any]:
    listed = found[::-1] if order == "desc" else found
    start = next((at for at, each in enumerate(listed, 1) if each.id == after), 0) if after else 0
    shown = listed[start : start + limit]
    has_more = start + limit < len(listed)
    return Page(data=shown, has_more=has_more, after=shown[-1].id if has_more else None)


class StockServer(ChatKitServer[Context]):
    def __init__(self, adapter: LangGraphAdapter) -> None:
        super().__init__(MemoryStore())
        self.adapter = adapter

    async def respond(
        self, thread: ThreadMetadata, input_user_message: UserMessageItem | None, context: Context
    ) -> AsyncIterator[ThreadStreamEvent]:
        assert input_user_message is not None
        text = "".join(part.text for part in input_user_message.content)
        async for event in self.adapter.stream_agent_response_from_langgraph(text, thread.id):
            yield event

    async def add_feedback(self, *args: Any) -> None:
        pass

    async def call(self, operation: str, **params: Any) -> Any:
        return await call(self, operation, **params)


async def call(server: ChatKitServer[Context], operation: str, **params: Any) -> Any:
    """The events of a stream, or the JSON of any other response."""
    result = await server.process(json.dumps({"type": operation, "params": params}), {})
    if not isinstance(result, StreamingResult):
        return json.loads(result.json)
    frames = [frame async for frame in result]
    return [json.loads(frame.removeprefix(b"data: ")) for frame in frames]
