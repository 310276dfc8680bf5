"""A deployment as plain processes: PostgreSQL and Redis behind proxies that can fail, API processes and workers, and
nginx in front.

with running_cluster(apis=2, workers=3) as cluster:
    get_client(url=cluster.url)
    cluster.workers[0].kill()
    cluster.workers[0].start()
    cluster.redis_proxy.cut()
"""

import asyncio
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from services.fault_proxy import FaultProxy, fault_proxy
from services.nginx_server import running_nginx
from services.postgres_server import PostgresServer, running_postgres
from services.redis_server import RedisServer, running_redis
from threadwire.testing.server import RunningServer

PROJECT = Path(__file__).parent.parent / "integration" / "project" / "langgraph.json"


@dataclass
class Cluster:
    url: str
    """The address of nginx."""
    postgres: PostgresServer
    postgres_proxy: FaultProxy
    redis: RedisServer | None
    redis_proxy: FaultProxy | None
    apis: list[RunningServer]
    workers: list[RunningServer]
    database: str
    """The address of the database, not through the proxy."""

    @property
    def processes(self) -> list[RunningServer]:
        return [*self.apis, *self.workers]

    def logged_errors(self) -> str:
        """The lines with errors in the logs of all processes, since each was last started."""
        lines = [line for process in self.processes for line in process.log().splitlines()]
        return "\n".join(line for line in lines if "[error" in line or "Error" in line)


@contextmanager
def running_cluster(
    *,
    apis: int = 2,
    workers: int = 3,
    with_redis: bool = True,
    env: Mapping[str, str] | None = None,
    config: Path = PROJECT,
) -> Iterator[Cluster]:
    """Run a cluster until the block ends. `env` is that of all its processes."""
    with ExitStack() as stack:
        postgres = stack.enter_context(running_postgres(durable=True))
        postgres_proxy = stack.enter_context(fault_proxy(postgres.port))
        database = asyncio.run(postgres.create_database("cluster"))
        redis = stack.enter_context(running_redis()) if with_redis else None
        redis_proxy = stack.enter_context(fault_proxy(redis.port)) if redis is not None else None
        environment = {"THREADWIRE_STORAGE": postgres.dsn("cluster", port=postgres_proxy.port), **(env or {})}
        if redis is not None and redis_proxy is not None:
            environment["THREADWIRE_REDIS"] = redis.url_at(redis_proxy.port)
        roles = ["api"] * apis + ["worker"] * workers
        processes = [RunningServer(config, None, env={**environment, "THREADWIRE_ROLE": role}) for role in roles]
        stack.callback(_end, processes)
        with ThreadPoolExecutor() as starting:
            list(starting.map(RunningServer.start, processes))
        nginx = stack.enter_context(running_nginx(_upstreams(processes[:apis])))
        yield Cluster(
            nginx.url, postgres, postgres_proxy, redis, redis_proxy, processes[:apis], processes[apis:], database
        )


def _end(processes: list[RunningServer]) -> None:
    for process in processes:
        if process.is_running:
            process.resume()  # a process that is stopped does not die
            process.kill()


def _upstreams(apis: list[RunningServer]) -> dict[str, str]:
    names = [f"api-{number}:2024" for number in (1, 2)]
    addresses = [api.url.removeprefix("http://") for api in apis]
    return dict(zip(names, addresses if len(addresses) > 1 else addresses * 2, strict=True))
