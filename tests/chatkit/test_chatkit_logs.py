"""The fold of recorded logs: valid events, and the same items from every position."""

import sys
from pathlib import Path
from typing import Any

import pytest
from chatkit_checker import ITEM, StrictClient, events_of, validate
from chatkit_client import PROJECT
from langgraph.checkpoint.memory import InMemorySaver

from threadwire.chatkit import LangGraphAdapter
from threadwire.core.entries import Entry
from threadwire.core.ids import Seq
from threadwire.core.json import dumps, loads
from threadwire.protocols.chatkit.encode import ChatKitEncoder
from threadwire.protocols.chatkit.formats import AgentFormat, AgentFormats
from threadwire.protocols.chatkit.wire import events

sys.path.append(str(PROJECT.parent))

import chatkit_agents

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "spec"
LOGS = [*sorted((SPEC / "transcripts").glob("*/log.json")), *sorted((SPEC / "timeline").glob("log-*"))]
FORMATS = {
    "plain": AgentFormats(),
    "subgraphs": AgentFormats(
        {
            graph: AgentFormat(subgraphs=True, custom_effects=True)
            for graph in ("nested", "everything", "by_hand_below", "report", "approvals")
        }
    ),
}

each_log = pytest.mark.parametrize("path", LOGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
each_format = pytest.mark.parametrize("formats", FORMATS.values(), ids=FORMATS)


def entries_of(path: Path) -> list[Entry]:
    """The entries of a transcript, or of a vector, which contains a log or names its file."""
    data = loads(path.read_bytes())
    if isinstance(data, dict):
        data = data["entries"] if "entries" in data else loads((SPEC / data["log"]).read_bytes())
    return [Entry(**{**fields, "ns": tuple(fields["ns"])}) for fields in data]


SCENARIOS = {
    "everything": ("graph", ["events over", "ui over", "think about it", "cite this and that", "image", "half of it"]),
    "tools": ("tools", ["weather search whisper facts break", "counter"]),
    "questions": ("graph", ["ask Why?", "order", "book", "client tables", "say done"]),
    "approvals": ("careful", ["delete and mail", "types please"]),
}


@pytest.fixture(params=SCENARIOS.values(), ids=SCENARIOS)
async def recorded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[Entry]:
    """The log of each run of a scenario, as the adapter records it."""
    name, texts = request.param
    entries: list[Entry] = []
    feed = ChatKitEncoder.feed

    def recording(self: ChatKitEncoder, entry: Entry) -> Any:
        entries.append(entry._replace(seq=Seq(len(entries) + 1)))
        return feed(self, entry)

    monkeypatch.setattr(ChatKitEncoder, "feed", recording)
    graph = getattr(chatkit_agents, name).copy(update={"checkpointer": InMemorySaver()})
    adapter = LangGraphAdapter(graph, chatkit_agents.formats)
    for text in texts:
        async for _ in adapter.stream_agent_response_from_langgraph(text, "thread"):
            pass
    monkeypatch.undo()
    return entries


@pytest.mark.anyio
async def test_every_kind_of_item_is_the_same_from_any_position(recorded: list[Entry]) -> None:
    formats = AgentFormats({"agent": AgentFormat(chatkit_agents.formats.tools, chatkit_agents.formats.widgets)})
    encoder, client = ChatKitEncoder("thread", formats), StrictClient()
    for entry in recorded:
        restored = ChatKitEncoder("thread", formats)
        restored.restore(encoder.snapshot())
        sent = events(encoder.feed(entry), entry.seq)
        assert events(restored.feed(entry), entry.seq) == sent, entry
        client.apply_all(events_of(sent))
        assert dumps(list(client.items.values())) == dumps(encoder.items.shown()) == dumps(restored.items.shown()), (
            entry
        )


def fed(entries: list[Entry], formats: AgentFormats) -> tuple[ChatKitEncoder, list[list[dict[str, Any]]]]:
    encoder = ChatKitEncoder("thread", formats)
    return encoder, [events_of(events(encoder.feed(entry), entry.seq)) for entry in entries]


@each_format
@each_log
def test_a_strict_client_accepts_every_event_and_has_the_items_of_the_fold(path: Path, formats: AgentFormats) -> None:
    encoder, of_entries = fed(entries_of(path), formats)

    client = StrictClient().apply_all([event for each in of_entries for event in each])

    assert list(client.items.values()) == encoder.items.shown()
    for item in encoder.items.shown():
        validate(ITEM, item)


@each_format
@each_log
def test_a_page_that_loads_at_any_position_has_what_was_streamed(path: Path, formats: AgentFormats) -> None:
    encoder = ChatKitEncoder("thread", formats)
    client = StrictClient()
    for entry in entries_of(path):
        client.apply_all(events_of(events(encoder.feed(entry), entry.seq)))
        assert dumps(list(client.items.values())) == dumps(encoder.items.shown()), entry.seq


@each_log
def test_a_fold_restored_at_any_position_continues_with_the_same_events(path: Path) -> None:
    entries = entries_of(path)
    original, of_entries = fed(entries, AgentFormats())
    snapshots = []
    encoder = ChatKitEncoder("thread", AgentFormats())
    for entry in entries:
        encoder.feed(entry)
        snapshots.append(encoder.snapshot())

    stride = max(1, len(entries) // 25)
    for position in range(0, len(entries), stride):
        restored = ChatKitEncoder("thread", AgentFormats())
        restored.restore(snapshots[position])
        rest = [events_of(events(restored.feed(entry), entry.seq)) for entry in entries[position + 1 :]]
        assert rest == of_entries[position + 1 :], position
        assert restored.items.shown() == original.items.shown()
        assert restored.snapshot() == original.snapshot()


def test_a_snapshot_of_another_version_is_rejected() -> None:
    with pytest.raises(ValueError, match="Unknown version"):
        ChatKitEncoder("thread", AgentFormats()).restore(b'{"version": 0}')
