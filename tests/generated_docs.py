"""Sections of the documentation that the tests generate: between `<!-- name -->` and `<!-- end of name -->`.

A test fails if its section is out of date. With `WRITE_PAGES=1 pytest …` it writes the section instead.
"""

import os
from pathlib import Path

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"


def check_section(page: str, name: str, expected: str) -> None:
    path = REFERENCE / page
    before, opening, rest = path.read_text().partition(f"<!-- {name} -->\n")
    written, closing, after = rest.partition(f"<!-- end of {name} -->")
    assert opening, f"{path} has no section called {name}"
    assert closing, f"{path}: section {name} has no end"
    section = f"\n{expected.strip()}\n\n"
    if os.environ.get("WRITE_PAGES"):
        path.write_text(before + opening + section + closing + after)
    else:
        assert written == section, f"{path.name} is out of date: run `WRITE_PAGES=1 pytest` on this test"


def markdown_table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in lines)
