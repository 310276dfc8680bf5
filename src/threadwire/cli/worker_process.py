"""The entry point of a worker process. `threadwire serve` and `threadwire worker` start it; it is not a command."""

import socket
import sys

import anyio
from rich.console import Console

from threadwire.cli.errors import print_error
from threadwire.cli.logs import configure_logging
from threadwire.cli.serve_command import exit_without_waiting_for_threads, first_error
from threadwire.errors import ThreadwireError
from threadwire.ipc.frames import read_value
from threadwire.server.combined_settings import combined_settings
from threadwire.server.worker_process import WorkerStart, end_with_owner, run_worker


def main(descriptor: int) -> None:
    end_with_owner()
    sock = socket.socket(fileno=descriptor)
    introduction = read_value(sock)
    sys.path[:] = introduction["path"]
    settings = combined_settings().model_validate_json(introduction["settings"])
    start = WorkerStart(**introduction["start"])
    configure_logging(settings.log_level)
    with exit_without_waiting_for_threads():
        try:
            anyio.run(run_worker, sock, settings, start, backend_options={"use_uvloop": True})
        except BaseExceptionGroup as group:
            raise first_error(group) from group


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]))
    except ThreadwireError as error:
        print_error(Console(stderr=True, highlight=False), error)
        raise SystemExit(1) from None
