"""Each row of the table of differences in docs/reference/chatkit.md: what the stock server does, and what ours does.

The stock server responds with what ChatKit's own types provide, without our adapter, so that the difference is its own.
"""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from chatkit.server import ChatKitServer, StreamingResult
from chatkit.store import AttachmentStore, NotFoundError
from chatkit.types import (
    Action,
    AssistantMessageContent,
    AssistantMessageContentPartAdded,
    AssistantMessageItem,
    Attachment,
    AttachmentCreateParams,
    AttachmentUploadDescriptor,
    FileAttachment,
    StructuredInputFreeform,
    StructuredInputItem,
    ThreadItemAddedEvent,
    ThreadItemDoneEvent,
    ThreadItemUpdatedEvent,
    ThreadMetadata,
    ThreadStreamEvent,
    UserMessageItem,
    WidgetItem,
    WorkflowItem,
)
from chatkit_client import PROJECT, OpenChat, first_token, message, release
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import TypeAdapter, ValidationError
from stock_chatkit import Context, MemoryStore, StockServer, call

from threadwire.chatkit import LangGraphAdapter

sys.path.append(str(PROJECT.parent))

import chatkit_agents

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

NOW = datetime(2026, 11, 16)
CARD = {"type": "Card", "border": {"size": 1}, "children": []}


class Files(AttachmentStore[Context]):
    async def create_attachment(self, input: AttachmentCreateParams, context: Context) -> Attachment:
        upload = AttachmentUploadDescriptor(url="https://example.org", method="PUT")
        fields = {"id": "atc_1", "name": input.name, "mime_type": input.mime_type}
        return FileAttachment(**fields, upload_descriptor=upload)

    async def delete_attachment(self, attachment_id: str, context: Context) -> None:
        pass


class PlainServer(ChatKitServer[Context]):
    """Does what the user's message says."""

    def __init__(self) -> None:
        super().__init__(MemoryStore(), Files())
        self.clicks = 0

    async def respond(
        self, thread: ThreadMetadata, input_user_message: UserMessageItem | None, context: Context
    ) -> AsyncIterator[ThreadStreamEvent]:
        text = "" if input_user_message is None else input_user_message.content[0].text
        base: dict[str, Any] = {"thread_id": thread.id, "created_at": NOW}
        if text == "half":
            yield ThreadItemAddedEvent(item=AssistantMessageItem(id="half", content=[], **base))
            part = AssistantMessageContentPartAdded(content_index=0, content=AssistantMessageContent(text="half"))
            yield ThreadItemUpdatedEvent(item_id="half", update=part)
            raise RuntimeError("a secret")
        if text == "ask":
            questions = [StructuredInputFreeform(id="q", question="Why?")]
            yield ThreadItemDoneEvent(item=StructuredInputItem(id="asked", status="pending", inputs=questions, **base))
        if text == "card":
            yield ThreadItemDoneEvent(
                item=TypeAdapter(WidgetItem).validate_python({"id": "card", "widget": CARD, **base})
            )
        if text == "steps":
            workflow = WorkflowItem(id="steps", workflow={"type": "custom", "tasks": []}, **base)
            yield ThreadItemAddedEvent(item=workflow)
            yield ThreadItemDoneEvent(item=said("during", base))
            yield ThreadItemDoneEvent(item=workflow)
        yield ThreadItemDoneEvent(item=said(self.store.generate_item_id("message", thread, context), base))

    async def action(
        self, thread: ThreadMetadata, action: Action[str, Any], sender: WidgetItem | None, context: Context
    ) -> AsyncIterator[ThreadStreamEvent]:
        self.clicks += 1
        for event in ():
            yield event

    async def call(self, operation: str, **params: Any) -> Any:
        return await call(self, operation, **params)

    async def start(self, text: str, **fields: Any) -> str:
        """Create a thread. Returns its id."""
        return str((await self.call("threads.create", input=message(text, **fields)))[0]["thread"]["id"])

    async def stored(self, thread_id: str) -> list[dict[str, Any]]:
        return list((await self.call("items.list", thread_id=thread_id, order="asc"))["data"])


def said(item_id: str, base: dict[str, Any]) -> AssistantMessageItem:
    return AssistantMessageItem(id=item_id, content=[AssistantMessageContent(text="x")], **base)


@pytest.fixture
def stock() -> PlainServer:
    return PlainServer()


async def test_invalid_requests(stock: PlainServer, open_chat: OpenChat) -> None:
    chat = open_chat("bot")
    for operation, params in (("threads.fly", {}), ("threads.get_by_id", {})):
        with pytest.raises(ValidationError):
            await stock.call(operation, **params)
        assert (await chat.post(operation, **params)).status_code == 400
    with pytest.raises(ValidationError):
        await stock.process(b"{", {})
    assert (await chat.http.post("/chatkit/bot", content=b"{")).status_code == 400


@pytest.mark.parametrize(
    ("operation", "params"), [("threads.get_by_id", {}), ("threads.add_user_message", {"input": message("x")})]
)
async def test_an_unknown_thread(
    stock: PlainServer, open_chat: OpenChat, operation: str, params: dict[str, Any]
) -> None:
    with pytest.raises(NotFoundError):
        await stock.call(operation, thread_id="thr_none", **params)
    assert (await open_chat("bot").post(operation, thread_id="thr_none", **params)).status_code == 404


async def test_an_unknown_item_to_retry(stock: PlainServer, open_chat: OpenChat) -> None:
    chat = open_chat("bot")
    await chat.send("say one")

    theirs = await stock.call("threads.retry_after_item", thread_id=await stock.start("x"), item_id="msg_none")
    ours = await chat.post("threads.retry_after_item", thread_id=chat.thread_id, item_id="msg_none")

    assert theirs == []
    assert ours.status_code == 404


async def test_a_second_answer_to_a_structured_input(stock: PlainServer, open_chat: OpenChat) -> None:
    chat, thread_id = open_chat("bot"), await stock.start("ask")
    await chat.send("order")
    ours = {"thread_id": chat.thread_id, "item_id": chat.last("structured_input")["id"]}
    theirs = {"thread_id": thread_id, "item_id": "asked", "input": {"answers": {"q": {"values": ["y"]}}}}

    await stock.call("threads.add_structured_input", **theirs)
    await chat.stream("threads.add_structured_input", **ours, input={"answers": {"size": {"values": ["large"]}}})

    with pytest.raises(ValueError, match="is not pending"):
        await stock.call("threads.add_structured_input", **theirs)
    assert (await chat.post("threads.add_structured_input", **ours, input={})).status_code == 409


async def test_a_second_click(stock: PlainServer, open_chat: OpenChat) -> None:
    chat, thread_id = open_chat("careful"), await stock.start("card")
    await chat.send("delete it")
    card = chat.last("widget")

    for _ in range(2):
        await stock.call("threads.custom_action", thread_id=thread_id, item_id="card", action={"type": "x"})
        await chat.act(card["id"], card["widget"]["confirm"]["action"])

    assert stock.clicks == 2
    assert chat.types.count("assistant_message") == 2  # the question, and one answer
    assert chat.events[-1]["type"] == "notice"


async def test_an_action_on_an_item_that_is_not_a_widget(stock: PlainServer, open_chat: OpenChat) -> None:
    chat, thread_id = open_chat("bot"), await stock.start("x")
    await chat.send("say one")
    (sent, _) = await stock.stored(thread_id)

    theirs = await stock.call("threads.custom_action", thread_id=thread_id, item_id=sent["id"], action={"type": "x"})
    ours = await chat.act(chat.last("user_message")["id"], {"type": "x"})

    assert ours[-1] == theirs[-1] == {"type": "error", "code": "stream.error", "allow_retry": False}


async def test_an_exception_in_the_middle_of_a_response(stock: PlainServer, open_chat: OpenChat) -> None:
    chat, thread_id = open_chat("bot"), await stock.start("half")
    events = await chat.send("half of it")

    assert [item["type"] for item in await stock.stored(thread_id)] == ["user_message"]
    assert [item["type"] for item in await chat.stored()] == ["user_message", "assistant_message"]
    assert events[-1] == {"type": "error", "code": "stream.error", "allow_retry": True}


async def test_an_unknown_attachment(stock: PlainServer, open_chat: OpenChat) -> None:
    with pytest.raises(NotFoundError):
        await stock.start("x", attachments=["atc_none"])
    left = await stock.call("threads.list")
    response = await open_chat("bot").post("threads.create", input=message("x", attachments=["atc_none"]))

    assert len(left["data"]) == 1
    assert response.status_code == 404


async def test_two_messages_at_the_same_time(open_chat: OpenChat) -> None:
    graph = chatkit_agents.graph.copy(update={"checkpointer": InMemorySaver()})
    stock, chat = StockServer(LangGraphAdapter(graph)), open_chat("bot")
    thread_id = (await stock.call("threads.create", input=message("say one")))[0]["thread"]["id"]
    await chat.send("say one")
    sent = [{"input": message(text)} for text in ("say two", "say three")]

    await asyncio.gather(*(stock.call("threads.add_user_message", thread_id=thread_id, **each) for each in sent))
    await asyncio.gather(*(chat.post("threads.add_user_message", thread_id=chat.thread_id, **each) for each in sent))

    theirs = await graph.aget_state({"configurable": {"thread_id": thread_id}})
    ours = (await chat.http.get(f"/threads/{chat.thread_id}/state")).json()["values"]["messages"]
    assert len(theirs.values["messages"]) == 4
    assert len(ours) == 6


async def test_a_retry(stock: PlainServer, open_chat: OpenChat) -> None:
    chat, thread_id = open_chat("bot"), await stock.start("x")
    await chat.send("say one")
    (sent, answer) = await stock.stored(thread_id)

    theirs = await stock.call("threads.retry_after_item", thread_id=thread_id, item_id=sent["id"])
    ours = await chat.stream(
        "threads.retry_after_item", thread_id=chat.thread_id, item_id=chat.last("user_message")["id"]
    )

    assert answer["id"] not in [item["id"] for item in await stock.stored(thread_id)]
    assert "thread.item.removed" not in [event["type"] for event in theirs]
    removed = [event["item_id"] for event in ours if event["type"] == "thread.item.removed"]
    assert [item_id.partition("_")[0] for item_id in removed] == ["msg", "msg", "turn"], "the whole earlier turn"
    assert [item["type"] for item in await chat.stored()] == ["user_message", "assistant_message", "end_of_turn"]


async def test_a_reload_in_the_middle_of_a_run(stock: PlainServer, open_chat: OpenChat, gate: Path) -> None:
    body = {"type": "threads.create", "params": {"input": message("half")}}
    stream = await stock.process(json.dumps(body), {})
    assert isinstance(stream, StreamingResult)
    thread_id = ""
    async for frame in stream:
        event = json.loads(frame.removeprefix(b"data: "))
        thread_id = event.get("thread", {}).get("id") or thread_id
        if event["type"] == "thread.item.updated":
            break
    chat = open_chat("bot")
    await first_token(chat, "threads.create", input=message(f"wait partly {gate}"))

    assert [item["type"] for item in await stock.stored(thread_id)] == ["user_message"]
    assert [item["type"] for item in await chat.stored()] == ["user_message", "assistant_message"]
    release(gate)


async def test_the_order_after_a_reload(stock: PlainServer, open_chat: OpenChat) -> None:
    chat = open_chat("tools")
    await chat.send("weather")
    theirs = [item["id"] for item in await stock.stored(await stock.start("steps"))]

    assert theirs.index("during") < theirs.index("steps")
    await chat.require_reload_is_equal()  # the widget was done before its workflow, too
    assert chat.types.index("workflow") < chat.types.index("widget")


async def test_times_and_ids(stock: PlainServer, open_chat: OpenChat) -> None:
    chat = open_chat("bot")
    await chat.send("say one")
    (theirs, _), ours = await stock.stored(await stock.start("x")), chat.last("user_message")

    assert re.fullmatch(r"[\d-]{10}T[\d:.]+", theirs["created_at"])
    assert re.fullmatch(r"[\d-]{10}T[\d:.]+Z", ours["created_at"])
    assert re.fullmatch(r"msg_[0-9a-f]{8}", theirs["id"])
    assert re.fullmatch(r"msg_[0-9a-f-]{36}", ours["id"])


async def test_upload_descriptors(stock: PlainServer, open_chat: OpenChat) -> None:
    file = {"name": "a.txt", "size": 5, "mime_type": "text/plain"}
    chat = open_chat("bot")
    created, theirs = await chat.call("attachments.create", **file), await stock.call("attachments.create", **file)
    await chat.http.put(created["upload_descriptor"]["url"], content=b"hello")
    await chat.send("blocks", attachments=[created["id"]])

    (sent, _) = await stock.stored(await stock.start("x", attachments=[theirs["id"]]))

    assert "upload_descriptor" in sent["attachments"][0]
    assert "upload_descriptor" not in chat.last("user_message")["attachments"][0]


async def test_unknown_properties_of_widgets(stock: PlainServer, open_chat: OpenChat) -> None:
    chat = open_chat("bot")
    await chat.send("card")

    theirs = (await stock.stored(await stock.start("card")))[1]

    assert "border" not in theirs["widget"]
    assert (await chat.stored())[1]["widget"]["border"] == CARD["border"]
