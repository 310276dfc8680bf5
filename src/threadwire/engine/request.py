"""Values from a request that are passed on to the runs it starts, over any protocol."""

from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType

NOTHING: Mapping[str, str] = MappingProxyType({})

brought_along: ContextVar[Mapping[str, str]] = ContextVar("brought_along", default=NOTHING)
"""Merged into `config.configurable`. Overrides the request's body and the assistant."""
