"""Processes that user code forks off, as `multiprocessing` does on Linux.

They inherit what this process has open. A signal meant for one of them would be heard by our loop, through the pipe
that is its way of hearing signals; and the port would be taken for as long as one of them lives.
"""

import os
import signal
import socket

_listeners: set[socket.socket] = set()


def disown_forks(listener: socket.socket) -> None:
    """From now on, forked processes have the usual signal handlers and no part in the listener."""
    if not _listeners:
        os.register_at_fork(after_in_child=_disown)
    _listeners.add(listener)


def _disown() -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for listener in _listeners:
        if (handle := listener.fileno()) >= 0:
            os.close(handle)  # the loop holds the socket, so that its own `close` would not
