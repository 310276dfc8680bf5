"""Request bodies for creating, updating and searching crons."""

from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from pydantic import Field, field_serializer

from threadwire.core.bounded_list import BoundedList
from threadwire.core.ids import AssistantId, CronId, ThreadId, assistant_id_of, parse_assistant_id, parse_thread_id
from threadwire.core.records import Cron, CronQuery
from threadwire.core.timestamps import to_milliseconds
from threadwire.errors import BadRequest
from threadwire.protocols.langgraph.decode.body import (
    MAX_PAGE,
    Flag,
    Integer,
    Object,
    OptionalObject,
    RequestBody,
    Timestamp,
)
from threadwire.protocols.langgraph.decode.graph_call import GraphCall


class CronOptions(GraphCall):
    timezone: str | None = Field(default=None, max_length=255)
    end_time: Timestamp | None = None
    on_run_completed: Literal["delete", "keep"] = "delete"
    enabled: Flag = True

    @field_serializer("end_time", when_used="json-unless-none")
    def _with_numeric_offset(self, end_time: datetime) -> str:
        """Write a numeric offset instead of `Z`, as in every other time."""
        return end_time.isoformat()

    def options(self, cron: Cron) -> Cron:
        """The cron with these options, and the defaults for those that are missing."""
        keep = cron.thread_id is None and self.on_run_completed == "keep"
        kwargs = self.kwargs(temporary=cron.thread_id is None and not keep)
        kwargs["config"]["configurable"]["cron_id"] = cron.cron_id
        return replace(
            cron,
            timezone=self.timezone,
            end_time=_to_milliseconds(self.end_time),
            keep_threads=keep,
            enabled=self.enabled,
            multitask_strategy=self.multitask_strategy,
            payload=self._payload(cron.cron_id),
            kwargs=kwargs,
        )

    def _payload(self, cron_id: CronId) -> Object:
        """The fields that the client set, and the cron that the runs belong to."""
        fields = self.model_dump(mode="json", exclude_unset=True)
        config = fields.get("config") or {}
        return {
            **fields,
            "config": {**config, "configurable": {**(config.get("configurable") or {}), "cron_id": cron_id}},
        }


class CronBody(CronOptions):
    assistant_id: str = Field(max_length=255)
    schedule: str = Field(max_length=255)

    def cron(self, cron_id: CronId, thread_id: ThreadId | None) -> Cron:
        cron = Cron(
            cron_id=cron_id,
            assistant_id=AssistantId(""),
            schedule=self.schedule,
            created_at=0,
            updated_at=0,
            thread_id=thread_id,
            metadata=self.metadata,
        )
        return self.options(cron)


class CronPatch(CronOptions):
    """Fields that are missing stay unchanged."""

    schedule: str = Field(default="", max_length=255)

    def change(self, cron: Cron) -> Cron:
        fields = self.model_dump(mode="json", exclude_unset=True)
        merged = CronBody.model_validate({**cron.payload, **fields})
        changed = replace(cron, schedule=merged.schedule, metadata={**cron.metadata, **self.metadata})
        return merged.options(changed)

    def reject_empty(self) -> None:
        if not self.model_fields_set:
            raise BadRequest("Request body cannot be empty")


class CronFilter(RequestBody):
    assistant_id: str | None = Field(default=None, max_length=255)
    thread_id: str | None = None
    metadata: OptionalObject = Field(default_factory=dict)
    enabled: Flag | None = None

    def filter(self, graph_ids: list[str], **page: Any) -> CronQuery:
        return CronQuery(
            assistant_id=None if self.assistant_id is None else _assistant_id(self.assistant_id, graph_ids),
            thread_id=None if self.thread_id is None else parse_thread_id(self.thread_id),
            metadata=self.metadata,
            enabled=self.enabled,
            **page,
        )


SortBy = Literal["cron_id", "assistant_id", "thread_id", "created_at", "updated_at", "next_run_date", "end_time"]
Select = Literal[
    "cron_id", "assistant_id", "thread_id", "user_id", "end_time", "schedule", "timezone", "payload", "next_run_date",
    "metadata", "on_run_completed", "enabled", "created_at", "updated_at",
]  # fmt: skip


class CronSearch(CronFilter):
    limit: Integer = Field(default=10, ge=1, le=MAX_PAGE)
    offset: Integer = Field(default=0, ge=0, le=2**53)
    sort_by: SortBy | None = None
    sort_order: Literal["asc", "desc"] | None = None
    select: BoundedList[Select] | None = None

    def query(self, graph_ids: list[str]) -> CronQuery:
        sort_by = "next_run_at" if self.sort_by == "next_run_date" else self.sort_by or "created_at"
        return self.filter(
            graph_ids, limit=self.limit, offset=self.offset, sort_by=sort_by, descending=self.sort_order != "asc"
        )


def _assistant_id(name: str, graph_ids: list[str]) -> AssistantId:
    if name in graph_ids:
        return assistant_id_of(name)
    return parse_assistant_id(name)


def _to_milliseconds(time: datetime | None) -> int | None:
    return None if time is None else to_milliseconds(time)
