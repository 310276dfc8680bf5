"""What an operation changed in a timeline, and how a copy of the timeline follows it (spec/timeline.md, section 12)."""

from dataclasses import dataclass
from typing import Any

from threadwire.core.entries import Json
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
    """Fields of a block that have another value now, and fields that it no longer has."""

    block_id: str
    set: dict[str, Json]
    unset: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Json]:
        unset = {"unset": list(self.unset)} if self.unset else {}
        return {"change": "update", "id": self.block_id, "set": self.set, **unset}


@dataclass(frozen=True, slots=True)
class Append:
    """More text of a message whose content is text."""

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
    """The values with the patch applied; the argument stays as it is."""
    values = {key: value for key, value in values.items() if key not in patch.unset}
    values.update(patch.set)
    for key, (at, drop, items) in patch.splice.items():
        values[key] = [*values[key][:at], *items, *values[key][at + drop :]]
    return values


def appended(message: Message, text: str) -> Message:
    return {**message, "content": message["content"] + text}


class Copy:
    """A timeline that follows another by its changes, as a client's does."""

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
                block.update(message=appended(block["message"], text), rev=rev, updatedAt=updated_at)
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
