"""What a request brings along for the runs it starts, over whatever protocol it came."""

from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType

NOTHING: Mapping[str, str] = MappingProxyType({})

brought_along: ContextVar[Mapping[str, str]] = ContextVar("brought_along", default=NOTHING)
"""Goes into `config.configurable`, above what the request's body and the assistant say."""
