"""A fork removes the items of the branch that it leaves from the page, and brings back those of the branch that it
returns to."""

from typing import Any

import pytest
from chatkit_checker import ITEM, StrictClient, events_of, validate
from chatkit_client import OpenChat
from langgraph_sdk import get_client

from threadwire.core.entries import Entry, Json, Kind
from threadwire.core.ids import RunId, Seq
from threadwire.core.json import dumps
from threadwire.protocols.chatkit.encode import ChatKitEncoder
from threadwire.protocols.chatkit.formats import AgentFormats
from threadwire.protocols.chatkit.wire import events
from threadwire.testing.server import RunningServer

CALL = {"id": "call", "name": "lookup", "args": {}}
FIRST = [{"type": "human", "id": "h1", "content": "Hello"}, {"type": "ai", "id": "a1", "content": "Hi"}]
SECOND = [
    {"type": "human", "id": "h2", "content": "Look it up"},
    {"type": "ai", "id": "a2", "content": "", "tool_calls": [CALL]},
    {"type": "tool", "id": "t2", "content": "broken", "tool_call_id": "call", "status": "error"},
    {"type": "ai", "id": "b2", "content": "It failed"},
]
THIRD = [{"type": "human", "id": "h3", "content": "Or rather"}, {"type": "ai", "id": "a3", "content": "Yes?"}]


class Page:
    """A page that follows a log from its first entry, and a fold that is restored after every entry."""

    def __init__(self) -> None:
        self._encoder = ChatKitEncoder("thread", AgentFormats())
        self._client = StrictClient()
        self._seq = 0
        self._run = ""

    @property
    def items(self) -> list[dict[str, Any]]:
        return list(self._client.items.values())

    def write(self, kind: str, **data: Json) -> None:
        self._seq += 1
        entry = Entry(Seq(self._seq), RunId(self._run), 1, self._seq, (), kind, data)
        restored = ChatKitEncoder("thread", AgentFormats())
        restored.restore(self._encoder.snapshot())
        sent = events(self._encoder.feed(entry), entry.seq)
        assert events(restored.feed(entry), entry.seq) == sent
        self._client.apply_all(events_of(sent))
        assert dumps(self.items) == dumps(self._encoder.items.shown()) == dumps(restored.items.shown())

    def start(self, run: str, newest: str | None = None, base: str | None = None) -> None:
        self._run = run
        self.write(
            Kind.RUN_STARTED, attempt=1, graph_id="graph", **({} if newest is None else {"checkpoint_id": newest})
        )
        if base is not None:
            self.write(Kind.STATE_RESET, cause="fork", checkpoint_id=base)

    def state(self, messages: list[Any]) -> None:
        self.write(Kind.STATE, full=True, set={"messages": messages}, keys=["messages"])

    def end(self, checkpoint: str, **data: Json) -> None:
        self.write(Kind.CHECKPOINT, id=checkpoint, source="loop", next=[])
        self.write(Kind.RUN_ENDED, **{"status": "success", **data})


def two_turns() -> Page:
    """A page with every kind of item that belongs to a block: the last ones are a widget and an answered question."""
    page = Page()
    page.start("r1")
    page.state(FIRST)
    page.end("c1")
    page.start("r2", "c1")
    for end in range(len(SECOND) + 1):
        page.state([*FIRST, *SECOND[:end]])
    page.write(Kind.CUSTOM, value={"type": "ui", "id": "u", "name": "chart", "props": {"points": 3}})
    page.write(Kind.INPUT_REQUESTED, interrupts=[{"id": "i", "value": "Sure?"}])
    page.end("c2", interrupts=[{"id": "i", "value": "Sure?"}])
    page.start("r3", "c2")
    page.write(Kind.INPUT_ANSWERED, value={"i": "yes"}, answers=[{"id": "i", "response": "yes"}])
    page.state([*FIRST, *SECOND])
    page.end("c3")
    assert [item["type"] for item in page.items[3:]] == [
        *("user_message", "workflow", "assistant_message", "widget", "widget", "end_of_turn")
    ]
    return page


def test_items_come_back_with_their_branch() -> None:
    page = two_turns()
    before = page.items
    page.start("r4", "c3", base="c1")
    assert page.items == before[:3]
    page.state(FIRST)
    page.state([*FIRST, *THIRD])
    page.end("c4")
    assert [item["id"] for item in page.items[3:]] == ["msg_h3", "msg_a3", "turn_r4"]
    page.start("r5", "c4", base="c3")
    page.state([*FIRST, *SECOND])
    assert page.items == before
    for item in page.items:
        validate(ITEM, item)


def test_items_come_back_when_a_fork_is_rolled_back() -> None:
    page = two_turns()
    before = page.items
    page.start("r4", "c3", base="c1")
    page.state(FIRST)
    page.state([*FIRST, *THIRD])
    page.write(Kind.STATE_RESET, cause="rollback")
    page.write(Kind.RUN_ENDED, status="rolled_back")
    assert page.items == before


def test_a_question_is_open_again_when_the_fork_that_left_it_is_rolled_back() -> None:
    page = Page()
    page.start("r1")
    page.state(FIRST)
    page.write(Kind.CHECKPOINT, id="c1", source="loop", next=["ask"])
    page.write(Kind.INPUT_REQUESTED, interrupts=[{"id": "i", "value": "Sure?"}])
    page.end("c2", interrupts=[{"id": "i", "value": "Sure?"}])
    before = page.items
    page.start("r2", "c2", base="c1")
    assert "int_i" not in [item["id"] for item in page.items]
    page.write(Kind.RUN_ENDED, status="rolled_back")
    assert page.items == before


@pytest.mark.anyio
async def test_a_page_shows_the_branch_that_another_client_selects(open_chat: OpenChat, server: RunningServer) -> None:
    chat = open_chat("bot")
    await chat.send("say one")
    async with get_client(url=server.url) as sdk:
        thread_id = str(chat.thread_id)
        first = (await sdk.threads.get_state(thread_id))["checkpoint"]["checkpoint_id"]
        await chat.send("events two")
        second = (await sdk.threads.get_state(thread_id))["checkpoint"]["checkpoint_id"]
        before = await chat.stored()
        other: dict[str, Any] = {"messages": [{"type": "human", "id": "other", "content": "say three"}]}
        await sdk.runs.wait(thread_id, "bot", input=other, checkpoint_id=first)
        assert [item["type"] for item in await chat.stored()] == [
            "user_message",
            "assistant_message",
            "end_of_turn",
        ] * 2
        await sdk.runs.wait(thread_id, "bot", input=None, checkpoint_id=second)
    after = await chat.stored()
    assert after[: len(before)] == before
    assert [item["type"] for item in after[len(before) :]] == ["end_of_turn"]
