"""Tracing of runs to LangSmith, which is simulated by a server that records what it receives."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from clients import eventually, fresh_id, open_async, rejected

from threadwire.testing.server import running_server

pytestmark = pytest.mark.anyio

INFO = {
    "version": "0.0.0",
    "batch_ingest_config": {
        "use_multipart_endpoint": True,
        "size_limit": 100,
        "size_limit_bytes": 1_000_000,
        "scale_up_qsize_trigger": 1000,
        "scale_up_nthreads_limit": 1,
        "scale_down_nempty_trigger": 4,
    },
}
DEFAULT, CHOSEN = "the-default-project", "the-chosen-project"


@contextmanager
def langsmith() -> Iterator[tuple[str, list[bytes]]]:
    """Yield its address and the request bodies it has received."""
    received: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._respond(json.dumps(INFO).encode())

        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["content-length"])))
            self._respond(b"{}")

        do_PATCH = do_POST

        def _respond(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        serving = Thread(target=listening.serve_forever, daemon=True)
        serving.start()
        try:
            yield f"http://127.0.0.1:{listening.server_port}", received
        finally:
            listening.shutdown()
            serving.join()


def environment(address: str) -> dict[str, str]:
    return {
        "LANGSMITH_TRACING": "true",
        "LANGSMITH_ENDPOINT": address,
        "LANGSMITH_API_KEY": "none",
        "LANGSMITH_PROJECT": DEFAULT,
        "LANGSMITH_DISABLE_RUN_COMPRESSION": "true",
    }


async def test_a_run_is_traced_to_the_project_and_example_chosen_by_the_client(project: Path, tmp_path: Path) -> None:
    example = fresh_id()
    with (
        langsmith() as (address, received),
        running_server(project, tmp_path / "data", env=environment(address)) as server,
    ):
        async with open_async(server.url) as sdk:
            tracing = {"project_name": CHOSEN, "example_id": example}
            default = await sdk.runs.create(None, "echo", input={"text": 1})
            chosen = await sdk.runs.create(None, "echo", input={"text": 1}, langsmith_tracing=tracing)

            async def both_are_traced() -> bool:
                return {default["run_id"], chosen["run_id"]} <= traced(received).keys()

            await eventually(both_are_traced)
            assert traced(received) == {default["run_id"]: {(DEFAULT, None)}, chosen["run_id"]: {(CHOSEN, example)}}


def traced(received: list[bytes]) -> dict[str, set[tuple[str, str | None]]]:
    """Return for each run the projects and examples to which its root was sent."""
    found: dict[str, set[tuple[str, str | None]]] = {}
    for part in b"".join(received).decode(errors="replace").split("\r\n"):
        if '"session_name"' in part and (run := json.loads(part))["id"] == run["trace_id"]:
            found.setdefault(run["id"], set()).add((run["session_name"], run.get("reference_example_id")))
    return found


async def test_tracing_options_have_no_effect_without_tracing(sdk) -> None:
    thread_id = await sdk.thread()
    tracing = {"project_name": CHOSEN, "example_id": fresh_id()}
    assert (await sdk.runs.wait(thread_id, "echo", input={"text": 1}, langsmith_tracing=tracing))["echoed"] == 1
    (run,) = await sdk.runs.list(thread_id)
    assert run["kwargs"]["langsmith_tracer"] == tracing


async def test_an_invalid_example_id_is_rejected(sdk) -> None:
    with rejected(422, "langsmith_tracer.example_id: must be a UUID"):
        await sdk.runs.create(None, "echo", langsmith_tracing={"example_id": "one"})
