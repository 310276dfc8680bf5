"""A strict client: it validates every event against the real package's types, and applies them by the rules.

- an item is added before it is updated, and updated only while it is open;
- it is done once, and afterwards only replaced or removed;
- indexes of content, annotations and tasks are contiguous;
- no field is null.
"""

import json
import warnings
from copy import deepcopy
from typing import Any

from chatkit.types import ThreadItem, ThreadStreamEvent
from pydantic import TypeAdapter

EVENT: TypeAdapter[Any] = TypeAdapter(ThreadStreamEvent)
ITEM: TypeAdapter[Any] = TypeAdapter(ThreadItem)


def validate(adapter: TypeAdapter[Any], value: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the package warns about its own widget classes
        adapter.validate_python(value)


def events_of(body: bytes) -> list[dict[str, Any]]:
    """The events of a response, whose framing is exactly `data: <json>` and an empty line."""
    assert body == b"" or body.endswith(b"\n\n"), body[-100:]
    frames = body.split(b"\n\n")[:-1]
    assert all(frame.startswith(b"data: {") and b"\n" not in frame for frame in frames), frames
    return [json.loads(frame.removeprefix(b"data: ")) for frame in frames]


class StrictClient:
    """The items as a client has them. `known` is what it has loaded before the stream."""

    def __init__(self, known: list[dict[str, Any]] = ()) -> None:  # type: ignore[assignment]
        self.items: dict[str, dict[str, Any]] = {item["id"]: item for item in known}
        self.open: set[str] = set()
        self.others: list[dict[str, Any]] = []
        """Events that change no item."""

    def apply_all(self, events: list[dict[str, Any]]) -> "StrictClient":
        for event in events:
            self.apply(event)
        return self

    def apply(self, event: dict[str, Any]) -> None:
        validate(EVENT, event)
        require_no_null(event)
        event = deepcopy(event)  # updates change the items
        match event["type"]:
            case "thread.item.added":
                item = event["item"]
                assert item["id"] not in self.items, f"added twice: {item['id']}"
                self.items[item["id"]] = item
                self.open.add(item["id"])
            case "thread.item.updated":
                assert event["item_id"] in self.open, f"updated while not open: {event['item_id']}"
                self.update(self.items[event["item_id"]], event["update"])
            case "thread.item.done":
                item = event["item"]
                if item["id"] in self.items:
                    assert item["id"] in self.open, f"done twice: {item['id']}"
                    self.open.remove(item["id"])
                    self.require_same(self.items[item["id"]], item)
                self.items[item["id"]] = item
            case "thread.item.replaced":
                assert event["item"]["id"] in self.items, f"replaced while unknown: {event['item']['id']}"
                assert event["item"]["id"] not in self.open, f"replaced while open: {event['item']['id']}"
                self.items[event["item"]["id"]] = event["item"]
            case "thread.item.removed":
                assert event["item_id"] in self.items, f"removed while unknown: {event['item_id']}"
                del self.items[event["item_id"]]
                self.open.discard(event["item_id"])
            case _:
                self.others.append(event)

    def update(self, item: dict[str, Any], update: dict[str, Any]) -> None:
        match update["type"].split(".")[-1]:
            case "added" if "content" in update:
                assert update["content_index"] == len(item["content"])
                item["content"].append(update["content"])
            case "text_delta":
                assert update["delta"], "an empty delta"
                item["content"][update["content_index"]]["text"] += update["delta"]
            case "annotation_added":
                annotations = item["content"][update["content_index"]]["annotations"]
                assert update["annotation_index"] == len(annotations)
                annotations.append(update["annotation"])
            case "done":
                item["content"][update["content_index"]] = update["content"]
            case "added":
                assert update["task_index"] == len(item["workflow"]["tasks"])
                item["workflow"]["tasks"].append(update["task"])
            case "updated" if "task" in update:
                item["workflow"]["tasks"][update["task_index"]] = update["task"]
            case "updated" if "widget" in update:
                item["widget"] = update["widget"]
            case "updated" if "image" in update:
                item["image"] = update["image"]
            case "value_delta":
                component = next(
                    each for each in components(item["widget"]) if each.get("id") == update["component_id"]
                )
                component["value"] += update["delta"]
            case other:
                raise AssertionError(f"unknown update: {other}")

    @staticmethod
    def require_same(streamed: dict[str, Any], done: dict[str, Any]) -> None:
        """The streamed content of a message or widget equals that of the finished item. Other fields may differ."""
        if done["type"] == "assistant_message":
            assert streamed["content"] == done["content"]
        if done["type"] == "widget":
            assert streamed["widget"] == done["widget"]


def components(widget: Any) -> Any:
    if isinstance(widget, dict):
        yield widget
        children = widget.get("children")
        for child in children if isinstance(children, list) else [children]:
            yield from components(child)


def require_no_null(value: Any, path: str = "") -> None:
    assert value is not None, f"null at {path}"
    if isinstance(value, dict):
        for key, each in value.items():
            if key not in ("data", "arguments", "output", "payload", "props"):  # values of the application
                require_no_null(each, f"{path}.{key}")
    elif isinstance(value, list):
        for each in value:
            require_no_null(each, f"{path}[]")
