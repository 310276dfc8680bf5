"""ChatKit's objects and events as JSON. Fields without a value are absent, never null."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from threadwire.core.encoder import Message
from threadwire.core.entries import Json
from threadwire.core.ids import Seq
from threadwire.core.json import dumps
from threadwire.core.records import Thread

Object = dict[str, Any]

TITLE = "title"
"""The key of a thread's metadata for its title. CopilotKit uses the same one."""
STATUS = "chatkit_status"
"""The key of a thread's metadata for its status: `{"type": "locked", "reason": …}`, for example."""
IMAGE_DOMAINS = "chatkit_allowed_image_domains"
"""The key of a thread's metadata for the hosts from which clients may load images."""

FEEDBACK = "chatkit_feedback"
"""The key of a thread's metadata for its last feedback, so that a search finds the thread."""

ACTIVE: Object = {"type": "active"}


def timestamp(milliseconds: int) -> str:
    time = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def without_none(fields: Object) -> Object:
    return {name: value for name, value in fields.items() if value is not None}


def page(data: Iterable[Json], *, has_more: bool = False, after: str | None = None) -> Object:
    return without_none({"data": list(data), "has_more": has_more, "after": after})


def thread_json(thread: Thread, items: Object | None = None, status: Object | None = None) -> Object:
    """A thread, with a page of its items if there is one. Its metadata is private to the server."""
    title, domains = thread.metadata.get(TITLE), thread.metadata.get(IMAGE_DOMAINS)
    return without_none(
        {
            "id": thread.thread_id,
            "title": title if isinstance(title, str) else None,
            "created_at": timestamp(thread.created_at),
            "status": status or status_of(thread),
            "allowed_image_domains": domains if isinstance(domains, list) else None,
            "metadata": {},
            "items": items or page(()),
        }
    )


def status_of(thread: Thread) -> Object:
    """The status in the thread's metadata. Any client can set metadata, so an invalid status counts as active."""
    status = thread.metadata.get(STATUS)
    if not isinstance(status, dict) or status.get("type") not in ("locked", "closed"):
        return ACTIVE
    reason = status.get("reason")
    return without_none({"type": status["type"], "reason": reason if isinstance(reason, str) else None})


# -- events -----------------------------------------------------------------------------------------------------------


def thread_created(thread: Object) -> bytes:
    return dumps({"type": "thread.created", "thread": thread})


def thread_updated(thread: Object) -> bytes:
    return dumps({"type": "thread.updated", "thread": thread})


def item_added(item: Object) -> bytes:
    return dumps({"type": "thread.item.added", "item": item})


def item_done(item: Object) -> bytes:
    return dumps({"type": "thread.item.done", "item": item})


def item_replaced(item: Object) -> bytes:
    return dumps({"type": "thread.item.replaced", "item": item})


def item_removed(item_id: str) -> bytes:
    return dumps({"type": "thread.item.removed", "item_id": item_id})


def item_updated(item_id: str, update: Object) -> bytes:
    return dumps({"type": "thread.item.updated", "item_id": item_id, "update": update})


def text_delta_prefix(item_id: str) -> bytes:
    """The event of a token up to its text. A run has one event per token, so this part is encoded once per item."""
    event = item_updated(item_id, {"type": "assistant_message.content_part.text_delta", "content_index": 0})
    return event[:-2] + b',"delta":'


def stream_options(*, allow_cancel: bool) -> bytes:
    return dumps({"type": "stream_options", "stream_options": {"allow_cancel": allow_cancel}})


def progress_update(text: str, icon: str | None) -> bytes:
    return dumps(without_none({"type": "progress_update", "text": text, "icon": icon}))


def client_effect(name: str, data: Object) -> bytes:
    return dumps({"type": "client_effect", "name": name, "data": data})


def notice(level: str, message: str, title: str | None = None) -> bytes:
    return dumps(without_none({"type": "notice", "level": level, "message": message, "title": title}))


def error(message: str | None = None, *, allow_retry: bool) -> bytes:
    """An error. Clients translate it, unless it has a message of its own."""
    code = "stream.error" if message is None else "custom"
    return dumps(without_none({"type": "error", "code": code, "message": message, "allow_retry": allow_retry}))


# -- frames -----------------------------------------------------------------------------------------------------------

NO_RUN = b" " * 36
"""The name of messages that belong to no run. It has the length of a run's id, which is the name of all other messages.
A message without data marks the end of its run."""


def events(messages: Sequence[Message], seq: Seq | None) -> bytes:
    """The events of an entry as ChatKit's clients expect them: data only, no names, no ids."""
    return b"".join(b"data: %b\n\n" % data for _, data in messages if data)


def run_events(messages: Sequence[Message], seq: Seq | None) -> bytes:
    """The events of an entry after a tag, by which the stream of one run selects its own events from those of the
    thread. The tag is `!` if the run ends here and `.` otherwise, and then the run's id."""
    if len(messages) == 1 and messages[0][1]:
        name, data = messages[0]
        return b"".join((b".", name, b"data: ", data, b"\n\n"))
    end, name = (b"!" if not messages[-1][1] else b"."), messages[0][0]
    return b"".join((end, name, events(messages, seq)))
