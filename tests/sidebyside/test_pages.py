"""The documentation matches the recorded comparison."""

import re
from typing import Any

from comparison import ABSENT, format_value
from scenarios import SCENARIOS, SUBJECTS
from table import Row, read_table

from generated_docs import check_section, markdown_table

TABLE = read_table()
EVERYWHERE = "server-keys"
LONG = 160
"""Characters of a value that a page shows before truncating it."""


def test_the_conformance_page_lists_every_scenario() -> None:
    rows = [[subject, *counts(subject), titles(subject)] for subject in SUBJECTS]
    check_section("conformance.md", "scenarios", markdown_table(["", "scenarios", "equal", "played"], rows))


def test_the_differences_page_lists_every_reason() -> None:
    rows = [
        [reason["what"], *example(name), reason["why"], scenario_count(name)] for name, reason in TABLE.reasons.items()
    ]
    heads = ["", "stock", "Threadwire", "why", "seen in"]
    check_section("differences.md", "differences", markdown_table(heads, rows))


def counts(subject: str) -> tuple[str, str]:
    names = [name for name, scenario in SCENARIOS.items() if scenario.subject == subject]
    different = {name for row in TABLE.rows if row.reason != EVERYWHERE for name in row.places}
    return str(len(names)), str(len(set(names) - different))


def titles(subject: str) -> str:
    names = (name for name, scenario in SCENARIOS.items() if scenario.subject == subject)
    return ", ".join(name.replace("_", " ") for name in names)


def example(reason: str) -> tuple[str, str]:
    """Return the first pair of values, shortened, with the name of the field."""
    row = rows_of(reason)[0]
    place = min(place for places in row.places.values() for place in places)
    name = re.sub(r"^frames\[.*", "frame", re.split(r"[.: ]", place)[-1])
    return shortened(row.stock, name), shortened(row.threadwire, name)


def shortened(value: Any, name: str) -> str:
    if value is ABSENT:
        return f"no `{name}`"
    if name == "response":
        return f"{value['status']} {quoted(value.get('body', value.get('frames')))}"
    return quoted({name: value})


def quoted(value: Any) -> str:
    text = format_value(value).replace("\\n", " ").replace("|", "\\|").replace("`", "'")
    return f"`{text if len(text) <= LONG else text[:LONG] + '…'}`"


def scenario_count(reason: str) -> str:
    scenarios = {name for row in rows_of(reason) for name in row.places}
    return f"{len(scenarios)} scenario{'s' if len(scenarios) > 1 else ''}"


def rows_of(reason: str) -> list[Row]:
    return [row for row in TABLE.rows if row.reason == reason]
