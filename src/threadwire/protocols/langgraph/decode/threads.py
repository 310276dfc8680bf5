"""Request bodies for creating, updating and searching threads."""

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from threadwire.core.bounded_list import BoundedList
from threadwire.core.ids import ThreadId, parse_thread_id
from threadwire.core.records import RequestedTtl, Supersteps, ThreadQuery, Ttl, Update
from threadwire.errors import BadRequest
from threadwire.protocols.langgraph.decode.body import MAX_PAGE, Integer, Number, OptionalObject, RequestBody
from threadwire.protocols.langgraph.decode.extract import Path, limit_paths, parse_extract
from threadwire.protocols.langgraph.decode.runs import CommandBody

MAX_TTL = 100 * 366 * 24 * 60.0

ThreadField = Literal[
    "thread_id",
    "created_at",
    "updated_at",
    "state_updated_at",
    "metadata",
    "config",
    "status",
    "values",
    "interrupts",
    "error",
]


class TtlBody(RequestBody):
    ttl: Number = Field(gt=0, le=MAX_TTL, description="Minutes from the last update.")
    strategy: Literal["delete", "keep_latest"] = "delete"

    @model_validator(mode="before")
    @classmethod
    def _from_minutes(cls, value: Any) -> Any:
        return {"ttl": value} if isinstance(value, int | float) and not isinstance(value, bool) else value

    def record(self) -> Ttl:
        return Ttl(self.ttl, self.strategy)


class ExpiringBody(RequestBody):
    ttl: TtlBody | None = None

    def wanted_ttl(self) -> RequestedTtl:
        """If it is missing, the default applies; null means that the thread never expires."""
        if "ttl" not in self.model_fields_set:
            return "usual"
        return None if self.ttl is None else self.ttl.record()


class UpdateBody(RequestBody):
    values: Any = None
    command: CommandBody | None = None
    as_node: str

    @model_validator(mode="after")
    def _values_or_command(self) -> "UpdateBody":
        if self.command is not None and self.values is not None:
            raise ValueError("Cannot specify both values and command")
        return self

    def update(self) -> Update:
        command = None if self.command is None else self.command.as_dict()
        return Update(self.as_node, self.values, command)


class SuperstepBody(RequestBody):
    updates: BoundedList[UpdateBody]


class ThreadBody(ExpiringBody):
    thread_id: str | None = None
    metadata: OptionalObject = Field(default_factory=dict)
    if_exists: Literal["raise", "do_nothing"] = "raise"
    supersteps: BoundedList[SuperstepBody] | None = None

    def steps(self) -> Supersteps:
        steps = [[each.update() for each in step.updates] for step in self.supersteps or ()]
        if not all(steps):
            raise BadRequest("No updates provided")
        return steps


class ThreadPatch(ExpiringBody):
    metadata: OptionalObject = Field(default_factory=dict)


class StatePatch(RequestBody):
    metadata: OptionalObject = Field(default_factory=dict)


class ThreadPrune(RequestBody):
    thread_ids: BoundedList[str]
    strategy: Literal["delete", "keep_latest"] = "delete"

    def ids(self) -> list[ThreadId]:
        return [parse_thread_id(each) for each in self.thread_ids]


class ThreadCount(RequestBody):
    ids: BoundedList[str] | None = None
    metadata: OptionalObject = Field(default_factory=dict)
    values: OptionalObject = Field(default_factory=dict)
    status: Literal["idle", "busy", "interrupted", "error"] | None = None

    def query(self) -> ThreadQuery:
        return ThreadQuery(
            ids=tuple(parse_thread_id(each) for each in self.ids or ()),
            metadata=self.metadata,
            values=self.values,
            status=self.status,
        )


class ThreadSearch(ThreadCount):
    limit: Integer = Field(default=10, ge=1, le=MAX_PAGE)
    offset: Integer = Field(default=0, ge=0, le=2**53)
    sort_by: Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"] | None = None
    sort_order: Literal["asc", "desc"] | None = None
    select: BoundedList[ThreadField] | None = None
    extract: Annotated[dict[str, str], BeforeValidator(limit_paths)] | None = None

    @field_validator("select")
    @classmethod
    def _empty_means_all(cls, select: list[ThreadField] | None) -> list[ThreadField] | None:
        return select or None

    def paths(self) -> dict[str, Path]:
        return parse_extract(self.extract or {})

    def query(self) -> ThreadQuery:
        return replace(
            super().query(),
            limit=self.limit,
            offset=self.offset,
            sort_by=self.sort_by or "created_at",
            descending=self.sort_order != "asc",
            with_state=self._needs_state(),
        )

    def _needs_state(self) -> bool:
        if self.select is None:
            return True
        fields = {*self.select, *(path[0] for path in self.paths().values())}
        return bool(fields & {"values", "interrupts"})
