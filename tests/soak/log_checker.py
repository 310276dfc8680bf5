"""Checks stored logs against spec/log.md, after the server has ended. Numbers refer to its rules."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw

from threadwire.core.entries import START, Entry, Kind
from threadwire.core.ids import RunId, ThreadId
from threadwire.core.records import Run
from threadwire.storage.abc import Storage
from threadwire.storage.sqlite import open_sqlite_storage
from threadwire.storage.sqlite.id_keys import name_of

_PAGE = 5000
_LIFE = (Kind.RUN_QUEUED, Kind.RUN_STARTED, Kind.STATE_RESET, Kind.RUN_ENDED)
"""What may happen to a run while it does not hold its thread."""


async def check_directory(data: Path) -> tuple[int, list[str]]:
    """Check every log of a data directory that no server uses. Returns the number of entries, and the violations."""
    async with open_sqlite_storage(data) as storage:
        return await check_logs(storage, _thread_ids(data))


async def check_logs(storage: Storage, thread_ids: Iterable[ThreadId]) -> tuple[int, list[str]]:
    """Check the logs of these threads. Returns the number of entries, and the violations."""
    count, found = 0, []
    for thread_id in thread_ids:
        entries = await whole_log(storage, thread_id)
        runs = await _runs(storage, entries)
        count += len(entries)
        found += [f"{thread_id}: {violation}" for violation in violations(entries, runs)]
    return count, found


def _thread_ids(data: Path) -> list[ThreadId]:
    """All threads with a log, including those that were discarded."""
    db = apsw.Connection(str(data / "threadwire.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return [ThreadId(name_of(key)) for (key,) in db.execute("SELECT DISTINCT thread FROM segments")]
    finally:
        db.close()


async def whole_log(storage: Storage, thread_id: ThreadId) -> list[Entry]:
    entries: list[Entry] = []
    cursor = START
    while page := await storage.log.read(thread_id, cursor, limit=_PAGE):
        entries += page
        cursor = page[-1].seq
    return entries


async def _runs(storage: Storage, entries: Sequence[Entry]) -> dict[RunId, Run]:
    names = dict.fromkeys(entry.run_id for entry in entries if entry.run_id is not None)
    found = [await storage.runs.get(name) for name in names]
    return {run.run_id: run for run in found if run is not None}


def violations(entries: Sequence[Entry], runs: dict[RunId, Run]) -> list[str]:
    """What is wrong with a log and the rows of its runs. Rows of runs that were rolled back or deleted are missing."""
    found = [violation for rule in _OF_LOGS for violation in rule(entries)]
    of_runs: dict[RunId, list[Entry]] = {}
    for entry in entries:
        if entry.run_id is not None:
            of_runs.setdefault(entry.run_id, []).append(entry)
    for run_id, of_run in of_runs.items():
        found += [f"run {run_id}: {violation}" for rule in _OF_RUNS for violation in rule(of_run)]
        found += [f"run {run_id}: {violation}" for violation in _row(of_run, runs.get(run_id))]
    return found


def _dense(entries: Sequence[Entry]) -> Iterator[str]:
    expected = range(1, len(entries) + 1)
    if [entry.seq for entry in entries] != list(expected):
        wrong = next(entry.seq for entry, seq in zip(entries, expected, strict=True) if entry.seq != seq)
        yield f"1.2: the numbers are not dense at {wrong}"


def _run_and_attempt(entries: Sequence[Entry]) -> Iterator[str]:
    for entry in entries:
        # The acceptance of a run, and the end of one that never started, belong to no attempt, which is stored as 0.
        if entry.run_id is None and entry.attempt:
            yield f"1.4: entry {entry.seq} has an attempt without a run"


def _one_at_a_time(entries: Sequence[Entry]) -> Iterator[str]:
    """5.8. Between the start of an attempt and the end of its run, only this run, or changes of queued ones, appear."""
    holder: RunId | None = None
    for entry in entries:
        if entry.kind == Kind.RUN_STARTED:
            holder = entry.run_id
        elif entry.kind not in _LIFE and entry.run_id is not None and entry.run_id != holder:
            yield f"5.8: entry {entry.seq} of run {entry.run_id} appears while {holder} is running"


def _first_and_last(entries: Sequence[Entry]) -> Iterator[str]:
    if entries[0].kind != Kind.RUN_QUEUED:
        yield f"5.1: its first entry is {entries[0].kind}"
    ends = [entry for entry in entries if entry.kind == Kind.RUN_ENDED]
    if len(ends) > 1:
        yield f"5.3: it has {len(ends)} ends"
    if ends and entries[-1] is not ends[0]:
        yield f"5.3: {entries[-1].kind} follows its end"


def _attempts(entries: Sequence[Entry]) -> Iterator[str]:
    current = 0
    for entry in entries:
        if entry.kind == Kind.RUN_STARTED:
            if not entry.data["attempt"] == entry.attempt > current:
                yield f"5.2: attempt {entry.attempt} starts after attempt {current}"
            current = entry.attempt
        elif entry.kind not in _LIFE and entry.attempt != current:
            yield f"5.4: entry {entry.seq} of attempt {entry.attempt} follows the start of attempt {current}"


def _full_states(entries: Sequence[Entry]) -> Iterator[str]:
    seen: set[tuple[int, Any]] = set()
    for entry in entries:
        if entry.kind == Kind.STATE and (entry.attempt, entry.ns) not in seen:
            seen.add((entry.attempt, entry.ns))
            if not entry.data.get("full"):
                yield f"4.6: entry {entry.seq} is the first state of attempt {entry.attempt} and is not full"


def _declared_messages(entries: Sequence[Entry]) -> Iterator[str]:
    declared: dict[int, int] = {}
    for entry in entries:
        if entry.kind != Kind.MESSAGES:
            continue
        known, data = declared.get(entry.attempt, 0), entry.data
        number = data[0] if isinstance(data, list) else data["i"]
        is_declaration = isinstance(data, dict) and ("chunk" in data or "message" in data)
        if is_declaration and number == known:
            declared[entry.attempt] = known + 1
        elif number >= known:
            yield f"6.1: entry {entry.seq} is of message {number}, and {known} are declared"


def _one_answer(entries: Sequence[Entry]) -> Iterator[str]:
    answers = sum(entry.kind == Kind.INPUT_ANSWERED for entry in entries)
    if answers > 1:
        yield f"6.14: it has {answers} answers"


def _row(entries: Sequence[Entry], run: Run | None) -> Iterator[str]:
    """5.1 and 5.3: a row and its first and last entries are written in the same transactions."""
    ended = entries[-1].kind == Kind.RUN_ENDED
    if run is None:
        if not ended:
            yield "5.3: it has not ended and has no row"
    elif run.active == ended:
        yield f"5.3: its row is {run.status}, and its log has {'an' if ended else 'no'} end"
    elif run.queued_seq != entries[0].seq:
        yield f"5.1: its row names entry {run.queued_seq} as its first"
    elif ended and run.status != entries[-1].data["status"]:
        yield f"5.3: its row is {run.status}, and its log ends with {entries[-1].data['status']}"


_Rule = Callable[[Sequence[Entry]], Iterator[str]]
_OF_LOGS: tuple[_Rule, ...] = (_dense, _run_and_attempt, _one_at_a_time)
_OF_RUNS: tuple[_Rule, ...] = (_first_and_last, _attempts, _full_states, _declared_messages, _one_answer)
