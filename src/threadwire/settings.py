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
    """Where to store threads, runs and checkpoints: `sqlite`, durable in `data`; or `memory`, lost on exit."""
    host: str = "127.0.0.1"
    """The address to listen on. Any address other than loopback requires `insecure_no_auth`."""
    port: int = Field(2024, ge=0, le=65535)
    """The port to listen on. With 0, the server picks a free port and prints it."""
    insecure_no_auth: bool = False
    """Listen on addresses other than loopback without authentication."""
    reload: bool = True
    """Whether `dev` reloads the project when its files change."""
    concurrency: int = Field(1000, ge=1, le=10_000)
    """How many runs execute at the same time. A run that waits for a model costs almost nothing; sync nodes are limited
    separately."""
    max_pending_runs_per_thread: int = Field(1000, ge=1)
    """How many runs may wait on one thread. A further one is rejected with 429."""
    max_pending_runs: int = Field(100_000, ge=1)
    """How many runs may wait in total, including delayed ones. A further one is rejected with 429."""
    drain_seconds: float = Field(10.0, ge=0)
    """How long a shutdown lets runs continue before it releases them for the next start."""
    keep_temporary_seconds: float = Field(120.0, ge=0)
    """How long a stateless run can be read, and its stream resumed, after it has ended and its thread was discarded."""
    max_body_bytes: int = Field(10 * 1024 * 1024, ge=1024)
    """The size limit of a request body."""
    allowed_hosts: frozenset[str] = frozenset()
    """Host names that the server accepts in addition to those of loopback; `*` for any."""
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
    """Exceptions of graphs whose messages clients of `serve` receive: names of classes, with or without their module,
    including their subclasses; `*` for all. Of other exceptions they receive the type and an id that is in the log.
    Clients of `dev` receive all messages."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """`debug`, `info`, `warning` or `error`."""
