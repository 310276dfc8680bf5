"""The functional API: an entrypoint with tasks, an interrupt, and a value that the next run gets."""

from typing import Any

from langgraph.config import get_stream_writer
from langgraph.func import entrypoint, task
from langgraph.types import interrupt

CALLS: list[str] = []


@task
async def draft(topic: str) -> str:
    CALLS.append(topic)
    return f"An essay about {topic} ({CALLS.count(topic)})"


@entrypoint()
async def graph(given: dict[str, Any], *, previous: Any = None) -> Any:
    essay = await draft(given["topic"])
    get_stream_writer()({"drafted": given["topic"]})
    approved = interrupt({"essay": essay})
    written = [*(previous or {"written": []})["written"], given["topic"]] if approved else previous
    return entrypoint.final(value={"essay": essay, "approved": approved}, save={"written": written})
