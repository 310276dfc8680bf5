"""Kills, stops, double kills and kills during startup, while clients of every kind use the server. Afterwards the log
obeys spec/log.md, every run has ended, and every client has received what the server stores."""

import asyncio
import os
import random
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from chaos import close_clients, fail_early, open_clients, wait_until_idle
from log_checker import check_directory

from threadwire.testing.server import RunningServer, running_server

CYCLES = int(os.environ.get("CHAOS_CYCLES", "5"))
SEED = int(os.environ.get("CHAOS_SEED", "7"))
PROJECT = Path(__file__).parent.parent / "integration" / "project" / "langgraph.json"

pytestmark = pytest.mark.timeout(7200 if CYCLES > 5 else 600)


def kill(server: RunningServer, rng: random.Random) -> None:
    server.kill()
    server.start()


def stop(server: RunningServer, rng: random.Random) -> None:
    assert server.terminate() == 0
    server.start()


def kill_twice(server: RunningServer, rng: random.Random) -> None:
    """The second kill hits the recovery, or the first attempts after it."""
    kill(server, rng)
    time.sleep(rng.uniform(0, 0.2))
    kill(server, rng)


def kill_during_start(server: RunningServer, rng: random.Random) -> None:
    server.kill()
    starting = threading.Thread(target=_try_to_start, args=(server,))
    starting.start()
    time.sleep(rng.uniform(0, 3))
    server.process.kill()
    starting.join()
    server.kill()
    server.start()


def _try_to_start(server: RunningServer) -> None:
    with suppress(TimeoutError):
        server.start()


ACTIONS = (kill, kill, kill, stop, kill_twice, kill_during_start)


def test_nothing_is_lost_or_repeated_whatever_happens_to_the_process(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    done: Counter[str] = Counter()
    env = {"THREADWIRE_DRAIN_SECONDS": "0.5", "THREADWIRE_KEEP_TEMPORARY_SECONDS": "100000"}
    with running_server(PROJECT, tmp_path / "data", env=env) as server:
        clients = open_clients(server, SEED)
        for _ in range(CYCLES):
            time.sleep(rng.uniform(0.1, 2))
            action = rng.choice(ACTIONS)
            action(server, rng)
            done[action.__name__] += 1
            fail_early(clients)
        outcomes = close_clients(clients)
        wait_until_idle(server)
        for client in clients:
            client.check()
        assert server.terminate() == 0
        entries, violations = asyncio.run(check_directory(tmp_path / "data"))
    sys.stderr.write(f"{dict(done)}, {entries} entries, {dict(outcomes)}\n")
    assert violations == []
    assert entries > 0
