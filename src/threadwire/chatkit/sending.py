"""What a graph can send to ChatKit while it runs: events of its custom stream. Other clients receive them as such."""

from typing import Any, Literal

from langgraph.config import get_stream_writer
from langgraph.types import interrupt


def send_progress(text: str, icon: str | None = None) -> None:
    """Show what the agent is doing. Clients replace it with the next progress text, and do not store it."""
    _send({"type": "progress", "text": text, "icon": icon})


def send_notice(message: str, level: Literal["info", "warning", "danger"] = "info", title: str | None = None) -> None:
    """Show a notice in Markdown."""
    _send({"type": "notice", "message": message, "level": level, "title": title})


def send_effect(name: str, data: dict[str, Any] | None = None) -> None:
    """Have the page do something, such as moving a map. The graph does not wait for it."""
    _send({"type": "effect", "name": name, "data": data or {}})


def send_widget(
    widget: dict[str, Any], *, id: str | None = None, copy_text: str | None = None, streaming: bool = False
) -> None:
    """Show a widget, or replace the one with the same id. `streaming` means that the widget is going to change: clients
    then receive only the text that was added to a component with an id."""
    _send({"type": "widget", "widget": widget, "id": id, "copy_text": copy_text, "streaming": streaming})


def remove_widget(id: str) -> None:
    _send({"type": "remove_widget", "id": id})


def send_task(id: str, title: str, *, icon: str | None = None, content: str | None = None, done: bool = False) -> None:
    """Show a step of the agent's work, or change the one with the same id."""
    _send({"type": "task", "id": id, "title": title, "icon": icon, "content": content, "done": done})


def send_image(id: str, url: str | None = None, *, progress: float | None = None, done: bool = True) -> None:
    """Show a generated image, or the progress of generating it."""
    _send({"type": "image", "id": id, "url": url, "progress": progress, "done": done})


def send_annotation(source: dict[str, Any], index: int | None = None) -> None:
    """Add a source to the assistant message that is being streamed, or to the next one."""
    _send({"type": "annotation", "source": source, "index": index})


def send_title(title: str) -> None:
    """Name the thread."""
    _send({"type": "title", "title": title})


def call_client_tool(name: str, arguments: dict[str, Any] | None = None) -> Any:
    """Have the page execute one of its own tools, and return the result. The run pauses until the page responds."""
    return interrupt({"client_tool": {"name": name, "arguments": arguments or {}}})


def _send(value: dict[str, Any]) -> None:
    get_stream_writer()({name: field for name, field in value.items() if field is not None})
