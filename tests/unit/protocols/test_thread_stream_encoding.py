"""The thread stream as a function of entries: single modes, interleaved runs, runs without their first entries."""

from typing import Any

from threadwire.core.entries import Entry, Kind
from threadwire.core.ids import RunId, Seq
from threadwire.http.sse import named_events
from threadwire.protocols.langgraph.encode_thread import ThreadStreamEncoder

ONE, TWO = RunId("00000000-0000-7000-8000-000000000001"), RunId("00000000-0000-7000-8000-000000000002")


class Log:
    """A log with sequence numbers."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, run_id: RunId | None, kind: str, data: Any, attempt: int = 1) -> None:
        seq = Seq(len(self.entries) + 1)
        self.entries.append(Entry(seq, run_id, 0 if run_id is None else attempt, 0, (), kind, data))

    def started(self, run_id: RunId, modes: list[str], attempt: int = 1) -> None:
        self.add(run_id, Kind.RUN_STARTED, {"attempt": attempt, "stream_mode": modes, "subgraphs": False}, attempt)

    def state(self, run_id: RunId, **values: Any) -> None:
        self.add(run_id, Kind.STATE, {"full": True, "set": values, "keys": list(values)})

    def ended(self, run_id: RunId, status: str = "success", **more: Any) -> None:
        self.add(run_id, Kind.RUN_ENDED, {"status": status, **more})

    def shown(self, *modes: str) -> list[str]:
        encoder = ThreadStreamEncoder(frozenset(modes))
        sent = b"".join(named_events(encoder.feed(entry), entry.seq) for entry in self.entries).decode()
        return [frame.replace("\r\n", " ") for frame in sent.split("\r\n\r\n")[:-1]]


def test_each_run_is_streamed_in_its_own_modes() -> None:
    log = Log()
    for run_id, modes in ((ONE, ["values"]), (TWO, ["updates"])):
        log.add(run_id, Kind.RUN_QUEUED, {}, 0)
        log.started(run_id, modes)
        log.state(run_id, n=1)
        log.add(run_id, Kind.UPDATES, {"value": {"node": {"n": 1}}})
        log.ended(run_id)
    assert log.shown("run_modes") == [
        f'event: metadata data: {{"run_id":"{ONE}","attempt":1}} id: 2',
        'event: values data: {"n":1} id: 3',
        f'event: metadata data: {{"status":"run_done","run_id":"{ONE}"}} id: 5',
        f'event: metadata data: {{"run_id":"{TWO}","attempt":1}} id: 7',
        'event: updates data: {"node":{"n":1}} id: 9',
        f'event: metadata data: {{"status":"run_done","run_id":"{TWO}"}} id: 10',
    ]


def test_failed_run_sends_its_error_before_its_end_and_only_the_last_frame_has_the_id() -> None:
    log = Log()
    log.started(ONE, ["values"])
    log.ended(ONE, "error", error={"error": "E", "message": "m"})
    assert log.shown("run_modes")[1:] == [
        'event: error data: {"error":"E","message":"m"}',
        f'event: metadata data: {{"status":"run_done","run_id":"{ONE}"}} id: 2',
    ]
    assert log.shown("lifecycle")[1:] == [f'event: metadata data: {{"status":"run_done","run_id":"{ONE}"}} id: 2']


def test_each_attempt_sends_its_metadata() -> None:
    log = Log()
    log.started(ONE, ["values"])
    log.started(ONE, ["values"], attempt=2)
    log.ended(ONE)
    for mode in ("run_modes", "lifecycle"):
        assert [frame.partition('"attempt":')[2][:1] for frame in log.shown(mode)] == ["1", "2", ""]


def test_state_updates_do_not_depend_on_the_modes_of_the_run() -> None:
    log = Log()
    log.started(ONE, ["custom"])
    log.state(ONE, n=1)
    log.add(ONE, Kind.STATE, {"set": {"n": 2}})
    log.ended(ONE)
    log.add(None, Kind.STATE_RESET, {"cause": "update", "checkpoint_id": "c", "values": {"n": 3}})
    log.add(None, Kind.STATE_RESET, {"cause": "prune", "checkpoint_id": "c"})
    log.add(TWO, Kind.STATE_RESET, {"cause": "rollback"})
    log.ended(TWO, "rolled_back")
    assert log.shown("state_update") == [
        f'event: state_update data: {{"values":{{"n":1}},"cause":"run","run_id":"{ONE}"}} id: 2',
        f'event: state_update data: {{"values":{{"n":2}},"cause":"run","run_id":"{ONE}"}} id: 3',
        'event: state_update data: {"values":{"n":3},"cause":"update","checkpoint_id":"c"} id: 5',
        f'event: state_update data: {{"cause":"rollback","run_id":"{TWO}"}} id: 7',
    ]


def test_only_the_second_of_two_frames_has_the_id() -> None:
    log = Log()
    log.started(ONE, ["values"])
    log.state(ONE, n=1)
    assert log.shown("run_modes", "state_update")[1:] == [
        f'event: state_update data: {{"values":{{"n":1}},"cause":"run","run_id":"{ONE}"}}',
        'event: values data: {"n":1} id: 2',
    ]


def test_runs_may_interleave() -> None:
    log = Log()
    log.started(ONE, ["values"])
    log.state(ONE, n=1)
    log.add(TWO, Kind.RUN_QUEUED, {}, 0)
    log.ended(TWO, "interrupted")
    log.add(ONE, Kind.STATE, {"set": {"n": 2}})
    assert [frame.rpartition("id: ")[2] for frame in log.shown("run_modes")] == ["1", "2", "4", "5"]


def test_run_without_its_first_entries_shows_only_its_end() -> None:
    log = Log()
    log.state(ONE, n=1)
    log.ended(ONE)
    for mode in ("run_modes", "lifecycle"):
        assert log.shown(mode) == [f'event: metadata data: {{"status":"run_done","run_id":"{ONE}"}} id: 2']
    assert log.shown("state_update") == []
