"""Starts and stops the measured servers, each in its own process."""

import asyncio
import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.clients import Client, Failed

HERE = Path(__file__).parent
ROOT = HERE.parent
_START_WITHIN = 60


@dataclass(slots=True)
class Server:
    name: str
    process: asyncio.subprocess.Process
    client: Client

    def cpu(self) -> float:
        """CPU seconds used by all threads of the process."""
        return time.clock_gettime((~self.process.pid << 3) | 2)

    def memory(self) -> int:
        """Bytes of resident memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1]) * 1024

    def pause(self) -> None:
        """Suspend the process, so that it uses no CPU while something else is measured."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)


def source_digest() -> str:
    """A digest of the measured code, which may be edited during a long benchmark."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src" / "threadwire").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


@asynccontextmanager
async def threadwire(
    data: Path,
    project: str = "langgraph.json",
    headers: dict[str, str] | None = None,
    workers: int = 0,
    tree: Path = ROOT,
) -> AsyncIterator[Server]:
    """`threadwire serve` on `data`, in one process unless there are `workers`, and otherwise with default settings.
    Stopped with SIGTERM so that the file is complete. `tree` is the checkout whose source is used."""
    has_workers = (tree / "src" / "threadwire" / "ipc").is_dir()  # older sources do not have the option
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "threadwire", "serve", "--config", str(HERE / project), "--port", "0",
        "--data", str(data), *(["--workers", str(workers)] if has_workers else []),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "LANGSMITH_TRACING": "false", "PYTHONPATH": str(tree / "src")},
    )  # fmt: skip
    try:
        port = await asyncio.wait_for(_announced_port(process), _START_WITHIN)
        drain = asyncio.create_task(_discard_output(process))
        server = Server("threadwire", process, Client("127.0.0.1", port, headers))
        yield server
        server.client.close()
    finally:
        await _stop(process)
    await drain


@asynccontextmanager
async def process_on_postgres(role: str, env: Mapping[str, str]) -> AsyncIterator[Server]:
    """One process of a deployment on PostgreSQL."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "threadwire", "serve", "--config", str(HERE / "langgraph.json"), "--port", "0",
        "--role", role, stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "LANGSMITH_TRACING": "false", **env},
    )  # fmt: skip
    drain: asyncio.Task[None] | None = None
    try:
        port = await asyncio.wait_for(_announced_port(process), _START_WITHIN)
        drain = asyncio.create_task(_discard_output(process))
        server = Server(role, process, Client("127.0.0.1", port))
        yield server
        server.client.close()
    finally:
        await _stop(process)
        if drain is not None:
            await drain


async def _announced_port(process: asyncio.subprocess.Process) -> int:
    assert process.stdout is not None
    while line := await process.stdout.readline():
        if b"listening on" in line:
            return int(line.split()[-1].rpartition(b":")[2])
    raise Failed("threadwire did not start")


async def _discard_output(process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None
    while await process.stdout.readline():
        pass


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), 30)
        except TimeoutError:
            process.kill()
            await process.wait()


def stock_command() -> str | None:
    """The executable of the stock server: BENCH_STOCK, or the one that `make stock` installs. None if BENCH_STOCK is
    empty."""
    return _command("BENCH_STOCK", ROOT / ".venv-stock" / "bin" / "langgraph")


def langhost_command() -> str | None:
    """The executable of langhost: BENCH_LANGHOST, or the one that `make langhost` installs. None if BENCH_LANGHOST is
    empty."""
    return _command("BENCH_LANGHOST", ROOT / ".venv-langhost" / "bin" / "langhost")


def _command(variable: str, installed: Path) -> str | None:
    if (given := os.environ.get(variable)) is not None:
        return given or None
    return str(installed) if installed.exists() else None


@asynccontextmanager
async def stock(command: str) -> AsyncIterator[Server]:
    """`langgraph dev`, in one process."""
    with _copied_project() as project:
        port = _free_port()
        process = await asyncio.create_subprocess_exec(
            command, "dev", "--no-browser", "--no-reload", "--port", str(port), "--n-jobs-per-worker", "20",
            cwd=project, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, "LANGSMITH_TRACING": "false", "LOG_LEVEL": "warning"},
        )  # fmt: skip
        try:
            server = Server("stock", process, Client("127.0.0.1", port))
            await asyncio.wait_for(_until_ready(server.client), _START_WITHIN)
            server.pause()
            yield server
            server.client.close()
        finally:
            process.send_signal(signal.SIGCONT)
            await _stop(process)


@asynccontextmanager
async def langhost(command: str, postgres: str, redis: str, processes: int) -> AsyncIterator[Server]:
    """`langhost serve` with several processes, each of which accepts requests and executes runs.

    One process starts alone before: several that find an empty database create its tables at once, and some fail."""
    env = {"DATABASE_URI": postgres, "REDIS_URI": redis, "LOG_LEVEL": "warning"}
    with _copied_project() as project:
        async with _langhost(command, project, env, 1):
            pass
        async with _langhost(command, project, env, processes) as server:
            yield server


@asynccontextmanager
async def _langhost(command: str, project: Path, env: Mapping[str, str], processes: int) -> AsyncIterator[Server]:
    port = _free_port()
    process = await asyncio.create_subprocess_exec(
        *_ending_with_this_process(), command, "serve", "--port", str(port), "--workers", str(processes),
        "--n-jobs-per-worker", "20", "--server-log-level", "WARNING",
        cwd=project, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL, start_new_session=True,
        env={**os.environ, "LANGSMITH_TRACING": "false", **env},
    )  # fmt: skip
    try:
        server = Server("langhost", process, Client("127.0.0.1", port))
        await asyncio.wait_for(_until_ready(server.client), _START_WITHIN)
        yield server
        server.client.close()
    finally:
        await _stop(process)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its children, if they did not stop with it


def _ending_with_this_process() -> list[str]:
    """A prefix for a command. In a session of its own, it does not get the signals of the terminal."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig=TERM"] if setpriv else []


@contextmanager
def _copied_project() -> Iterator[Path]:
    """A copy of the project, because the stock server writes into the project folder."""
    with tempfile.TemporaryDirectory(prefix="bench-project-") as project:
        for name in ("graphs.py", "langgraph.json"):
            shutil.copy(HERE / name, project)
        yield Path(project)


async def _until_ready(client: Client) -> None:
    while True:
        try:
            await client.ask("GET", "/ok", keep=True)
            return
        except (OSError, Failed):
            await asyncio.sleep(0.2)


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Bare:
    """The graphs without a server, in a process that executes commands."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def __call__(self, do: str, **inputs: Any) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"do": do, **inputs}).encode() + b"\n")
        line = await stdout.readline()
        if not line:
            raise Failed("the bare process exited")
        result: dict[str, Any] = json.loads(line)
        return result


@asynccontextmanager
async def bare() -> AsyncIterator[Bare]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.bare", cwd=ROOT,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=16 * 1024 * 1024,
        env={**os.environ, "LANGSMITH_TRACING": "false"},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        yield Bare(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
