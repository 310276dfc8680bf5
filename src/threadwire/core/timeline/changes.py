"""The changes that an operation makes to a timeline, and how they are applied to a copy of it (spec/timeline.md,
section 12)."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from threadwire.core.entries import Json
from threadwire.core.state_fold import spliced
from threadwire.core.timeline.chunks import Message, merge_chunk

Block = dict[str, Any]
"""A block in the JSON form of spec/timeline.md, section 1. Its fields are replaced and never changed in place."""


@dataclass(frozen=True, slots=True)
class Insert:
    after: str | None
    block: Block

    def as_json(self) -> dict[str, Json]:
        return {"change": "insert", "after": self.after, "block": self.block}


@dataclass(frozen=True, slots=True)
class Update:
    """Fields of a block that have a new value, and fields that it no longer has."""

    block_id: str
    set: dict[str, Json]
    unset: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Json]:
        unset = {"unset": list(self.unset)} if self.unset else {}
        return {"change": "update", "id": self.block_id, "set": self.set, **unset}


class Append(NamedTuple):
    """More text of a message whose content is text. A tuple, because a run has one for every token, and creating a
    dataclass takes three times as long."""

    block_id: str
    text: str
    rev: int
    updated_at: int

    def as_json(self) -> dict[str, Json]:
        stamp = {"rev": self.rev, "updatedAt": self.updated_at}
        return {"change": "append", "id": self.block_id, "text": self.text, **stamp}


@dataclass(frozen=True, slots=True)
class Merge:
    """One more chunk of a message."""

    block_id: str
    chunk: Message
    rev: int
    updated_at: int

    def as_json(self) -> dict[str, Json]:
        stamp = {"rev": self.rev, "updatedAt": self.updated_at}
        return {"change": "merge", "id": self.block_id, "chunk": self.chunk, **stamp}


@dataclass(frozen=True, slots=True)
class Remove:
    block_id: str

    def as_json(self) -> dict[str, Json]:
        return {"change": "remove", "id": self.block_id}


@dataclass(frozen=True, slots=True)
class ReplaceValues:
    values: Json

    def as_json(self) -> dict[str, Json]:
        return {"change": "values", "values": self.values}


@dataclass(frozen=True, slots=True)
class PatchValues:
    """Keys of the values that changed, in the form of spec/log.md, 6.6."""

    set: dict[str, Json]
    unset: tuple[str, ...]
    splice: dict[str, Json]

    def as_json(self) -> dict[str, Json]:
        parts = {"set": self.set, "unset": list(self.unset), "splice": self.splice}
        return {"change": "values", **{name: part for name, part in parts.items() if part}}


@dataclass(frozen=True, slots=True)
class Reset:
    def as_json(self) -> dict[str, Json]:
        return {"change": "reset"}


Change = Insert | Update | Append | Merge | Remove | ReplaceValues | PatchValues | Reset


def patched(values: dict[str, Json], patch: PatchValues) -> dict[str, Json]:
    """The values with the patch applied. `values` itself is not changed."""
    values = {key: value for key, value in values.items() if key not in patch.unset}
    values.update(patch.set)
    for key, (at, drop, items) in patch.splice.items():
        values[key] = spliced(values[key], at, drop, items)
    return values


def append_text(block: Block, text: str) -> None:
    """Replace a message by one with more text."""
    message = block["message"] = dict(block["message"])
    content = message["content"]
    message["content"] = ""  # if nobody else refers to the text, Python extends it instead of copying it
    content += text
    message["content"] = content


class Copy:
    """A copy of a timeline, updated by applying its changes, as a client does."""

    def __init__(self, blocks: list[Block], values: Json) -> None:
        self.blocks = [dict(block) for block in blocks]
        self.values = values

    def apply(self, change: Change) -> None:
        match change:
            case Insert(after, block):
                at = 0 if after is None else self._index(after) + 1
                self.blocks.insert(at, dict(block))
            case Update(block_id, fields, unset):
                block = self.blocks[self._index(block_id)]
                block.update(fields)
                for field in unset:
                    del block[field]
            case Append(block_id, text, rev, updated_at):
                block = self.blocks[self._index(block_id)]
                append_text(block, text)
                block.update(rev=rev, updatedAt=updated_at)
            case Merge(block_id, chunk, rev, updated_at):
                block = self.blocks[self._index(block_id)]
                block.update(message=merge_chunk(block["message"], chunk), rev=rev, updatedAt=updated_at)
            case Remove(block_id):
                del self.blocks[self._index(block_id)]
            case ReplaceValues(values):
                self.values = values
            case PatchValues():
                self.values = patched(self.values, change)
            case Reset():
                self.blocks, self.values = [], {}

    def _index(self, block_id: str) -> int:
        return next(at for at, block in enumerate(self.blocks) if block["id"] == block_id)
