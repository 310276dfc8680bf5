"""A server process that reports in its output when it accepts connections."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

START_WITHIN = 60.0
STOP_WITHIN = 60.0


class ServiceProcess:
    """Runs one command. Its folder belongs to the account that runs it, because PostgreSQL refuses to run as root.

    The process ends with the thread that started it, even if that is killed, so a test run leaves nothing behind.
    """

    def __init__(self, name: str, *, ready: str, account: str) -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{name}-"))
        self.account = account if os.geteuid() == 0 else None
        if self.account is not None:
            shutil.chown(self.folder, self.account)
        self._name = name
        self._ready = ready
        self._output: list[str] = []
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self._name} has not been started"
        return self._process.pid

    def output(self) -> str:
        return "".join(self._output)

    def run_to_end(self, command: Sequence[str]) -> None:
        """Run a command that sets up the service."""
        done = subprocess.run(
            command, user=self.account, cwd=self.folder, capture_output=True, text=True, env=_environment()
        )
        assert done.returncode == 0, f"{command[0]} failed:\n{done.stdout}{done.stderr}"

    def start(self, command: Sequence[str]) -> None:
        """Start the process and return once it accepts connections."""
        self._output = []
        self._process = subprocess.Popen(
            [*self._with_account(), *command],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=_environment(),
            start_new_session=True,
        )
        ready = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(self._process, ready), daemon=True)
        self._reader.start()
        if not ready.wait(START_WITHIN) or self._process.poll() is not None:
            self.kill()
            raise RuntimeError(f"{self._name} did not start:\n{self.output()}")

    def stop(self, how: int = signal.SIGTERM) -> None:
        """Send the signal and wait for the process to end."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(how)
        self._process.wait(STOP_WITHIN)
        self._close()

    def kill(self) -> None:
        """Kill the process with all its children, as a crash of the machine would."""
        if self._process is not None:
            if self._process.poll() is None:
                self._signal_all(signal.SIGKILL)
            self._process.wait(STOP_WITHIN)
            self._close()

    def pause(self) -> None:
        """Stop the process and its children in place. Connections stay open and get no response."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal_all(signal.SIGCONT)

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _with_account(self) -> list[str]:
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            return []
        return [setpriv, *([] if self.account is None else _as_account(self.account)), "--pdeathsig=INT"]

    def _signal_all(self, how: int) -> None:
        """Also to the children, because those of PostgreSQL have process groups of their own."""
        listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.pid)], capture_output=True, text=True)
        for process in (self.pid, *map(int, listed.stdout.split())):
            with suppress(ProcessLookupError):
                os.kill(process, how)

    def _read(self, process: "subprocess.Popen[str]", ready: threading.Event) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._output.append(line)
            if self._ready in line:
                ready.set()
        ready.set()  # it ended: do not wait any longer

    def _close(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        assert self._reader is not None
        self._reader.join()
        self._process.stdout.close()
        self._process = None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _as_account(account: str) -> list[str]:
    entry = pwd.getpwnam(account)
    return [f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--init-groups"]


def _environment() -> dict[str, str]:
    """Without the PG* variables of a developer, and with messages in English."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, "LC_ALL": "C.UTF-8"}
