"""Clients of every kind that keep a server busy, survive its crashes, and record what they receive."""

import http.client
import json
import random
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar
from uuid import uuid4

from stream_client import TERMINAL, StreamClient, post, replay, request

from threadwire.testing.server import RunningServer

T = TypeVar("T")

JOB_TIMEOUT = 300.0
"""Seconds a job may take, however often the server crashes meanwhile."""

MODES = ["values", "messages-tuple", "updates", "custom", "tasks", "checkpoints"]
UNAVAILABLE = {502, 503, 504, 507}
"""The first and third are what nginx answers for a process that died or hangs."""


class Unavailable(Exception):
    """The server did not respond, or responded that the client should retry later."""


class ChaosClient(ABC, threading.Thread):
    """Does one job after the other until it is stopped. Errors end the test, except those of a server that is down."""

    def __init__(self, server: RunningServer, seed: int) -> None:
        super().__init__(name=f"{type(self).__name__}-{seed}", daemon=True)
        self.server = server
        self.rng = random.Random(seed)
        self.outcomes: Counter[str] = Counter()
        self.error: BaseException | None = None
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                self.job()
        except BaseException as error:
            self.error = error

    @abstractmethod
    def job(self) -> None:
        """Something that a client does, to its end."""

    def check(self) -> None:
        """Compare what was received with what the server stores. Called once the server is stable."""

    # What jobs consist of

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Send a request again and again until the server responds to it."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.persist(lambda: self._call(method, path, body, names))

    def _call(self, method: str, path: str, body: Any, headers: dict[str, str]) -> tuple[int, Any]:
        status, response = request(self.server, method, path, body, headers)
        if status in UNAVAILABLE:
            raise Unavailable(response)
        return status, response

    def persist(self, action: Callable[[], T]) -> T:
        deadline = time.monotonic() + JOB_TIMEOUT
        while True:
            try:
                return action()
            except (OSError, http.client.HTTPException, json.JSONDecodeError, Unavailable) as error:
                if time.monotonic() > deadline:
                    raise AssertionError(f"{self.name} was not served in time") from error
                time.sleep(self.rng.uniform(0.01, 0.2))

    def new_thread(self) -> str:
        status, thread = self.call("POST", "/threads", {})
        assert status == 200, thread
        return str(thread["thread_id"])

    def start_run(self, thread_id: str, body: Any) -> str:
        """Start a run exactly once. Returns its path."""
        status, run = self.call("POST", f"/threads/{thread_id}/runs", body, Idempotency_Key=uuid4().hex)
        assert status == 200, run
        return f"/threads/{thread_id}/runs/{run['run_id']}"

    def wait(self, run_path: str) -> str:
        """Wait until the run has ended. Returns its status, or `deleted` after a rollback."""
        deadline = time.monotonic() + JOB_TIMEOUT
        while True:
            self.call("GET", f"{run_path}/join")
            status, run = self.call("GET", run_path)
            assert status in (200, 404), f"{status}: {run}"
            outcome = "deleted" if status == 404 else run["status"]
            if outcome in TERMINAL or outcome == "deleted":
                self.outcomes[outcome] += 1
                return outcome
            assert time.monotonic() < deadline, f"{run_path} is {outcome}"

    def race(self, **given: Any) -> dict[str, Any]:
        """The body of a short run of some steps and an answer."""
        count, words = self.rng.randint(1, 6), self.rng.randint(5, 30)
        return {
            "assistant_id": "marathon",
            "input": {
                "messages": [{"role": "user", "content": "go"}],
                "count": count,
                "words": words,
                "delay": self.rng.choice([0, 0.002, 0.01]),
            },
            **given,
        }


class RetryingStreamClient(StreamClient):
    """Retries later if the server is unavailable."""

    def _check_status(self, response: http.client.HTTPResponse) -> None:
        if response.status in UNAVAILABLE:
            raise ConnectionError(response.read())
        super()._check_status(response)


class StreamingClient(ChaosClient):
    """Streams runs, and resumes broken streams."""

    def __init__(self, server: RunningServer, seed: int) -> None:
        super().__init__(server, seed)
        self.streams: list[StreamClient] = []

    def job(self) -> None:
        modes = self.rng.sample(MODES, self.rng.randint(1, len(MODES)))
        client = RetryingStreamClient(
            self.server, self.new_thread(), self.race(stream_mode=modes, stream_subgraphs=True)
        )
        self.persist(lambda: self._watch(client))
        self.outcomes[self.persist(client.status)] += 1
        self.streams.append(client)

    def _watch(self, client: StreamClient) -> None:
        if not client.watch():
            raise Unavailable

    def check(self) -> None:
        for client in self.streams:
            assert client.ids == sorted(set(client.ids)), f"{client.run_path}: an id was repeated"
            assert client.received == replay(self.server, f"{client.run_path}/stream"), f"{client.run_path} differs"


class WaitingClient(ChaosClient):
    """Starts background runs, some of them delayed, and waits for them."""

    def job(self) -> None:
        body = self.race(after_seconds=self.rng.choice([0, 0, 0.5]))
        self.wait(self.start_run(self.new_thread(), body))


class StatelessClient(ChaosClient):
    """Starts stateless runs."""

    def job(self) -> None:
        status, result = self.call("POST", "/runs/wait", self.race(), Idempotency_Key=uuid4().hex)
        assert status == 200, result
        self.outcomes["error" if "__error__" in result else "success"] += 1


class CompetingClient(ChaosClient):
    """Starts several runs on one thread, with any strategy, and cancels some of them."""

    def __init__(self, server: RunningServer, seed: int) -> None:
        super().__init__(server, seed)
        self.thread_id = self.new_thread()

    def job(self) -> None:
        strategies = [self.rng.choice(["enqueue", "enqueue", "interrupt", "rollback"]) for _ in range(3)]
        paths = [self.start_run(self.thread_id, self.race(multitask_strategy=each)) for each in strategies]
        if self.rng.random() < 0.5:
            action = self.rng.choice(["interrupt", "rollback"])
            self.call("POST", f"{self.rng.choice(paths)}/cancel?action={action}")
        for path in paths:
            self.wait(path)


class AnsweringClient(ChaosClient):
    """Starts runs that are interrupted, and answers."""

    def job(self) -> None:
        thread_id = self.new_thread()
        body = self.race(assistant_id="long")
        body["input"] |= {"count": 1, "answers": 1, "words": 5}
        if self.wait(self.start_run(thread_id, body)) != "success":
            return  # it was running during three crashes
        answer = {"assistant_id": "long", "command": {"resume": "yes"}}
        if self.wait(self.start_run(thread_id, answer)) == "success":
            status, state = self.call("GET", f"/threads/{thread_id}/state")
            assert (status, state["values"]["approved"]) == (200, "yes")


class AgUiClient(ChaosClient):
    """Runs an agent over AG-UI, and connects again with its cursor until the run has ended."""

    def job(self) -> None:
        thread_id, run_id = str(uuid4()), str(uuid4())
        self._cursor = 0
        body = {
            "threadId": thread_id,
            "runId": run_id,
            "state": {"count": 2, "words": 10, "delay": 0.005},
            "messages": [{"id": str(uuid4()), "role": "user", "content": "go"}],
            "tools": [],
            "context": [],
            "forwardedProps": {},
        }
        self.persist(lambda: self._read("/ag-ui/marathon", body))

    def _read(self, path: str, body: Any) -> None:
        """Read to the end of the run. A response that is cut off is continued with `connect`."""
        path = path if not self._cursor else f"{path}/connect"
        connection = connect(self.server)
        headers = {"content-type": "application/json", "accept": "text/event-stream"}
        if self._cursor:
            headers["Last-Event-ID"] = str(self._cursor)
        try:
            connection.request("POST", path, json.dumps(body), headers)
            response = connection.getresponse()
            if response.status in UNAVAILABLE:
                raise Unavailable
            if response.status == 409:  # the run of an earlier request is active, which was cut off before its first id
                self.outcomes["busy"] += 1
                return
            assert response.status == 200, response.read()
            self._follow(response)
        finally:
            connection.close()

    def _follow(self, response: http.client.HTTPResponse) -> None:
        for line in iter(response.readline, b""):
            name, _, value = line.strip().partition(b": ")
            if name == b"id":
                assert int(value) > self._cursor, "an id was repeated"
                self._cursor = int(value)
            elif name == b"data":
                kind = json.loads(value)["type"]
                if kind in ("RUN_FINISHED", "RUN_ERROR"):
                    self.outcomes[kind] += 1
                    return
        raise Unavailable


class ThreadFollower(ChaosClient):
    """Follows a thread over many runs that other clients start."""

    def __init__(self, server: RunningServer, seed: int, thread_id: str) -> None:
        super().__init__(server, seed)
        self.path = f"/threads/{thread_id}/stream"
        self.received = b""
        self._cursor = "-1"

    def job(self) -> None:
        try:
            self.read(self._record, self._cursor)
        except (OSError, http.client.HTTPException):
            time.sleep(0.1)

    def read(self, record: Callable[[bytes, str], bool], after: str) -> None:
        """Pass everything up to and including each id to `record`, until it returns False or the stream is cut off."""
        connection = connect(self.server, timeout=10)
        pending = complete = b""
        try:
            connection.request("GET", self.path, headers={"Last-Event-ID": after})
            response = connection.getresponse()
            while chunk := response.read1(65536):
                *frames, pending = (pending + chunk).split(b"\r\n\r\n")
                for frame in frames:
                    if frame.startswith(b":"):
                        continue
                    complete += frame + b"\r\n\r\n"
                    name, _, value = frame.rpartition(b"\r\n")[2].partition(b": ")
                    if name == b"id":
                        if not record(complete, value.decode()):
                            return
                        complete = b""
        finally:
            connection.close()

    def _record(self, frames: bytes, cursor: str) -> bool:
        self.received += frames
        self._cursor = cursor
        self.outcomes["frames"] += 1
        return not self._stopping.is_set()

    def check(self) -> None:
        again, cursor = bytearray(), "-1"

        def record(frames: bytes, after: str) -> bool:
            nonlocal cursor
            again.extend(frames)
            cursor = after
            return len(again) < len(self.received)

        deadline = time.monotonic() + JOB_TIMEOUT
        while len(again) < len(self.received) and time.monotonic() < deadline:
            with suppress(OSError, http.client.HTTPException):  # the connection may be cut off here, too
                self.read(record, cursor)
        assert bytes(again) == self.received, f"{self.path}: {_difference(bytes(again), self.received)}"


def _difference(stored: bytes, received: bytes) -> str:
    """Where two streams start to differ."""
    pairs = enumerate(zip(stored, received, strict=False))
    at = next((at for at, (one, other) in pairs if one != other), min(len(stored), len(received)))
    around = slice(max(0, at - 300), at + 300)
    return f"at {at}, stored {stored[around]!r}, received {received[around]!r}"


def connect(server: RunningServer, timeout: float = 60) -> http.client.HTTPConnection:
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    return http.client.HTTPConnection(host, int(port), timeout=timeout)


def open_clients(server: RunningServer, seed: int) -> list[ChaosClient]:
    """Clients of every kind, started."""
    competing = CompetingClient(server, seed)
    kinds = (StreamingClient, StreamingClient, WaitingClient, StatelessClient, AnsweringClient, AgUiClient)
    clients: list[ChaosClient] = [kind(server, seed + number) for number, kind in enumerate(kinds, 1)]
    clients += [competing, ThreadFollower(server, seed + 100, competing.thread_id)]
    for client in clients:
        client.start()
    return clients


def close_clients(clients: list[ChaosClient]) -> Counter[str]:
    """Let every client finish its job, and raise the first error. Returns what the clients have seen."""
    outcomes: Counter[str] = Counter()
    for client in clients:
        client.stop()
    for client in clients:
        client.join(2 * JOB_TIMEOUT)
        assert not client.is_alive(), f"{client.name} does not end"
        if client.error is not None:
            raise client.error
        outcomes.update({f"{type(client).__name__}.{name}": count for name, count in client.outcomes.items()})
    return outcomes


def fail_early(clients: list[ChaosClient]) -> None:
    for client in clients:
        if client.error is not None:
            raise client.error


def wait_until_idle(server: RunningServer) -> None:
    deadline = time.monotonic() + JOB_TIMEOUT
    while busy := post(server, "/threads/search", {"status": "busy", "limit": 100}):
        assert time.monotonic() < deadline, f"{len(busy)} threads are busy"
        time.sleep(0.2)
