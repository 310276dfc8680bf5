"""The deliberate differences: what they are, where exactly they occur, and why.

`differences.json` holds the reasons, written by hand, and every difference with its exact place and values. Record the
differences again with `.venv/bin/python tests/sidebyside/record.py`. A new difference has no reason until you add one,
and the tests fail until then.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from comparison import ABSENT, Difference

PATH = Path(__file__).parent / "differences.json"
UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class Row:
    """One pair of values, and all the places where exactly this pair occurs."""

    reason: str
    stock: Any
    threadwire: Any
    places: dict[str, list[str]]
    """Places by scenario."""


@dataclass(frozen=True)
class Table:
    reasons: dict[str, dict[str, str]]
    rows: list[Row]

    def of(self, scenario: str) -> list[Difference]:
        return [
            Difference(place, row.stock, row.threadwire) for row in self.rows for place in row.places.get(scenario, ())
        ]


def read_table(path: Path = PATH) -> Table:
    stored = json.loads(path.read_text())
    return Table(stored["reasons"], [_row(each) for each in stored["differences"]])


def _row(stored: dict[str, Any]) -> Row:
    return Row(stored["reason"], stored.get("stock", ABSENT), stored.get("threadwire", ABSENT), stored["places"])


def write_table(table: Table, path: Path = PATH) -> None:
    rows = ",\n".join(_stored(row) for row in table.rows)
    reasons = json.dumps(table.reasons, ensure_ascii=False, indent=2).replace("\n", "\n  ")
    path.write_text(f'{{\n  "reasons": {reasons},\n  "differences": [\n{rows}\n  ]\n}}\n')


def _stored(row: Row) -> str:
    """Format a row with one line per value, so that a change is one line of a diff. Absent values are left out."""
    values = {"stock": row.stock, "threadwire": row.threadwire}
    lines = [f'      "reason": {json.dumps(row.reason)}']
    for name, value in values.items():
        if value is not ABSENT:
            lines.append(f'      "{name}": {json.dumps(value, ensure_ascii=False)}')
    places = (f"        {json.dumps(name)}: {json.dumps(where)}" for name, where in sorted(row.places.items()))
    lines.append('      "places": {\n' + ",\n".join(places) + "\n      }")
    return "    {\n" + ",\n".join(lines) + "\n    }"


def build_table(found: dict[str, Iterable[Difference]], before: Table) -> Table:
    """Return the table of the differences found, with the reasons that were known before."""
    by_place, by_values = _known(before)
    rows: dict[tuple[str, str], Row] = {}
    for scenario, differences in sorted(found.items()):
        for each in differences:
            values = values_key(each)
            reason = by_place.get((scenario, each.place), by_values.get(values, UNEXPLAINED))
            row = rows.setdefault((reason, values), Row(reason, each.stock, each.threadwire, {}))
            row.places.setdefault(scenario, []).append(each.place)
    order = [*before.reasons, UNEXPLAINED]
    in_order = sorted(rows.values(), key=lambda row: (order.index(row.reason), min(_places(row))))
    return Table(before.reasons, in_order)


def _known(table: Table) -> tuple[dict[tuple[str, str], str], dict[str, str]]:
    by_place: dict[tuple[str, str], str] = {}
    by_values: dict[str, str] = {}
    for row in table.rows:
        by_values[values_key(Difference("", row.stock, row.threadwire))] = row.reason
        by_place |= dict.fromkeys(_places(row), row.reason)
    return by_place, by_values


def _places(row: Row) -> Iterator[tuple[str, str]]:
    return ((scenario, place) for scenario, places in row.places.items() for place in places)


def values_key(difference: Difference) -> str:
    values = (difference.stock, difference.threadwire)
    return " | ".join("absent" if value is ABSENT else json.dumps(value, sort_keys=True) for value in values)
