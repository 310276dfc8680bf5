"""The attempt whose code is running."""

from contextvars import ContextVar

from threadwire.core.entries import Fence

current_attempt: ContextVar[Fence | None] = ContextVar("current_attempt", default=None)
