"""The log of `threadwire dev` and `threadwire serve`: the server's events, and what the project logs with Python's
`logging`, in one format."""

import logging
import sys
from functools import wraps
from typing import Any

import structlog

from threadwire.graphs.own_code import is_own_code
from threadwire.graphs.project_modules import MODULE_PREFIX
from threadwire.graphs.tracebacks import configure_tracebacks, render_traceback

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_KNOWN_LEVELS = (logging.CRITICAL, *reversed(LEVELS.values()))


def configure_logging(level: str) -> None:
    """Configure the log of the process. Called once, before the project is imported."""
    # Omit the values of variables from tracebacks: they are user data, and may be so large that printing them takes too
    # long.
    structlog.dev.ConsoleRenderer.get_active().exception_formatter = structlog.dev.plain_traceback
    configure_tracebacks(full=level == "debug")
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]), cache_logger_on_first_use=True
    )
    _print_project_logs(LEVELS[level])


def _print_project_logs(level: int) -> None:
    root = logging.getLogger()
    handler = ProjectLogs(level)
    root.addHandler(handler)
    root.setLevel(level)
    configure = logging.basicConfig

    @wraps(configure)
    def basic_config(**options: Any) -> None:
        # `basicConfig` does nothing if the root logger has a handler, so the project's configuration would be ignored.
        if handler in root.handlers:
            root.removeHandler(handler)
            root.setLevel(logging.WARNING)
        configure(**options)

    logging.basicConfig = basic_config


class ProjectLogs(logging.Handler):
    """Prints the records that no handler of the project handles. Libraries log a lot at INFO, for example every request
    of an HTTP client, so their records are printed at WARNING and above, or at INFO and above if the level is DEBUG."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self._libraries_from = logging.INFO if level == logging.DEBUG else logging.WARNING
        # Independent of later changes of structlog's configuration: the project may route structlog to `logging`, and
        # so back to this handler.
        self._logger = structlog.wrap_logger(
            structlog.PrintLogger(sys.stdout),
            processors=structlog.get_config()["processors"],
            wrapper_class=structlog.make_filtering_bound_logger(level),
        )

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno < self._libraries_from and not is_own_code(record.pathname):
            return
        if self._is_handled_elsewhere(record):
            return
        try:
            level = next((known for known in _KNOWN_LEVELS if known <= record.levelno), logging.DEBUG)
            self._logger.log(level, record.getMessage(), logger=_logger_name(record), **_stack(record))
        except Exception:  # a record whose arguments do not match its message, for example
            self.handleError(record)

    def _is_handled_elsewhere(self, record: logging.LogRecord) -> bool:
        """Whether a handler of the project handles the record, so that it is not printed twice."""
        logger: logging.Logger | None = logging.getLogger(record.name)
        while logger is not None:
            if any(handler is not self for handler in logger.handlers):
                return True
            logger = logger.parent if logger.propagate else None
        return False


def _logger_name(record: logging.LogRecord) -> str:
    """The logger's name. A file that langgraph.json names has a generated `__name__`, so its file name is shown."""
    return record.filename if record.name.startswith(MODULE_PREFIX) else record.name


def _stack(record: logging.LogRecord) -> dict[str, str]:
    error = record.exc_info[1] if record.exc_info else None
    parts = [] if error is None else [render_traceback(error)]
    if record.stack_info:
        parts.append(record.stack_info)
    return {"stack": "\n".join(parts)} if parts else {}
