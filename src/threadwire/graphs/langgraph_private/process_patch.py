"""Names of LangGraph that are replaced in the whole process."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from threadwire.graphs.langgraph_private.fallbacks import report_fallback

_MISSING = object()


class ProcessPatch:
    """Replacements that belong together: all of them are made, or none.

    `replacements` maps a name, such as "langgraph.pregel.main:Class.method", to a function from the original to its
    replacement. If LangGraph lacks one of the names, nothing is replaced, and `effect` is logged.
    """

    def __init__(self, piece: str, effect: str, replacements: Mapping[str, Callable[[Any], Any]]) -> None:
        self.piece = piece
        self.names = tuple(replacements)
        self._effect = effect
        self._replacements = dict(replacements)
        self._undo: list[tuple[Any, str, Any]] = []

    @property
    def applied(self) -> bool:
        return bool(self._undo)

    def apply(self) -> None:
        """Make the replacements. Idempotent; never raises."""
        if self.applied:
            return
        try:
            prepared = [(*locate(name), make) for name, make in self._replacements.items()]
            made = [(owner, attribute, make(getattr(owner, attribute))) for owner, attribute, make in prepared]
        except Exception as error:  # a private module may fail in any way once it has changed
            report_fallback(self.piece, reason=str(error) or repr(error), effect=self._effect)
            return
        for owner, attribute, replacement in made:
            self._undo.append((owner, attribute, vars(owner).get(attribute, _MISSING)))
            setattr(owner, attribute, replacement)

    def undo(self) -> None:
        """Restore the originals."""
        while self._undo:
            owner, attribute, original = self._undo.pop()
            if original is _MISSING:  # it was inherited
                delattr(owner, attribute)
            else:
                setattr(owner, attribute, original)


def locate(name: str) -> tuple[Any, str]:
    """Return the module or class that has the name, and the attribute. Raise if LangGraph lacks it."""
    module, _, path = name.partition(":")
    owner: Any = importlib.import_module(module)
    *parents, attribute = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    getattr(owner, attribute)
    return owner, attribute
