"""Values from a request that are passed on to the runs it starts, over any protocol."""

from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType

EMPTY: Mapping[str, str] = MappingProxyType({})

request_configurable: ContextVar[Mapping[str, str]] = ContextVar("request_configurable", default=EMPTY)
"""Merged into `config.configurable`. Overrides the request's body and the assistant."""
