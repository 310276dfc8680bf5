"""Tool calls and subgraphs as tasks of a workflow, from the first one to the text that follows."""

from collections.abc import Callable
from typing import Any

from threadwire.core.entries import Json
from threadwire.core.json import loads_exactly
from threadwire.core.message_content import tool_result_text
from threadwire.protocols.chatkit import wire
from threadwire.protocols.chatkit.formats import ToolFormat
from threadwire.protocols.chatkit.icons import FAILED
from threadwire.protocols.chatkit.items import Item, ItemList
from threadwire.protocols.chatkit.wire import Object, without_none

MAX_CONTENT = 300
"""Characters of a result that a task shows if the tool has no format."""


class Workflows:
    """At most one workflow is open. Tasks are found by the id of their call, even in workflows that have ended."""

    def __init__(self, items: ItemList) -> None:
        self._items = items
        self._current: str | None = None
        self._tasks: dict[str, list[Any]] = {}
        """The workflow, the index in it, the tool's name and the call's arguments."""

    # -- tasks --------------------------------------------------------------------------------------------------------

    def knows(self, task_id: str) -> bool:
        return task_id in self._tasks

    def call_of(self, task_id: str) -> tuple[str, Json]:
        _, _, name, args = self._tasks[task_id]
        return name, args

    def start_call(self, call_id: str, name: str, args: Json, owner: str, tool: ToolFormat) -> None:
        """Show a tool call, or its arguments as soon as they are complete."""
        if call_id in self._tasks:
            self._tasks[call_id][3] = args
            self._change(call_id, lambda task: {**task, **_described(tool, name, args)})
            return
        task = {**_described(tool, name, args), "status_indicator": "loading"}
        self._add(call_id, task, owner, name, args)
        progress = tool.progress if tool.progress is not None else f"{task['title']}…"
        if progress:
            self._items.events.append(wire.progress_update(progress, tool.known_icon))

    def start(self, task_id: str, task: Object, owner: str | None) -> None:
        """Show a task that is not a tool call, or change it."""
        if task_id in self._tasks:
            self._change(task_id, lambda known: {**known, **task})
        else:
            self._add(task_id, task, owner, "", None)

    def finish(self, task_id: str, fields: Object) -> None:
        self._change(task_id, lambda task: {**task, **fields, "status_indicator": "complete"})

    def finish_if_loading(self, task_id: str) -> None:
        if task_id in self._tasks:
            self._change(task_id, lambda task: {**task, "status_indicator": "complete"} if _is_loading(task) else task)

    def _add(self, task_id: str, task: Object, owner: str | None, name: str, args: Json) -> None:
        item = None if self._current is None else self._items.get(self._current)
        if item is None:
            workflow = {"type": "custom", "tasks": [], "expanded": False}
            item = self._items.add(f"wf_{task_id}", "workflow", {"workflow": workflow}, owner)
            self._current = item.json["id"]
        tasks = [*item.json["workflow"]["tasks"], task]
        self._tasks[task_id] = [item.json["id"], len(tasks) - 1, name, args]
        update = {"type": "workflow.task.added", "task_index": len(tasks) - 1, "task": task}
        self._items.update(item, update, {"workflow": {**item.json["workflow"], "tasks": tasks}})

    def _change(self, task_id: str, changed: Callable[[Object], Object]) -> None:
        item_id, index = self._tasks[task_id][:2]
        item = self._items.get(item_id)
        if item is None:  # it was removed together with the message that made the call
            return
        workflow = item.json["workflow"]
        before = workflow["tasks"][index]
        task = changed(before)
        if task == before:
            return
        tasks = [*workflow["tasks"][:index], task, *workflow["tasks"][index + 1 :]]
        update = {"type": "workflow.task.updated", "task_index": index, "task": task}
        self._items.update(item, update, {"workflow": {**workflow, "tasks": tasks}})

    # -- workflows ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the current workflow, because text follows."""
        item = None if self._current is None else self._items.get(self._current)
        self._current = None
        if item is not None and item.is_open:
            item.json = {**item.json, "workflow": {**item.json["workflow"], "summary": _summary(item)}}
            self._items.close(item)

    def pause(self) -> None:
        """End the current workflow, because the run has stopped. Its unfinished tasks no longer run."""
        if self._current is not None:
            for task_id in [each for each, task in self._tasks.items() if task[0] == self._current]:
                self._change(task_id, stopped)
        self.close()

    def forget(self, item_id: str) -> dict[str, list[Any]]:
        """Forget a workflow that was removed. Return its tasks."""
        tasks = {task_id: task for task_id, task in self._tasks.items() if task[0] == item_id}
        for task_id in tasks:
            del self._tasks[task_id]
        if self._current == item_id:
            self._current = None
        return tasks

    def bring_back(self, tasks: dict[str, list[Any]]) -> None:
        """Show a workflow that was removed again, with these tasks."""
        self._tasks |= tasks

    # -- snapshots ----------------------------------------------------------------------------------------------------

    def as_json(self) -> Json:
        return {"current": self._current, "tasks": self._tasks}

    def restore(self, data: dict[str, Any]) -> None:
        self._current, self._tasks = data["current"], data["tasks"]


def _described(tool: ToolFormat, name: str, args: Json) -> Object:
    title = tool.titled(name, args)
    if tool.task == "custom":
        return {"type": "custom", "title": title, "icon": tool.known_icon}
    query = args.get("query") if isinstance(args, dict) else None
    named = {"title_query": query, "queries": [query]} if isinstance(query, str) and query else {"queries": []}
    return {"type": "web_search", "title": title, **named, "sources": []}


def finished_call(tool: ToolFormat, message: Object) -> Object:
    """The fields of a task whose call has returned, without those that a format renders."""
    failed = message.get("status") == "error"
    text = tool_result_text(message.get("content"))
    if tool.task == "web_search":
        return {} if failed else {"sources": _sources(parsed(text))}
    if failed:
        return {"icon": FAILED, "content": _short(text) if tool.show_errors else "The tool failed."}
    return without_none({"content": _short(text)})


def parsed(text: str) -> Json:
    """A tool's result: the value if it is JSON, otherwise the text."""
    try:
        return loads_exactly(text)
    except ValueError:
        return text


def _short(text: str) -> str | None:
    value = parsed(text)
    if isinstance(value, dict) and isinstance(value.get("message"), str):
        text = value["message"]
    text = text.strip()
    return f"{text[:MAX_CONTENT]}…" if len(text) > MAX_CONTENT else text or None


def _sources(value: Json) -> list[Object]:
    """The URL sources in the result of a search: a list of objects with `url`, or an object with `results`."""
    found = value.get("results") if isinstance(value, dict) else value
    listed = found if isinstance(found, list) else []
    return [
        {"type": "url", "title": str(each.get("title") or each["url"]), "url": each["url"]}
        for each in listed
        if isinstance(each, dict) and isinstance(each.get("url"), str)
    ]


def _summary(item: Item) -> Object:
    tasks = item.json["workflow"]["tasks"]
    if len(tasks) == 1:
        return without_none({"title": tasks[0].get("title") or "Done", "icon": tasks[0].get("icon")})
    return {"title": f"{len(tasks)} steps", "icon": "bolt"}


def stopped(task: Object) -> Object:
    """The task after its run has ended."""
    return {**task, "status_indicator": "none"} if _is_loading(task) else task


def _is_loading(task: Object) -> bool:
    return bool(task["status_indicator"] == "loading")
