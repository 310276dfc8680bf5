"""A thread as text: frames of its runs in, pieces of lines out. No I/O, so that it can be read like a play in a test.

Tokens are appended to the line that their message is on. Anything else that comes in between ends that line first.
"""

import re
from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

import orjson

LONGEST = 500
"""Characters shown of a value that comes whole."""


class Piece(NamedTuple):
    text: str
    style: str = ""


class Transcript:
    def __init__(self) -> None:
        self._open: Hashable = None
        """What the line that has no end yet belongs to."""
        self._asked = False

    def thread(self, thread: dict[str, Any]) -> list[Piece]:
        return [*self._line(f"thread {thread['thread_id']}", "bold"), *self._more(f" · {thread['status']}\n")]

    def begin(self, run: dict[str, Any]) -> list[Piece]:
        self._asked = False
        graph = run.get("metadata", {}).get("graph_id") or run["assistant_id"]
        return [*self._line(f"run {run['run_id']}", "bold"), *self._more(f" · {graph}\n")]

    def end(self, status: str) -> list[Piece]:
        words = "waits for an answer" if status == "success" and self._asked else status
        return self._line(f"── {words}\n", _ENDINGS.get(status, "yellow"))

    def note(self, text: str) -> list[Piece]:
        """Something about the watching itself."""
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
                return self._line(f"  ↻ attempt {data['attempt']}, from the last checkpoint on\n", "yellow")
        return []

    def _message(self, message: dict[str, Any], meta: dict[str, Any], within: str) -> Iterator[Piece]:
        match message.get("type"):
            case "remove":
                yield from self._line("  ↶ the message above is begun again\n", "yellow")
            case "tool" | "ToolMessageChunk":
                yield from self._line(f"  ← {within}{message.get('name') or 'tool'} ", "magenta")
                yield from self._more(_cut(_text(message.get("content"))) + "\n")
            case kind:
                speaker = kind if kind in _OTHER_SPEAKERS else meta.get("langgraph_node") or "model"
                yield from self._on(
                    ("text", message.get("id")), f"  {within}{speaker}: ", _text(message.get("content"))
                )
                yield from self._calls(message, within)

    def _calls(self, message: dict[str, Any], within: str) -> Iterator[Piece]:
        """Tool calls: as their arguments are streamed, or whole."""
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
        self._asked = True
        if not interrupts:
            yield from self._line("  ‖ stopped between two steps\n", "bold yellow")
        for interrupt in interrupts:
            yield from self._line(f"  ? {_shown(interrupt.get('value'))}", "bold yellow")
            yield from self._more(f"  (interrupt {interrupt.get('id')})\n", "dim")

    # -- lines ---------------------------------------------------------------------------------------------------

    def _line(self, text: str, style: str = "") -> list[Piece]:
        """A new line, after whatever was being written."""
        ended = [Piece("\n")] if self._open is not None else []
        self._open = None
        return [*ended, Piece(_clean(text), style)]

    def _more(self, text: str, style: str = "") -> list[Piece]:
        return [Piece(_clean(text), style)]

    def _on(self, owner: Hashable, label: str, text: str, *, always: bool = False) -> Iterator[Piece]:
        """Text that belongs to the line of `owner`, which may be the one that is open."""
        if not text and not (always and self._open != owner):
            return
        if self._open != owner:
            yield from self._line(label, "blue")
            self._open = owner
        yield Piece(_clean(text).replace("\n", "\n    "))


_ENDINGS = {"success": "green", "error": "red", "interrupted": "yellow", "timeout": "red"}
_OTHER_SPEAKERS = frozenset({"human", "system", "HumanMessageChunk", "SystemMessageChunk"})

# What a model says must not be able to move the cursor or set the title of the terminal.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _clean(text: str) -> str:
    return _CONTROL.sub("�", text)


def _text(content: Any) -> str:
    """The text of a message: its content, or that of the blocks that are text."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "".join(block if isinstance(block, str) else str(block.get("text", "")) for block in blocks)


def _shown(value: Any) -> str:
    return _cut(value if isinstance(value, str) else orjson.dumps(value).decode())


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"
