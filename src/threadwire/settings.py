"""Every knob, typed, frozen and documented. Built once, by the command or by whoever embeds the server, and passed
down."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from threadwire.errors import ConfigError

PREFIX = "THREADWIRE_"

OF_CLIENTS = frozenset({"THREADWIRE_URL", "THREADWIRE_API_KEY"})
"""Variables that are for `threadwire watch`, and no settings of a server."""


class Settings(BaseSettings):
    """`docs/reference/settings.md` is checked against this class."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, use_attribute_docstrings=True)

    config: Path = Path("langgraph.json")
    """The project file that names the graphs."""
    data: Path = Path(".threadwire")
    """The directory that holds the database. One server at a time may use it."""
    storage: str = "sqlite"
    """Where threads, runs and checkpoints live: `sqlite`, durable in `data`; or `memory`, gone with the process."""
    host: str = "127.0.0.1"
    """The address to listen on. Anything but loopback needs `insecure_no_auth`."""
    port: int = Field(2024, ge=0, le=65535)
    """The port to listen on. 0 picks a free one and prints it."""
    insecure_no_auth: bool = False
    """Listen beyond loopback although nobody is asked who they are."""
    reload: bool = True
    """Whether `dev` loads the project anew when its files change."""
    concurrency: int = Field(64, ge=1, le=10_000)
    """How many runs are carried out at the same time."""
    drain_seconds: float = Field(10.0, ge=0)
    """How long a shutdown lets runs go on before it releases them for the next start."""
    when_busy: Literal["reject", "enqueue", "interrupt", "rollback"] = "reject"
    """What a page's run does on a thread that has an active one: `reject` (409), `enqueue`, `interrupt` or
    `rollback`."""
    keep_temporary_seconds: float = Field(120.0, ge=0)
    """How long a stateless run can still be read and its stream resumed after it has ended and its thread is gone."""
    unknown_thread: Literal["usual", "error", "empty"] = "usual"
    """What a page is shown that connects to a thread that does not exist: an `error`, an `empty` thread, or what is
    `usual`: an error on AG-UI, an empty thread on CopilotKit, whose pages connect to ids they have just made up."""
    default_agent: str = ""
    """Which agent CopilotKit's pages mean by `default`: a graph's name or an assistant's id. If empty, the graph of
    that name, or the first one of the project file."""
    max_body_bytes: int = Field(10 * 1024 * 1024, ge=1024)
    """The largest request body that is accepted."""
    allowed_hosts: frozenset[str] = frozenset()
    """Host names the server answers to besides those of loopback; `*` for any."""
    allowed_origins: frozenset[str] = frozenset()
    """Origins whose pages may call the server from a browser."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """`debug`, `info`, `warning` or `error`."""


def refuse_unknown(environment: Mapping[str, str] = os.environ) -> None:
    """A misspelt variable would silently do nothing; say so instead."""
    known = OF_CLIENTS | {PREFIX + name.upper() for name in Settings.model_fields}
    for name in environment:
        if name.startswith(PREFIX) and name not in known and not name.startswith(f"{PREFIX}EXAMPLE_"):
            raise ConfigError(f"{name} is not a setting of Threadwire; see docs/reference/settings.md")
