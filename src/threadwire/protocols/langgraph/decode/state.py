"""Request bodies for reading and updating a thread's state and history."""

from typing import Any

from pydantic import Field

from threadwire.core.bounded_list import BoundedList
from threadwire.errors import Invalid
from threadwire.protocols.langgraph.decode.body import MAX_PAGE, Flag, Integer, Object, OptionalObject, RequestBody


class StateUpdate(RequestBody):
    values: Any = None
    as_node: str | None = None
    checkpoint: Object | None = None
    checkpoint_id: str | None = None

    def at(self) -> Object | None:
        return checkpoint_at(self.checkpoint, self.checkpoint_id)


class StateAtCheckpoint(RequestBody):
    checkpoint: Object
    subgraphs: Flag = False
    select: BoundedList[str] | None = None


class HistoryBody(RequestBody):
    limit: Integer = Field(default=10, ge=1, le=MAX_PAGE)
    before: str | Object | None = None
    metadata: OptionalObject = Field(default_factory=dict)
    checkpoint: Object | None = None
    select: BoundedList[str] | None = None

    def before_checkpoint(self) -> Object | None:
        """The checkpoint of `before`, which is a checkpoint id, a checkpoint, or a config that contains one."""
        if self.before is None:
            return None
        if isinstance(self.before, str):
            return {"checkpoint_id": self.before}
        inner = self.before.get("configurable", self.before)
        if not isinstance(inner, dict):
            raise Invalid("before: configurable must be an object")
        return checkpoint_at(inner, None)


def checkpoint_at(checkpoint: Object | None, checkpoint_id: str | None) -> Object | None:
    """The keys that identify a checkpoint; None if there are none. Their values must be strings, or an object for the
    map. An empty id counts as missing."""
    at = {key: value for key, value in (checkpoint or {}).items() if key in CHECKPOINT_KEYS and value is not None}
    if checkpoint_id is not None:
        at["checkpoint_id"] = checkpoint_id
    if at.get("checkpoint_id") == "":
        del at["checkpoint_id"]
    for key, value in at.items():
        if not isinstance(value, dict if key == "checkpoint_map" else str):
            raise Invalid(f"{key} must be {'an object' if key == 'checkpoint_map' else 'a string'}")
    return at or None


STATE_FIELDS = frozenset(
    {
        "values",
        "next",
        "tasks",
        "checkpoint",
        "metadata",
        "created_at",
        "parent_checkpoint",
        "interrupts",
        "checkpoint_id",
        "parent_checkpoint_id",
    }
)


def decode_state_fields(select: list[str] | None) -> frozenset[str] | None:
    """The selected fields of a state, or `values.<key>` for one value; None for all fields."""
    for each in select or ():
        if each not in STATE_FIELDS and not each.startswith(VALUE):
            raise Invalid(f"select: {each[:60]!r} is neither values.<key> nor one of {', '.join(sorted(STATE_FIELDS))}")
    return frozenset(select or ()) or None


VALUE = "values."
CHECKPOINT_KEYS = frozenset({"checkpoint_id", "checkpoint_ns", "checkpoint_map"})
