"""Assistants."""

from functools import partial
from typing import Any

import apsw

from threadwire.core.ids import AssistantId
from threadwire.core.records import Assistant, AssistantQuery
from threadwire.storage.sqlite.keys import key_of, name_of
from threadwire.storage.sqlite.readers import Readers
from threadwire.storage.sqlite.rows import fetch, from_text, to_text
from threadwire.storage.sqlite.transaction import Transaction
from threadwire.storage.sqlite.writer import Writer

_SORT = {
    "assistant_id": "assistant",
    "graph_id": "graph_id",
    "name": "name",
    "created_at": "created_at",
    "updated_at": "updated_at",
}


class SqliteAssistants:
    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def ensure(self, assistant: Assistant) -> Assistant:
        def ensure(transaction: Transaction) -> Assistant:
            kept = _find(transaction.db, assistant.assistant_id)
            if kept is not None:
                return kept
            transaction.db.execute("INSERT INTO assistants VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", _row(assistant))
            return assistant

        # At every start all assistants are ensured, and nearly always they are there.
        kept = await self.get(assistant.assistant_id)
        return await self._writer.do(ensure) if kept is None else kept

    async def get(self, assistant_id: AssistantId) -> Assistant | None:
        with self._readers.lend() as db:
            return _find(db, assistant_id)

    async def search(self, query: AssistantQuery) -> list[Assistant]:
        return await self._readers.elsewhere(partial(_search, query))

    async def count(self, query: AssistantQuery) -> int:
        return await self._readers.elsewhere(partial(_count, query))


def _find(db: apsw.Connection, assistant_id: AssistantId) -> Assistant | None:
    for row in fetch(db, "SELECT * FROM assistants WHERE assistant = ?", (key_of(assistant_id),)):
        return _assistant(row)
    return None


def _search(query: AssistantQuery, db: apsw.Connection) -> list[Assistant]:
    where, bindings = _where(query)
    order = "DESC" if query.descending else "ASC"
    sql = (
        f"SELECT * FROM assistants {where} ORDER BY {_SORT[query.sort_by]} {order}, assistant {order} LIMIT ? OFFSET ?"
    )
    return [_assistant(row) for row in fetch(db, sql, [*bindings, query.limit, query.offset])]


def _count(query: AssistantQuery, db: apsw.Connection) -> int:
    where, bindings = _where(query)
    return int(db.execute(f"SELECT count(*) FROM assistants {where}", bindings).get)


def _where(query: AssistantQuery) -> tuple[str, list[Any]]:
    terms: list[str] = []
    bindings: list[Any] = []
    for column, wanted in (("graph_id", query.graph_id), ("name", query.name)):
        if wanted is not None:
            terms.append(f"{column} = ?")
            # Text that has no UTF-8 form was never stored; as bytes it equals nothing, and does not fail either.
            bindings.append(wanted if wanted.isascii() else _bindable(wanted))
    if query.metadata:
        terms.append("json_contains(metadata, ?)")
        bindings.append(apsw.pyobject(query.metadata))
    return ("WHERE " + " AND ".join(terms) if terms else ""), bindings


def _bindable(text: str) -> str | bytes:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def _row(assistant: Assistant) -> tuple[Any, ...]:
    return (
        key_of(assistant.assistant_id),
        assistant.graph_id,
        assistant.name,
        assistant.created_at,
        assistant.updated_at,
        assistant.version,
        assistant.description,
        to_text(assistant.config),
        to_text(assistant.context),
        to_text(assistant.metadata),
        assistant.owner,
    )


def _assistant(row: tuple[Any, ...]) -> Assistant:
    key, graph_id, name, created, updated, version, description, config, context, metadata, owner = row
    return Assistant(
        assistant_id=AssistantId(name_of(key)),
        graph_id=graph_id,
        name=name,
        created_at=created,
        updated_at=updated,
        version=version,
        description=description,
        config=from_text(config),
        context=from_text(context),
        metadata=from_text(metadata),
        owner=owner,
    )
