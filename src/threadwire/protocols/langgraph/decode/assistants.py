"""Request bodies for creating, updating and searching assistants."""

from typing import Literal

from pydantic import Field

from threadwire.core.bounded_list import BoundedList
from threadwire.core.ids import parse_assistant_id
from threadwire.core.records import AssistantQuery
from threadwire.engine.assistants import AssistantChange, NewAssistant
from threadwire.errors import Invalid
from threadwire.protocols.langgraph.decode.body import MAX_PAGE, Integer, OptionalObject, RequestBody
from threadwire.protocols.langgraph.decode.config import Config, Context

AssistantField = Literal[
    "assistant_id",
    "graph_id",
    "name",
    "description",
    "config",
    "context",
    "created_at",
    "updated_at",
    "metadata",
    "version",
]


class AssistantBody(RequestBody):
    graph_id: str
    assistant_id: str | None = None
    config: Config = Field(default_factory=dict)
    context: Context | None = None
    metadata: OptionalObject = Field(default_factory=dict)
    if_exists: Literal["raise", "do_nothing"] | None = None
    name: str | None = None
    description: str | None = None

    def new(self) -> NewAssistant:
        return NewAssistant(
            graph_id=self.graph_id,
            assistant_id=None if self.assistant_id is None else parse_assistant_id(self.assistant_id),
            config=self.config,
            context=self.context,
            metadata=self.metadata,
            name=self.name,
            description=self.description,
            if_exists=self.if_exists or "raise",
        )


class AssistantPatch(RequestBody):
    graph_id: str | None = None
    config: Config | None = None
    context: Context | None = None
    metadata: OptionalObject = Field(default_factory=dict)
    name: str | None = None
    description: str | None = None

    def change(self) -> AssistantChange:
        return AssistantChange(
            graph_id=self.graph_id,
            config=self.config,
            context=self.context,
            metadata=self.metadata,
            name=self.name,
            description=self.description,
        )


class AssistantFilter(RequestBody):
    graph_id: str | None = None
    name: str | None = None
    metadata: OptionalObject = Field(default_factory=dict)

    def query(self) -> AssistantQuery:
        return AssistantQuery(graph_id=self.graph_id, name=self.name, metadata=self.metadata)


class AssistantSearch(AssistantFilter):
    limit: Integer = Field(default=10, ge=1, le=MAX_PAGE)
    offset: Integer = Field(default=0, ge=0, le=2**53)
    sort_by: Literal["assistant_id", "graph_id", "name", "created_at", "updated_at"] | None = None
    sort_order: Literal["asc", "desc"] | None = None
    select: BoundedList[AssistantField] | None = None

    def query(self) -> AssistantQuery:
        return AssistantQuery(
            graph_id=self.graph_id,
            name=self.name,
            metadata=self.metadata,
            limit=self.limit,
            offset=self.offset,
            sort_by=self.sort_by or "created_at",
            descending=self.sort_order != "asc",
        )


class VersionSearch(RequestBody):
    metadata: OptionalObject = Field(default_factory=dict)
    limit: Integer = Field(default=10, ge=1, le=MAX_PAGE)
    offset: Integer = Field(default=0, ge=0, le=2**53)


class LatestVersion(RequestBody):
    version: Integer = Field(ge=1, le=2**53)


def decode_xray(value: str | None) -> int | bool:
    """Whether to draw subgraphs, and how deep: `true`, `false`, or a number of levels."""
    match (value or "false").lower():
        case "true":
            return True
        case "false":
            return False
        case digits if digits.isascii() and digits.isdigit() and 0 < int(digits[:6]):
            return int(digits[:6])
        case _:
            raise Invalid("Invalid xray value")
