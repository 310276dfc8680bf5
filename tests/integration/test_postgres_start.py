"""What an operator sees when a server cannot use its database: one clear line, and no data is touched."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from stream_client import new_thread

from services.fixtures import postgres_server as postgres_server
from services.fixtures import redis_server as redis_server
from services.postgres_server import PostgresServer
from services.redis_server import RedisServer
from services.service_process import free_port
from threadwire.testing.server import running_server

PROJECT = Path(__file__).parent / "project" / "langgraph.json"


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[str]:
    dsn = asyncio.run(postgres_server.create_database())
    yield dsn
    asyncio.run(postgres_server.drop_database(dsn))


def run(*arguments: str, **variables: str) -> tuple[int, str]:
    """Run a command to its end. Returns its exit code and everything it printed."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("THREADWIRE_")}
    done = subprocess.run(
        [sys.executable, "-m", "threadwire", *arguments],
        capture_output=True,
        text=True,
        timeout=90,
        env={**inherited, "NO_COLOR": "1", **variables},
    )
    return done.returncode, done.stdout + done.stderr


def startup_error(dsn: str, *more: str, command: str = "serve") -> str:
    """Start a server that must not start, and return the line it prints."""
    options = [] if command == "migrate" else ["--config", str(PROJECT), "--port", "0"]
    code, printed = run(command, *options, *more, THREADWIRE_STORAGE=dsn)
    assert code == 1, printed
    lines = printed.strip().splitlines()
    assert len(lines) == 1, printed
    assert "secret" not in printed
    return lines[0]


def execute(dsn: str, sql: str) -> list[asyncpg.Record]:
    async def fetch() -> list[asyncpg.Record]:
        connection = await asyncpg.connect(dsn)
        try:
            return list(await connection.fetch(sql))
        finally:
            await connection.close()

    return asyncio.run(fetch())


def with_user(dsn: str, user: str) -> str:
    return dsn.replace("postgres@", f"{user}@")


def tables(dsn: str) -> int:
    return len(execute(dsn, "SELECT 1 FROM pg_tables WHERE schemaname = 'public'"))


@pytest.mark.parametrize(
    ("dsn", "said"),
    [
        ("mysql://root:secret@db/agents", "Invalid value for storage: mysql://… is not supported"),
        ("host=db password=secret", "Invalid value for storage"),
        ("postgresql://user:secret@no-such-host.invalid/agents", "The database is not available"),
        ("postgresql://user:secret@127.0.0.1:port/agents", "The address of the database is not valid"),
        ("postgresql://user:secret@127.0.0.1/agents?sslmode=maybe", "The address of the database is not valid"),
    ],
)
def test_an_invalid_address(dsn: str, said: str) -> None:
    assert said in startup_error(dsn)


@pytest.mark.parametrize(
    ("storage", "role", "said"),
    [
        ("memory", "all", "Processes cannot share the memory storage"),
        ("postgresql://127.0.0.1/agents", "api", "The role api executes no runs"),
    ],
)
def test_worker_processes_where_there_can_be_none(storage: str, role: str, said: str) -> None:
    assert said in startup_error(storage, "--role", role, "--workers", "2")


def test_a_server_that_is_not_running() -> None:
    assert "The database is not available" in startup_error(f"postgresql://user:secret@127.0.0.1:{free_port()}/agents")


def test_a_database_that_does_not_exist(postgres_server: PostgresServer) -> None:
    assert 'database "missing" does not exist' in startup_error(postgres_server.dsn("missing"))


def test_a_role_that_does_not_exist(postgres_server: PostgresServer, database: str) -> None:
    assert 'role "stranger" does not exist' in startup_error(with_user(database, "stranger:secret"))
    assert tables(database) == 0


def test_a_wrong_password(postgres_server: PostgresServer, database: str) -> None:
    rules = postgres_server.data / "pg_hba.conf"
    trusting = rules.read_text()
    postgres_server.execute("DROP ROLE IF EXISTS locked; CREATE ROLE locked LOGIN PASSWORD 'right'")
    try:
        rules.write_text(f"host all locked 127.0.0.1/32 scram-sha-256\n{trusting}")
        postgres_server.execute("SELECT pg_reload_conf()")
        assert 'password authentication failed for user "locked"' in startup_error(with_user(database, "locked:secret"))
    finally:
        rules.write_text(trusting)
        postgres_server.execute("SELECT pg_reload_conf()")
    assert tables(database) == 0


def test_a_role_that_may_not_create_tables(postgres_server: PostgresServer, database: str) -> None:
    postgres_server.execute("DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN")
    for command in ("serve", "migrate"):
        assert "may not create or change tables" in startup_error(with_user(database, "reader"), command=command)
    assert tables(database) == 0


def test_a_role_that_may_not_write(postgres_server: PostgresServer, database: str) -> None:
    assert run("migrate", "--storage", database)[0] == 0
    name = database.rpartition("/")[2]
    postgres_server.execute("DROP ROLE IF EXISTS onlooker; CREATE ROLE onlooker LOGIN")
    postgres_server.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO onlooker", database=name)
    assert "may not read and write the table" in startup_error(with_user(database, "onlooker"))
    postgres_server.execute("DROP OWNED BY onlooker", database=name)


def test_a_role_without_any_rights(postgres_server: PostgresServer, database: str) -> None:
    assert run("migrate", "--storage", database)[0] == 0
    postgres_server.execute("DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN")
    assert "may not read the tables" in startup_error(with_user(database, "guest"))


def test_a_role_that_may_write_but_not_create(postgres_server: PostgresServer, database: str) -> None:
    """A server needs no right to change the schema once `threadwire migrate` was run by another role."""
    assert run("migrate", "--storage", database)[0] == 0
    name = database.rpartition("/")[2]
    postgres_server.execute("DROP ROLE IF EXISTS writer; CREATE ROLE writer LOGIN")
    granted = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO writer"
    postgres_server.execute(granted, database=name)
    with running_server(PROJECT, None, env={"THREADWIRE_STORAGE": with_user(database, "writer")}) as server:
        assert new_thread(server)
    postgres_server.execute("DROP OWNED BY writer", database=name)


def test_a_read_only_database(postgres_server: PostgresServer, database: str) -> None:
    name = database.rpartition("/")[2]
    postgres_server.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    assert "The database is read-only" in startup_error(database)
    assert tables(database) == 0


def test_a_server_that_is_not_postgresql(redis_server: RedisServer) -> None:
    assert "The database is not available" in startup_error(
        f"postgresql://user:secret@127.0.0.1:{redis_server.port}/agents"
    )


def test_an_older_schema_has_to_be_migrated_first(database: str) -> None:
    assert run("migrate", "--storage", database)[0] == 0
    execute(database, "DELETE FROM schema_version WHERE version = (SELECT max(version) FROM schema_version)")
    assert "Run `threadwire migrate` first" in startup_error(database)


def test_a_newer_schema_is_rejected(database: str) -> None:
    assert run("migrate", "--storage", database)[0] == 0
    execute(database, "INSERT INTO schema_version (version) VALUES (999)")
    for command in ("serve", "worker", "migrate"):
        assert "was written by a newer Threadwire" in startup_error(database, command=command)


def test_migrating_again_changes_nothing(database: str) -> None:
    first, second = (run("migrate", THREADWIRE_STORAGE=database) for _ in range(2))
    assert (first[0], second[0]) == (0, 0)
    assert "migrated from schema version 0" in first[1]
    assert "is up to date" in second[1]


def test_concurrent_migrations_wait_for_each_other(database: str) -> None:
    command = [sys.executable, "-m", "threadwire", "migrate", "--storage", database]
    processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(3)]
    errors = [process.communicate(timeout=90)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], errors


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--redis", "redis://:secret@cache"], "The setting redis requires PostgreSQL"),
        (["--role", "api"], "The setting role requires PostgreSQL"),
    ],
)
def test_settings_that_need_postgresql(options: list[str], said: str, tmp_path: Path) -> None:
    assert said in startup_error("sqlite", "--data", str(tmp_path / "data"), *options)


def test_an_invalid_redis_address(database: str) -> None:
    assert "is not the address of a Redis" in startup_error(database, "--redis", "http://:secret@cache")


def test_an_unknown_role(database: str) -> None:
    assert "Invalid value for --role" in startup_error(database, "--role", "king")


def test_a_command_without_a_database() -> None:
    code, printed = run("migrate")
    assert code == 1
    assert "No PostgreSQL database is given" in printed
