"""Which user makes the current request, and what that user may access.

Every method of the engine that acts on behalf of a client gets its access filter here, and passes it on to the storage.
So no protocol can forget the filter. Without auth, and outside of requests, everything is allowed: the worker, the
scheduler and the sweepers act for the server.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, Protocol

from threadwire.core.access_filter import EVERYTHING, AccessFilter
from threadwire.core.ids import ThreadId
from threadwire.core.users import User
from threadwire.errors import NotFound
from threadwire.storage.abc import Storage

Resource = Literal["threads", "assistants", "crons", "store"]
"""Runs belong to threads. As in LangGraph's `Auth`, they have no resource of their own."""

Action = Literal[
    "create", "read", "update", "delete", "search", "create_run", "put", "get", "list_namespaces"
]  # fmt: skip


class AccessRules(Protocol):
    """Decides what users may access."""

    async def filter_for(self, user: User, resource: Resource, action: Action, value: dict[str, Any]) -> AccessFilter:
        """Return the filter for an operation. `value` describes the operation as LangGraph's `Auth` does. The
        rules may change it, and the engine then uses the changed value. Raises `ThreadwireError` to reject the
        operation."""


class Authorization:
    """The rules that apply now. They change when the project is reloaded."""

    def __init__(self, rules: AccessRules | None = None) -> None:
        self.rules = rules
        """None if the server has no auth."""


current_user: ContextVar[User | None] = ContextVar("current_user", default=None)
"""The user who makes the current request, or on whose behalf the current run is executed. None if unknown."""

_current_rules: ContextVar[AccessRules | None] = ContextVar("current_rules", default=None)
"""None allows everything."""


def begin_request(user: User, rules: AccessRules) -> None:
    """From now on, the current task acts on behalf of the user."""
    current_user.set(user)
    _current_rules.set(rules)


@contextmanager
def acting_as(user: User | None, rules: AccessRules | None) -> Iterator[None]:
    """Act on behalf of the user inside the `with` block, or of the server if `user` is None."""
    user_before = current_user.set(user)
    rules_before = _current_rules.set(None if user is None else rules)
    try:
        yield
    finally:
        current_user.reset(user_before)
        _current_rules.reset(rules_before)


def is_restricted() -> bool:
    """Whether there are rules for the current request."""
    return _current_rules.get() is not None


def current_owner() -> str | None:
    """The owner of the rows that the current request creates."""
    user = current_user.get()
    return None if user is None else user.owner


async def allowed(resource: Resource, action: Action, value: dict[str, Any]) -> AccessFilter:
    """Return the filter for an operation of the current request; see `AccessRules.filter_for`."""
    rules, user = _current_rules.get(), current_user.get()
    return EVERYTHING if rules is None or user is None else await rules.filter_for(user, resource, action, value)


async def require_changeable(storage: Storage, thread_id: ThreadId) -> None:
    """Raise `NotFound` if the thread is foreign. Call this before an append outside a run: the append itself rejects
    only threads that do not exist."""
    access = await allowed("threads", "update", {"thread_id": thread_id})
    if access and await storage.threads.get(thread_id, with_state=False, access=access) is None:
        raise NotFound(f"Thread {thread_id} not found")
