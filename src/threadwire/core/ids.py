"""Ids, typed so that one kind cannot be passed where another is meant."""

import os
import re
import time
import unicodedata
from collections import deque
from typing import NewType
from uuid import UUID, uuid5

from threadwire.errors import Invalid

ThreadId = NewType("ThreadId", str)
RunId = NewType("RunId", str)
AssistantId = NewType("AssistantId", str)
CronId = NewType("CronId", str)
Seq = NewType("Seq", int)

# The namespace from which the stock server derives the id of a graph's default assistant.
GRAPH_ASSISTANTS = UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8")

# The namespace for threads whose ids are chosen by clients.
NAMED_THREADS = UUID("6a0f3ee8-52b7-5d0c-9a34-6e2c8a0d7c11")


def assistant_id_of(graph_id: str) -> AssistantId:
    return AssistantId(str(uuid5(GRAPH_ASSISTANTS, graph_id)))


def parse_uuid(text: str) -> str | None:
    """Return a UUID in its canonical form, lower case with four dashes, or None if `text` is not a UUID. Like the stock
    server, accept it without dashes, in braces or as a URN."""
    if not _UUID.fullmatch(text):  # UUID() also accepts signs, spaces and digits of other scripts
        return None
    try:
        return str(UUID(text))
    except ValueError:
        return None


_UUID = re.compile(r"(?:urn:uuid:)?\{?[0-9A-Fa-f-]{32,64}\}?")


def parse_thread_id(text: str) -> ThreadId:
    if (parsed := parse_uuid(text)) is None:
        raise Invalid("Invalid thread ID: must be a UUID")
    return ThreadId(parsed)


def thread_id_from_name(name: str) -> ThreadId:
    """Return the thread id for a name chosen by a client. A UUID in canonical form is its own id; any other name always
    maps to the same UUID."""
    if not name or len(name) > 255 or any(unicodedata.category(each) == "Cc" for each in name):
        raise Invalid("Invalid thread ID: must have 1 to 255 characters and no control characters")
    parsed = parse_uuid(name)
    return ThreadId(parsed if parsed == name.lower() else str(uuid5(NAMED_THREADS, name)))


def parse_run_id(text: str) -> RunId:
    if (parsed := parse_uuid(text)) is None:
        raise Invalid("Invalid run ID: must be a UUID")
    return RunId(parsed)


def parse_assistant_id(text: str) -> AssistantId:
    if (parsed := parse_uuid(text)) is None:
        raise Invalid("Invalid assistant ID: must be a UUID")
    return AssistantId(parsed)


def parse_cron_id(text: str) -> CronId:
    if (parsed := parse_uuid(text)) is None:
        raise Invalid("Invalid cron ID: must be a UUID")
    return CronId(parsed)


def uuid7(now_ms: int | None = None) -> str:
    """Return a UUID that sorts by creation time (RFC 9562, version 7)."""
    timestamp = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    value = (timestamp & 0xFFFF_FFFF_FFFF) << 80 | int.from_bytes(_random_bytes(), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _random_bytes() -> bytes:
    """Return ten bytes from the operating system. They are read in advance, because each read releases the
    interpreter lock and has to wait for it again."""
    try:
        return _unused_bytes.pop()
    except IndexError:
        many = os.urandom(10 * 256)
        _unused_bytes.extend(many[at : at + 10] for at in range(10, len(many), 10))
        return many[:10]


_unused_bytes: deque[bytes] = deque()
os.register_at_fork(after_in_child=_unused_bytes.clear)  # or a child would create the same ids as its parent
