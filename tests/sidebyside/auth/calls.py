"""What the handlers saw, by the identity of the user."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any
from uuid import UUID

CALLS: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)


def note(identity: str, resource: str, action: str, value: Any) -> None:
    """Record a call, unless an equal one was recorded before: a server may repeat a call as often as it likes."""
    call = {"call": f"{resource}.{action}", "value": _shown(value)}
    if call not in CALLS[identity]:
        CALLS[identity].append(call)


def _shown(value: Any) -> Any:
    """As JSON, with the types that JSON does not have. A user is an object on one server and a `dict` on the other."""
    if hasattr(value, "identity"):
        return f"user {value.identity}"
    if isinstance(value, Mapping):
        return {str(key): _shown(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return {"tuple": [_shown(each) for each in value]}
    if isinstance(value, list):
        return [_shown(each) for each in value]
    if isinstance(value, UUID):
        return f"UUID {value}"
    return value if value is None or isinstance(value, (str, int, float)) else f"{type(value).__name__} {value}"
