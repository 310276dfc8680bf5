"""The checker finds each kind of violation, and none in a log as the server writes it."""

from pathlib import Path
from typing import Any

import pytest
from log_checker import check_directory, violations

from threadwire.core.entries import Draft, Entry, Kind
from threadwire.core.ids import RunId, Seq
from threadwire.storage.sqlite import open_sqlite_storage
from threadwire.testing.conformance.samples import note, start_on_new_thread

pytestmark = pytest.mark.anyio

ONE, OTHER = RunId("one"), RunId("other")


def log(*entries: tuple[Any, ...]) -> list[Entry]:
    """Entries given as run, attempt, kind and data."""
    return [
        Entry(Seq(seq), run, attempt, 0, (), kind, data) for seq, (run, attempt, kind, data) in enumerate(entries, 1)
    ]


QUEUED = (ONE, 0, Kind.RUN_QUEUED, {})
STARTED = (ONE, 1, Kind.RUN_STARTED, {"attempt": 1})
AGAIN = (ONE, 2, Kind.RUN_STARTED, {"attempt": 2})
STATE = (ONE, 1, Kind.STATE, {"full": True, "set": {}})
DECLARED = (ONE, 1, Kind.MESSAGES, {"i": 0, "chunk": {}, "meta": {}})
TEXT = (ONE, 1, Kind.MESSAGES, [0, "text"])
ANSWERED = (ONE, 1, Kind.INPUT_ANSWERED, {})
ENDED = (ONE, 1, Kind.RUN_ENDED, {"status": "success"})


def test_a_complete_log_has_no_violations() -> None:
    after_crash = [(ONE, 2, *STATE[2:]), (ONE, 2, *DECLARED[2:]), (ONE, 2, *ENDED[2:])]
    entries = log(QUEUED, STARTED, ANSWERED, STATE, DECLARED, TEXT, AGAIN, *after_crash)
    assert violations(entries, {}) == []


@pytest.mark.parametrize(
    ("rule", "entries"),
    [
        ("1.2", log(QUEUED, STARTED, ENDED)[:1] + log(QUEUED, STARTED, ENDED)[2:]),
        ("1.4", log(QUEUED, ENDED, (None, 1, Kind.STATE_RESET, {}))),
        ("4.6", log(QUEUED, STARTED, (ONE, 1, Kind.STATE, {"set": {}}), ENDED)),
        ("4.6", log(QUEUED, STARTED, STATE, AGAIN, (ONE, 2, Kind.STATE, {"set": {}}), ENDED)),
        ("5.1", log(STARTED, ENDED)),
        ("5.2", log(QUEUED, AGAIN, STARTED, ENDED)),
        ("5.2", log(QUEUED, STARTED, STARTED, ENDED)),
        ("5.3", log(QUEUED, STARTED, ENDED, STATE)),
        ("5.3", log(QUEUED, STARTED, ENDED, ENDED)),
        ("5.3", log(QUEUED, STARTED)),
        ("5.4", log(QUEUED, STARTED, AGAIN, STATE, ENDED)),
        ("5.8", log(QUEUED, STARTED, (OTHER, 0, Kind.RUN_QUEUED, {}), (OTHER, 1, *STATE[2:]), ENDED)),
        ("6.1", log(QUEUED, STARTED, TEXT, ENDED)),
        ("6.1", log(QUEUED, STARTED, DECLARED, AGAIN, (ONE, 2, *TEXT[2:]), ENDED)),
        ("6.14", log(QUEUED, STARTED, ANSWERED, AGAIN, (ONE, 2, *ANSWERED[2:]), ENDED)),
    ],
)
def test_each_violation_is_found(rule: str, entries: list[Entry]) -> None:
    assert any(f"{rule}:" in violation for violation in violations(entries, {}))


async def test_rows_are_compared_with_the_log(tmp_path: Path) -> None:
    async with open_sqlite_storage(tmp_path) as storage:
        run = await start_on_new_thread(storage)
        started = Draft(Kind.RUN_STARTED, {"attempt": run.attempt})
        await storage.handle(run).append([started, note("a note")]).wait()
        entries = await storage.log.read(run.thread_id, Seq(0))
    assert violations(entries, {run.run_id: run}) == []
    ended = [*entries, entries[-1]._replace(seq=Seq(4), kind=Kind.RUN_ENDED, data={"status": "success"})]
    assert "its row is running" in violations(ended, {run.run_id: run})[0]
    assert await check_directory(tmp_path) == (3, [])
