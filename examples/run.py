"""`make run`: serve the example agents, and build their web pages at the same time.

Installing the pages' packages takes longer than loading the agents, and npm's output would hide the server's. So the
server starts first, and npm's output goes to a file.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parents[1]
LOG = Path("build/page.log")
PAGES = "The pages /chat, /dashboard and /timeline"
SERVE = ("-m", "threadwire", "dev", "--config", "examples/langgraph.json")


def main() -> int:
    os.chdir(ROOT)
    with page_build(), subprocess.Popen([sys.executable, *SERVE]) as server:

        def stop(number: int, frame: FrameType | None) -> None:
            # A terminal sends SIGINT to both processes. Forwarding it would be a second one, which skips the draining.
            if number != signal.SIGINT:
                server.send_signal(number)

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
        return server.wait()


@contextmanager
def page_build() -> Iterator[None]:
    """Build the pages in the background, unless they are up to date. Exiting kills the build."""
    if subprocess.run(["make", "--question", "page"], capture_output=True).returncode == 0:
        yield
        return
    if shutil.which("npm") is None:
        print(f"{PAGES} are not built: this requires Node 20 or later.", flush=True)
        yield
        return
    print(f"{PAGES} are being built; the output of npm is in {LOG}.", flush=True)
    LOG.parent.mkdir(exist_ok=True)
    with LOG.open("w") as log:
        # Its own session, so that the whole group can be killed: npm ignores Ctrl-C and SIGTERM while it unpacks.
        build = subprocess.Popen(["make", "page"], stdout=log, stderr=log, start_new_session=True)
    reporter = threading.Thread(target=report_build, args=(build,))
    reporter.start()
    try:
        yield
    finally:
        if build.poll() is None:
            os.killpg(build.pid, signal.SIGKILL)
        reporter.join()


def report_build(build: "subprocess.Popen[bytes]") -> None:
    exit_code = build.wait()
    if exit_code == 0:
        print(f"{PAGES} are built.", flush=True)
    elif exit_code > 0:  # negative: killed because the server exited
        print(f"{PAGES} could not be built: see {LOG}.", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
