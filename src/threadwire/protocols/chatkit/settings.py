"""The settings of ChatKit."""

from threadwire.environment import EnvironmentSettings


class ChatKitSettings(EnvironmentSettings):
    chatkit_agent: str = ""
    """The agent that is served at `/chatkit`: a graph's name or an assistant's id. If empty, the first graph of the
    project file."""
