"""Checkpoints of what LangGraph's serializer refuses: no value of a state ends a run (docs/reference/encoding.md).

Whatever has an exact form keeps it. Of the rest, what a reader of its JSON would see is kept, and the types of which
that is true are named.
"""

from collections.abc import Callable
from enum import Enum
from fractions import Fraction
from types import FunctionType
from typing import Any

import ormsgpack
from langgraph.checkpoint.serde import jsonplus

from threadwire.core.json import MAX_DEPTH, key_text, native

_ARGUMENTS: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    complex: lambda value: (value.real, value.imag),
    range: lambda value: (value.start, value.stop, value.step),
    Fraction: lambda value: (value.numerator, value.denominator),
}
_CONTAINERS = (dict, list, tuple)

EXACT = tuple((kind.__module__, kind.__name__) for kind in (int, *_ARGUMENTS))
"""Types that are kept whole here, and that LangGraph must be allowed to make when it reads."""


def as_langgraph(pack: Callable[[Any], bytes]) -> Callable[[Any], Any]:
    """LangGraph's own function for objects that msgpack has no form for, but with our packing for what is in them."""
    function = jsonplus._msgpack_default
    return FunctionType(function.__code__, {**vars(jsonplus), "_msgpack_enc": pack})


class Packing:
    """One value made into msgpack, in LangGraph's own form."""

    def __init__(self) -> None:
        self.rendered: set[str] = set()
        """The types of what was kept only as it is shown."""
        self._above: set[int] = set()
        self._object = as_langgraph(self._pack)

    def pack(self, value: Any) -> bytes:
        try:
            return self._pack(value)
        except Exception:
            return self._pack(self._shown(value))

    def _pack(self, value: Any) -> bytes:
        return ormsgpack.packb(self._holdable(value), option=jsonplus._option)

    def _holdable(self, value: Any) -> Any:
        """The same value, of nothing but what msgpack can hold."""
        try:
            if not isinstance(value, _CONTAINERS) and _packs(value):
                return value
            if id(value) in self._above or len(self._above) > MAX_DEPTH:
                return self._named(value)
            self._above.add(id(value))
            try:
                return self._taken_apart(value)
            finally:
                self._above.discard(id(value))
        except Exception:  # an object may raise whatever is asked of it
            return self._shown(value)

    def _taken_apart(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._key(key): self._holdable(item) for key, item in value.items()}
        if isinstance(value, list) or type(value) is tuple:
            return [self._holdable(item) for item in value]
        if isinstance(value, int) and not isinstance(value, Enum):
            return self._made(int, f"{int(value):x}", 16)  # in decimal Python reads no more than some thousand digits
        if (arguments := _ARGUMENTS.get(type(value))) is not None:
            return self._made(type(value), *arguments(value))
        if isinstance(value, type):  # LangGraph would take a class for one of its objects
            return self._shown(value)
        return self._object(value)

    def _made(self, kind: type, *arguments: Any) -> ormsgpack.Ext:
        return ormsgpack.Ext(jsonplus.EXT_CONSTRUCTOR_POS_ARGS, self._pack((kind.__module__, kind.__name__, arguments)))

    def _key(self, key: Any) -> Any:
        if _packs({key: None}):
            return key
        self._note(key)
        return key_text(key)

    def _shown(self, value: Any) -> Any:
        self._note(value)
        return _cut(native(value), MAX_DEPTH + 1 - len(self._above))

    def _named(self, value: Any) -> str:
        self._note(value)
        return f"<{type(value).__name__}>"

    def _note(self, value: Any) -> None:
        self.rendered.add(f"{type(value).__module__}.{type(value).__qualname__}")


def _packs(value: Any) -> bool:
    """Whether msgpack itself has a form for it."""
    try:
        ormsgpack.packb(value, option=jsonplus._option)
    except Exception:
        return False
    return True


def _cut(value: Any, levels: int) -> Any:
    """JSON without what lies deeper."""
    if isinstance(value, dict):
        return {key: _cut(item, levels - 1) for key, item in value.items()} if levels > 0 else "<dict>"
    if isinstance(value, list):
        return [_cut(item, levels - 1) for item in value] if levels > 0 else "<list>"
    return value
