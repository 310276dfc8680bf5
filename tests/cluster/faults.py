"""What can happen to a cluster. A fault has ended when its function returns, but its effects may last longer."""

import random
import time
from collections.abc import Callable

from cluster import Cluster

Fault = Callable[[Cluster, random.Random], None]

LEASE_EXPIRES_WITHIN = 26.0
"""Seconds after which the runs of a process that hangs belong to others."""


def kill_a_worker(cluster: Cluster, rng: random.Random) -> None:
    worker = rng.choice(cluster.workers)
    worker.kill()
    worker.start()


def kill_an_api(cluster: Cluster, rng: random.Random) -> None:
    api = rng.choice(cluster.apis)
    api.kill()
    api.start()


def hang_briefly(cluster: Cluster, rng: random.Random) -> None:
    """Not long enough to lose a lease."""
    process = rng.choice(cluster.processes)
    process.pause()
    time.sleep(rng.uniform(0.5, 4))
    process.resume()


def hang_past_the_lease(cluster: Cluster, rng: random.Random) -> None:
    """The process becomes a zombie: it continues runs that others have taken over."""
    worker = rng.choice(cluster.workers)
    worker.pause()
    time.sleep(LEASE_EXPIRES_WITHIN + rng.uniform(0, 4))
    worker.resume()


def cut_redis(cluster: Cluster, rng: random.Random) -> None:
    assert cluster.redis_proxy is not None
    (cluster.redis_proxy.cut if rng.random() < 0.5 else cluster.redis_proxy.stall)()
    time.sleep(rng.uniform(0.1, 3))
    cluster.redis_proxy.mend()


def kill_redis(cluster: Cluster, rng: random.Random) -> None:
    assert cluster.redis is not None
    cluster.redis.kill()
    time.sleep(rng.uniform(0, 2))
    cluster.redis.start()


def cut_postgres(cluster: Cluster, rng: random.Random) -> None:
    cluster.postgres_proxy.cut()
    time.sleep(rng.uniform(0.1, 3))
    cluster.postgres_proxy.mend()


def stall_postgres(cluster: Cluster, rng: random.Random) -> None:
    cluster.postgres_proxy.stall()
    time.sleep(rng.uniform(0.1, 5))
    cluster.postgres_proxy.mend()


def cut_some_commits(cluster: Cluster, rng: random.Random) -> None:
    before = cluster.postgres_proxy.commits_cut
    wanted = rng.randint(1, 5)
    cluster.postgres_proxy.cut_at_commit(rng.choice(["before", "after"]), wanted)
    deadline = time.monotonic() + 30
    while cluster.postgres_proxy.commits_cut < before + wanted and time.monotonic() < deadline:
        time.sleep(0.02)


def restart_postgres(cluster: Cluster, rng: random.Random) -> None:
    cluster.postgres.restart(rng.choice(["immediate", "fast"]))


QUICK: tuple[Fault, ...] = (
    kill_a_worker,
    kill_an_api,
    hang_briefly,
    cut_redis,
    kill_redis,
    cut_postgres,
    stall_postgres,
    cut_some_commits,
    restart_postgres,
)
FAULTS: tuple[Fault, ...] = (*QUICK, kill_a_worker, hang_past_the_lease)


def chosen_faults(names: str | None) -> tuple[Fault, ...]:
    """The faults with these names, separated by commas, or all of them."""
    if names is None:
        return FAULTS
    known = {fault.__name__: fault for fault in FAULTS}
    return tuple(known[name] for name in names.split(","))
