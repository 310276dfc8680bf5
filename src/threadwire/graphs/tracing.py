"""LangSmith tracing of runs. It is enabled by the environment (`LANGSMITH_TRACING`)."""

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers import LangChainTracer
from langsmith.utils import tracing_is_enabled

from threadwire.core.entries import Json


def tracers(options: Json) -> list[BaseCallbackHandler]:
    """Return the tracer for the project or example that the client named; nothing if tracing is disabled."""
    if not options or not tracing_is_enabled():
        return []
    return [LangChainTracer(project_name=options.get("project_name"), example_id=options.get("example_id"))]
