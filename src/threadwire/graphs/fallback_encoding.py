"""Fallback encoding of values that LangGraph's serializer rejects (docs/reference/encoding.md).

No value in a state may fail a run. Values with an exact representation keep it. For all others, the JSON rendering is
stored and the type is logged.
"""

from collections.abc import Callable
from enum import Enum
from fractions import Fraction
from typing import Any

from threadwire.core.json import MAX_DEPTH, key_text, native
from threadwire.graphs.langgraph_private.checkpoint_format import langgraph_default, pack_constructor, pack_plain

_ARGUMENTS: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    complex: lambda value: (value.real, value.imag),
    range: lambda value: (value.start, value.stop, value.step),
    Fraction: lambda value: (value.numerator, value.denominator),
}
_CONTAINERS = (dict, list, tuple)

EXACT_TYPES = tuple((kind.__module__, kind.__name__) for kind in (int, *_ARGUMENTS))
"""Types that are stored exactly. LangGraph must be allowed to construct them when it reads a checkpoint."""


class FallbackEncoder:
    """Encodes one value as msgpack, in LangGraph's own format."""

    def __init__(self) -> None:
        self.rendered: set[str] = set()
        """The types of values that were stored only as their JSON rendering."""
        self._ancestors: set[int] = set()
        self._default = langgraph_default(self._pack)

    def pack(self, value: Any) -> bytes:
        try:
            return self._pack(value)
        except Exception:
            return self._pack(self._render(value))

    def _pack(self, value: Any) -> bytes:
        return pack_plain(self._packable(value))

    def _packable(self, value: Any) -> Any:
        """The same value, composed only of types that msgpack supports."""
        try:
            if not isinstance(value, _CONTAINERS) and _is_packable(value):
                return value
            if id(value) in self._ancestors or len(self._ancestors) > MAX_DEPTH:
                return self._type_name(value)
            self._ancestors.add(id(value))
            try:
                return self._convert(value)
            finally:
                self._ancestors.discard(id(value))
        except Exception:  # any attribute or method of an object may raise
            return self._render(value)

    def _convert(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._key(key): self._packable(item) for key, item in value.items()}
        if isinstance(value, list) or type(value) is tuple:
            return [self._packable(item) for item in value]
        if isinstance(value, int) and not isinstance(value, Enum):
            return self._constructor(int, f"{int(value):x}", 16)  # Python limits the number of decimal digits it parses
        if (arguments := _ARGUMENTS.get(type(value))) is not None:
            return self._constructor(type(value), *arguments(value))
        if isinstance(value, type):  # LangGraph would mistake a class for an instance
            return self._render(value)
        return self._default(value)

    def _constructor(self, kind: type, *arguments: Any) -> Any:
        return pack_constructor(kind, arguments, self._pack)

    def _key(self, key: Any) -> Any:
        if _is_packable({key: None}):
            return key
        self._note_rendered(key)
        return key_text(key)

    def _render(self, value: Any) -> Any:
        self._note_rendered(value)
        return _truncate(native(value), MAX_DEPTH + 1 - len(self._ancestors))

    def _type_name(self, value: Any) -> str:
        self._note_rendered(value)
        return f"<{type(value).__name__}>"

    def _note_rendered(self, value: Any) -> None:
        self.rendered.add(f"{type(value).__module__}.{type(value).__qualname__}")


def _is_packable(value: Any) -> bool:
    """Whether msgpack itself supports the value."""
    try:
        pack_plain(value)
    except Exception:
        return False
    return True


def _truncate(value: Any, levels: int) -> Any:
    """Replace everything nested deeper than `levels` with its type name."""
    if isinstance(value, dict):
        return {key: _truncate(item, levels - 1) for key, item in value.items()} if levels > 0 else "<dict>"
    if isinstance(value, list):
        return [_truncate(item, levels - 1) for item in value] if levels > 0 else "<list>"
    return value
