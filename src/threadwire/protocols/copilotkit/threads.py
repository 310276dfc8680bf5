"""The threads of an agent: listing, renaming, archiving, deleting.

A thread's name and its archived flag are in its metadata, where other protocols can read and set them too.
"""

from datetime import UTC, datetime
from typing import Any

from threadwire.core.ids import thread_id_from_name
from threadwire.core.records import Assistant, Thread, ThreadQuery
from threadwire.engine.lifecycle import Engine
from threadwire.errors import BadRequest, Invalid, ThreadNotFound
from threadwire.protocols.ag_ui.agent_runs import CLIENT_THREAD_ID, find_thread
from threadwire.protocols.copilotkit.agents import Agents
from threadwire.protocols.copilotkit.decode import ThreadUpdate
from threadwire.protocols.copilotkit.suggestions import TEMPORARY

NAME = "title"
ARCHIVED = "archived"


async def list_threads(
    engine: Engine, agents: Agents, agent_id: str | None, *, archived: bool, limit: int, cursor: str | None
) -> dict[str, Any]:
    """One page of threads, the most recently run first."""
    of_agent = {} if agent_id is None else {"assistant_id": (await agents.find(agent_id)).assistant_id}
    offset = _offset(cursor)
    records: list[dict[str, Any]] = []
    while True:
        query = ThreadQuery(metadata=of_agent, limit=limit, offset=offset, sort_by="state_updated_at")
        found = await engine.threads.search(query)
        for thread in found:
            if len(records) == limit:
                return {"threads": records, "nextCursor": str(offset)}
            offset += 1
            if _is_listed(thread, archived=archived):
                records.append(record(thread, agent_id or agents.name_of(thread.metadata["assistant_id"])))
        if len(found) < limit:
            return {"threads": records, "nextCursor": None}


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 9:
        raise BadRequest("cursor: must be the `nextCursor` of a previous page")
    return int(cursor)


def _is_listed(thread: Thread, *, archived: bool) -> bool:
    if not isinstance(thread.metadata.get("assistant_id"), str) or thread.metadata.get(TEMPORARY):
        return False
    return archived or thread.metadata.get(ARCHIVED) is not True


async def update_thread(engine: Engine, agents: Agents, name: str, update: ThreadUpdate) -> dict[str, Any]:
    thread = await _thread_of(engine, await agents.find(update.agent_id), name)
    provided = update.model_fields_set
    metadata: dict[str, Any] = {}
    if "name" in provided:
        metadata[NAME] = update.name
    if "archived" in provided:
        metadata[ARCHIVED] = update.archived is True
    if metadata:
        thread = await engine.threads.update(thread.thread_id, metadata)
    return record(thread, update.agent_id)


async def archive_thread(engine: Engine, agents: Agents, name: str, agent_id: str) -> dict[str, Any]:
    thread = await _thread_of(engine, await agents.find(agent_id), name)
    await engine.threads.update(thread.thread_id, {ARCHIVED: True})
    return {"threadId": name, "archived": True}


async def delete_thread(engine: Engine, agents: Agents, name: str, agent_id: str) -> dict[str, Any]:
    thread = await _thread_of(engine, await agents.find(agent_id), name)
    await engine.threads.delete(thread.thread_id)
    return {"threadId": name, "deleted": True}


async def _thread_of(engine: Engine, agent: Assistant, name: str) -> Thread:
    thread = await find_thread(engine, name)
    if thread.metadata.get("assistant_id") != agent.assistant_id:
        raise ThreadNotFound(f"Thread '{name}' not found")
    return thread


def record(thread: Thread, agent_id: str) -> dict[str, Any]:
    name = thread.metadata.get(NAME)
    last_run = thread.state_updated_at or thread.created_at
    return {
        "id": _client_thread_id(thread),
        "name": name if isinstance(name, str) else None,
        "agentId": agent_id,
        "organizationId": "",
        "createdById": "",
        "archived": thread.metadata.get(ARCHIVED) is True,
        "createdAt": _iso(thread.created_at),
        "updatedAt": _iso(thread.updated_at),
        "lastRunAt": _iso(last_run),
    }


def _client_thread_id(thread: Thread) -> str:
    """The id that clients use. Any client can set metadata, so an id that belongs to another thread is ignored."""
    client_id = thread.metadata.get(CLIENT_THREAD_ID)
    return client_id if isinstance(client_id, str) and _belongs_to(client_id, thread) else thread.thread_id


def _belongs_to(client_id: str, thread: Thread) -> bool:
    try:
        return thread_id_from_name(client_id) == thread.thread_id
    except Invalid:
        return False


def _iso(milliseconds: int) -> str:
    time = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
