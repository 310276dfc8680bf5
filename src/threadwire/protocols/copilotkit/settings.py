"""The settings of CopilotKit: its own, and those of AG-UI, which also apply to running and connecting here."""

from threadwire.protocols.ag_ui.settings import AgUiSettings


class CopilotKitSettings(AgUiSettings):
    default_agent: str = ""
    """The agent that CopilotKit clients get as `default`: a graph's name or an assistant's id. If empty, the graph with
    the name `default`, or else the first graph of the project file."""
