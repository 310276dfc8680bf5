"""Every setting, typed, frozen and documented. Built once, by the command or by the host application, and passed
down."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from threadwire.errors import ConfigError

PREFIX = "THREADWIRE_"

CLIENT_VARIABLES = frozenset({"THREADWIRE_URL", "THREADWIRE_API_KEY"})
"""Variables that `threadwire watch` reads. They are not server settings."""


class Settings(BaseSettings):
    """`docs/reference/settings.md` is checked against this class."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, use_attribute_docstrings=True)

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
    concurrency: int = Field(64, ge=1, le=10_000)
    """How many runs execute at the same time."""
    drain_seconds: float = Field(10.0, ge=0)
    """How long a shutdown lets runs continue before it releases them for the next start."""
    when_busy: Literal["reject", "enqueue", "interrupt", "rollback"] = "reject"
    """What happens to a run that an AG-UI or CopilotKit client starts on a busy thread: `reject` (409), `enqueue`,
    `interrupt` or `rollback`."""
    keep_temporary_seconds: float = Field(120.0, ge=0)
    """How long a stateless run can be read, and its stream resumed, after it has ended and its thread was discarded."""
    unknown_thread: Literal["usual", "error", "empty"] = "usual"
    """What a client that connects to an unknown thread receives: an `error`, an `empty` thread, or the `usual` response
    of the protocol: an error on AG-UI, an empty thread on CopilotKit, whose clients connect to ids they have just
    generated."""
    default_agent: str = ""
    """The agent that CopilotKit clients get as `default`: a graph's name or an assistant's id. If empty, the graph with
    the name `default`, or else the first graph of the project file."""
    max_body_bytes: int = Field(10 * 1024 * 1024, ge=1024)
    """The size limit of a request body."""
    allowed_hosts: frozenset[str] = frozenset()
    """Host names that the server accepts in addition to those of loopback; `*` for any."""
    allowed_origins: frozenset[str] = frozenset()
    """Origins whose pages may call the server from a browser."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """`debug`, `info`, `warning` or `error`."""


def reject_unknown_variables(environment: Mapping[str, str] = os.environ) -> None:
    """Raise `ConfigError` for an unknown `THREADWIRE_` variable, because a misspelt one would silently do nothing."""
    known = CLIENT_VARIABLES | {PREFIX + name.upper() for name in Settings.model_fields}
    for name in environment:
        if name.startswith(PREFIX) and name not in known and not name.startswith(f"{PREFIX}EXAMPLE_"):
            raise ConfigError(f"{name} is not a Threadwire setting; see docs/reference/settings.md")
