"""A protocol as the server sees it: its routes, and what the rest of the server needs to know about them.

`server/protocols.py` lists the protocols. Everything else that depends on which protocols exist is derived from that
list: the routes, the settings, the OpenAPI document, the startup output and the webhooks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from fastapi import APIRouter

from threadwire.engine.lifecycle import Engine
from threadwire.environment import EnvironmentSettings
from threadwire.graphs.http_config import HttpConfig
from threadwire.http.streaming import OpenStreams
from threadwire.http.webhooks import WebhookBody

S = TypeVar("S", bound=EnvironmentSettings)


@dataclass(frozen=True, slots=True)
class ProtocolContext(Generic[S]):
    """What a protocol's routes are built from. They are built again when the project is reloaded."""

    engine: Engine
    streams: OpenStreams
    settings: S
    http: HttpConfig
    """The `http` section of the project file. The server removes routes that it disables."""
    data: Path | None = None
    """The data directory, where a protocol may store files of its own; None if nothing is stored on disk."""


class Announcement(NamedTuple):
    """One line of the startup output."""

    label: str
    path: str
    """Appended to the server's address. It may contain path parameters."""


class Tag(NamedTuple):
    """A group of routes in the OpenAPI document."""

    name: str
    description: str


def _accept_settings(settings: EnvironmentSettings, graph_ids: Sequence[str]) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class Protocol(Generic[S]):
    name: str
    router: Callable[[ProtocolContext[S]], APIRouter]
    announcements: Sequence[Announcement] = ()
    tags: Sequence[Tag] = ()
    """Describes every tag that the routes use."""
    settings: type[S] | None = None
    """The class of the protocol's settings, if it has any. Two protocols may share a class, or one may extend the
    other's; apart from that, no two settings have the same name."""
    check_settings: Callable[[S, Sequence[str]], None] = _accept_settings
    """Raises `ConfigError` if the settings are invalid for a project with these graphs."""
    head_routes: bool = True
    """Whether each GET route also gets a HEAD route."""
    webhook_body: WebhookBody | None = None
    """The body of webhook deliveries. All runs share one outbox, so only one protocol provides it."""
