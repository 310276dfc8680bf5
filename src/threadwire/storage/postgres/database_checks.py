"""What a database must offer before a server uses it. Each check raises an error whose message is one line that
the operator can act on."""

from threadwire.errors import StorageError
from threadwire.storage.postgres.connections import Connection

OLDEST_SERVER = 15

_READ_ONLY = "SELECT current_setting('transaction_read_only') = 'on'"
# A partition is written through its table, so it needs no rights of its own.
_NOT_WRITABLE = """
SELECT relname FROM pg_class
 WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
   AND NOT (has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')
            AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE'))
   AND relname <> ALL($1::text[])
 ORDER BY relname LIMIT 1
"""
_ONLY_READ = ("deployment", "schema_version")


async def check_server(connection: Connection) -> None:
    if (major := connection.get_server_version().major) < OLDEST_SERVER:
        raise StorageError(f"PostgreSQL {major} is too old. Use PostgreSQL {OLDEST_SERVER} or later.")
    if await connection.fetchval(_READ_ONLY):
        raise StorageError("The database is read-only. Use the address of the primary server.")


async def check_rights(connection: Connection) -> None:
    table = await connection.fetchval(_NOT_WRITABLE, _ONLY_READ)
    if table is not None:
        raise StorageError(
            f"The database role may not read and write the table {table}."
            " Grant it SELECT, INSERT, UPDATE and DELETE on all tables of the schema."
        )
