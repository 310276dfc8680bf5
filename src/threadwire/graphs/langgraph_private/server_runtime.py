"""The runtime that a graph factory may take as a parameter, `ServerRuntime`.

**For:** the SDK defines it for the stock server and exports the type, but not the classes it consists of.

**Changed SDK:** a class is missing, or rejects our arguments. Then a factory that requires a runtime does not load; all
other graphs do.
"""

import importlib
from functools import cache
from typing import Any, get_args, get_origin

from langgraph_sdk.runtime import AccessContext, ServerRuntime

from threadwire.graphs.langgraph_private.fallbacks import report_fallback


@cache
def _classes() -> tuple[Any, Any] | None:
    """The classes for runs and for reads."""
    try:
        module = importlib.import_module("langgraph_sdk.runtime")
        running, reading = module._ExecutionRuntime, module._ReadRuntime
        running(access_context="threads.create_run", user=None, store=None, context=None)
        reading(access_context="threads.read", user=None, store=None)
    except Exception as error:  # a private name may fail in any way once it has changed
        effect = "A graph whose factory requires a runtime does not load."
        report_fallback("server runtime", reason=str(error) or repr(error), effect=effect)
        return None
    return running, reading


def can_create_runtimes() -> bool:
    return _classes() is not None


def is_runtime(annotation: Any) -> bool:
    return annotation in (ServerRuntime, *(_classes() or ()))


def context_type(annotation: Any) -> Any:
    """`C` of an annotation `ServerRuntime[C]`."""
    return next(iter(get_args(annotation)), None) if get_origin(annotation) is ServerRuntime else None


def running_runtime(access: AccessContext, *, user: Any, store: Any, context: Any) -> Any:
    running, _ = _classes() or (None, None)
    assert running is not None, "a factory that requires a runtime does not load"
    return running(access_context=access, user=user, store=store, context=context)


def reading_runtime(access: AccessContext, *, user: Any, store: Any) -> Any:
    _, reading = _classes() or (None, None)
    assert reading is not None, "a factory that requires a runtime does not load"
    return reading(access_context=access, user=user, store=store)
