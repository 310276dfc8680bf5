"""Isolation from processes that the project's code forks, as `multiprocessing` does on Linux.

A forked process inherits our open files. A signal sent to it would reach our event loop through the shared wakeup pipe,
and the port would stay in use for as long as it lives.
"""

import os
import signal
import socket

_listeners: set[socket.socket] = set()


def detach_forked_children(listener: socket.socket) -> None:
    """From now on, forked processes get the default signal handlers and close the listener."""
    if not _listeners:
        os.register_at_fork(after_in_child=_detach_child)
    _listeners.add(listener)


def _detach_child() -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for listener in _listeners:
        if (descriptor := listener.fileno()) >= 0:
            os.close(descriptor)  # `listener.close` would defer this, because the loop holds the socket
