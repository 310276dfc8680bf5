"""A process that has imported what a server needs, and forks one server per request: see `preloaded_servers.py`.

A forked server executes `python -m threadwire` from the start, with its own arguments, environment and output. It only
does not have to import the packages again, which takes most of the time of a start.
"""

import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
from typing import Any

MAX_REQUEST = 1024 * 1024


def serve_requests(control: socket.socket) -> dict[str, Any]:
    """Fork a server per request, and report when one ends. Returns in the forked process only, with its request."""
    ended, ending = os.pipe()
    os.set_blocking(ending, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(ending)
    while True:
        ready, _, _ = select.select([control, ended], [], [])
        if ended in ready:
            os.read(ended, 4096)
            report_ended(control)
        if control in ready:
            message, [*files], _, _ = socket.recv_fds(control, MAX_REQUEST, 1)
            if not message:  # the tests have ended
                os._exit(0)
            if (pid := os.fork()) == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for inherited in (ended, ending):
                    os.close(inherited)
                control.close()
                return {**json.loads(message), "output": files[0]}
            os.close(files[0])
            control.send(json.dumps({"started": pid}).encode())


def report_ended(control: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        control.send(json.dumps({"ended": pid, "status": status}).encode())


def become(request: dict[str, Any]) -> None:
    """Give this process what a new one would have."""
    os.setsid()
    os.dup2(request["output"], 1)
    os.dup2(request["output"], 2)
    os.close(request["output"])
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.path[0] = request["folder"]  # as with `python -m`
    sys.argv[:] = ["threadwire", *request["arguments"]]


if __name__ == "__main__":
    channel = socket.socket(fileno=int(sys.argv[1]))
    import threadwire.cli.serve_command  # noqa: F401 - this is the purpose

    assert threading.active_count() == 1, "a process with threads must not fork"
    gc.collect()
    gc.freeze()
    become(serve_requests(channel))
    runpy.run_module("threadwire", run_name="__main__", alter_sys=True)
