"""Where a run's trace goes. Whether there is one at all is the environment's to say (`LANGSMITH_TRACING`)."""

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers import LangChainTracer
from langsmith.utils import tracing_is_enabled

from threadwire.core.entries import Json


def tracers(wanted: Json) -> list[BaseCallbackHandler]:
    """What sends the trace to the project, or the example, that the client named; nothing while nothing is traced."""
    if not wanted or not tracing_is_enabled():
        return []
    return [LangChainTracer(project_name=wanted.get("project_name"), example_id=wanted.get("example_id"))]
