"""`make run`: the example agents served, and beside the server their page being built.

Fetching what a page is made of takes longer than loading agents, and what npm says would hide what the server says. So
the server comes first, and npm's words go to a file.
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
PAGE = "The page /dashboard"
SERVE = ("-m", "threadwire", "dev", "--config", "examples/langgraph.json")


def main() -> int:
    os.chdir(ROOT)
    with page_being_built(), subprocess.Popen([sys.executable, *SERVE]) as server:

        def stop(number: int, frame: FrameType | None) -> None:
            if number != signal.SIGINT:  # a terminal sends that to both, and to get it twice is to be hurried
                server.send_signal(number)

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
        return server.wait()


@contextmanager
def page_being_built() -> Iterator[None]:
    """If it is not built already. Whoever leaves does not wait for it: what was begun is begun again the next time."""
    if subprocess.run(["make", "--question", "page"], capture_output=True).returncode == 0:
        yield
        return
    if shutil.which("npm") is None:
        print(f"{PAGE} is not built: that takes Node 20 or later.", flush=True)
        yield
        return
    print(f"{PAGE} is being built; what npm says is in {LOG}.", flush=True)
    LOG.parent.mkdir(exist_ok=True)
    with LOG.open("w") as log:
        # A session of its own, to be ended as one: npm heeds neither Ctrl-C nor SIGTERM while it unpacks.
        building = subprocess.Popen(["make", "page"], stdout=log, stderr=log, start_new_session=True)
    told = threading.Thread(target=tell_when_built, args=(building,))
    told.start()
    try:
        yield
    finally:
        if building.poll() is None:
            os.killpg(building.pid, signal.SIGKILL)
        told.join()


def tell_when_built(building: "subprocess.Popen[bytes]") -> None:
    ended = building.wait()
    if ended == 0:
        print(f"{PAGE} is built.", flush=True)
    elif ended > 0:
        print(f"{PAGE} could not be built: see {LOG}.", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
