"""The items of a thread in the order in which clients receive them, and the events for their changes.

An item is *open* from `thread.item.added` to `thread.item.done`. While it is open it changes by updates; afterwards it
can only be replaced or removed.
"""

from collections.abc import Iterator
from typing import Any, Self

from threadwire.core.entries import Json
from threadwire.core.json import dumps
from threadwire.protocols.chatkit import wire
from threadwire.protocols.chatkit.wire import Object

HIDDEN = "hidden_context_item"
"""The type of items that no client receives."""


class Item:
    __slots__ = ("delta_prefix", "is_open", "json", "number", "owner", "run_id")

    def __init__(self, json: Object, owner: str | None, run_id: str | None, number: int, *, is_open: bool) -> None:
        self.json = json
        self.owner = owner
        """The block of the timeline that the item belongs to. The item is removed together with the block."""
        self.run_id = run_id
        self.number = number
        """How many items were created before it."""
        self.is_open = is_open
        self.delta_prefix = wire.text_delta_prefix(json["id"])

    def append_text(self, text: str) -> bytes:
        """Append to the text of an open assistant message, and return the event."""
        part = self.json["content"][0]
        shown = part["text"]
        part["text"] = ""  # if nothing else refers to the text, Python extends it instead of copying it
        shown += text
        part["text"] = shown
        return self.delta_prefix + dumps(text) + b"}}"

    @property
    def is_hidden(self) -> bool:
        return bool(self.json["type"] == HIDDEN)

    def as_json(self) -> list[Json]:
        return [self.json, self.owner, self.run_id, self.number, self.is_open]

    @classmethod
    def restored(cls, data: list[Any]) -> Self:
        *fields, is_open = data
        return cls(*fields, is_open=is_open)


class ItemList:
    """All items. Methods that change one append its event to `events`."""

    def __init__(self, thread_id: str) -> None:
        self._thread_id = thread_id
        self._items: dict[str, Item] = {}
        self._created = 0
        self.events: list[bytes] = []
        self.run_id: str | None = None
        """The run of the current entry."""
        self.at = 0
        """The timestamp of the current entry."""

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items.values())

    def get(self, item_id: str) -> Item | None:
        return self._items.get(item_id)

    def shown(self) -> list[Object]:
        """The items that clients receive, in order."""
        return [item.json for item in self if not item.is_hidden]

    def owned_by(self, block_id: str) -> list[str]:
        return [item_id for item_id, item in self._items.items() if item.owner == block_id]

    # -- changes ------------------------------------------------------------------------------------------------------

    def add(self, item_id: str, kind: str, fields: Object, owner: str | None = None) -> Item:
        """Show an item that is going to change."""
        item = self._create(item_id, kind, fields, owner, is_open=True)
        self.events.append(wire.item_added(item.json))
        return item

    def put(self, item_id: str, kind: str, fields: Object, owner: str | None = None, at: int | None = None) -> None:
        """Show a complete item, or set these fields of an existing one."""
        if (known := self._items.get(item_id)) is not None:
            self._change(known, fields)
            return
        item = self._create(item_id, kind, fields, owner, is_open=False, at=at)
        if not item.is_hidden:
            self.events.append(wire.item_done(item.json))

    def _create(
        self, item_id: str, kind: str, fields: Object, owner: str | None, *, is_open: bool, at: int | None = None
    ) -> Item:
        created = wire.timestamp(self.at if at is None else at)
        json = {"id": item_id, "thread_id": self._thread_id, "created_at": created, "type": kind, **fields}
        item = self._items[item_id] = Item(json, owner, self.run_id, self._created, is_open=is_open)
        self._created += 1
        return item

    def _change(self, item: Item, fields: Object) -> None:
        changed = {**item.json, **fields}
        if item.is_open:
            item.json = changed
            self.close(item)
        elif dumps(changed) != dumps(item.json):
            item.json = changed
            if not item.is_hidden:
                self.events.append(wire.item_replaced(changed))

    def update(self, item: Item, update: Object, fields: Object) -> None:
        """Set these fields of an item. A client that has it open receives only the update."""
        if not item.is_open:
            self._change(item, fields)
            return
        item.json = {**item.json, **fields}
        self.events.append(wire.item_updated(item.json["id"], update))

    def append_text(self, item: Item, text: str) -> None:
        """Append to the text of an open assistant message."""
        self.events.append(item.append_text(text))

    def close(self, item: Item) -> None:
        if item.is_open:
            item.is_open = False
            self.events.append(wire.item_done(item.json))

    def remove(self, item_id: str) -> Item:
        item = self._items.pop(item_id)
        if not item.is_hidden:
            self.events.append(wire.item_removed(item_id))
        return item

    def bring_back(self, item: Item) -> None:
        """Show an item that was removed, at the end."""
        item.is_open = False
        self._items[item.json["id"]] = item
        if not item.is_hidden:
            self.events.append(wire.item_done(item.json))

    # -- snapshots ----------------------------------------------------------------------------------------------------

    def as_json(self) -> Json:
        return {"items": [item.as_json() for item in self], "created": self._created}

    def restore(self, data: dict[str, Any]) -> None:
        self._items = {item.json["id"]: item for item in map(Item.restored, data["items"])}
        self._created = data["created"]
