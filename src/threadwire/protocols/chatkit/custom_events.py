"""What a graph writes to its custom stream: progress, notices, effects, widgets, tasks, images, annotations, titles.

The form of a custom event is not trusted: an incomplete event is ignored. An event of an unknown type can be passed on
to the page as an effect.
"""

from typing import Literal, NamedTuple

from threadwire.core.entries import Json
from threadwire.protocols.chatkit import wire
from threadwire.protocols.chatkit.contents import annotation
from threadwire.protocols.chatkit.icons import known_icon
from threadwire.protocols.chatkit.widgets import InvalidWidget, checked
from threadwire.protocols.chatkit.wire import Object, without_none

LEVELS = ("info", "warning", "danger")
UNKNOWN_EFFECT = "langgraph.custom"


class Shown(NamedTuple):
    """What a custom event does."""

    events: tuple[bytes, ...] = ()
    """Events that change no item."""
    widget: tuple[str | None, Object, str | None, bool] | None = None
    """The id of a widget, if it has one, the widget, the text to copy, and whether it is going to change."""
    removed: str | None = None
    """The id of a widget that is removed."""
    task: tuple[str, Object] | None = None
    image: tuple[str, str | None, float | None, bool] | None = None
    """The id, the URL and the progress of an image, and whether it is complete."""
    annotation: Object | None = None
    title: str | None = None


def shown_by(value: Json, *, unknown_as_effects: bool) -> Shown:
    if not isinstance(value, dict):
        return _unknown(value, unknown_as_effects)
    match value.get("type"):
        case "progress" if isinstance(text := value.get("text"), str):
            return Shown((wire.progress_update(text, known_icon(value.get("icon"))),))
        case "notice" if isinstance(message := value.get("message"), str):
            level = value.get("level") if value.get("level") in LEVELS else "info"
            return Shown((wire.notice(str(level), message, _text(value.get("title"))),))
        case "effect" if isinstance(name := value.get("name"), str):
            data = value.get("data")
            return Shown((wire.client_effect(name, data if isinstance(data, dict) else {}),))
        case "widget" if "widget" in value:
            return _widget(value)
        case "remove_widget" if isinstance(widget_id := value.get("id"), str):
            return Shown(removed=widget_id)
        case "task" if isinstance(task_id := value.get("id"), str):
            return Shown(task=(task_id, _task(value)))
        case "image" if isinstance(image_id := value.get("id"), str):
            return _image(image_id, value)
        case "annotation" if (found := annotation(value)) is not None:
            return Shown(annotation=found)
        case "title" if isinstance(title := value.get("title"), str) and title.strip():
            return Shown(title=title.strip()[:200])
        case _:
            return _unknown(value, unknown_as_effects)


def _unknown(value: Json, as_effects: bool) -> Shown:
    return Shown((wire.client_effect(UNKNOWN_EFFECT, {"value": value}),) if as_effects else ())


def _widget(value: Object) -> Shown:
    try:
        widget = checked(value["widget"])
    except InvalidWidget as error:
        return Shown((invalid_widget(error),))
    return Shown(widget=(_text(value.get("id")), widget, _text(value.get("copy_text")), value.get("streaming") is True))


def invalid_widget(error: InvalidWidget) -> bytes:
    return wire.notice("warning", f"A widget could not be shown: {error}")


def _task(value: Object) -> Object:
    status: Literal["loading", "complete"] = "complete" if value.get("done") is True else "loading"
    return without_none(
        {
            "type": "custom",
            "title": _text(value.get("title")),
            "icon": known_icon(value.get("icon")),
            "content": _text(value.get("content")),
            "status_indicator": status,
        }
    )


def _image(image_id: str, value: Object) -> Shown:
    progress = value.get("progress")
    number = float(progress) if isinstance(progress, (int, float)) and not isinstance(progress, bool) else None
    return Shown(
        image=(image_id, _text(value.get("url")), number, value.get("done") is not False and number in (None, 1))
    )


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None
