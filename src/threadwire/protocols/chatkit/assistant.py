"""An assistant's message as items: its text, its reasoning, its images, and its tool calls as tasks."""

from typing import Any

from threadwire.core.entries import Json
from threadwire.core.json import loads_exactly
from threadwire.core.message_content import reasoning_of, tool_calls_of
from threadwire.core.timeline import Block
from threadwire.protocols.chatkit.contents import images_of, output_text, text_and_citations
from threadwire.protocols.chatkit.formats import AgentFormat
from threadwire.protocols.chatkit.items import Item, ItemList
from threadwire.protocols.chatkit.wire import Object
from threadwire.protocols.chatkit.workflows import Workflows, stopped

REASONING_INTERVAL = 100
"""Milliseconds between two updates of reasoning, because each repeats the whole text."""


class AssistantMessages:
    def __init__(self, items: ItemList, workflows: Workflows) -> None:
        self._items = items
        self._workflows = workflows
        self._reasoning_sent: dict[str, int] = {}
        """When the open reasoning items were last updated."""
        self._sources: list[Object] = []
        """Annotations for the next text."""

    def show(self, block: Block, agent: AgentFormat) -> None:
        """Show what is new in a message."""
        message = block["message"]
        calls = tool_calls_of(message, message["id"])
        content = message.get("content")
        is_complete = block["status"] != "streaming"
        text, citations = text_and_citations(content)
        if reasoning := reasoning_of(content, message.get("additional_kwargs")):
            self._show_reasoning(block, reasoning, is_over=bool(text.strip() or calls or is_complete))
        if text.strip():
            self._show_text(block, text, citations, is_over=bool(calls) or is_complete)
        for at, url in images_of(content):
            self._show_image(block, at, url)
        for call in calls:
            tool = agent.tool(call.name)
            if call.name and not tool.hidden and (is_complete or not self._workflows.knows(call.id)):
                self._workflows.start_call(call.id, call.name, _arguments(call.arguments), block["id"], tool)

    def annotate(self, annotations: list[Object]) -> None:
        """Add annotations to the text that is open, or to the next one."""
        item = next((each for each in self._items if each.is_open and each.json["type"] == "assistant_message"), None)
        if item is None:
            self._sources += annotations
        else:
            self._add_annotations(item, annotations)

    # -- text ---------------------------------------------------------------------------------------------------------

    def _show_text(self, block: Block, text: str, citations: list[Object], *, is_over: bool) -> None:
        item_id = f"msg_{block['message']['id']}"
        item = self._items.get(item_id)
        if item is None:
            self._workflows.close()
            sources, self._sources = self._sources, []
            if is_over:
                part = output_text(text, [*sources, *citations])
                self._items.put(item_id, "assistant_message", {"content": [part]}, block["id"])
                return
            item = self._items.add(item_id, "assistant_message", {"content": []}, block["id"])
            self._update(item, {"type": "added", "content": output_text("", [])}, output_text("", []))
            self._add_annotations(item, sources)
        shown = item.json["content"][0]
        if item.is_open and text.startswith(shown["text"]):
            if delta := text[len(shown["text"]) :]:
                self._items.append_text(item, delta)
            self._add_annotations(item, citations)
        if is_over:
            annotations = item.json["content"][0]["annotations"]
            self._finish(item, output_text(text, [*annotations, *_new(citations, annotations)]))

    def _finish(self, item: Item, part: Object) -> None:
        if item.is_open:
            self._update(item, {"type": "done", "content": part}, part)
            self._items.close(item)
        else:
            self._items.put(item.json["id"], "assistant_message", {"content": [part]})

    def _add_annotations(self, item: Item, annotations: list[Object]) -> None:
        for annotation in _new(annotations, item.json["content"][0]["annotations"]):
            part = item.json["content"][0]
            index = len(part["annotations"])
            part = {**part, "annotations": [*part["annotations"], annotation]}
            self._update(item, {"type": "annotation_added", "annotation_index": index, "annotation": annotation}, part)

    def _update(self, item: Item, update: Object, part: Object) -> None:
        kind = f"assistant_message.content_part.{update['type']}"
        self._items.update(item, {**update, "type": kind, "content_index": 0}, {"content": [dict(part)]})

    # -- reasoning and images -----------------------------------------------------------------------------------------

    def _show_reasoning(self, block: Block, text: str, *, is_over: bool) -> None:
        item_id = f"rsn_{block['message']['id']}"
        item = self._items.get(item_id)
        task = {"type": "thought", "content": text, "status_indicator": "complete" if is_over else "loading"}
        if item is None:
            workflow: Object = {"type": "reasoning", "tasks": [], "expanded": False}
            item = self._items.add(item_id, "workflow", {"workflow": workflow}, block["id"])
            added = {"type": "workflow.task.added", "task_index": 0, "task": task}
            self._items.update(item, added, {"workflow": {**workflow, "tasks": [task]}})
            self._reasoning_sent[item_id] = self._items.at
        workflow = item.json["workflow"]
        is_due = is_over or self._items.at - self._reasoning_sent.get(item_id, 0) >= REASONING_INTERVAL
        if is_due and workflow["tasks"][0] != task:
            updated = {"type": "workflow.task.updated", "task_index": 0, "task": task}
            self._items.update(item, updated, {"workflow": {**workflow, "tasks": [task]}})
            self._reasoning_sent[item_id] = self._items.at
        if is_over and item.is_open:
            self._reasoning_sent.pop(item_id, None)
            seconds = round((self._items.at - block["receivedAt"]) / 1000)
            item.json = {**item.json, "workflow": {**item.json["workflow"], "summary": {"duration": seconds}}}
            self._items.close(item)

    def _show_image(self, block: Block, at: int, url: str) -> None:
        item_id = f"img_{block['message']['id']}_{at}"
        self._items.put(item_id, "generated_image", {"image": {"id": item_id, "url": url}}, block["id"])

    # -- ends ---------------------------------------------------------------------------------------------------------

    def close(self, item: Item) -> None:
        """Close an item whose run has ended, with what it has."""
        if not item.is_open:
            return
        if item.json["type"] == "assistant_message":
            self._finish(item, item.json["content"][0])
            return
        if item.json["type"] == "workflow":
            workflow = item.json["workflow"]
            item.json = {**item.json, "workflow": {**workflow, "tasks": [*map(stopped, workflow["tasks"])]}}
        self._items.close(item)

    def end_turn(self) -> None:
        self._sources = []
        self._reasoning_sent = {}

    # -- snapshots ----------------------------------------------------------------------------------------------------

    def as_json(self) -> Json:
        return {"reasoning": self._reasoning_sent, "sources": self._sources}

    def restore(self, data: dict[str, Any]) -> None:
        self._reasoning_sent, self._sources = data["reasoning"], data["sources"]


def _arguments(text: str) -> Json:
    try:
        return loads_exactly(text)
    except ValueError:
        return {}


def _new(annotations: list[Object], known: list[Object]) -> list[Object]:
    """The annotations that are not known yet. A message that is streamed repeats those that it has already had."""
    return [each for each in annotations if each not in known]
