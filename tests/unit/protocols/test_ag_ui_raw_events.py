"""RAW events: what the classic LangGraph stream would carry."""

from pathlib import Path
from typing import Any

import pytest

from threadwire.core.entries import Entry
from threadwire.core.json import loads
from threadwire.core.raw_modes import RAW_MODES
from threadwire.protocols.ag_ui.decode import ConnectInput
from threadwire.protocols.ag_ui.encode import Options, RunEncoder
from threadwire.protocols.ag_ui.raw_events import RawChoice, parse_choice, recorded_modes

TRANSCRIPTS = Path(__file__).parents[3] / "spec" / "transcripts"
CLASSIC = ("values", "messages-tuple", "tasks", "checkpoints", "debug", "events")


def entries_of(transcript: str) -> list[Entry]:
    log = loads((TRANSCRIPTS / transcript / "log.json").read_bytes())
    return [Entry(**{**fields, "ns": tuple(fields["ns"])}) for fields in log]


def events_of(transcript: str, raw: RawChoice) -> list[Any]:
    encoder = RunEncoder(Options("page", raw=raw))
    return [loads(data) for entry in entries_of(transcript) for _, data in encoder.feed(entry)]


def raw_of(transcript: str, raw: RawChoice) -> list[Any]:
    return [each["event"] for each in events_of(transcript, raw) if each["type"] == "RAW"]


def classic(transcript: str, view: str) -> list[Any]:
    """The parts of a classic stream, except its metadata."""
    blocks = (TRANSCRIPTS / transcript / f"langgraph-{view}.txt").read_text().replace("\r\n", "\n").split("\n\n")
    parts = [dict(line.split(": ", 1) for line in block.split("\n") if ": " in line) for block in blocks if block]
    return [{"event": each["event"], "data": loads(each["data"])} for each in parts if each["event"] != "metadata"]


@pytest.mark.parametrize("mode", CLASSIC)
def test_raw_events_carry_what_the_classic_stream_of_a_mode_carries(mode: str) -> None:
    parts = classic("echo", mode)
    expected = [each["data"] for each in parts] if mode == "events" else parts
    assert raw_of("echo", (mode,)) == expected


def test_parts_of_subgraphs_are_named_as_in_the_classic_stream() -> None:
    assert raw_of("nested", ("values",)) == classic("nested", "values-subgraphs")
    assert raw_of("nested", ("updates", "custom")) == classic("nested", "custom+updates-subgraphs")


def test_true_means_the_events_of_the_graph() -> None:
    assert raw_of("echo", True) == raw_of("echo", ("events",)) != []


def test_a_run_that_records_no_events_shows_what_every_run_records() -> None:
    assert raw_of("chat", True) == raw_of("chat", ("updates", "messages-tuple", "custom"))
    assert {each["event"] for each in raw_of("chat", True)} >= {"updates", "messages"}


def test_the_log_can_be_shown_as_it_is() -> None:
    kinds = [entry.kind for entry in entries_of("chat")]
    assert [each["kind"] for each in raw_of("chat", ("log",))] == kinds


def test_nothing_follows_the_end_of_a_run() -> None:
    assert [each["type"] for each in events_of("chat", ("log",))][-2:] == ["RAW", "RUN_FINISHED"]


def test_without_a_choice_there_are_no_raw_events() -> None:
    assert raw_of("chat", False) == []


@pytest.mark.parametrize(
    ("value", "choice", "recorded"),
    [
        (True, True, ["events"]),
        (False, False, []),
        (None, None, None),
        ("updates", ("updates",), ["updates"]),
        (["log", "debug", "log"], ("log", "debug"), ["debug"]),
        ([], (), []),
    ],
    ids=str,
)
def test_a_client_chooses_by_a_flag_a_mode_or_a_list(value: Any, choice: Any, recorded: Any) -> None:
    assert parse_choice(value) == choice
    assert ConnectInput.model_validate({"threadId": "t", "forwardedProps": {"rawEvents": value}}).raw == choice
    assert choice is None or recorded_modes(choice) == recorded


@pytest.mark.parametrize("value", ["true", 1, {"modes": []}, ["updates", 3], "everything"], ids=str)
def test_any_other_choice_is_invalid(value: Any) -> None:
    with pytest.raises(ValueError, match=f"one or more of {', '.join(RAW_MODES)}"):
        ConnectInput.model_validate({"threadId": "t", "forwardedProps": {"rawEvents": value}})
