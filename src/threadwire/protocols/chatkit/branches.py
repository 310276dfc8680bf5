"""The items of the blocks that a fork has hidden. They are kept as they are, because not everything that an item shows
is in its block: a card with its answer, or a widget that an event has shown, could not be rendered again."""

from typing import Any

from threadwire.core.entries import Json
from threadwire.core.timeline import Block
from threadwire.protocols.chatkit.items import Item, ItemList
from threadwire.protocols.chatkit.workflows import Workflows


class HiddenItems:
    def __init__(self, items: ItemList, workflows: Workflows) -> None:
        self._items = items
        self._workflows = workflows
        self._aside: dict[str, list[tuple[Item, dict[str, list[Any]]]]] = {}
        """Items and the tasks that they showed, by the ids of their blocks."""

    def follow(self, blocks: list[Block]) -> tuple[list[str], list[str]]:
        """Remove the items of blocks that are hidden, and then show those of blocks that no longer are: the items of
        two branches may have the same ids. Return the blocks of both kinds."""
        hidden = [block["id"] for block in blocks if "branchId" in block and block["id"] not in self._aside]
        returned = [block["id"] for block in blocks if "branchId" not in block and block["id"] in self._aside]
        for block_id in hidden:
            self._aside[block_id] = [self._take(item_id) for item_id in self._items.owned_by(block_id)]
        aside = [each for block_id in returned for each in self._aside.pop(block_id)]
        # As they were created: a block may have an item after those of the next block.
        for item, tasks in sorted(aside, key=lambda each: each[0].number):
            self._items.bring_back(item)
            self._workflows.bring_back(tasks)
        return hidden, returned

    def _take(self, item_id: str) -> tuple[Item, dict[str, list[Any]]]:
        return self._items.remove(item_id), self._workflows.forget(item_id)

    def forget(self, block_id: str) -> None:
        """A block was removed."""
        self._aside.pop(block_id, None)

    # -- snapshots ----------------------------------------------------------------------------------------------------

    def as_json(self) -> Json:
        return {block_id: [[item.as_json(), tasks] for item, tasks in aside] for block_id, aside in self._aside.items()}

    def restore(self, data: dict[str, Any]) -> None:
        self._aside = {
            block_id: [(Item.restored(item), tasks) for item, tasks in aside] for block_id, aside in data.items()
        }
