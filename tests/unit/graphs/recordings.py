"""Record the streams of graphs and the entries they are normalized to."""

import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from threadwire.core.entries import Draft, Json, Kind, Namespace
from threadwire.core.json import dumps, native
from threadwire.core.state_fold import JsonState
from threadwire.graphs.execution import RECORDED_MODES
from threadwire.graphs.persistence_config import CheckpointerConfig
from threadwire.graphs.registry import GraphRegistry
from threadwire.graphs.serializer import checkpoint_serializer
from threadwire.graphs.stream_normalizer import Normalizer

AT = 1_700_000_000_000
HELLO = {"messages": [{"role": "user", "content": "hello there", "id": "user-1"}]}


def normalizer(*requested: str) -> Normalizer:
    return Normalizer(frozenset(requested), {"thread_id": "t"})


class Recording:
    """A graph's stream and its entries. Each part is normalized as soon as it arrives."""

    def __init__(self, *requested: str) -> None:
        self.normalizer = normalizer(*requested)
        self.entries: list[Draft] = []
        self.states: list[tuple[bytes, bytes]] = []
        """Each `values` part, and the state folded from the entries up to it."""
        self.chunks: list[tuple[Json, Json]] = []
        self._folds: dict[Namespace, JsonState] = {}

    async def run(self, graph: Any, graph_input: Any, config: dict[str, Any] | None = None) -> None:
        async for ns, mode, part in graph.astream(
            graph_input, config, stream_mode=list(RECORDED_MODES), subgraphs=True
        ):
            drafts = self.normalizer.feed(ns, mode, part, AT)
            self.entries += drafts
            if mode == "values":
                [entry] = drafts
                fold = self._folds.setdefault(ns, JsonState())
                fold.apply(native(entry.data))
                self.states.append((dumps(part), fold.dumps()))
            if mode == "messages":
                self.chunks.append((native(part[0]), native(part[1])))

    async def run_graph(self, registry: GraphRegistry, graph_id: str, graph_input: Any) -> "Recording":
        async with registry.open(graph_id, {}) as graph:
            saver = InMemorySaver(serde=checkpoint_serializer(CheckpointerConfig()))
            bound = graph.copy(update={"checkpointer": saver})
            with suppress(ValueError):  # raised by the graph `fails`
                await self.run(bound, graph_input, {"configurable": {"thread_id": "t"}})
        return self

    def of(self, kind: Kind) -> list[Draft]:
        return [entry for entry in self.entries if entry.kind == kind]


def rebuilt(entries: Iterable[Draft]) -> list[tuple[Json, Json]]:
    """Rebuild every chunk and whole message with its metadata, using only 6.1 - 6.3."""
    known: dict[int, tuple[Json, Json]] = {}
    messages = []
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
        messages.append(known[index])
    return messages


def exact(value: Any) -> str:
    """JSON that distinguishes 1 from true but not the order of keys."""
    return json.dumps(value, sort_keys=True)


def is_root_copy(entry: Draft) -> bool:
    """Whether the entry repeats, at the root, a message that a subgraph streamed (6.4a)."""
    return isinstance(entry.data, dict) and entry.data.get("root", False)
