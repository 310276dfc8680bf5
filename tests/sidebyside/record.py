"""Record the differences again: `.venv/bin/python tests/sidebyside/record.py [scenario …]`.

Plays the given scenarios, by default all of them, on both servers and writes `differences.json`. Review the diff before
you commit it, and add a reason to each difference that has none.
"""

import sys
import tempfile
from pathlib import Path

import anyio
from comparison import Difference, differences
from playback import Records, play_both
from scenarios import SCENARIOS
from servers import both_servers
from table import UNEXPLAINED, Table, build_table, read_table, write_table


def main(names: list[str]) -> None:
    records = _play(names, with_auth=False) | _play(names, with_auth=True)
    found = {name: differences(*both) for name, both in records.items()}
    before = read_table()
    write_table(build_table({**_others(before, names), **found}, before))
    for name, each in found.items():
        _print_unexplained(name, each)


def _play(names: list[str], *, with_auth: bool) -> Records:
    chosen = [name for name in names if SCENARIOS[name].has_auth is with_auth]
    if not chosen:
        return {}
    with tempfile.TemporaryDirectory(prefix="sidebyside-") as folder:
        with both_servers(Path(folder), with_auth=with_auth) as addresses:
            return anyio.run(play_both, chosen, addresses, Path(folder))


def _others(table: Table, names: list[str]) -> dict[str, list[Difference]]:
    return {name: table.of(name) for name in SCENARIOS if name not in names}


def _print_unexplained(name: str, found: list[Difference]) -> None:
    places = {place for row in read_table().rows if row.reason == UNEXPLAINED for place in row.places.get(name, ())}
    for each in found:
        if each.place in places:
            print(f"{name}: {each}")


if __name__ == "__main__":
    main(sys.argv[1:] or sorted(SCENARIOS))
