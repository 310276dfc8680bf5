"""Graphs' streams and the entries that are made of them."""

import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from threadwire.core.entries import Draft, Json, Kind, Namespace
from threadwire.core.fold import StateFold
from threadwire.core.json import dumps, native
from threadwire.graphs.execution import ALWAYS
from threadwire.graphs.normalize import Normalizer
from threadwire.graphs.persistence import CheckpointerConfig
from threadwire.graphs.registry import GraphRegistry
from threadwire.graphs.serializer import checkpoint_serializer

AT = 1_700_000_000_000
HELLO = {"messages": [{"role": "user", "content": "hello there", "id": "user-1"}]}


def normalizer(*asked: str) -> Normalizer:
    return Normalizer(frozenset(asked), {"thread_id": "t"})


class Recording:
    """A graph's stream as it came, and the entries made of each part, made the moment it came."""

    def __init__(self, *asked: str) -> None:
        self.normalizer = normalizer(*asked)
        self.entries: list[Draft] = []
        self.states: list[tuple[bytes, bytes]] = []
        """What each `values` part was, beside what the entries up to it add up to."""
        self.chunks: list[tuple[Json, Json]] = []
        self._folds: dict[Namespace, StateFold] = {}

    async def run(self, graph: Any, given: Any, config: dict[str, Any] | None = None) -> None:
        async for ns, mode, part in graph.astream(given, config, stream_mode=list(ALWAYS), subgraphs=True):
            drafts = self.normalizer.feed(ns, mode, part, AT)
            self.entries += drafts
            if mode == "values":
                [entry] = drafts
                fold = self._folds.setdefault(ns, StateFold())
                fold.apply(native(entry.data))
                self.states.append((dumps(part), fold.dumps()))
            if mode == "messages":
                self.chunks.append((native(part[0]), native(part[1])))

    async def run_of(self, registry: GraphRegistry, graph_id: str, given: Any) -> "Recording":
        async with registry.open(graph_id, {}) as graph:
            saver = InMemorySaver(serde=checkpoint_serializer(CheckpointerConfig()))
            saved = graph.copy(update={"checkpointer": saver})
            with suppress(ValueError):  # the one that `fails` raises
                await self.run(saved, given, {"configurable": {"thread_id": "t"}})
        return self

    def of(self, kind: Kind) -> list[Draft]:
        return [entry for entry in self.entries if entry.kind == kind]


def rebuilt(entries: Iterable[Draft]) -> list[tuple[Json, Json]]:
    """Every chunk and whole message with its metadata, by 6.1 - 6.3 alone."""
    known: dict[int, tuple[Json, Json]] = {}
    shown = []
    for entry in entries:
        data = native(entry.data)
        if isinstance(data, list):
            index, change = data[0], {"content": data[1]}
        elif "patch" in data:
            index, change = data["i"], data["patch"]
        else:
            index, change = data["i"], {}
            assert index == len(known), "messages are counted from 0"
            known[index] = data.get("chunk") or data["message"], data["meta"]
        message, meta = known[index]
        known[index] = {**message, **change}, meta
        shown.append(known[index])
    return shown


def exact(value: Any) -> str:
    """JSON in which 1 and true differ, but the order of keys does not matter."""
    return json.dumps(value, sort_keys=True)


def for_root(entry: Draft) -> bool:
    """Whether it tells at the root of a message that a subgraph streamed (6.4a)."""
    return isinstance(entry.data, dict) and entry.data.get("root", False)
