"""A timeline while it is folded: its blocks in order, and whatever else the rules need. It is only changed through a
few methods, each of which records its change. Indexes over the blocks (what is open, what waits for a message, which
blocks a run created) are rebuilt when a snapshot is restored.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from threadwire.core.entries import Json, Namespace
from threadwire.core.json import dumps
from threadwire.core.timeline.changes import (
    Append,
    Block,
    Change,
    Insert,
    Merge,
    PatchValues,
    Remove,
    ReplaceValues,
    Reset,
    Update,
    append_text,
    patched,
)
from threadwire.core.timeline.chunks import Message, is_text, merge_chunk
from threadwire.core.timeline.operations import Stamp
from threadwire.core.timeline.order import Order


@dataclass(frozen=True, slots=True)
class TimelineOptions:
    partial_display: Literal["append", "hold"] = "append"
    messages_key: str = "messages"
    ui_key: str = "ui"


@dataclass(slots=True)
class Run:
    """A run that has not ended."""

    attempt: int = 1
    answered: bool = False
    """Whether it carried an answer to an interrupt."""
    forked: bool = False
    """Whether it started from a checkpoint that was named."""
    left: str | None = None
    """The branch that it left."""
    forked_at: int = 0
    """The position of its first fork to another branch; 0 if there is none."""
    unhidden: dict[str, str] = field(default_factory=dict)
    """The blocks that its forks have shown again, and the branches that they were on."""
    has_state: bool = False
    """Whether its current attempt has written a root state."""
    has_messages: bool = False
    """Whether a root state of the run had a list of messages."""
    blocks: dict[str, None] = field(default_factory=dict)
    """The blocks that it created."""
    completed: dict[str, None] = field(default_factory=dict)
    """The interrupts that it completed."""


@dataclass(slots=True)
class View:
    """The ids in the lists of a namespace's state. An element without an id is None, and so is a list that does not
    exist."""

    messages: list[str | None] | None = None
    ui: list[str | None] | None = None


class TimelineState:
    """The blocks and values of a thread. Methods that change something record it in `changes`."""

    def __init__(self, options: TimelineOptions) -> None:
        self.options = options
        self.changes: list[Change] = []
        self.stamp = Stamp()
        self._clear()

    def _clear(self) -> None:
        self.blocks: dict[str, Block] = {}
        self.order = Order()
        self.values: Json = {}
        self.views: dict[Namespace, View] = {}
        self.runs: dict[str | None, Run] = {}
        self.forks: list[tuple[int, int]] = []
        """The position of each fork, and that of the checkpoint that it starts from."""
        self.metas: dict[str, dict[str, Json]] = {}
        """Metadata of messages that have not arrived yet."""
        self.deferred: dict[str, Message] = {}
        """Messages of a root state that are behind their stream (6.2a)."""
        self.held: dict[str, None] = {}
        """Blocks that have left the root state, but may return with the rest of their step (6.3b)."""
        self.waiting: dict[str, list[str]] = {}
        """The ui blocks that wait for a message, by its id."""
        self.open: dict[str, None] = {}
        """The interrupt blocks that are not completed, in the order of their creation."""
        self.generations: dict[str, int] = {}
        self.root_messages: dict[str, int] = {}
        """How often each id is in the last list of messages of the root."""
        self.root_ui: dict[str, int] = {}

    # -- reading ------------------------------------------------------------------------------------------------------

    @property
    def run(self) -> Run:
        """The run of the current operation."""
        return self.runs.setdefault(self.stamp.run_id, Run())

    def in_order(self) -> Iterator[Block]:
        return (self.blocks[block_id] for block_id in self.order.forwards(self.order.first))

    def message(self, message_id: str) -> Block | None:
        """The block of a message, unless a fork has hidden it: then it is another branch's."""
        return self._shown(f"m:{message_id}")

    def widget(self, ui_id: Json) -> Block | None:
        return self._shown(f"u:{ui_id}")

    def is_shown(self, block_id: str) -> bool:
        return self._shown(block_id) is not None

    def _shown(self, block_id: str) -> Block | None:
        block = self.blocks.get(block_id)
        return None if block is None or "branchId" in block else block

    def last_message(self, ns: Namespace | None = None) -> Block | None:
        """The last message block that is not hidden, of a namespace if one is given."""
        wanted = None if ns is None else list(ns)
        for block_id in self.order.backwards(self.order.last):
            block = self.blocks[block_id]
            if block["kind"] == "message" and "branchId" not in block and (wanted is None or block["ns"] == wanted):
                return block
        return None

    def group_end(self, block_id: str) -> str:
        """The last block of the block's group (7.6)."""
        group = {block_id}
        end = block_id
        for following in self.order.forwards(block_id):
            if following != block_id:
                if self.blocks[following].get("anchorId") not in group:
                    break
                group.add(following)
                end = following
        return end

    # -- changing -----------------------------------------------------------------------------------------------------

    def insert(self, block_id: str, kind: str, fields: dict[str, Json], after: str | None) -> Block:
        """Place a new block after `after`, or before all others if that is None."""
        stamp = self.stamp
        block: Block = {"id": block_id, "kind": kind, "seq": stamp.seq, "receivedAt": stamp.at}
        block |= {"updatedAt": stamp.at, "rev": 1, "ns": list(stamp.ns)}
        if stamp.run_id is not None:
            block["runId"] = stamp.run_id
        block |= fields
        self.blocks[block_id] = block
        self.order.insert(block_id, after)
        self._index(block)
        self.changes.append(Insert(after, dict(block)))
        return block

    def update(self, block: Block, fields: dict[str, Json], unset: Iterable[str] = ()) -> None:
        """Set and remove fields of a block. Nothing is recorded if that makes no difference."""
        changed = {key: value for key, value in fields.items() if key not in block or not same_json(block[key], value)}
        gone = tuple(key for key in unset if key in block)
        if not changed and not gone:
            return
        changed |= self._next_revision(block)
        block.update(changed)
        for key in gone:
            del block[key]
        self._index(block)
        self.changes.append(Update(block["id"], changed, gone))

    def merge(self, block: Block, chunk: Message) -> None:
        """Merge a chunk into a message."""
        if is_text(chunk) and isinstance(block["message"].get("content"), str):
            self.append(block, chunk["content"])
            return
        block |= self._next_revision(block)
        block["message"] = merge_chunk(block["message"], chunk)
        self.changes.append(Merge(block["id"], chunk, block["rev"], block["updatedAt"]))

    def append(self, block: Block, text: str) -> None:
        """Append to a message whose content is text."""
        if text:
            self.changes.append(appended(block, text, self.stamp.at))

    def remove(self, block_id: str) -> None:
        block = self.blocks.pop(block_id, None)
        if block is None:
            return
        self.order.remove(block_id)
        self.held.pop(block_id, None)
        if block["kind"] == "interrupt":
            self.open.pop(block_id, None)
            self.generations[block["interruptId"]] -= 1  # only the newest one is ever removed
        self.stop_waiting(block)
        for run in self.runs.values():
            run.blocks.pop(block_id, None)
            run.completed.pop(block_id, None)
        self.changes.append(Remove(block_id))

    def stop_waiting(self, block: Block) -> None:
        if pending := block.get("pendingAnchor"):
            self.waiting[pending].remove(block["id"])

    def remove_shown(self, block_id: str) -> None:
        """Remove a block, unless a fork has hidden it."""
        if self.is_shown(block_id):
            self.remove(block_id)

    def remove_hidden(self, block_id: str) -> None:
        """Remove a block that a fork has hidden, because the path that is shown gets one with the same id."""
        if not self.is_shown(block_id):
            self.remove(block_id)

    def replace_values(self, values: Json) -> None:
        if not same_json(self.values, values):
            self.values = values
            self.changes.append(ReplaceValues(values))

    def patch_values(self, patch: PatchValues) -> None:
        if patch.set or patch.unset or patch.splice:
            self.values = patched(self.values, patch)
            self.changes.append(patch)

    def reset(self) -> None:
        self._clear()
        self.changes.append(Reset())

    def _next_revision(self, block: Block) -> dict[str, Json]:
        return {"rev": block["rev"] + 1, "updatedAt": self.stamp.at}

    # -- indexes ------------------------------------------------------------------------------------------------------

    def _index(self, block: Block) -> None:
        """Update the indexes for a block that is new or has changed."""
        block_id = block["id"]
        run = self.runs.get(block.get("runId"))
        if run is not None:
            run.blocks[block_id] = None
        if block["kind"] == "interrupt":
            self._index_interrupt(block)
        elif pending := block.get("pendingAnchor"):
            waiting = self.waiting.setdefault(pending, [])
            if block_id not in waiting:
                waiting.append(block_id)

    def _index_interrupt(self, block: Block) -> None:
        block_id, interrupt_id = block["id"], block["interruptId"]
        _, _, generation = block_id.removeprefix(f"i:{interrupt_id}").partition("#")
        self.generations[interrupt_id] = max(self.generations.get(interrupt_id, 0), int(generation or 1))
        if not block["completed"]:
            self.open[block_id] = None
            return
        self.open.pop(block_id, None)
        if "completedRunId" in block and (run := self.runs.get(block["completedRunId"])) is not None:
            run.completed[block_id] = None

    # -- snapshots ----------------------------------------------------------------------------------------------------

    def as_json(self) -> dict[str, Json]:
        """Everything that `restore` needs, except the blocks and the values."""
        return {
            "views": [[list(ns), {"messages": view.messages, "ui": view.ui}] for ns, view in self.views.items()],
            "runs": [_run_as_json(run_id, run) for run_id, run in self.runs.items()],
            "open": list(self.open),
            "metas": self.metas,
            "deferred": self.deferred,
            "held": list(self.held),
            "forks": self.forks,
        }

    def restore(self, data: dict[str, Any], blocks: list[Block], values: Json) -> None:
        self._clear()
        self.values = values
        self.metas, self.deferred = dict(data["metas"]), dict(data["deferred"])
        self.held = dict.fromkeys(data["held"])
        self.forks = [(at, base) for at, base in data["forks"]]
        self.views = {tuple(ns): View(lists["messages"], lists["ui"]) for ns, lists in data["views"]}
        self.count_root()
        for block in blocks:
            self.blocks[block["id"]] = dict(block)
            self.order.insert(block["id"], self.order.last)
            self._index(block)
        self.open = dict.fromkeys(data["open"])
        for run in data["runs"]:
            created, completed = dict.fromkeys(run["blocks"]), dict.fromkeys(run["completed"])
            unhidden = dict(run["unhidden"])
            fork = (run["forked"], run["left"], run["forkedAt"], unhidden)
            flags = (run["hasState"], run["hasMessages"])
            self.runs[run["id"]] = Run(run["attempt"], run["answered"], *fork, *flags, created, completed)

    def count_root(self) -> None:
        view = self.views.get((), View())
        self.root_messages = _counted(view.messages)
        self.root_ui = _counted(view.ui)


def appended(block: Block, text: str, at: int) -> Append:
    """Append to a message whose content is text, and return the change."""
    revision = block["rev"] = block["rev"] + 1
    block["updatedAt"] = at
    append_text(block, text)
    return Append(block["id"], text, revision, at)


def same_json(left: Json, right: Json) -> bool:
    """Whether two JSON values are the same; unlike in Python, true is not 1."""
    if left is right or left != right:
        return left is right
    return type(left) is str or dumps(left) == dumps(right) or _same_types(left, right)


def _same_types(left: Json, right: Json) -> bool:
    if isinstance(left, dict):
        return all(_same_types(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        return all(map(_same_types, left, right))
    return isinstance(left, bool) is isinstance(right, bool)


def _run_as_json(run_id: str | None, run: Run) -> dict[str, Json]:
    return {
        "id": run_id,
        "attempt": run.attempt,
        "answered": run.answered,
        "forked": run.forked,
        "left": run.left,
        "forkedAt": run.forked_at,
        "unhidden": run.unhidden,
        "hasState": run.has_state,
        "hasMessages": run.has_messages,
        "blocks": list(run.blocks),
        "completed": list(run.completed),
    }


def _counted(ids: list[str | None] | None) -> dict[str, int]:
    counted: dict[str, int] = {}
    for each in ids or ():
        if each is not None:
            counted[each] = counted.get(each, 0) + 1
    return counted
