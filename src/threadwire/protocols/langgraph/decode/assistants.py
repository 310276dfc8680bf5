"""How assistants are looked for."""

from typing import Literal

from pydantic import Field

from threadwire.core.records import AssistantQuery
from threadwire.protocols.langgraph.decode.body import MAX_PAGE, OptionalObject, RequestBody


class AssistantSearch(RequestBody):
    graph_id: str | None = None
    name: str | None = None
    metadata: OptionalObject = Field(default_factory=dict)
    limit: int = Field(default=10, ge=1, le=MAX_PAGE)
    offset: int = Field(default=0, ge=0, le=2**53)
    sort_by: Literal["assistant_id", "graph_id", "name", "created_at", "updated_at"] | None = None
    sort_order: Literal["asc", "desc"] | None = None
    select: list[str] | None = None

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
