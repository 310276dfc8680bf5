"""The same requests to OpenAI's own `ChatKitServer` and to ours. Every difference is documented."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from chatkit_checker import StrictClient
from chatkit_client import PROJECT, OpenChat, message
from langgraph.checkpoint.memory import InMemorySaver
from stock_chatkit import MemoryStore, StockServer, call

from threadwire.chatkit import LangGraphAdapter

sys.path += [str(PROJECT.parent), str(Path(__file__).parents[2] / "examples")]

import chatkit_agents

pytestmark = pytest.mark.anyio

_TIME = re.compile(r"\d{4}-\d\d-\d\dT.*")


@pytest.fixture
def stock() -> StockServer:
    return StockServer(
        LangGraphAdapter(chatkit_agents.tools.copy(update={"checkpointer": InMemorySaver()}), chatkit_agents.formats)
    )


@pytest.fixture
def stock_bot() -> StockServer:
    return StockServer(LangGraphAdapter(chatkit_agents.graph.copy(update={"checkpointer": InMemorySaver()})))


class Names:
    """Replaces ids and times, which differ, by names in the order in which they appear."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def __call__(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: self(each, name) for name, each in value.items() if name not in ("title", "after")}
        if isinstance(value, list):
            return [self(each) for each in value]
        if isinstance(value, str) and _TIME.fullmatch(value):
            return "time"
        if key in ("id", "item_id", "thread_id", "interrupt_id") and isinstance(value, str):
            return self._names.setdefault(value, f"{key}-{len(self._names)}")
        return value


def comparable(events: list[dict[str, Any]]) -> list[Any]:
    """The events without what is documented as different: whether a run can be stopped, and titles."""
    shown = [event for event in events if event["type"] not in ("stream_options", "thread.updated")]
    names = Names()
    return [names(event) for event in shown]


@pytest.mark.parametrize("text", ["weather please", "facts search", "hello", "whisper"])
async def test_a_turn_has_the_same_events(open_chat: OpenChat, stock: StockServer, text: str) -> None:
    ours = await open_chat("tools").send(text)
    theirs = await stock.call("threads.create", input=message(text))

    assert comparable(ours) == comparable(theirs)
    assert [each["type"] for each in ours[:3]] == [each["type"] for each in theirs[:3]]


@pytest.mark.parametrize("text", ["say hi", "think about it", "cite this and that", "ask Why?", "order", "events over"])
async def test_every_kind_of_item_is_the_same(open_chat: OpenChat, stock_bot: StockServer, text: str) -> None:
    ours = await open_chat("bot").send(text)
    theirs = await stock_bot.call("threads.create", input=message(text))

    assert comparable(ours) == comparable(theirs)


async def test_threads_and_items_are_read_in_the_same_form(open_chat: OpenChat, stock: StockServer) -> None:
    chat = open_chat("tools")
    tag = {"type": "input_tag", "id": "unknown", "text": "x", "data": {}, "interactive": False}
    sent = message("hello", content=[{"type": "input_text", "text": "hello "}, tag], quoted_text="q")
    created = await stock.call("threads.create", input=sent)
    await chat.stream("threads.create", input=sent)
    theirs, ours = created[0]["thread"]["id"], chat.thread_id
    for page in ({}, {"limit": 2}, {"order": "asc", "limit": 3}):
        one = await chat.call("items.list", thread_id=ours, **page)
        other = await stock.call("items.list", thread_id=theirs, **page)
        assert Names()(one) == Names()(other)
    one, other = (
        await chat.call("threads.get_by_id", thread_id=ours),
        await stock.call("threads.get_by_id", thread_id=theirs),
    )
    assert Names()(one) == Names()(other)
    assert StrictClient(one["items"]["data"]).items
    for operation, params in (
        ("threads.update", {"title": "New"}),
        ("items.feedback", {"item_ids": [], "kind": "negative"}),
        ("threads.delete", {}),
    ):
        one = await chat.call(operation, thread_id=ours, **params)
        other = await stock.call(operation, thread_id=theirs, **params)
        assert one.get("title") == other.get("title")
        if operation != "threads.update":
            assert one == other == {}


async def test_the_example_server_streams_the_scheduling_assistant() -> None:
    from scheduling.chatkit_server import LangGraphSchedulingServer

    server = LangGraphSchedulingServer(MemoryStore())
    first = await call(server, "threads.create", input=message("Show schedule overview"))
    client = StrictClient().apply_all(first)
    thread_id = first[0]["thread"]["id"]
    assign = message("Assign s_geometry to t_bob")
    second = await call(server, "threads.add_user_message", thread_id=thread_id, input=assign)
    client.apply_all(second)

    kinds = [item["type"] for item in client.items.values()]
    assert kinds.count("user_message") == 2
    widgets = [item["widget"]["type"] for item in client.items.values() if item["type"] == "widget"]
    assert widgets == ["Card", "ListView", "Card"]
    workflow = next(item for item in client.items.values() if item["type"] == "workflow")["workflow"]
    assert "- **Alice**: 8.0h/12.0 (66.7%)" in workflow["tasks"][0]["content"]
    stored = await call(server, "items.list", thread_id=thread_id, order="asc", limit=100)
    # It stores items when they are done, so a reload changes their order. Ours keeps the order of the stream.
    assert {item["id"] for item in stored["data"]} == set(client.items)


async def test_the_adapter_answers_an_interrupt(stock_bot: StockServer) -> None:
    from langgraph.types import Command

    adapter = stock_bot.adapter
    asked = [event async for event in adapter.stream_agent_response_from_langgraph("ask Why?", "thread-1")]
    answered = [
        event async for event in adapter.stream_agent_response_from_langgraph(Command(resume="because"), "thread-1")
    ]

    assert [event.item.type for event in asked if event.type == "thread.item.done"] == ["widget"]
    (card,) = [event.item for event in answered if event.type == "thread.item.replaced"]
    assert card.id == asked[-1].item.id
    assert card.model_dump()["widget"]["status"]["text"] == "Answered"
    done = [event.item for event in answered if event.type == "thread.item.done"]
    assert [item.type for item in done] == ["assistant_message", "end_of_turn"]
    assert done[0].content[0].text == "You said because"
