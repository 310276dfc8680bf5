"""Users: they make requests, and runs act on their behalf."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

from threadwire.core.json import native

MAX_EXP = 2**53


class User(dict[str, Any]):
    """A user as handlers of LangGraph's `Auth` and graphs see it: every field is an item and an attribute.

    It has at least `identity`, `is_authenticated`, `display_name` and `permissions`. It is a `dict`, so it can be
    stored with a run and be a part of a graph's state.
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def owner(self) -> str:
        """The identity as text, for rows that belong to the user."""
        return str(self["identity"])

    @property
    def expires_at(self) -> int | None:
        """When the user's `exp` passes, in milliseconds. As in a JSON Web Token, `exp` is in seconds."""
        if (exp := self.get("exp")) is None:
            return None
        is_number = isinstance(exp, (int, float)) and not isinstance(exp, bool) and -MAX_EXP < exp < MAX_EXP
        return round(exp * 1000) if is_number else None


@dataclass(frozen=True, slots=True)
class Caller:
    """A user, and how long the user's credential is valid."""

    user: User
    key_id: str | None = None
    """The API key of the request, if any."""
    expires_at: int | None = None


def make_user(returned: object) -> User | None:
    """Build the user from what an authenticate handler returned: an identity, or an object or mapping with one. Return
    None if there is no identity."""
    if returned is None or returned == "":
        return None
    if isinstance(returned, str):
        return User(identity=returned, is_authenticated=True, display_name=returned, permissions=[])
    return _user(_fields(returned))


def _fields(returned: object) -> dict[str, Any]:
    if isinstance(returned, Mapping):
        return {str(key): value for key, value in returned.items()}
    if callable(dump := getattr(returned, "model_dump", None)):
        found = dict(dump())
    elif is_dataclass(returned) and not isinstance(returned, type):
        found = asdict(returned)
    else:
        found = {name: value for name, value in getattr(returned, "__dict__", {}).items() if name[:1] != "_"}
    for name in ("identity", "is_authenticated", "display_name", "permissions"):  # they may be properties
        if name not in found and hasattr(returned, name):
            found[name] = getattr(returned, name)
    return found


def _user(fields: dict[str, Any]) -> User | None:
    identity = fields.get("identity")
    if identity is None or identity == "" or not isinstance(identity, (str, int)):
        return None
    known = {
        "identity": identity,
        "is_authenticated": bool(fields.get("is_authenticated", True)),
        "display_name": str(fields.get("display_name") or identity),
        "permissions": list(fields.get("permissions") or ()),
    }
    return User({**known, **{name: native(value) for name, value in fields.items() if name not in known}})
