"""Rejecting an answer to an interrupt that is not pending (`strict_resume`).

**For:** LangGraph does this when a key of `configurable` is set. Only servers set it, so it has no public name.

**Changed LangGraph:** the key is unknown, as in early versions of 1.x. Then the answers are checked here when the run
starts, with the same error.
"""

import importlib
from collections.abc import Collection
from functools import cache

from threadwire.core.entries import Json
from threadwire.graphs.langgraph_private.fallbacks import report_fallback


class UnknownInterruptError(ValueError):
    """Named like LangGraph's, because clients see the name."""


@cache
def strict_resume_key() -> str | None:
    """The key of `configurable`, or None if LangGraph does not know it."""
    try:
        key: str = importlib.import_module("langgraph._internal._constants").CONFIG_KEY_STRICT_RESUME
    except Exception as error:  # a private module may fail in any way once it has changed
        effect = "Threadwire itself rejects answers to interrupts that are not pending."
        report_fallback("strict resume", reason=str(error) or repr(error), effect=effect)
        return None
    return key


def check_answers(answers: dict[str, Json], pending: Collection[str]) -> None:
    """Raise if an answer names no pending interrupt. Does nothing if LangGraph checks this itself."""
    if strict_resume_key() is not None:
        return
    if not answers:
        raise UnknownInterruptError("The resume map names no interrupt")
    if unknown := sorted(answers.keys() - pending):
        raise UnknownInterruptError(f"Unknown or already-consumed interrupt: {unknown[0]}")
