"""Parts of the documentation that the tests write: between `<!-- name -->` and `<!-- end of name -->`.

A part that is not what the tests found is a failure. `WRITE_PAGES=1 pytest …` writes it instead.
"""

import os
from pathlib import Path

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"


def check_part(page: str, name: str, expected: str) -> None:
    path = REFERENCE / page
    before, opening, rest = path.read_text().partition(f"<!-- {name} -->\n")
    written, closing, after = rest.partition(f"<!-- end of {name} -->")
    assert opening, f"{path} has no part called {name}"
    assert closing, f"{path}: {name} has no end"
    part = f"\n{expected.strip()}\n\n"
    if os.environ.get("WRITE_PAGES"):
        path.write_text(before + opening + part + closing + after)
    else:
        assert written == part, f"{path.name} is not up to date: run `WRITE_PAGES=1 pytest` on this test"


def markdown_table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in lines)
