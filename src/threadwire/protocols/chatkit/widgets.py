"""Checks widgets before they are stored or sent, and finds what changed between two versions of a widget.

A widget stays the JSON that its author wrote, so that properties that this version does not know are kept. The checks
only find what would make clients reject the whole event.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from threadwire.core.entries import Json
from threadwire.core.json import dumps
from threadwire.protocols.chatkit.icons import UNKNOWN, known_icon
from threadwire.protocols.chatkit.wire import Object

ROOTS = ("Card", "ListView", "Basic")
MAX_BYTES = 256 * 1024
"""The maximum size of a widget, in bytes of JSON. It is part of every page that contains its item."""
_MAX_DEPTH = 50
_ICONS = ("iconStart", "iconEnd", "icon")
_STREAMING = ("Text", "Markdown")


class InvalidWidget(ValueError):
    """The message says what is wrong, and where."""


def is_widget(value: Json) -> bool:
    return isinstance(value, dict) and value.get("type") in ROOTS


def checked(widget: Json) -> Object:
    """Return the widget without null fields and with icons that clients know. Raises `InvalidWidget`."""
    if not is_widget(widget):
        raise InvalidWidget(f"a widget is an object whose type is one of {', '.join(ROOTS)}")
    found = _component(widget, widget["type"], 0)
    children = found.get("children")
    if found["type"] == "ListView":
        listed = children if isinstance(children, list) else [children]
        if not all(isinstance(child, dict) and child["type"] == "ListViewItem" for child in listed):
            raise InvalidWidget("ListView: every child must be a ListViewItem")
    if len(dumps(found)) > MAX_BYTES:
        raise InvalidWidget(f"larger than {MAX_BYTES} bytes of JSON")
    return found


def _component(value: Json, path: str, depth: int) -> Object:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise InvalidWidget(f"{path}: must be an object with a type")
    if depth > _MAX_DEPTH:
        raise InvalidWidget(f"{path}: nested more than {_MAX_DEPTH} levels deep")
    fields = {name: _without_nulls(field) for name, field in value.items() if field is not None}
    for name in ("id", "key"):
        if not isinstance(fields.get(name, ""), str):
            raise InvalidWidget(f"{path}.{name}: must be a string")
    for name in _ICONS:
        if name in fields:
            fields[name] = known_icon(fields[name], UNKNOWN)
    if fields["type"] == "Icon":
        fields["name"] = known_icon(fields.get("name"), UNKNOWN)
    if isinstance(status := fields.get("status"), dict) and "icon" in status:
        fields["status"] = {**status, "icon": known_icon(status["icon"], UNKNOWN)}
    if "children" in fields:
        fields["children"] = _children(fields["children"], path, depth)
    return fields


def _children(children: Json, path: str, depth: int) -> Json:
    if isinstance(children, list):
        return [_component(child, f"{path}[{at}]", depth + 1) for at, child in enumerate(children) if child is not None]
    return _component(children, f"{path}[0]", depth + 1)


def _without_nulls(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _without_nulls(field) for name, field in value.items() if field is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def fact_rows(facts: Iterable[tuple[str, Json]]) -> list[Object]:
    """Names and values as components, one row for each."""
    return [
        {
            "type": "Row",
            "gap": 2,
            "children": [
                {"type": "Caption", "value": name, "color": "secondary"},
                {"type": "Text", "value": shown_value(value), "size": "sm"},
            ],
        }
        for name, value in facts
    ]


def shown_value(value: Json) -> str:
    """A value as people read it: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else dumps(value).decode()


def components(widget: Json) -> Iterator[Object]:
    """The widget and everything in it, outer ones first."""
    if isinstance(widget, dict):
        yield widget
        children = widget.get("children")
        for child in children if isinstance(children, list) else [children]:
            yield from components(child)


def update_between(before: Object, after: Object) -> Object:
    """The smallest update of an open widget item: more text of one component, or the whole widget."""
    grown = _grown_text(before, after)
    if grown is None:
        return {"type": "widget.root.updated", "widget": after}
    component_id, delta, done = grown
    return {"type": "widget.streaming_text.value_delta", "component_id": component_id, "delta": delta, "done": done}


def _grown_text(before: Object, after: Object) -> tuple[str, str, bool] | None:
    """The component whose text has grown, the added text, and whether it is the last text of that component."""
    earlier = {each["id"]: each for each in components(before) if _streams(each)}
    for component in components(after):
        old = earlier.get(component.get("id", ""))
        if old is None or not _streams(component) or old["value"] == component["value"]:
            continue
        if not component["value"].startswith(old["value"]):
            return None
        delta = component["value"][len(old["value"]) :]
        if dumps(_with_value(before, component["id"], component["value"])) != dumps(after):
            return None
        return component["id"], delta, not component.get("streaming", False)
    return None


def _streams(component: Object) -> bool:
    return component.get("type") in _STREAMING and "id" in component and isinstance(component.get("value"), str)


def _with_value(widget: Any, component_id: str, value: str) -> Any:
    if isinstance(widget, list):
        return [_with_value(each, component_id, value) for each in widget]
    if not isinstance(widget, dict):
        return widget
    fields = {name: _with_value(field, component_id, value) for name, field in widget.items()}
    return {**fields, "value": value} if widget.get("id") == component_id else fields
