"""The settings of the server itself, typed, frozen and documented. Built once, by the command or by the host
application, and passed down. `server/combined_settings.py` adds the settings of the protocols."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from threadwire.environment import EnvironmentSettings


class Settings(EnvironmentSettings):
    config: Path = Path("langgraph.json")
    """The project file that names the graphs."""
    data: Path = Path(".threadwire")
    """The directory that holds the database. One server at a time may use it."""
    storage: str = "sqlite"
    """Where to store threads, runs and checkpoints: `sqlite`, durable in `data`; the address of a PostgreSQL database,
    `postgresql://user:password@host/name`; or `memory`, lost on exit."""
    redis: str | None = None
    """The address of a Redis or Valkey server, such as `redis://host:6379`. With it, entries that other processes
    write reach clients sooner. Only with PostgreSQL."""
    role: Literal["all", "api", "worker"] = "all"
    """What the process does: `api` serves requests and executes no runs; `worker` executes runs and serves only `/ok`,
    `/ready`, `/info` and `/metrics`; `all` does both. Roles other than `all` require PostgreSQL."""
    host: str = "127.0.0.1"
    """The address to listen on. Any address other than loopback requires auth, or `insecure_no_auth`."""
    port: int = Field(2024, ge=0, le=65535)
    """The port to listen on. With 0, the server picks a free port and prints it."""
    insecure_no_auth: bool = False
    """Serve without authentication, on any address, even if the project uses `auth` or there are API keys."""
    auth_seconds: float = Field(10.0, gt=0)
    """How long an auth handler of the project may take. If it takes longer, the request is rejected with 500."""
    ticket_seconds: float = Field(30.0, gt=0, le=300)
    """How long a ticket for an `EventSource` or a `WebSocket` can be used after it was issued."""
    reload: bool = True
    """Whether `dev` reloads the project when its files change."""
    workers: int | None = Field(None, ge=0, le=64)
    """How many worker processes `serve` and `worker` start to execute runs and call graphs; with 0, they do both
    themselves. The default is one per core, at most 8. It is 0 on a single core, with PostgreSQL or the `memory`
    storage, and if the project has its own checkpointer or store. `dev` always uses one process."""
    lease_seconds: float = Field(20.0, ge=1)
    """How long a process that executes runs may be unresponsive before another one continues its runs. If a process
    that `workers` started dies, its runs continue immediately."""
    concurrency: int = Field(1000, ge=1, le=10_000)
    """How many runs may execute at the same time. A run that waits for a model costs almost nothing; sync nodes are
    limited separately."""
    max_pending_runs_per_thread: int = Field(1000, ge=1)
    """How many runs may wait on one thread. Further runs are rejected with 429."""
    max_pending_runs: int = Field(100_000, ge=1)
    """How many runs may wait in total, including delayed ones. Further runs are rejected with 429."""
    drain_seconds: float = Field(10.0, ge=0)
    """How long a shutdown lets runs continue before it releases them. Released runs resume in another process or at the
    next start."""
    keep_temporary_seconds: float = Field(120.0, ge=0)
    """How long a stateless run can be read, and its stream resumed, after it has ended and its thread was discarded."""
    max_connections: int = Field(10_000, ge=1)
    """How many connections clients may have open. Lowered at startup if the process is not allowed to open that many
    files. Requests on further connections are rejected with 503."""
    request_head_seconds: float = Field(10.0, gt=0)
    """How long a client may take to send the request line and headers."""
    request_body_seconds: float = Field(30.0, gt=0)
    """How long a client may take to send the body of a request. A body that arrives at 16 kB/s or faster may take
    longer."""
    keep_alive_seconds: float = Field(15.0, gt=0)
    """How long a connection stays open without a request."""
    max_body_bytes: int = Field(10 * 1024 * 1024, ge=1024)
    """The size limit of a request body."""
    allowed_hosts: frozenset[str] = frozenset()
    """Host names that requests may be sent to, in addition to those of loopback; `*` for any."""
    allowed_origins: frozenset[str] = frozenset()
    """Origins whose pages may call the server from a browser."""
    shown_errors: frozenset[str] = frozenset(
        {
            "ValueError",
            "TypeError",
            "KeyError",
            "AttributeError",
            "RuntimeError",
            "RecursionError",
            "TimeoutError",
            "InvalidUpdateError",
            "EmptyInputError",
            "UnknownInterruptError",
            "HTTPException",
        }
    )
    """The graph exceptions whose messages `serve` sends to clients: names of classes, with or without their module,
    including their subclasses; `*` for all. For other exceptions, clients receive the type and an id that is also in
    the server's log. `dev` sends all messages."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest level that is logged: `debug`, `info`, `warning` or `error`."""

    @property
    def is_on_postgres(self) -> bool:
        return self.storage.startswith(("postgresql://", "postgres://"))
