"""Filtering and paging, shared by threads, assistants and crons."""

from collections.abc import Iterable
from typing import Any, TypeVar

from threadwire.core.records import Assistant, AssistantQuery, Cron, CronQuery, Thread, ThreadQuery
from threadwire.storage.abc import contains

Row = TypeVar("Row", Assistant, Thread, Cron)


def holds(whole: Any, part: dict[str, Any]) -> bool:
    """Whether `whole` contains `part`. An empty `part` matches everything, including a state that is not an object."""
    return not part or contains(whole, part)


def page(rows: Iterable[Row], query: AssistantQuery | ThreadQuery | CronQuery) -> list[Row]:
    def key(row: Row) -> tuple[Any, ...]:
        value = getattr(row, query.sort_by)
        # None cannot be compared, so it sorts below everything else.
        return (value is not None, value, *((row.updated_at,) if query.sort_by == "status" else ()), _id(row))

    ordered = sorted(rows, key=key, reverse=query.descending)
    return ordered[query.offset : query.offset + query.limit]


def _id(row: Assistant | Thread | Cron) -> str:
    match row:
        case Assistant():
            return row.assistant_id
        case Thread():
            return row.thread_id
        case Cron():
            return row.cron_id
