"""`threadwire move`: copy a SQLite data directory into PostgreSQL."""

from pathlib import Path

import anyio
from rich.console import Console

from threadwire.cli.migrate_command import postgres_address
from threadwire.core.addresses import redacted
from threadwire.errors import ConfigError


def run_move(data: Path, storage: str | None, console: Console) -> None:
    """Move the data, and print how many rows were moved. Raises a `ThreadwireError` if the move fails."""
    address = postgres_address(storage)
    if not (data / "threadwire.db").is_file():
        raise ConfigError(f"{data} is not a data directory: it has no threadwire.db.")
    from threadwire.storage.move import move

    def report(table: str, rows: int) -> None:
        console.print(f"  {table:<20}{rows:>10}")

    console.print(f"Moving {data} to {redacted(address)}")
    entries = anyio.run(move, data, address, report)
    console.print(f"Moved. Every row was read back and is equal, including {entries} log entries. {data} is unchanged.")
