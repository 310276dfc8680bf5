"""Our `LangGraphAgent`, which connects, in front of the stock server and of Threadwire.

One test for each completion gate, testing expectation, functional requirement and success metric of
docs/reference/connect.md.
"""

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient

from copilotkit_runtime import connected_agent, connecting_runtime_for
from threadwire.testing.server import running_server

PROJECT = "fund"
METRICS = ("income7d", "apy", "users", "aum", "points")
SNAPSHOT_ONLY = ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
MODES: Any = ["events", "values", "updates", "messages-tuple"]

Events = list[dict[str, Any]]


def hello(**fields: Any) -> dict[str, Any]:
    return {"messages": [{"type": "human", "content": "How are we doing?", "id": "user-1"}], **fields}


def kinds(events: Events) -> list[str]:
    return [event["type"] for event in events]


def text_of(events: Events) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")


def states(events: Events) -> list[dict[str, Any]]:
    return [event["snapshot"] for event in events if event["type"] == "STATE_SNAPSHOT"]


def connect(url: str, thread: str, **options: Any) -> tuple[Events, dict[str, Any]]:
    """Connect to the thread, and return the events and what the agent then holds."""
    with connected_agent(url, "fund", thread, **options) as agent:
        agent.rest()
    return agent.events[thread], agent.held[thread]


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "gate"


@pytest.fixture
def finished(client: SyncLangGraphClient, thread: str) -> str:
    """A thread with a completed run."""
    client.runs.wait(thread, "fund", input=hello())
    return thread


@pytest.fixture
def running(client: SyncLangGraphClient, thread: str, gate: Path) -> Iterator[dict[str, Any]]:
    """A run that waits in its middle until the gate is opened."""
    run: Any = client.runs.create(
        thread, "fund", input=hello(until=str(gate)), stream_mode=MODES, stream_resumable=True
    )
    wait_until(lambda: "Let me look." in json.dumps(client.threads.get_state(thread)["values"]))
    yield run
    gate.touch()


def wait_until(condition: Any, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


# -- document A, completion gates: snapshots ---------------------------------------------------------------------------


def test_connect_emits_a_run_start_then_snapshots_then_a_run_end(url: str, finished: str) -> None:
    events, _ = connect(url, finished)
    assert kinds(events) == SNAPSHOT_ONLY
    assert events[0]["runId"] == events[-1]["runId"], "one synthetic run"
    assert events[0]["threadId"] == events[-1]["threadId"] == finished


def test_the_state_snapshot_is_the_thread_s_values_and_the_messages_snapshot_its_messages(
    url: str, client: SyncLangGraphClient, finished: str
) -> None:
    _, held = connect(url, finished)
    values: Any = client.threads.get_state(finished)["values"]
    assert {name: held["state"][name] for name in METRICS} == {name: values[name] for name in METRICS}
    assert [message["id"] for message in held["messages"]] == [message["id"] for message in values["messages"]]
    assert [message["role"] for message in held["messages"]] == ["user", "assistant", "assistant"]


def test_run_boundaries_do_not_depend_on_the_metadata_event(url: str, running: dict[str, Any], gate: Path) -> None:
    """Joining a run does not repeat that event."""
    with connected_agent(url, "fund", running["thread_id"]) as agent:
        agent.until("MESSAGES_SNAPSHOT")
        gate.touch()
        agent.rest()
    events = agent.events[running["thread_id"]]
    assert (kinds(events)[0], kinds(events)[-1]) == ("RUN_STARTED", "RUN_FINISHED")
    assert kinds(events).count("RUN_STARTED") == kinds(events).count("RUN_FINISHED") == 1


def test_the_snapshot_shows_a_thread_that_was_changed_without_a_run(
    url: str, client: SyncLangGraphClient, finished: str
) -> None:
    client.threads.update_state(finished, {"apy": 9.9})
    events, held = connect(url, finished)
    assert kinds(events) == SNAPSHOT_ONLY
    assert held["state"]["apy"] == 9.9


# -- document A, completion gates: active runs -------------------------------------------------------------------------


def test_connect_finds_the_active_run_and_uses_its_id(url: str, running: dict[str, Any], gate: Path) -> None:
    with connected_agent(url, "fund", running["thread_id"]) as agent:
        agent.until("RUN_STARTED")
        gate.touch()
        agent.rest()
    events = agent.events[running["thread_id"]]
    assert {events[0]["runId"], events[-1]["runId"]} == {running["run_id"]}


def test_connect_attaches_to_the_active_run_and_streams_the_rest(url: str, running: dict[str, Any], gate: Path) -> None:
    with connected_agent(url, "fund", running["thread_id"]) as agent:
        agent.until_joined()
        gate.touch()
        agent.rest()
    events = agent.events[running["thread_id"]]
    assert kinds(events)[:3] == SNAPSHOT_ONLY[:3]
    assert text_of(events) == "All is well.", "what was committed before is in the snapshot only"
    held = agent.held[running["thread_id"]]
    assert [message["content"] for message in held["messages"]] == ["How are we doing?", "Let me look.", "All is well."]


def test_a_run_that_ends_or_fails_ends_the_stream(
    url: str, client: SyncLangGraphClient, thread: str, gate: Path
) -> None:
    client.runs.create(thread, "broken", input=hello(until=str(gate)), stream_mode=MODES, stream_resumable=True)
    with connected_agent(url, "broken", thread) as agent:
        agent.until_joined()
        gate.touch()
        agent.rest()
    last = agent.events[thread][-1]
    assert last["type"] == "RUN_ERROR"
    assert "The market is closed." in last["message"] or "ValueError" in last["message"]


def test_a_resumable_run_is_replayed_after_the_last_event_id(url: str, running: dict[str, Any], gate: Path) -> None:
    position = position_in(url, running)
    gate.touch()
    with httpx.stream("GET", stream_of(url, running), headers={"last-event-id": position}, timeout=30) as response:
        replayed = [line.split(": ", 1)[1] for line in response.iter_lines() if line.startswith("event: ")]
    assert "metadata" not in replayed
    events, _ = connect(url, running["thread_id"], last_event_id=position)
    assert kinds(events)[0] == "RUN_STARTED", "also on a reconnect"


# -- document A, testing expectations ----------------------------------------------------------------------------------


def test_connecting_to_a_thread_with_a_completed_run(url: str, finished: str) -> None:
    assert kinds(connect(url, finished)[0]) == SNAPSHOT_ONLY


def test_connecting_to_a_thread_with_a_delayed_run(url: str, client: SyncLangGraphClient, thread: str) -> None:
    run = client.runs.create(thread, "fund", input=hello(), stream_mode=MODES, stream_resumable=True, after_seconds=8)
    events, _ = connect(url, thread)
    assert kinds(events)[:3] == SNAPSHOT_ONLY[:3]
    assert kinds(events)[-1] == "RUN_FINISHED"
    assert events[0]["runId"] == run["run_id"]
    assert text_of(events) == "Let me look.All is well."


def test_connecting_to_a_thread_with_a_run_that_waits_for_another(
    url: str, client: SyncLangGraphClient, running: dict[str, Any], gate: Path, tmp_path: Path
) -> None:
    """First to the one that is running, then to the one that was queued behind it."""
    thread, second_gate = running["thread_id"], tmp_path / "second-gate"
    queued: Any = client.runs.create(
        thread, "fund", input=hello(until=str(second_gate)), stream_mode=MODES, stream_resumable=True,
        multitask_strategy="enqueue",
    )  # fmt: skip
    assert client.runs.get(thread, queued["run_id"])["status"] == "pending"
    for run, opened in ((running, gate), (queued, second_gate)):
        wait_until(lambda run=run: client.runs.get(thread, run["run_id"])["status"] == "running")
        wait_until(lambda: client.threads.get_state(thread)["next"] == ["wait"])
        with connected_agent(url, "fund", thread) as agent:
            agent.until_joined()
            opened.touch()
            agent.rest()
        events = agent.events[thread]
        assert {events[0]["runId"], events[-1]["runId"]} == {run["run_id"]}
        assert kinds(events)[:3] == SNAPSHOT_ONLY[:3]
        assert (kinds(events)[-1], text_of(events)) == ("RUN_FINISHED", "All is well.")


def test_connecting_to_a_thread_with_a_pending_run(tmp_path: Path, gate: Path) -> None:
    """Without a delay, a run is pending while all slots are in use. Only on Threadwire, whose slots can be limited."""
    config = Path(__file__).parent / PROJECT / "langgraph.json"
    with running_server(config, tmp_path / "data", env={"THREADWIRE_CONCURRENCY": "1"}) as server:
        client = get_sync_client(url=server.url)
        other, thread = client.threads.create()["thread_id"], client.threads.create()["thread_id"]
        client.runs.create(other, "fund", input=hello(until=str(gate)))
        pending: Any = client.runs.create(thread, "fund", input=hello())
        with connected_agent(server.url, "fund", thread) as agent:
            agent.until_joined()
            assert client.runs.get(thread, pending["run_id"])["status"] == "pending"
            gate.touch()
            agent.rest()
        client.http.client.close()
    events = agent.events[thread]
    assert {events[0]["runId"], events[-1]["runId"]} == {pending["run_id"]}
    assert kinds(events)[:3] == SNAPSHOT_ONLY[:3]
    assert (kinds(events)[-1], text_of(events)) == ("RUN_FINISHED", "Let me look.All is well.")


def test_reconnecting_to_a_resumable_run_with_a_last_event_id(url: str, running: dict[str, Any], gate: Path) -> None:
    thread = running["thread_id"]
    position = position_in(url, running)
    with connected_agent(url, "fund", thread, last_event_id=position) as agent:
        agent.until_joined()
        gate.touch()
        agent.rest()
    assert text_of(agent.events[thread]) == "All is well.", "nothing before the position is repeated"
    assert "MESSAGES_SNAPSHOT" not in kinds(agent.events[thread])[:3], "it would remove an uncommitted message"


# -- document B, functional requirements -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runtimes(servers: dict[str, str]) -> Iterator[dict[str, str]]:
    """CopilotKit's Node runtime in front of each server."""
    with (
        connecting_runtime_for(servers["stock"], "fund") as stock,
        connecting_runtime_for(servers["threadwire"], "fund") as threadwire,
    ):
        yield {"stock": stock, "threadwire": threadwire}


@pytest.fixture
def runtime(url: str, servers: dict[str, str], runtimes: dict[str, str]) -> str:
    return next(runtimes[name] for name, address in servers.items() if address == url)


def connect_request(runtime: str, thread: str) -> Any:
    body = {"threadId": thread, "runId": str(uuid.uuid4()), "messages": [], "tools": [], "context": [], "state": {}}
    return httpx.stream("POST", f"{runtime}/copilotkit/agent/fund/connect", json=body, timeout=30)


def events_of_runtime(runtime: str, thread: str) -> Events:
    with connect_request(runtime, thread) as response:
        assert response.status_code == 200
        return [json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: ")]


def test_the_runtime_calls_agent_connect_and_streams_its_events(runtime: str, finished: str) -> None:
    """The runtime has run nothing on this thread, so it would have nothing to replay."""
    events = events_of_runtime(runtime, finished)
    assert kinds(events) == SNAPSHOT_ONLY
    assert {name: events[1]["snapshot"][name] for name in METRICS} == {
        "income7d": 7.5, "apy": 4.2, "users": 101, "aum": 1e6, "points": 1,
    }  # fmt: skip


def test_an_initial_snapshot_is_a_run_start_both_snapshots_and_a_run_end(url: str, finished: str) -> None:
    assert kinds(connect(url, finished)[0]) == SNAPSHOT_ONLY


def test_a_resumable_connect_resumes_with_the_next_event(url: str, running: dict[str, Any], gate: Path) -> None:
    position = position_in(url, running)
    gate.touch()
    wait_until(lambda: httpx.get(f"{url}/threads/{running['thread_id']}").json()["status"] == "idle")
    resumed = ids_after(url, running, position)
    assert resumed
    assert position not in resumed


def test_every_position_resumes_with_exactly_the_events_after_it(tmp_path: Path) -> None:
    """Only on Threadwire: the ids of the stock server are not unique."""
    config = Path(__file__).parent / PROJECT / "langgraph.json"
    with running_server(config, tmp_path / "data") as server:
        client = get_sync_client(url=server.url)
        thread = client.threads.create()["thread_id"]
        run: Any = client.runs.create(thread, "fund", input=hello(), stream_mode=MODES, stream_resumable=True)
        client.runs.join(thread, run["run_id"])
        client.http.client.close()
        ids = ids_after(server.url, run, "0")
        assert len(set(ids)) == len(ids) > 10
        assert sorted(ids, key=int) == ids
        for at, position in enumerate(ids):
            assert ids_after(server.url, run, position) == ids[at + 1 :]


def test_connect_attaches_to_a_running_run_and_sends_raw_and_live_events(
    url: str, running: dict[str, Any], gate: Path
) -> None:
    with connected_agent(url, "fund", running["thread_id"]) as agent:
        agent.until_joined()
        gate.touch()
        agent.rest()
    events = agent.events[running["thread_id"]]
    assert "RAW" in kinds(events)
    assert {"TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"} <= set(kinds(events))


@pytest.mark.parametrize(("name", "status"), [("01900000-0000-7000-8000-000000000404", "404"), ("not-a-uuid", "422")])
def test_an_invalid_thread_id_is_a_run_error_with_the_server_s_details(url: str, name: str, status: str) -> None:
    [event] = connect(url, name)[0]
    assert (event["type"], event["code"]) == ("RUN_ERROR", status)
    assert status in event["message"]


def test_a_deleted_thread_is_a_run_error(url: str, client: SyncLangGraphClient, finished: str) -> None:
    client.threads.delete(finished)
    [event] = connect(url, finished)[0]
    assert (event["type"], event["code"]) == ("RUN_ERROR", "404")


def test_disconnecting_does_not_cancel_the_run(
    url: str, client: SyncLangGraphClient, running: dict[str, Any], gate: Path
) -> None:
    with connected_agent(url, "fund", running["thread_id"]) as agent:
        agent.until_joined()
    gate.touch()
    client.runs.join(running["thread_id"], running["run_id"])
    assert client.runs.get(running["thread_id"], running["run_id"])["status"] == "success"


def test_no_state_field_is_dropped(url: str, finished: str) -> None:
    """Whatever the schemas of the assistant say; test/langgraph.test.js has servers whose schemas are incomplete."""
    _, held = connect(url, finished)
    assert set(METRICS) <= held["state"].keys()


# -- document B, success metrics ---------------------------------------------------------------------------------------


@contextmanager
def within(seconds: float) -> Iterator[None]:
    started = time.monotonic()
    yield
    assert time.monotonic() - started < seconds


def test_an_initial_connect_shows_the_five_metrics_within_5_seconds(runtime: str, finished: str) -> None:
    with within(5):
        events = events_of_runtime(runtime, finished)
    assert set(METRICS) <= states(events)[0].keys()


def test_a_reconnect_resumes_without_duplicates(url: str, running: dict[str, Any], gate: Path) -> None:
    thread = running["thread_id"]
    with connected_agent(url, "fund", thread, last_event_id=position_in(url, running)) as agent:
        agent.until_joined()
        gate.touch()
        agent.rest()
    assert text_of(agent.events[thread]).count("All is well.") == 1
    # This client did not hold the earlier messages, so they come last.
    contents = [message["content"] for message in agent.held[thread]["messages"]]
    assert contents == ["All is well.", "How are we doing?", "Let me look."]


def test_an_attached_client_receives_live_events_within_2_seconds(
    url: str, running: dict[str, Any], gate: Path
) -> None:
    with connected_agent(url, "fund", running["thread_id"]) as agent:
        agent.until_joined()
        gate.touch()
        with within(2):
            agent.until("TEXT_MESSAGE_CONTENT")


def test_a_client_of_the_runtime_is_attached_within_2_seconds(runtime: str, running: dict[str, Any]) -> None:
    with connect_request(runtime, running["thread_id"]) as response, within(2):
        for line in response.iter_lines():
            if "MESSAGES_SNAPSHOT" in line:
                return
    raise AssertionError("the stream ended without a snapshot")


def test_an_invalid_thread_is_reported_within_2_seconds_with_its_http_status(runtime: str) -> None:
    with within(2):
        [event] = events_of_runtime(runtime, str(uuid.uuid4()))
    assert (event["type"], event["code"]) == ("RUN_ERROR", "404")


def test_no_event_leaks_into_another_thread(url: str, client: SyncLangGraphClient) -> None:
    """50 concurrent threads."""
    threads = [client.threads.create()["thread_id"] for _ in range(50)]
    for points, thread in enumerate(threads):
        client.threads.update(thread, metadata={"graph_id": "fund"})
        client.threads.update_state(thread, {"points": points}, as_node="measure")
    with connected_agent(url, "fund", *threads) as agent:
        agent.rest()
    assert [agent.held[thread]["state"]["points"] for thread in threads] == list(range(50))
    for thread, events in agent.events.items():
        assert {event["threadId"] for event in events if "threadId" in event} == {thread}


def test_an_unreachable_server_is_a_run_error(finished: str) -> None:
    [event] = connect("http://127.0.0.1:9", finished)[0]
    assert (event["type"], event["code"]) == ("RUN_ERROR", "UNREACHABLE")


def test_a_server_that_goes_down_and_comes_back(tmp_path: Path, gate: Path) -> None:
    """Only on Threadwire: the stock server loses its threads."""
    config = Path(__file__).parent / PROJECT / "langgraph.json"
    with running_server(config, tmp_path / "data") as server:
        client = get_sync_client(url=server.url)
        thread = client.threads.create()["thread_id"]
        client.runs.create(thread, "fund", input=hello(until=str(gate)), stream_mode=MODES, stream_resumable=True)
        wait_until(lambda: "Let me look." in json.dumps(client.threads.get_state(thread)["values"]))
        client.http.client.close()

        server.kill()
        [event] = connect(server.url, thread)[0]
        assert (event["type"], event["code"]) == ("RUN_ERROR", "UNREACHABLE")

        server.start()
        with connected_agent(server.url, "fund", thread) as agent:
            agent.until_joined()
            gate.touch()
            agent.rest()
    contents = [message["content"] for message in agent.held[thread]["messages"]]
    assert contents == ["How are we doing?", "Let me look.", "All is well."]


# -- helpers -----------------------------------------------------------------------------------------------------------


def stream_of(url: str, run: dict[str, Any]) -> str:
    return f"{url}/threads/{run['thread_id']}/runs/{run['run_id']}/stream"


def ids_after(url: str, run: dict[str, Any], position: str) -> list[str]:
    with httpx.stream("GET", stream_of(url, run), headers={"last-event-id": position}, timeout=30) as response:
        return [line.removeprefix("id: ") for line in response.iter_lines() if line.startswith("id: ")]


def position_in(url: str, run: dict[str, Any]) -> str:
    """The id of the newest event of a run that waits."""
    with httpx.stream("GET", stream_of(url, run), headers={"last-event-id": "0"}, timeout=30) as response:
        position = "0"
        seen = ""
        for line in response.iter_lines():
            if line.startswith("id: "):
                position = line.removeprefix("id: ")
            seen += line
            if '"wait"' in line and position != "0":
                return position
    raise AssertionError(seen)
