"""Renders a thread as text: frames of its runs in, pieces of lines out. No I/O, so that tests can check the text.

Tokens are appended to the line of their message. Anything else that arrives in between ends that line first.
"""

import re
from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

import orjson

MAX_VALUE_LENGTH = 500
"""Maximum number of characters shown of a value that is not streamed."""


class Piece(NamedTuple):
    text: str
    style: str = ""


class Transcript:
    def __init__(self) -> None:
        self._open: Hashable = None
        """The owner of the line that is still open."""
        self._interrupted = False

    def thread(self, thread: dict[str, Any]) -> list[Piece]:
        return [*self._line(f"thread {thread['thread_id']}", "bold"), *self._more(f" · {thread['status']}\n")]

    def start(self, run: dict[str, Any]) -> list[Piece]:
        self._interrupted = False
        graph = run.get("metadata", {}).get("graph_id") or run["assistant_id"]
        return [*self._line(f"run {run['run_id']}", "bold"), *self._more(f" · {graph}\n")]

    def end(self, status: str) -> list[Piece]:
        label = "waiting for an answer" if status == "success" and self._interrupted else status
        return self._line(f"── {label}\n", _ENDINGS.get(status, "yellow"))

    def note(self, text: str) -> list[Piece]:
        """A remark about the connection, not from the thread."""
        return self._line(f"({text})\n", "dim")

    def feed(self, event: str, data: Any) -> list[Piece]:
        mode, *ns = event.split("|")
        within = "".join(f"{step.partition(':')[0]} ▸ " for step in ns)
        match mode:
            case "messages":
                return list(self._message(data[0], data[1], within))
            case "updates":
                return list(self._updates(data, within))
            case "custom":
                return self._line(f"  ✎ {within}{_shown(data)}\n", "cyan")
            case "error":
                return self._line(f"  ✗ {data.get('error')}: {_clean(str(data.get('message')))}\n", "bold red")
            case "metadata" if data.get("attempt", 1) > 1:
                return self._line(f"  ↻ attempt {data['attempt']}, resuming from the last checkpoint\n", "yellow")
        return []

    def _message(self, message: dict[str, Any], meta: dict[str, Any], within: str) -> Iterator[Piece]:
        match message.get("type"):
            case "remove":
                yield from self._line("  ↶ restarting the message above\n", "yellow")
            case "tool" | "ToolMessageChunk":
                yield from self._line(f"  ← {within}{message.get('name') or 'tool'} ", "magenta")
                yield from self._more(_cut(_text(message.get("content"))) + "\n")
            case kind:
                role = kind if kind in _OTHER_ROLES else meta.get("langgraph_node") or "model"
                yield from self._on(("text", message.get("id")), f"  {within}{role}: ", _text(message.get("content")))
                yield from self._calls(message, within)

    def _calls(self, message: dict[str, Any], within: str) -> Iterator[Piece]:
        """Tool calls, with streamed or complete arguments."""
        if chunks := message.get("tool_call_chunks"):
            for chunk in chunks:
                line = ("call", message.get("id"), chunk.get("index"))
                yield from self._on(
                    line, f"  → {within}{chunk.get('name') or '…'} ", chunk.get("args") or "", always=True
                )
        elif message.get("type") != "AIMessageChunk":
            for call in message.get("tool_calls") or ():
                yield from self._line(f"  → {within}{call.get('name')} ", "magenta")
                yield from self._more(_shown(call.get("args")) + "\n")

    def _updates(self, updates: dict[str, Any], within: str) -> Iterator[Piece]:
        for node, update in updates.items():
            if node == "__interrupt__":
                yield from self._interrupts(update)
                continue
            keys = f" ({', '.join(update)})" if isinstance(update, dict) and update else ""
            yield from self._line(f"  ✓ {within}{node}{keys}\n", "green")

    def _interrupts(self, interrupts: list[dict[str, Any]]) -> Iterator[Piece]:
        self._interrupted = True
        if not interrupts:
            yield from self._line("  ‖ paused between two steps\n", "bold yellow")
        for interrupt in interrupts:
            yield from self._line(f"  ? {_shown(interrupt.get('value'))}", "bold yellow")
            yield from self._more(f"  (interrupt {interrupt.get('id')})\n", "dim")

    # -- lines ---------------------------------------------------------------------------------------------------

    def _line(self, text: str, style: str = "") -> list[Piece]:
        """Start a new line, ending the open one."""
        ended = [Piece("\n")] if self._open is not None else []
        self._open = None
        return [*ended, Piece(_clean(text), style)]

    def _more(self, text: str, style: str = "") -> list[Piece]:
        return [Piece(_clean(text), style)]

    def _on(self, owner: Hashable, label: str, text: str, *, always: bool = False) -> Iterator[Piece]:
        """Append text to the line of `owner`. If that line is not open, start a new one."""
        if not text and not (always and self._open != owner):
            return
        if self._open != owner:
            yield from self._line(label, "blue")
            self._open = owner
        yield Piece(_clean(text).replace("\n", "\n    "))


_ENDINGS = {"success": "green", "error": "red", "interrupted": "yellow", "timeout": "red"}
_OTHER_ROLES = frozenset({"human", "system", "HumanMessageChunk", "SystemMessageChunk"})

# Model output must not be able to move the cursor or set the title of the terminal.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _clean(text: str) -> str:
    return _CONTROL.sub("�", text)


def _text(content: Any) -> str:
    """Return the text of a message: its content, or that of its text blocks."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "".join(block if isinstance(block, str) else str(block.get("text", "")) for block in blocks)


def _shown(value: Any) -> str:
    return _cut(value if isinstance(value, str) else orjson.dumps(value).decode())


def _cut(text: str) -> str:
    return text if len(text) <= MAX_VALUE_LENGTH else text[:MAX_VALUE_LENGTH] + "…"
