"""The threads of an agent, and pages of their items."""

from collections.abc import Sequence

from threadwire.core.ids import ThreadId, parse_uuid
from threadwire.core.message_content import message_type
from threadwire.core.records import Assistant, Run, Thread, ThreadQuery
from threadwire.engine.lifecycle import Engine
from threadwire.errors import AgentNotFound, Invalid, NotFound, ThreadNotFound
from threadwire.graphs.chatkit_config import ChatKitConfig
from threadwire.protocols.chatkit import user_messages, wire
from threadwire.protocols.chatkit.decode import DEFAULT_LIMIT, PageParams
from threadwire.protocols.chatkit.encode import ChatKitEncoder
from threadwire.protocols.chatkit.items import HIDDEN
from threadwire.protocols.chatkit.wire import TITLE, Object

TITLE_POSITION = "chatkit_title_seq"
"""The key of a thread's metadata for a position in its log. Titles that the graph set up to there are not
applied again."""

LOCKED_REASON = "Answer the question above first."

_SCAN = 100


async def find_agent(engine: Engine, name: str) -> Assistant:
    """Find an agent, which is an assistant, by its id or the name of its graph. Raises `AgentNotFound`."""
    try:
        return await engine.assistants.resolve(name)
    except (Invalid, NotFound):
        raise AgentNotFound(f"Agent '{name[:200]}' does not exist") from None


async def find_thread(engine: Engine, agent: Assistant, thread_id: str) -> Thread:
    """Find a thread of the agent. A thread of another agent is not found. Raises `ThreadNotFound`."""
    parsed = parse_uuid(thread_id)
    try:
        thread = None if parsed is None else await engine.threads.get(ThreadId(parsed), with_state=False)
    except NotFound:
        thread = None
    if thread is None or thread.metadata.get("assistant_id") not in (None, agent.assistant_id):
        raise ThreadNotFound(f"Thread '{thread_id[:100]}' not found")
    return thread


async def list_threads(engine: Engine, agent: Assistant, params: PageParams) -> Object:
    """One page of threads, without items. `after` is the last thread of the page before."""
    limit = params.limit or DEFAULT_LIMIT
    offset = 0 if params.after is None else await _offset_after(engine, agent, params)
    found = await engine.threads.search(_query(agent, params, limit + 1, offset))
    shown = found[:limit]
    after = shown[-1].thread_id if shown else None
    return wire.page(map(wire.thread_json, shown), has_more=len(found) > limit, after=after)


def _query(agent: Assistant, params: PageParams, limit: int, offset: int) -> ThreadQuery:
    of_agent = {"assistant_id": agent.assistant_id}
    descending = params.order == "desc"
    return ThreadQuery(metadata=of_agent, limit=limit, offset=offset, descending=descending, with_state=False)


async def _offset_after(engine: Engine, agent: Assistant, params: PageParams) -> int:
    offset = 0
    while found := await engine.threads.search(_query(agent, params, _SCAN, offset)):
        for at, thread in enumerate(found, 1):
            if thread.thread_id == params.after:
                return offset + at
        offset += len(found)
    raise ThreadNotFound(f"Thread '{str(params.after)[:100]}' not found")


async def with_title(engine: Engine, thread: Thread, fold: ChatKitEncoder) -> Thread:
    """The thread with the last title that its graph has set, unless a person has set another one since."""
    applied = thread.metadata.get(TITLE_POSITION)
    if fold.title is None or (isinstance(applied, int) and applied >= fold.title[0]):
        return thread
    position, title = fold.title
    return await engine.threads.update(thread.thread_id, {TITLE: title, TITLE_POSITION: position})


def status_of(thread: Thread, fold: ChatKitEncoder, config: ChatKitConfig) -> Object:
    """The thread's status. With the policy `lock`, a thread that waits for an answer is locked."""
    status = wire.status_of(thread)
    if status == wire.ACTIVE and config.while_waiting == "lock" and fold.open_interrupts():
        return {"type": "locked", "reason": LOCKED_REASON}
    return status


# -- items ------------------------------------------------------------------------------------------------------------


def items_page(fold: ChatKitEncoder, queued: Sequence[Object], params: PageParams) -> Object:
    """One page of items. `after` is the last item of the page before. Raises `NotFound`."""
    items = [*fold.items.shown(), *queued]
    if params.order == "desc":
        items.reverse()
    start = 0 if params.after is None else _index_after(items, params.after)
    limit = params.limit or DEFAULT_LIMIT
    shown = items[start : start + limit]
    after = shown[-1]["id"] if shown else None
    return wire.page(shown, has_more=start + limit < len(items), after=after)


def _index_after(items: Sequence[Object], item_id: str) -> int:
    for at, item in enumerate(items, 1):
        if item["id"] == item_id:
            return at
    raise item_not_found(item_id)


def item_not_found(item_id: str) -> NotFound:
    return NotFound(f"Item {item_id[:100]!r} not found")


def feedback_json(fold: ChatKitEncoder) -> list[Object]:
    """The feedback on the items that the thread still has, each with its item, in the order of the items."""
    rated = ((item, fold.feedback.get(item["id"])) for item in fold.items.shown())
    return [{"item": item, "kind": kind} for item, kind in rated if kind is not None]


def queued_items(fold: ChatKitEncoder, thread_id: str, active: Sequence[Run]) -> list[Object]:
    """The user messages of runs that have not started: the log does not have them yet."""
    found: list[Object] = []
    for run in active:
        graph_input = run.kwargs.get("input")
        messages = graph_input.get("messages") if isinstance(graph_input, dict) else None
        for message in messages if isinstance(messages, list) else ():
            if isinstance(message, dict) and message_type(message) == "human" and isinstance(message.get("id"), str):
                item = user_item(thread_id, message, run.created_at)
                if item is not None and fold.items.get(item["id"]) is None:
                    found.append(item)
    return found


def user_item(thread_id: str, message: Object, at: int) -> Object | None:
    """The item of a user message, exactly as the log will have it; None if no client shows it."""
    item_type, fields, created = user_messages.item_of(message)
    if item_type == HIDDEN:
        return None
    created_at = wire.timestamp(at if created is None else created)
    return {"id": f"msg_{message['id']}", "thread_id": thread_id, "created_at": created_at, "type": item_type, **fields}
