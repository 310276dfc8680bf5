"""The capabilities of an agent, in AG-UI's format."""

from importlib.metadata import version
from typing import Any

from threadwire.core.records import Assistant
from threadwire.engine.lifecycle import Engine
from threadwire.protocols.ag_ui.agent_runs import find_agent


async def agent_json(engine: Engine, agent: str) -> dict[str, Any]:
    assistant = await find_agent(engine, agent)
    return {
        "name": assistant.name,
        "description": assistant.description or "",
        "assistantId": assistant.assistant_id,
        "capabilities": capabilities(assistant),
    }


def capabilities(assistant: Assistant) -> dict[str, Any]:
    return {
        "identity": {
            "name": assistant.name,
            "type": "langgraph",
            "description": assistant.description or "",
            "version": str(assistant.version),
            "provider": f"threadwire {version('threadwire')}",
        },
        "transport": {"streaming": True, "websocket": False, "httpBinary": False, "resumable": True},
        "tools": {"supported": True, "parallelCalls": True, "clientProvided": True},
        "state": {"snapshots": True, "deltas": True, "memory": True, "persistentState": True},
        "multiAgent": {"supported": True},
        "reasoning": {"supported": True, "streaming": True},
        "humanInTheLoop": {"supported": True, "approvals": True, "interrupts": True},
    }
