"""How threads are made, changed and looked for."""

from typing import Literal

from pydantic import Field

from threadwire.core.ids import ThreadId, parse_uuid
from threadwire.core.records import ThreadQuery
from threadwire.errors import Invalid
from threadwire.protocols.langgraph.decode.body import MAX_PAGE, OptionalObject, RequestBody


class ThreadBody(RequestBody):
    thread_id: str | None = None
    metadata: OptionalObject = Field(default_factory=dict)
    if_exists: Literal["raise", "do_nothing"] = "raise"
    ttl: None = Field(default=None, description="Thread TTLs are not offered yet; naming one is refused.")
    supersteps: None = Field(default=None, description="Creating from supersteps is not offered yet.")


class ThreadPatch(RequestBody):
    metadata: OptionalObject = Field(default_factory=dict)
    ttl: None = Field(default=None, description="Thread TTLs are not offered yet; naming one is refused.")


class ThreadSearch(RequestBody):
    ids: list[str] | None = None
    metadata: OptionalObject = Field(default_factory=dict)
    values: OptionalObject = Field(default_factory=dict)
    status: Literal["idle", "busy", "interrupted", "error"] | None = None
    limit: int = Field(default=10, ge=1, le=MAX_PAGE)
    offset: int = Field(default=0, ge=0, le=2**53)
    sort_by: Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"] | None = None
    sort_order: Literal["asc", "desc"] | None = None
    select: list[str] | None = None
    extract: None = Field(default=None, description="Extracting from values is not offered yet; asking is refused.")

    def query(self) -> ThreadQuery:
        return ThreadQuery(
            ids=tuple(ThreadId(_uuid(each, "thread ID")) for each in self.ids or ()),
            metadata=self.metadata,
            values=self.values,
            status=self.status,
            limit=self.limit,
            offset=self.offset,
            sort_by=self.sort_by or "created_at",
            descending=self.sort_order != "asc",
        )


def _uuid(text: str, what: str) -> str:
    if (parsed := parse_uuid(text)) is None:
        raise Invalid(f"Invalid {what}: must be a UUID")
    return parsed
