"""A page that attaches at any point of a run ends up with the same data as one that was there from the start."""

import json
from pathlib import Path

import pytest
from agui_checker import AgUiChecker

from threadwire.core.encoder import Encoder
from threadwire.core.entries import Entry
from threadwire.http.sse import unnamed_events
from threadwire.protocols.ag_ui.encode import Options, RunEncoder
from threadwire.protocols.ag_ui.thread_encoder import ThreadEncoder
from threadwire.protocols.ag_ui.wire import Event, encoded, run_started

TRANSCRIPTS = Path(__file__).parents[2] / "spec" / "transcripts"
SCENARIOS = sorted(path.parent.name for path in TRANSCRIPTS.glob("*/log.json"))


def entries_of(scenario: str) -> list[Entry]:
    """The entries of the scenario's last run."""
    rows = json.loads((TRANSCRIPTS / scenario / "log.json").read_text())
    entries = [Entry(**{**row, "ns": tuple(row["ns"])}) for row in rows]
    last = [entry.run_id for entry in entries if entry.run_id is not None][-1]
    return [entry for entry in entries if entry.run_id == last]


@pytest.fixture(params=SCENARIOS)
def entries(request: pytest.FixtureRequest) -> list[Entry]:
    return entries_of(request.param)


def stream(entries: list[Entry], encoder: Encoder) -> bytes:
    return b"".join(unnamed_events(encoder.feed(entry), entry.seq) for entry in entries)


def frames(events: list[Event]) -> bytes:
    return unnamed_events(encoded(events), None)


@pytest.mark.parametrize("raw", [False, True])
def test_every_stream_is_valid(agui: AgUiChecker, entries: list[Entry], raw: bool) -> None:
    encoder = RunEncoder(Options("t", raw=raw))
    seen = agui.check(stream(entries, encoder))

    assert seen.events[0]["type"] == "RUN_STARTED"
    assert seen.events[-1]["type"] in ("RUN_FINISHED", "RUN_ERROR")


def test_a_stream_of_protocol_1_0_is_valid(agui: AgUiChecker, entries: list[Entry]) -> None:
    encoder = RunEncoder(Options("t", modern=True))
    agui.check(stream(entries, encoder), generations=["1.0"])


def test_attaching_anywhere_ends_with_the_same_data(agui: AgUiChecker, entries: list[Entry]) -> None:
    whole = RunEncoder(Options("t"))
    stayed = agui.check(stream(entries, whole))

    for at in range(1, len(entries)):
        encoder = RunEncoder(Options("t"))
        for entry in entries[:at]:
            encoder.feed(entry)
        first = frames([run_started("t", str(entries[0].run_id)), *encoder.join_events(None)])
        late = agui.check(first + stream(entries[at:], encoder))

        assert late.messages == stayed.messages, entries[at - 1]
        assert late.state == stayed.state, entries[at - 1]
        assert late.interrupts == stayed.interrupts, entries[at - 1]


def test_resuming_anywhere_ends_with_the_same_data(agui: AgUiChecker, entries: list[Entry]) -> None:
    """With a cursor a page keeps its data and receives only what follows."""
    encoder = RunEncoder(Options("t"))
    sent = [stream([entry], encoder) for entry in entries]
    stayed = agui.check(b"".join(sent))

    for at in range(1, len(entries)):
        thread = ThreadEncoder(Options("t"))
        for entry in entries[:at]:
            thread.feed(entry)
        reopening = thread.reopen_events()
        rest = stream(entries[at:], thread)
        before = agui.until_dropped(b"".join(sent[:at]))
        late = agui.check(frames(reopening) + rest, messages=before.messages, state=before.state)

        assert late.messages == stayed.messages, entries[at - 1]
        assert late.state == stayed.state, entries[at - 1]
        if reopening:
            assert rest == b"".join(sent[at:]), "a page that resumes receives the same bytes as one that stayed"
