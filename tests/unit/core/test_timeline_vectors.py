"""Every vector of spec/timeline yields the blocks and values that it expects (spec/timeline.md, "Vectors")."""

from pathlib import Path

import pytest

from threadwire.core.entries import Entry
from threadwire.core.json import loads
from threadwire.core.timeline import Copy, Timeline, TimelineOptions
from threadwire.core.timeline.operations import operation_of, stamp_of
from timeline_events import EventNormalizer

SPEC = Path(__file__).parents[3] / "spec"
VECTORS = {path.stem: loads(path.read_bytes()) for path in sorted((SPEC / "timeline").glob("*.json"))}
SHARED = {name: vector for name, vector in VECTORS.items() if vector.get("side") != "client"}
CLIENT_ONLY = {"message.local", "message.rejected", "interrupt.submitting", "interrupt.rejected", "interrupt.elsewhere"}
CLOCK = ("seq", "receivedAt", "updatedAt", "rev")


def entry_of(data):
    return Entry(**{**data, "ns": tuple(data["ns"])})


def entries_of(vector):
    return loads((SPEC / vector["log"]).read_bytes()) if "log" in vector else vector.get("entries", [])


def options_of(vector):
    given = vector.get("options", {})
    return TimelineOptions(
        given.get("partialDisplay", "append"), given.get("messagesKey", "messages"), given.get("uiKey", "ui")
    )


def changes_of(timeline, vector):
    """Apply the vector, step by step; each step gives its changes."""
    events = EventNormalizer()
    for operation in vector.get("operations", ()):
        yield timeline.apply(operation_of(operation), stamp_of(operation))
    for event in vector.get("events", ()):
        for operation, stamp in events.feed(event):
            yield timeline.apply(operation, stamp)
    for entry in entries_of(vector):
        yield timeline.feed(entry_of(entry))


def comparable(found, expected):
    """The blocks without what the vector does not compare."""
    return [
        {key: value for key, value in block.items() if key not in CLOCK or key in wanted}
        for block, wanted in zip(found, expected, strict=True)
    ]


@pytest.mark.parametrize("name", SHARED)
def test_vector_gives_its_timeline(name):
    vector = SHARED[name]
    timeline = Timeline(options_of(vector))
    for _ in changes_of(timeline, vector):
        pass
    assert [block["id"] for block in timeline.blocks()] == [block["id"] for block in vector["blocks"]]
    assert comparable(timeline.blocks(), vector["blocks"]) == vector["blocks"]
    if "values" in vector:
        assert timeline.values == vector["values"]


@pytest.mark.parametrize("name", SHARED)
def test_changes_of_a_vector_keep_a_copy_up_to_date(name):
    vector = SHARED[name]
    timeline = Timeline(options_of(vector))
    copy = Copy([], {})
    for changes in changes_of(timeline, vector):
        for change in changes:
            copy.apply(change)
        assert (copy.blocks, copy.values) == (timeline.blocks(), timeline.values)


@pytest.mark.parametrize("name", VECTORS)
def test_vector_is_well_formed(name):
    vector = VECTORS[name]
    assert vector["title"]
    assert vector["rules"]
    assert sum(key in vector for key in ("operations", "events", "entries", "log")) == 1
    used = {operation["op"] for operation in vector.get("operations", ())}
    assert bool(used & CLIENT_ONLY) == (vector.get("side") == "client")


@pytest.mark.parametrize("name", VECTORS)
def test_rules_of_a_vector_exist(name):
    text = (SPEC / "timeline.md").read_text()
    for rule in VECTORS[name]["rules"]:
        assert f"- **{rule}** " in text
