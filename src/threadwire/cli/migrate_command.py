"""`threadwire migrate`: bring the tables of a PostgreSQL database up to date."""

import os

import anyio
from rich.console import Console

from threadwire.core.addresses import redacted
from threadwire.environment import PREFIX
from threadwire.errors import ConfigError
from threadwire.server.stock_variables import addresses_of


def run_migration(storage: str | None, console: Console) -> None:
    """Migrate, and print what was done. Raises a `ThreadwireError` if the migration fails."""
    address = postgres_address(storage)
    from threadwire.storage.postgres.schema import migrate

    report = anyio.run(migrate, address)
    if report.before == report.after:
        console.print(f"{redacted(address)} is up to date (schema version {report.after})")
    else:
        console.print(f"{redacted(address)} migrated from schema version {report.before} to {report.after}")


def postgres_address(storage: str | None) -> str:
    """Return the given address, or the one in the environment. Raises `ConfigError` if it is not for PostgreSQL."""
    address = storage or addresses_of(os.environ).get("storage")
    if address is None or not address.startswith(("postgresql://", "postgres://")):
        raise ConfigError(f"No PostgreSQL database is given. Pass --storage postgresql://…, or set {PREFIX}STORAGE.")
    return str(address)
