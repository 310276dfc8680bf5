"""The runtime's description of itself."""

from typing import Any

from threadwire.core.records import Assistant
from threadwire.protocols.ag_ui.capabilities import capabilities
from threadwire.protocols.copilotkit.agents import Agents

COMPATIBLE_WITH = "1.75.0"
"""The version of `@copilotkit/runtime` whose protocol this is. Clients show it and compare it with their own."""

_THREADS = {"list": True, "inspect": True, "mutations": True, "realtimeMetadata": False}


async def runtime_info(agents: Agents) -> dict[str, Any]:
    return {
        "version": COMPATIBLE_WITH,
        "agents": {name: _agent(name, assistant) for name, assistant in (await agents.all()).items()},
        "audioFileTranscriptionEnabled": False,
        "mode": "sse",
        "threadEndpoints": _THREADS,
        "singleRoute": {"resourceOperations": True, "threadEndpoints": _THREADS},
        "suggestions": True,
        "a2uiEnabled": False,
        "openGenerativeUIEnabled": False,
        "telemetryDisabled": True,
    }


def _agent(name: str, assistant: Assistant) -> dict[str, Any]:
    return {
        "name": name,
        "description": assistant.description or "",
        "className": "LangGraphAgent",
        "capabilities": capabilities(assistant),
    }
