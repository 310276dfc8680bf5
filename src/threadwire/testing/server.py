"""Runs `threadwire serve` in a separate process, for end-to-end tests and for tests that kill the server.

with running_server(Path("langgraph.json"), tmp_path / "data") as server:
    client = get_client(url=server.url)
    ...
    server.kill()
    server.start()  # restarts on the same data and address
"""

import http.client
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

START_TIMEOUT = 30.0
DEFAULT_WORKERS = 0
"""How many worker processes a server has, unless its environment or options set a number."""
STOP_TIMEOUT = 30.0

_ADDRESS = re.compile(r"Threadwire is listening on (http://\S+):(\d+)")


def start_process(command: list[str], environment: dict[str, str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
        start_new_session=True,
    )


launch = start_process
"""Starts the process of a server. A test suite may replace it, for example by something that starts faster."""


class RunningServer:
    """A server process that can be restarted on the same data after it has ended."""

    def __init__(
        self,
        config: Path,
        data: Path | None,
        *,
        env: Mapping[str, str] | None = None,
        command: str = "serve",
        options: Sequence[str] = (),
        program: Path | None = None,
        python: Path | None = None,
    ) -> None:
        self.config = config
        self._options = options
        self.data = data
        self._command = command
        self.env = dict(env or {})
        self.program = program
        """A script to run instead of `python -m threadwire`, with the same arguments."""
        self._python = sys.executable if python is None else str(python)
        self._port = 0
        self._lines: list[str] = []
        self._grew = threading.Condition()
        self._reader: threading.Thread | None = None
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    @property
    def process(self) -> "subprocess.Popen[str]":
        assert self._process is not None, "the server has not been started"
        return self._process

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process and return once it responds. A restart keeps the address."""
        assert self._process is None or self._process.poll() is not None, "the server is running"
        if self._process is not None:
            self._ended()
        self._lines = []
        arguments = ["--config", str(self.config), "--port", str(self._port), *self._options]
        if self.data is not None:
            arguments += ["--data", str(self.data)]
        program = ["-m", "threadwire"] if self.program is None else [str(self.program)]
        self._process = launch([self._python, *program, self._command, *arguments], self._environment())
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()
        try:
            address = self.wait_for_log(_ADDRESS, START_TIMEOUT)
            self._port = int(address[2])
            self.url = f"{address[1]}:{address[2]}"
            self._wait_until_ok(time.monotonic() + START_TIMEOUT)
        except BaseException:
            self.kill()
            raise

    def log(self) -> str:
        """Return the output of the process since it was last started."""
        with self._grew:
            return "".join(self._lines)

    def wait_for_log(self, pattern: str | re.Pattern[str], timeout: float = 10.0) -> re.Match[str]:
        """Wait until the output matches `pattern`, and return the match. Raise `TimeoutError` if it does not."""
        deadline = time.monotonic() + timeout
        with self._grew:
            while True:
                if found := re.search(pattern, "".join(self._lines)):
                    return found
                left = deadline - time.monotonic()
                if left <= 0 or (self._reader is None or not self._reader.is_alive()):
                    printed = "".join(self._lines)
                    raise TimeoutError(f"The server did not print {pattern!r}. It printed:\n{printed}")
                self._grew.wait(min(left, 0.2))

    def pause(self) -> None:
        """Suspend the process, as if its machine hung, until `resume`."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the process, as a crash would. A no-op if it has ended."""
        self.process.kill()
        self._ended()

    def terminate(self, timeout: float = STOP_TIMEOUT) -> int:
        """Send SIGTERM, wait until the process has ended, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait(timeout)

    def wait(self, timeout: float = STOP_TIMEOUT) -> int:
        """Wait for the process to end by itself, and return its exit code. Raise `TimeoutExpired` if it does not."""
        self.process.wait(timeout)
        return self._ended()

    def _ended(self) -> int:
        code = self.process.wait(STOP_TIMEOUT)
        if self._reader is not None:
            self._reader.join(STOP_TIMEOUT)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def _environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("THREADWIRE_")}
        defaults = {"NO_COLOR": "1", "PYTHONUNBUFFERED": "1", "THREADWIRE_WORKERS": str(DEFAULT_WORKERS)}
        return {**inherited, **defaults, **self.env}

    def _read(self, output: IO[str]) -> None:
        for line in output:
            with self._grew:
                self._lines.append(line)
                self._grew.notify_all()

    def _wait_until_ok(self, deadline: float) -> None:
        while not self._is_ok():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise TimeoutError(f"The server does not respond. It printed:\n{self.log()}")
            time.sleep(0.02)

    def _is_ok(self) -> bool:
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=5)
        try:
            connection.request("GET", "/ok")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()


@contextmanager
def running_server(
    config: Path,
    data: Path | None,
    *,
    env: Mapping[str, str] | None = None,
    command: str = "serve",
    options: Sequence[str] = (),
    program: Path | None = None,
    python: Path | None = None,
) -> Iterator[RunningServer]:
    """Run a server until the block ends. `data` is its directory, if it has one. `options` are further options of the
    command. `env` is added to the environment, from which all other `THREADWIRE_` settings are removed. Runs are
    executed in the server's own process, unless `THREADWIRE_WORKERS` in `env` or `--workers` in `options` says
    otherwise. `python` is another interpreter, with its own packages."""
    server = RunningServer(config, data, env=env, command=command, options=options, program=program, python=python)
    server.start()
    try:
        yield server
    finally:
        server.kill()
