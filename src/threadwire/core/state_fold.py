"""The state of a thread, folded from `state` entries (spec/log.md, 6.5 - 6.8).

A state is stored as JSON fragments, one per key and one per list element, so that rendering it after a small change
joins the fragments instead of serialising everything again.
"""

from typing import Any

from threadwire.core.json import dumps, loads


class StateFold:
    """The values of one namespace."""

    __slots__ = ("_keys", "_order", "_whole")

    def __init__(self) -> None:
        self._keys: dict[str, bytes | list[bytes]] = {}
        self._order: list[str] = []
        self._whole: bytes | None = None

    def apply(self, data: dict[str, Any]) -> None:
        if data.get("full"):
            self._keys.clear()
            self._order = []
            self._whole = dumps(data["value"]) if "value" in data else None
        for key in data.get("unset", ()):
            self._keys.pop(key, None)
        for key, value in data.get("set", {}).items():
            self._keys[key] = [dumps(item) for item in value] if isinstance(value, list) else dumps(value)
        for key, (at, drop, items) in data.get("splice", {}).items():
            fragments = self._keys[key]
            assert isinstance(fragments, list), "a splice requires a list"
            fragments[at : at + drop] = [dumps(item) for item in items]
        if "keys" in data:
            self._order = data["keys"]

    def dumps(self) -> bytes:
        if self._whole is not None:
            return self._whole
        parts = [dumps(key) + b":" + _joined(self._keys[key]) for key in self._order if key in self._keys]
        return b"{" + b",".join(parts) + b"}"

    def value(self) -> Any:
        return loads(self.dumps())


def _joined(fragment: bytes | list[bytes]) -> bytes:
    return fragment if isinstance(fragment, bytes) else b"[" + b",".join(fragment) + b"]"
