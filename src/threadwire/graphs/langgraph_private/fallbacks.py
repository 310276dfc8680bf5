"""The log line for a LangGraph that lacks something a piece relies on."""

from importlib.metadata import version

import structlog

logger = structlog.get_logger("threadwire.langgraph")

_reported: set[str] = set()


def report_fallback(piece: str, *, reason: str, effect: str) -> None:
    """Log once per process that a piece uses its fallback, and what this changes."""
    if piece in _reported:
        return
    _reported.add(piece)
    logger.warning("langgraph_fallback_used", piece=piece, reason=reason, effect=effect, langgraph=version("langgraph"))
