"""What is open at a position of a run: parts of messages, steps, subgraphs.

Protocols announce the start and the end of each. Nothing may be open when a run ends, and a client that joins in the
middle must receive the start of everything that is open.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from threadwire.core.entries import Namespace
from threadwire.core.namespaces import is_below_task

PartKind = Literal["text", "call", "reasoning", "step", "subgraph"]
Key = tuple[PartKind, str]

_CLOSING_ORDER: tuple[PartKind, ...] = ("text", "call", "reasoning", "step", "subgraph")


@dataclass(slots=True, eq=False)
class Part:
    kind: PartKind
    id: str
    """The message's id for text and reasoning, the call's own id, or a path for steps and subgraphs."""
    ns: Namespace
    name: str | None = None
    message_id: str | None = None
    """For a call, the message that contains it."""
    task: str | None = None
    """The task that opened the part. The part is closed when the task ends, or before."""
    is_open: bool = field(default=False, init=False)
    holders: int = field(default=1, init=False)
    """Concurrent tasks with the same name are one step."""

    @property
    def key(self) -> Key:
        return self.kind, self.id


class PartStarted(NamedTuple):
    part: Part


class PartDelta(NamedTuple):
    """More of a part: text, reasoning, or a call's arguments."""

    part: Part
    text: str


class PartEnded(NamedTuple):
    part: Part


PartChange = PartStarted | PartDelta | PartEnded


class OpenParts:
    """The open parts of an attempt. Methods that open or close parts return what they changed."""

    def __init__(self) -> None:
        self._open: dict[Key, Part] = {}
        self._entered: set[Namespace] = set()

    def __iter__(self) -> Iterator[Part]:
        """All open parts, in the order in which they were opened."""
        return iter(self._open.values())

    def get(self, key: Key) -> Part | None:
        return self._open.get(key)

    def open(self, part: Part) -> PartStarted:
        self._open[part.key] = part
        part.is_open = True
        return PartStarted(part)

    def close(self, key: Key) -> list[PartChange]:
        """Close a part if it is open."""
        part = self._open.pop(key, None)
        if part is None:
            return []
        part.is_open = False
        return [PartEnded(part)]

    def close_all(self) -> list[PartChange]:
        """Close everything, at the end of an attempt. Subgraphs that the next attempt enters start again."""
        self._entered.clear()
        return self._close_where(lambda part: True)

    def _close_where(self, matches: Callable[[Part], bool]) -> list[PartChange]:
        """Close the parts that match, inner ones first."""
        parts = [part for part in self if matches(part)]
        parts.sort(key=lambda part: (_CLOSING_ORDER.index(part.kind), -len(part.ns)))
        return [change for part in parts for change in self.close(part.key)]

    # -- subgraphs and steps -------------------------------------------------------------------------------------

    def enter(self, ns: Namespace) -> list[PartChange]:
        """Open the subgraph of a namespace, and those around it: a subgraph starts with its first entry."""
        changes: list[PartChange] = []
        for depth in range(1, len(ns) + 1):
            inner = ns[:depth]
            if inner not in self._entered:
                self._entered.add(inner)
                name = inner[-1].partition(":")[0]
                changes.append(self.open(Part("subgraph", "|".join(inner), inner, name)))
        return changes

    def task(self, ns: Namespace, data: dict[str, Any]) -> list[PartChange]:
        """Apply a `task` entry. A task is a step; its end also closes whatever it and its subgraphs left open."""
        name, task_id = str(data["name"]), str(data["id"])
        step = Part("step", f"{'|'.join(ns)}/{name}", ns, name)
        if data.get("ended"):
            return self._close_task(ns, task_id) + self._release(step.key)
        if name.startswith("__"):  # LangGraph's own
            return []
        if (known := self._open.get(step.key)) is not None:
            known.holders += 1
            return []
        return [self.open(step)]

    def _close_task(self, ns: Namespace, task_id: str) -> list[PartChange]:
        return self._close_where(
            lambda part: (part.kind != "subgraph" and part.task == task_id) or is_below_task(part.ns, ns, task_id)
        )

    def _release(self, key: Key) -> list[PartChange]:
        """Drop one holder, and close the part if it was the last."""
        if (part := self._open.get(key)) is None:
            return []
        part.holders -= 1
        return [] if part.holders else self.close(key)
