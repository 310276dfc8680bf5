"""The rules of a server that has API keys and whose project has no `Auth`: users see only their own rows."""

from typing import Any

from threadwire.core.access_filter import EVERYTHING, AccessFilter, Equals
from threadwire.core.users import User
from threadwire.engine.access import Action, Resource
from threadwire.errors import Forbidden

OWNER = "owner"
"""The metadata key that holds the user's identity."""

ADMIN = "admin"
"""The permission of a key that may access everything."""

_WRITES = frozenset({"create", "update", "create_run"})


class OwnRows:
    async def filter_for(self, user: User, resource: Resource, action: Action, value: dict[str, Any]) -> AccessFilter:
        if ADMIN in user.permissions:
            return EVERYTHING
        if resource == "store":
            _require_own_namespace(user, value)
            return EVERYTHING
        if action in _WRITES and isinstance(value.get("metadata"), dict):
            value["metadata"] = {**value["metadata"], OWNER: user.owner}
        return AccessFilter((Equals(OWNER, user.owner),))


def _require_own_namespace(user: User, value: dict[str, Any]) -> None:
    """The first label of a namespace is the user's identity."""
    namespace = value.get("namespace")
    if not namespace or namespace[0] != user.owner:
        raise Forbidden(f"The first label of the namespace must be the user: {user.owner!r}")
