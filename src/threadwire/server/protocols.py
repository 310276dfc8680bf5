"""The protocols that the server offers. Nothing else names one."""

from typing import Any

from threadwire.http.protocol import Protocol
from threadwire.protocols.ag_ui.protocol import AG_UI
from threadwire.protocols.chatkit.protocol import CHATKIT
from threadwire.protocols.copilotkit.protocol import COPILOTKIT
from threadwire.protocols.langgraph.protocol import LANGGRAPH
from threadwire.protocols.timeline.protocol import TIMELINE

PROTOCOLS: list[Protocol[Any]] = [
    LANGGRAPH,
    AG_UI,
    COPILOTKIT,
    TIMELINE,
    CHATKIT,
]
"""In the order in which they are announced, and in which their routes are matched."""
