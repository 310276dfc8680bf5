"""Resuming at any position sends exactly the bytes that an uninterrupted client receives (spec 4.4)."""

import os
from bisect import bisect_right
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace

import apsw
import pytest
from stream_client import StreamClient, get, join, new_thread, post, replay, request

from threadwire.core.entries import Entry
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import Run
from threadwire.engine import projections
from threadwire.engine.followers import Followers
from threadwire.http.sse import named_events
from threadwire.protocols.langgraph.encode import MODES, RunStreamEncoder, StreamOptions
from threadwire.storage.abc import Log
from threadwire.storage.sqlite import open_sqlite_storage
from threadwire.testing.server import RunningServer, running_server

PROJECT = Path(__file__).parent / "project" / "langgraph.json"
MODE_SETS = [
    ("values",),
    ("messages",),
    ("messages-tuple", "values", "updates", "custom"),
    ("tasks", "checkpoints", "debug", "custom"),
    ("events",),
    tuple(sorted(MODES)),
]

STRIDE = int(os.environ.get("RESUME_STRIDE", "97"))
"""Test every n-th id where no frames are retained, because each one encodes the whole run again."""

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(900 if STRIDE > 1 else 7200)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(PROJECT, tmp_path_factory.mktemp("resume") / "data") as server:
        yield server


Joined = dict[tuple[str, ...], "Future[bytes]"]


@pytest.fixture(scope="module")
def joined() -> Joined:
    """What other clients received that joined the run after the restart, each with its own modes."""
    return {}


@pytest.fixture(scope="module")
def client(server: RunningServer, joined: Joined) -> StreamClient:
    """A client of a run whose server was killed in the middle of the first answer, before and after the restart."""
    body = {
        "assistant_id": "long",
        "input": {
            "messages": [{"role": "user", "content": "go"}],
            "count": 60,
            "words": 120,
            "answers": 20,
            "delay": 0,
        },
        "stream_mode": sorted(MODES - {"values", "messages"}),
        "stream_subgraphs": True,
    }
    client = StreamClient(server, new_thread(server), body)
    assert not client.watch(kill_at=1500), "the run ended before it could be killed"
    server.kill()
    server.start()
    with ThreadPoolExecutor(len(MODE_SETS)) as executor:
        joined.update({modes: executor.submit(join, server, str(client.run_path), modes) for modes in MODE_SETS})
        assert client.watch()
    assert client.status() == "success"
    assert get(server, f"/threads/{client.thread_id}")["status"] == "interrupted"
    return client


@pytest.fixture(scope="module")
async def entries(client: StreamClient, server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> list[Entry]:
    server.terminate()
    run_id = RunId(str(client.run_path).rsplit("/", 1)[1])
    async with open_sqlite_storage(server.data) as storage:
        run = await storage.runs.get(run_id)
        assert run is not None
        found = await read_all(storage.log, run)
    server.start()
    return found


async def read_all(log: Log, run: Run) -> list[Entry]:
    entries: list[Entry] = []
    after = Seq(0)
    while page := await log.read(run.thread_id, after, limit=700, run_id=run.run_id):
        entries += page
        after = page[-1].seq
    return entries


def frames_of(entries: list[Entry], options: StreamOptions) -> list[tuple[int, bytes]]:
    encoder = RunStreamEncoder(options)
    return [(entry.seq, frame) for entry in entries if (frame := named_events(encoder.feed(entry), entry.seq))]


@pytest.mark.with_workers
async def test_the_run_covers_all_kinds_and_both_attempts(entries: list[Entry]) -> None:
    assert len(entries) >= 5000
    assert {entry.attempt for entry in entries if entry.attempt} == {1, 2}
    assert {"messages", "custom", "state", "updates", "tasks", "debug", "events", "input.requested"} <= {
        entry.kind for entry in entries
    }
    assert any(entry.ns for entry in entries)


@pytest.mark.with_workers
async def test_a_replay_equals_the_live_stream_across_the_restart(client: StreamClient, entries: list[Entry]) -> None:
    assert client.ids == sorted(set(client.ids))
    assert client.received == replay(client.server, f"{client.run_path}/stream")


@pytest.mark.parametrize("modes", MODE_SETS, ids="+".join)
async def test_a_client_that_joined_the_running_run_received_every_byte(
    modes: tuple[str, ...], joined: Joined, entries: list[Entry]
) -> None:
    options = StreamOptions(frozenset(modes), subgraphs=True)
    assert joined[modes].result() == b"".join(frame for _, frame in frames_of(entries, options))


class InMemoryLog:
    """A log read from memory, so that encoding can be tested without reading the file thousands of times."""

    def __init__(self, log: Log, entries: list[Entry]) -> None:
        self._log = log
        self._entries = entries
        self.watch, self.last = log.watch, log.last

    async def read(self, thread_id: ThreadId, after: Seq, *, limit: int, run_id: RunId) -> list[Entry]:
        first = bisect_right(self._entries, after, key=attrgetter("seq"))
        return self._entries[first : first + limit]


@pytest.mark.parametrize(("retained", "stride"), [(2**40, 1), (0, STRIDE)], ids=["frames retained", "encoded again"])
@pytest.mark.parametrize("subgraphs", [True, False], ids=["subgraphs", "root only"])
@pytest.mark.parametrize("modes", MODE_SETS, ids="+".join)
async def test_resuming_at_every_id_sends_exactly_the_rest(
    modes: tuple[str, ...],
    subgraphs: bool,
    retained: int,
    stride: int,
    client: StreamClient,
    server: RunningServer,
    entries: list[Entry],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the engine's followers, on the database of a server that was killed, stopped and restarted."""
    monkeypatch.setattr(projections, "MAX_RETAINED_BYTES", retained)
    options = StreamOptions(frozenset(modes), subgraphs)
    expected = frames_of(entries, options)
    whole = b"".join(frame for _, frame in expected)
    copy = copy_of(server, tmp_path)
    async with open_sqlite_storage(copy) as storage:
        run = await storage.runs.get(RunId(str(client.run_path).rsplit("/", 1)[1]))
        assert run is not None
        followers = Followers(SimpleNamespace(log=InMemoryLog(storage.log, entries), threads=storage.threads))
        offset = 0
        for number, (seq, frame) in enumerate([(0, b""), *expected]):
            offset += len(frame)
            if number % stride:
                continue
            with followers.follow(run, options, partial(RunStreamEncoder, options), named_events, Seq(seq)) as follower:
                at = offset
                while (pieces := await follower.next(5.0)) is not None:
                    piece = b"".join(pieces)
                    assert whole.startswith(piece, at), f"resumed at {seq}, the bytes differ from offset {at}"
                    at += len(piece)
                assert at == len(whole)


@pytest.mark.parametrize("of_run", [True, False], ids=["the run", "the thread"])
@pytest.mark.parametrize("limit", [1, 100])
async def test_the_log_can_be_read_from_any_position(
    of_run: bool, limit: int, client: StreamClient, server: RunningServer, entries: list[Entry], tmp_path: Path
) -> None:
    async with open_sqlite_storage(copy_of(server, tmp_path)) as storage:
        thread_id, run_id = ThreadId(client.thread_id), entries[0].run_id if of_run else None
        for number, entry in enumerate(entries[::7]):
            read = await storage.log.read(thread_id, entry.seq, limit=limit, run_id=run_id)
            assert read == entries[number * 7 + 1 : number * 7 + 1 + limit]


def copy_of(server: RunningServer, tmp_path: Path) -> Path:
    """A backup of the running server's data."""
    copy = tmp_path / "copy"
    copy.mkdir()
    source = apsw.Connection(str(server.data / "threadwire.db"), flags=apsw.SQLITE_OPEN_READONLY)
    target = apsw.Connection(str(copy / "threadwire.db"))
    with target.backup("main", source, "main") as backup:
        backup.step()
    target.close()
    source.close()
    return copy


@pytest.mark.parametrize("subgraphs", [True, False], ids=["subgraphs", "root only"])
@pytest.mark.parametrize("modes", MODE_SETS, ids="+".join)
async def test_a_new_encoder_primed_up_to_an_id_continues_like_the_original(
    modes: tuple[str, ...], subgraphs: bool, entries: list[Entry]
) -> None:
    options = StreamOptions(frozenset(modes), subgraphs)
    expected = dict(frames_of(entries, options))
    for primed in range(0, len(entries), 331):
        encoder = RunStreamEncoder(options)
        for entry in entries[:primed]:
            encoder.feed(entry)
        for entry in entries[primed : primed + 40]:
            assert named_events(encoder.feed(entry), entry.seq) == expected.get(entry.seq, b"")


async def test_resuming_over_http_at_many_ids_after_a_restart(client: StreamClient, entries: list[Entry]) -> None:
    whole = replay(client.server, f"{client.run_path}/stream")
    ends: dict[int, int] = {}
    at = 0
    for seq, frame in client.frames:
        at += len(frame)
        ends[seq] = at
    for seq in [*client.ids[:5], *client.ids[5:-5:250], *client.ids[-5:]]:
        assert replay(client.server, f"{client.run_path}/stream", str(seq)) == whole[ends[seq] :]


@pytest.mark.parametrize("start", ["0", "-1", "000"])
async def test_zero_and_minus_one_mean_from_the_start(start: str, client: StreamClient, entries: list[Entry]) -> None:
    assert replay(client.server, f"{client.run_path}/stream", start) == client.received


async def test_nothing_is_sent_after_the_last_id(client: StreamClient, entries: list[Entry]) -> None:
    assert replay(client.server, f"{client.run_path}/stream", str(client.ids[-1])) == b""


async def test_an_id_that_was_never_sent_is_rejected(client: StreamClient, entries: list[Entry]) -> None:
    last = entries[-1].seq
    for beyond in (last + 1, 999999999):
        headers = {"Last-Event-ID": str(beyond)}
        status, body = request(client.server, "GET", f"{client.run_path}/stream", headers=headers)
        assert status == 400
        assert f"{beyond} is beyond the last entry of this thread, {last}" in body["detail"]


async def test_without_an_id_a_finished_run_sends_nothing(client: StreamClient, entries: list[Entry]) -> None:
    status, body = request(client.server, "GET", f"{client.run_path}/stream")
    assert (status, body) == (200, None)


@pytest.mark.parametrize("invalid", ["abc", "-2", "1.5", "1e3", "٣", str(2**70), "1 2", "+1", "0x10", ""])
async def test_an_invalid_id_is_rejected_and_never_replays_everything(
    invalid: str, client: StreamClient, entries: list[Entry]
) -> None:
    headers = {"Last-Event-ID": invalid.encode().decode("latin-1")}
    status, body = request(client.server, "GET", f"{client.run_path}/stream", headers=headers)
    assert status == 400
    assert "Last-Event-ID" in body["detail"]


async def test_the_run_continues_when_its_interrupt_is_answered(client: StreamClient, entries: list[Entry]) -> None:
    thread = f"/threads/{client.thread_id}"
    values = post(client.server, f"{thread}/runs/wait", {"assistant_id": "long", "command": {"resume": "yes"}})
    assert values["approved"] == "yes"
    # Not exactly sixty: when it traces events, LangGraph merges the whole state of a subgraph into its parent.
    assert sorted(set(values["done"])) == list(range(1, 61))
