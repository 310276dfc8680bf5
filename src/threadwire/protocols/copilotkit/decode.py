"""CopilotKit's requests, except those that it shares with AG-UI."""

from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from threadwire.errors import BadRequest

MAX_NAME = 255
MAX_PAGE = 100

Method = Literal[
    "info",
    "agent/run",
    "agent/connect",
    "agent/suggest",
    "agent/stop",
    "transcribe",
    "inspector/metadata",
    "inspector/learning",
    "resource/request",
]
METHODS: tuple[str, ...] = get_args(Method)


class _Request(BaseModel):
    model_config = ConfigDict(extra="ignore", alias_generator=to_camel, populate_by_name=True)


class AgentScope(_Request):
    """The agent of the thread. A thread of another agent is not found."""

    agent_id: str = Field(min_length=1)


class ThreadUpdate(AgentScope):
    name: str | None = Field(default=None, max_length=MAX_NAME)
    archived: bool | None = None


class Envelope(BaseModel):
    """A request of the single-route transport."""

    method: Method
    params: dict[str, Any] = Field(default_factory=dict)
    body: Any = None

    def text(self, name: str) -> str:
        value = self.params.get(name)
        if not isinstance(value, str) or not value.strip():
            raise BadRequest(f"Missing or invalid parameter '{name}'")
        return value
