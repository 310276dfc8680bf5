"""Pagination headers, and the selection of fields."""

from collections.abc import Sequence
from typing import Any

from threadwire.http.problems import JsonResponse


def page(rows: list[Any], total: int, offset: int) -> JsonResponse:
    headers = {"x-pagination-total": str(total)}
    if offset + len(rows) < total and rows:
        headers["x-pagination-next"] = str(offset + len(rows))
    return JsonResponse(rows, headers=headers)


def selected(row: dict[str, Any], select: Sequence[str] | None) -> dict[str, Any]:
    """The selected fields of a row; all of them without a selection."""
    return row if not select else {key: value for key, value in row.items() if key in select}
