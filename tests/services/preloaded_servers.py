"""Starts servers as forks of a template process, which has imported their packages.

Importing takes most of the time of a start, and the tests start hundreds of servers.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from queue import Queue
from typing import IO

from threadwire.testing.server import start_process

TEMPLATE = Path(__file__).with_name("server_template.py")
READ_AT_IMPORT = ("PYTHON", "LD_", "LC_", "LANG", "MALLOC_")
"""A server with its own values of variables with these prefixes is started as a new process."""
NOT_READ_AT_IMPORT = {"PYTHONUNBUFFERED"}


class PreloadedProcess:
    """A forked server. It has the part of the interface of `subprocess.Popen` that the tests use."""

    def __init__(self, pid: int, output: IO[str]) -> None:
        self.pid = pid
        self.stdout = output
        self.returncode: int | None = None
        self._ended = threading.Event()

    def end(self, status: int) -> None:
        self.returncode = os.waitstatus_to_exitcode(status)
        self._ended.set()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(["threadwire"], timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return  # its end has not been reported yet

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


class PreloadedServers:
    """Starts servers. The template process is started with the first one, and ends with the tests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._template: subprocess.Popen[bytes] | None = None
        self._started: Queue[int] = Queue()
        self._table = threading.Lock()
        self._processes: dict[int, PreloadedProcess] = {}
        self._ended_early: dict[int, int] = {}
        """The statuses of processes that ended before `launch` returned."""

    def launch(self, command: list[str], environment: dict[str, str]) -> "PreloadedProcess | subprocess.Popen[str]":
        """Start a server, if possible as a fork of the template."""
        if command[:3] != [sys.executable, "-m", "threadwire"] or _has_own_imports(environment):
            return start_process(command, environment)
        reading, writing = os.pipe()
        request = {"arguments": command[3:], "environment": environment, "folder": str(Path.cwd())}
        with self._lock:
            control = self._control or self._start_template()
            socket.send_fds(control, [json.dumps(request).encode()], [writing])
            os.close(writing)
            process = PreloadedProcess(self._started.get(timeout=60), open(reading, errors="replace"))
        with self._table:
            if (status := self._ended_early.pop(process.pid, None)) is None:
                self._processes[process.pid] = process
            else:
                process.end(status)
        return process

    def close(self) -> None:
        """End the template process."""
        if self._control is not None and self._template is not None:
            self._control.shutdown(socket.SHUT_RDWR)
            self._template.wait(10)
            self._receiver.join(10)
            self._control.close()

    def _start_template(self) -> socket.socket:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        number = theirs.fileno()
        self._template = subprocess.Popen(
            [sys.executable, str(TEMPLATE), str(number)],
            stdin=subprocess.DEVNULL,
            pass_fds=[number],
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
        theirs.close()
        self._receiver = threading.Thread(target=self._receive, args=(self._control,), daemon=True)
        self._receiver.start()
        return self._control

    def _receive(self, control: socket.socket) -> None:
        while message := control.recv(4096):
            match json.loads(message):
                case {"started": pid}:
                    self._started.put(pid)
                case {"ended": pid, "status": status}:
                    with self._table:
                        if (process := self._processes.pop(pid, None)) is None:
                            self._ended_early[pid] = status
                        else:
                            process.end(status)


def _has_own_imports(environment: Mapping[str, str]) -> bool:
    names = {name for name in {*environment, *os.environ} if name.startswith(READ_AT_IMPORT)} - NOT_READ_AT_IMPORT
    return any(environment.get(name) != os.environ.get(name) for name in names)
