"""The encoders reproduce every golden transcript of spec/transcripts byte for byte."""

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from threadwire.core.encoder import Encoder, Framing
from threadwire.core.entries import Entry, Kind
from threadwire.core.json import loads
from threadwire.http.sse import named_events, unnamed_events
from threadwire.protocols.ag_ui.encode import Options, RunEncoder
from threadwire.protocols.ag_ui.thread_encoder import ThreadEncoder
from threadwire.protocols.ag_ui.wire import encoded
from threadwire.protocols.chatkit.encode import ChatKitEncoder
from threadwire.protocols.chatkit.formats import AgentFormats
from threadwire.protocols.chatkit.wire import events
from threadwire.protocols.langgraph.encode import RunStreamEncoder, StreamOptions
from threadwire.protocols.langgraph.encode_thread import ThreadStreamEncoder
from threadwire.protocols.langgraph.thread_wire.encode import ThreadWireEncoder
from threadwire.protocols.langgraph.thread_wire.subscription import CHANNELS, Subscription

TRANSCRIPTS = Path(__file__).parents[2] / "spec" / "transcripts"
LOGS = sorted(TRANSCRIPTS.glob("*/log.json"))
THREADS = {path.parent for path in TRANSCRIPTS.glob("*/thread-*.txt")}
"""The folders that hold a whole thread; each of the others holds one run."""
FRAMES = sorted(TRANSCRIPTS.glob("*/*.txt"))
WIRE_EVENTS = sorted(TRANSCRIPTS.glob("*/wire*.txt"))
WIRE_VIEWS = {
    "wire": Subscription(frozenset(CHANNELS)),
    "wire-page": Subscription(
        frozenset({"values", "checkpoints", "lifecycle", "input", "messages", "tools"}), ((),), depth=1
    ),
    "wire-lifecycle": Subscription(frozenset({"lifecycle", "input"})),
}
_ID = re.compile(rb"^id: (\d+)$", re.MULTILINE)


def label(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


each_log = pytest.mark.parametrize("log", LOGS, ids=label)
each_run = pytest.mark.parametrize("log", [log for log in LOGS if log.parent not in THREADS], ids=label)
each_view = pytest.mark.parametrize("frames", FRAMES, ids=label)
each_view_with_ids = pytest.mark.parametrize("frames", [each for each in FRAMES if each.stem != "chatkit"], ids=label)
"""ChatKit's events have no ids."""
each_wire_view = pytest.mark.parametrize("frames", WIRE_EVENTS, ids=label)


def entries_of(folder: Path) -> list[Entry]:
    return [Entry(**{**fields, "ns": tuple(fields["ns"])}) for fields in loads((folder / "log.json").read_bytes())]


def encoder_for(frames: Path) -> Callable[[], Encoder]:
    """Return the encoder that the file name describes: protocol, modes, and whether subgraphs are included."""
    if frames.stem == "ag-ui":
        return lambda: RunEncoder(Options("page-thread"))
    if frames.stem == "chatkit":
        return lambda: ChatKitEncoder("page-thread", AgentFormats())
    if (subscription := WIRE_VIEWS.get(frames.stem)) is not None:
        return lambda: ThreadWireEncoder(subscription)
    wide = frames.stem.endswith("-subgraphs")
    protocol, modes = frames.stem.removesuffix("-subgraphs").split("-", 1)
    if protocol == "thread":
        return lambda: ThreadStreamEncoder(frozenset(modes.split("+")))
    assert protocol == "langgraph"
    options = StreamOptions(frozenset(modes.split("+")), wide)
    return lambda: RunStreamEncoder(options)


def framing_of(frames: Path) -> Framing:
    return {"ag-ui": unnamed_events, "chatkit": events}.get(frames.stem, named_events)


def split(frames: bytes) -> list[bytes]:
    lines = frames.replace(b"\r\n", b"\n")
    assert lines == b"" or lines.endswith(b"\n\n")
    return lines.split(b"\n\n")[:-1]


def ids_in(frame: bytes) -> list[int]:
    return [int(number) for number in _ID.findall(frame)]


def test_every_transcript_is_complete() -> None:
    assert [log.parent.name for log in LOGS] == sorted(path.name for path in TRANSCRIPTS.iterdir() if path.is_dir())
    assert {log.parent for log in LOGS} == {frames.parent for frames in FRAMES}


@each_run
def test_a_log_is_one_run_from_its_first_entry_to_its_last(log: Path) -> None:
    """1.2, 5.1 - 5.4"""
    entries = entries_of(log.parent)
    attempts = [entry.attempt for entry in entries]
    started = [entry for entry in entries if entry.kind == Kind.RUN_STARTED]

    assert [entry.seq for entry in entries] == list(range(entries[0].seq, entries[0].seq + len(entries)))
    assert len({entry.run_id for entry in entries}) == 1
    assert entries[0].kind == Kind.RUN_QUEUED
    assert [entry.seq for entry in entries if entry.kind == Kind.RUN_ENDED] == [entries[-1].seq]
    assert attempts == sorted(attempts)
    assert [entry.data["attempt"] for entry in started] == sorted(set(attempts) - {0})


@each_log
def test_the_first_state_of_every_attempt_and_namespace_is_full(log: Path) -> None:
    """4.6"""
    first = {}
    for entry in entries_of(log.parent):
        if entry.kind == Kind.STATE:
            first.setdefault((entry.run_id, entry.attempt, entry.ns), entry)
    assert all(entry.data.get("full") for entry in first.values())


@each_view
def test_the_encoder_produces_exactly_these_bytes(frames: Path) -> None:
    encoder, framing = encoder_for(frames)(), framing_of(frames)
    sent = [framing(encoder.feed(entry), entry.seq) for entry in entries_of(frames.parent)]
    assert b"".join(sent) == frames.read_bytes()


@each_log
def test_the_events_of_an_ag_ui_encoder_are_those_it_sends(log: Path) -> None:
    sending, inspected = (ThreadEncoder(Options("page-thread")) for _ in range(2))
    for entry in entries_of(log.parent):
        assert encoded(inspected.events(entry)) == list(sending.feed(entry))


@each_view
def test_an_encoder_primed_up_to_any_entry_continues_with_the_same_bytes(frames: Path) -> None:
    """4.4, 4.5"""
    entries, create = entries_of(frames.parent), encoder_for(frames)
    live = create()
    sent = [live.feed(entry) for entry in entries]

    for cursor in range(len(entries) + 1):
        resumed = create()
        for entry in entries[:cursor]:
            resumed.feed(entry)
        assert [resumed.feed(entry) for entry in entries[cursor:]] == sent[cursor:]


@pytest.mark.parametrize("frames", [frames for frames in FRAMES if frames.parent in THREADS], ids=label)
def test_a_thread_encoder_is_primed_only_with_the_runs_that_continue(frames: Path) -> None:
    """4.5a"""
    entries, create = entries_of(frames.parent), encoder_for(frames)
    live = create()
    sent = [live.feed(entry) for entry in entries]

    for cursor in range(len(entries) + 1):
        continuing = {entry.run_id for entry in entries[cursor:] if entry.run_id}
        resumed = create()
        for entry in entries[:cursor]:
            if entry.run_id in continuing:
                resumed.feed(entry)
        assert [resumed.feed(entry) for entry in entries[cursor:]] == sent[cursor:]


@each_view_with_ids
def test_only_the_last_frame_of_an_entry_carries_its_id(frames: Path) -> None:
    """4.1, 4.2"""
    encoder, framing = encoder_for(frames)(), framing_of(frames)
    for entry in entries_of(frames.parent):
        ids = [ids_in(frame) for frame in split(framing(encoder.feed(entry), entry.seq))]
        assert ids[:-1] == [[]] * len(ids[:-1])
        assert ids[-1:] in ([], [[entry.seq]])


@each_view_with_ids
def test_ids_increase_strictly(frames: Path) -> None:
    """4.1"""
    ids = [frame_id for frame in split(frames.read_bytes()) for frame_id in ids_in(frame)]
    assert ids
    assert all(before < after for before, after in pairwise(ids))


@each_view
def test_feeding_an_encoder_does_not_change_the_entries(frames: Path) -> None:
    """4.7: several encoders are fed the same entries."""
    entries, encoder = entries_of(frames.parent), encoder_for(frames)()
    for entry in entries:
        encoder.feed(entry)
    assert entries == entries_of(frames.parent)


# -- the thread wire --------------------------------------------------------------------------------------------------


def wire_events(frames: Path) -> list[dict[str, Any]]:
    data = [line for frame in split(frames.read_bytes()) for line in frame.splitlines() if line.startswith(b"data: ")]
    return [loads(line.removeprefix(b"data: ")) for line in data]


@each_wire_view
def test_an_event_has_the_same_id_in_every_subscription(frames: Path) -> None:
    everything = {event["event_id"]: event for event in wire_events(frames.with_name("wire.txt"))}
    for event in wire_events(frames):
        assert {**everything[event["event_id"]], "seq": None} == {**event, "seq": None}


@each_wire_view
def test_event_ids_are_unique(frames: Path) -> None:
    ids = [event["event_id"] for event in wire_events(frames)]
    assert len(ids) == len(set(ids))


@each_wire_view
def test_resuming_after_the_seq_of_any_event_loses_none(frames: Path) -> None:
    events = wire_events(frames)
    for at, event in enumerate(events):
        replayed = {each["event_id"] for each in events if int(each["event_id"].partition(".")[0]) > event["seq"]}
        assert replayed >= {each["event_id"] for each in events[at + 1 :]}


@each_wire_view
def test_each_run_starts_with_running_and_ends_with_a_terminal_status(frames: Path) -> None:
    root = [
        event["params"]["data"]["event"]
        for event in wire_events(frames)
        if event["method"] == "lifecycle" and not event["params"]["namespace"]
    ]
    attempts = re.sub("(running )+", "running ", " ".join(root)).split()  # an attempt may be cut short
    assert attempts[::2] == ["running"] * (len(attempts) // 2)
    assert set(attempts[1::2]) <= {"completed", "failed", "interrupted"}


@pytest.mark.parametrize("frames", sorted(TRANSCRIPTS.glob("*/wire.txt")), ids=label)
def test_every_message_and_block_that_starts_also_finishes(frames: Path) -> None:
    opened: dict[str, int] = {}
    for event in wire_events(frames):
        if event["method"] == "messages":
            kind = event["params"]["data"]["event"]
            if kind == "content-block-delta":
                assert opened["content-block"] == 1
            else:
                name, _, edge = ("message-finish" if kind == "error" else kind).rpartition("-")
                opened[name] = opened.get(name, 0) + (1 if edge == "start" else -1)
                assert opened[name] in (0, 1)
    assert not any(opened.values())
