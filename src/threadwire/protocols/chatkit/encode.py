"""A thread's log as ChatKit's items, and as the events that lead to them.

The items are a fold of the whole log on top of the timeline: the timeline knows which messages, widgets and interrupts
a thread has, and this module decides how they look in ChatKit. The events of a run are those of its entries. So a page
that loads the items has exactly what a page that followed the stream has.
"""

from collections.abc import Sequence

from threadwire.core.encoder import Message
from threadwire.core.entries import MESSAGES, Entry, Json, Kind
from threadwire.core.json import dumps, loads
from threadwire.core.message_content import message_type
from threadwire.core.timeline import Block, Change, Timeline
from threadwire.core.timeline.changes import Append, Insert, Merge, Remove, Update
from threadwire.protocols.chatkit import cards, user_messages, wire
from threadwire.protocols.chatkit.assistant import AssistantMessages
from threadwire.protocols.chatkit.branches import HiddenItems
from threadwire.protocols.chatkit.contents import output_text
from threadwire.protocols.chatkit.custom_events import invalid_widget, shown_by
from threadwire.protocols.chatkit.formats import AgentFormat, AgentFormats
from threadwire.protocols.chatkit.items import Item, ItemList
from threadwire.protocols.chatkit.rendering import rendered_result, rendered_ui
from threadwire.protocols.chatkit.run_errors import error_event
from threadwire.protocols.chatkit.widgets import InvalidWidget, update_between
from threadwire.protocols.chatkit.wire import Object, without_none
from threadwire.protocols.chatkit.workflows import Workflows, finished_call

PROTOCOL = "chatkit"
"""The name of the protocol in runs and notes."""

_RENDERED = frozenset({Kind.CUSTOM, Kind.UPDATES, Kind.STATE, Kind.STATE_RESET, Kind.TASK, Kind.RUN_ENDED})
"""Kinds of entries, except for messages, after which a tool result or a UI message may look different."""

_NOT_ACCEPTED = "That answer was not accepted. Please try again."

VERSION = 3
"""The version of snapshots. Increase it when their format or the rules change: threads with older snapshots are then
folded again."""


class ChatKitEncoder:
    """Encode a thread's log, fed from its first entry on. Pure: no clock, no random ids, no I/O."""

    def __init__(self, thread_id: str, formats: AgentFormats) -> None:
        self.timeline = Timeline()
        self.items = ItemList(thread_id)
        self.weight = 0
        """Roughly how many bytes the fold occupies."""
        self.title: list[Json] | None = None
        """The position and the text of the last title that a graph has set."""
        self.feedback: dict[str, str] = {}
        """The users' feedback on items, by item id."""
        self._formats = formats
        self._workflows = Workflows(self.items)
        self._assistant = AssistantMessages(self.items, self._workflows)
        self._hidden = HiddenItems(self.items, self._workflows)
        self._graphs: dict[str, str] = {}
        """The graphs of the runs that have not ended."""
        self._last_graph: str | None = None
        self._last_message: str | None = None
        """The block of the last message that was shown."""
        self._forked_run: str | None = None
        """A run that starts from an earlier checkpoint and has had no state yet."""

    # -- entries ------------------------------------------------------------------------------------------------------

    def feed(self, entry: Entry) -> Sequence[Message]:
        changes = self.timeline.feed(entry)
        if entry.kind == MESSAGES and len(changes) == 1 and type(change := changes[0]) is Append:
            item = self.items.get("msg_" + change.block_id[2:])
            if item is not None and item.is_open:  # a token, and nearly every entry of a run
                text = change.text
                self.weight += len(text)
                return [(_tag(entry), item.append_text(text))]
        return self._feed(entry, changes)

    def calls_project_code(self, entry: Entry) -> bool:
        """Tool results and UI messages are rendered by functions of the project. Tokens, and most other chunks of model
        output, change neither."""
        if not self._formats.call_functions:
            return False
        if entry.kind == MESSAGES:
            return type(entry.data) is dict and "message" in entry.data
        return entry.kind in _RENDERED

    def _feed(self, entry: Entry, changes: list[Change]) -> Sequence[Message]:
        self.items.run_id, self.items.at = entry.run_id, entry.at
        self._note_run(entry)
        agent = self._agent(entry)
        before = [item.json["id"] for item in self.items] if self._forks(entry) else None
        if entry.kind == Kind.RUN_ENDED and entry.data["status"] == "rolled_back":
            self._remove_items_of(entry.run_id)  # before those of the branch that the run left come back
        self._apply(changes, agent)
        if before is not None:
            self._drop_other_branch(before)
        if entry.kind == Kind.RUN_ENDED:
            self._end_run(entry, agent)
        self._show_entry(entry, agent)
        events, self.items.events = self.items.events, []
        self.weight += sum(map(len, events))
        tag = _tag(entry)
        messages = [(tag, event) for event in events]
        return [*messages, (tag, b"")] if entry.kind == Kind.RUN_ENDED else messages

    def _note_run(self, entry: Entry) -> None:
        if entry.run_id is not None and entry.kind in (Kind.RUN_QUEUED, Kind.RUN_STARTED):
            self._graphs[entry.run_id] = self._last_graph = entry.data["graph_id"]
        if entry.kind == Kind.STATE_RESET and entry.data.get("cause") == "fork":
            self._forked_run = entry.run_id

    def _agent(self, entry: Entry) -> AgentFormat:
        return self._formats.of(self._graphs.get(entry.run_id or "", self._last_graph or ""))

    def _show_entry(self, entry: Entry, agent: AgentFormat) -> None:
        data = entry.data
        match entry.kind:
            case Kind.CUSTOM:
                for value in data["value"] if isinstance(data["value"], list) else [data["value"]]:
                    self._show_custom(value, agent, entry)
            case Kind.DISPATCHED if isinstance(data.get("data"), dict):
                self._show_custom({**data["data"], "type": data["name"]}, agent, entry)
            case Kind.TASK if data.get("ended") and not entry.ns:
                self._workflows.finish_if_loading(f"{data['name']}:{data['id']}")
            case Kind.NOTE if data.get("protocol") == PROTOCOL:
                self._show_note(data["value"])

    # -- blocks -------------------------------------------------------------------------------------------------------

    def _apply(self, changes: list[Change], agent: AgentFormat) -> None:
        """Show every block that was changed once, in the order of the changes."""
        changed: dict[str, bool] = {}
        """The ids of blocks, and whether their content has changed."""
        for change in changes:
            match change:
                case Insert(_, block):
                    changed[block["id"]] = True
                case Update(block_id, fields):
                    is_new = "message" in fields or "ui" in fields
                    changed[block_id] = changed.get(block_id, False) or is_new
                case Merge(block_id) | Append(block_id):
                    changed[block_id] = True
                case Remove(block_id):
                    self._remove_owned(block_id)
                    self._hidden.forget(block_id)
        blocks = [found for block_id in changed if (found := self.timeline.block(block_id)) is not None]
        hidden, returned = self._hidden.follow(blocks)
        if hidden or returned:
            owners = [item.owner for item in self.items if item.owner is not None and item.owner.startswith("m:")]
            self._last_message = owners[-1] if owners else None
        for block in blocks:
            # The items of what has returned are complete, unless its interrupt was completed when it was hidden.
            is_as_before = block["id"] in returned and block["kind"] != "interrupt" and not changed[block["id"]]
            if "branchId" not in block and not is_as_before:
                self._show(block, agent, changed[block["id"]])

    def _show(self, block: Block, agent: AgentFormat, has_new_content: bool) -> None:
        match block["kind"]:
            case "message":
                self._show_message(block, agent, has_new_content)
            case "ui" if has_new_content:
                self._show_ui(block, agent)
            case "interrupt":
                self._show_interrupt(block, agent)

    def _show_message(self, block: Block, agent: AgentFormat, has_new_content: bool) -> None:
        if block.get("transient"):
            self._remove_owned(block["id"])
            return
        kind = message_type(block["message"])
        if (block.get("meta") or {}).get("langgraph_node") in agent.hidden_nodes and kind != "human":
            return
        if block["ns"] and not agent.subgraphs:
            self._show_subgraph(block)
            return
        if kind == "human" and not block["ns"]:
            item_type, fields, at = user_messages.item_of(block["message"])
            self.items.put(f"msg_{block['message']['id']}", item_type, fields, block["id"], at)
        elif kind == "ai":
            self._assistant.show(block, agent)
        elif kind == "tool" and has_new_content:
            self._show_result(block, agent)
        self._last_message = block["id"]

    def _show_subgraph(self, block: Block) -> None:
        name = str(block["ns"][0])
        if message_type(block["message"]) == "ai" and not self._workflows.knows(name):
            title = name.partition(":")[0].replace("_", " ").capitalize()
            task = {"type": "custom", "title": title, "icon": "agent", "status_indicator": "loading"}
            self._workflows.start(name, task, None)

    def _show_result(self, block: Block, agent: AgentFormat) -> None:
        message, call_id = block["message"], str(block["message"].get("tool_call_id"))
        known = self._workflows.knows(call_id)
        name, args = self._workflows.call_of(call_id) if known else (str(message.get("name") or ""), None)
        tool = agent.tool(name)
        if tool.hidden:
            return
        fields = finished_call(tool, message)
        if message.get("status") != "error":
            result = rendered_result(name, tool, message, args)
            if result.content is not None:
                fields = {**fields, "content": result.content}
            for at, widget in enumerate(result.widgets):
                self.items.put(f"wdg_{call_id}{_number(at)}", "widget", {"widget": widget}, block["id"])
            for at, text in enumerate(result.texts):
                content = [output_text(text, [])]
                self.items.put(f"txt_{call_id}{_number(at)}", "assistant_message", {"content": content}, block["id"])
            if result.annotations:
                self._assistant.annotate(result.annotations)
            if result.problem is not None:
                self.items.events.append(invalid_widget(result.problem))
        if known:
            self._workflows.finish(call_id, fields)

    def _show_ui(self, block: Block, agent: AgentFormat) -> None:
        try:
            widget = rendered_ui(agent, block["ui"])
        except InvalidWidget as error:
            self.items.events.append(invalid_widget(error))
            return
        self.items.put(f"ui_{block['ui']['id']}", "widget", {"widget": widget}, block["id"])

    def open_interrupts(self) -> list[Block]:
        """The interrupts that wait for an answer."""
        return self.timeline.open_interrupts()

    def interrupt(self, block_id: str) -> Block | None:
        return self.timeline.block(block_id)

    def _show_interrupt(self, block: Block, agent: AgentFormat) -> None:
        item_id = cards.item_id_of(block)
        if self.items.get(item_id) is None:
            if block["completed"]:
                return
            self._workflows.pause()
        item_type, fields = cards.item_of(block, agent.skip_value)
        self.items.put(item_id, item_type, fields, block["id"])

    # -- removal ------------------------------------------------------------------------------------------------------

    def _remove_owned(self, block_id: str) -> None:
        for item_id in self.items.owned_by(block_id):
            self._remove(item_id)

    def _remove_items_of(self, run_id: str | None) -> None:
        for item_id in [item.json["id"] for item in self.items if item.run_id == run_id]:
            self._remove(item_id)

    def _remove(self, item_id: str) -> None:
        if self.items.get(item_id) is not None:
            self.items.remove(item_id)
        self._workflows.forget(item_id)

    def _forks(self, entry: Entry) -> bool:
        return entry.kind == Kind.STATE and not entry.ns and self._forked_run == entry.run_id is not None

    def _drop_other_branch(self, before: list[str]) -> None:
        """Remove what followed the last message of the state that the run starts from."""
        self._forked_run = None
        for item_id in reversed(before):
            item = self.items.get(item_id)
            if item is None:
                continue
            if self._is_in_state(item):
                return
            self._remove(item_id)

    def _is_in_state(self, item: Item) -> bool:
        """Whether an item is a message of the state, or part of an answer in the state. Items that a run shows before
        its answer belong to the user's message; they are neither."""
        owner = None if item.owner is None else self.timeline.block(item.owner)
        if owner is None:
            return False
        if owner["kind"] != "message":  # the timeline has already hidden those that the state does not lead to
            return True
        if not self.timeline.is_in_state(owner["message"]["id"]):
            return False
        return message_type(owner["message"]) != "human" or item.json["id"] == f"msg_{owner['message']['id']}"

    # -- custom events and notes --------------------------------------------------------------------------------------

    def _show_custom(self, value: Json, agent: AgentFormat, entry: Entry) -> None:
        if isinstance(value, dict) and value.get("type") in ("ui", "remove-ui"):  # the timeline has these
            return
        shown = shown_by(value, unknown_as_effects=agent.custom_effects)
        self.items.events += shown.events
        if shown.widget is not None:
            self._show_widget(shown.widget, entry)
        if shown.removed is not None:
            self._remove(f"wdg_{shown.removed}")
        if shown.task is not None:
            self._workflows.start(*shown.task, self._last_message)
        if shown.image is not None:
            self._show_image(shown.image)
        if shown.annotation is not None:
            self._assistant.annotate([shown.annotation])
        if shown.title is not None:
            self.title = [entry.seq, shown.title]

    def _show_widget(self, widget: tuple[str | None, Object, str | None, bool], entry: Entry) -> None:
        widget_id, content, copy_text, is_streaming = widget
        item_id = f"wdg_{widget_id or entry.seq}"
        fields = without_none({"widget": content, "copy_text": copy_text})
        item = self.items.get(item_id)
        if item is None and is_streaming:
            self.items.add(item_id, "widget", fields, self._last_message)
        elif item is not None and item.is_open and dumps(item.json["widget"]) != dumps(content):
            self.items.update(item, update_between(item.json["widget"], content), fields)
            if not is_streaming:
                self.items.close(item)
        else:
            self.items.put(item_id, "widget", fields, self._last_message)

    def _show_image(self, image: tuple[str, str | None, float | None, bool]) -> None:
        image_id, url, progress, is_complete = image
        item_id = f"img_{image_id}"
        fields: Object = {} if url is None else {"image": {"id": image_id, "url": url}}
        item = self.items.get(item_id)
        if item is None and not is_complete:
            item = self.items.add(item_id, "generated_image", {}, self._last_message)
        if item is not None and item.is_open and url is not None:
            update = {"type": "generated_image.updated", "image": fields["image"], "progress": progress}
            self.items.update(item, without_none(update), fields)
        if is_complete:
            self.items.put(item_id, "generated_image", fields, self._last_message)

    def _show_note(self, value: Json) -> None:
        if "feedback" in value:
            self.feedback.update(dict.fromkeys(value["item_ids"], value["feedback"]))
        if "typed" in value:
            item_type, fields, at = user_messages.item_of(value["typed"])
            self.items.put(f"msg_{value['typed']['id']}", item_type, fields, self._last_message, at)
        item = self.items.get(value.get("item_id", ""))
        if item is not None and "widget" in value:
            self.items.put(item.json["id"], "widget", {"widget": value["widget"]})

    # -- runs ---------------------------------------------------------------------------------------------------------

    def _end_run(self, entry: Entry, agent: AgentFormat) -> None:
        status = entry.data["status"]
        open_items = [item for item in self.items if item.is_open and item.run_id == entry.run_id]
        if open_items:
            self._workflows.pause()
            for item in open_items:
                self._assistant.close(item)
        self._assistant.end_turn()
        if self._graphs.pop(entry.run_id or "", None) is None or entry.attempt == 0:
            return
        if status == "error" and entry.data.get("unanswered"):
            self.items.events.append(wire.notice("warning", _NOT_ACCEPTED))
        elif status in ("error", "timeout"):
            self.items.events.append(error_event(status, entry.data.get("error")))
        has_messages = self._last_message is not None
        if status == "success" and has_messages and agent.end_of_turn and not self.open_interrupts():
            self.items.put(f"turn_{entry.run_id}", "end_of_turn", {}, self._last_message)

    # -- snapshots ----------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        return dumps(
            {
                "version": VERSION,
                "timeline": self.timeline.snapshot(),
                "items": self.items.as_json(),
                "workflows": self._workflows.as_json(),
                "assistant": self._assistant.as_json(),
                "weight": self.weight,
                "title": self.title,
                "feedback": self.feedback,
                "graphs": self._graphs,
                "hidden": self._hidden.as_json(),
                "last": [self._last_graph, self._last_message, self._forked_run],
            }
        )

    def restore(self, snapshot: bytes) -> None:
        stored = loads(snapshot)
        if stored.get("version") != VERSION:
            raise ValueError(f"Unknown version of a snapshot of ChatKit's items: {stored.get('version')}")
        self.timeline = Timeline.restore(stored["timeline"])
        self.items.restore(stored["items"])
        self._workflows.restore(stored["workflows"])
        self._assistant.restore(stored["assistant"])
        self.weight, self.title, self.feedback = stored["weight"], stored["title"], stored["feedback"]
        self._graphs = stored["graphs"]
        self._hidden.restore(stored["hidden"])
        self._last_graph, self._last_message, self._forked_run = stored["last"]


def _tag(entry: Entry) -> bytes:
    return wire.NO_RUN if entry.run_id is None else entry.run_id.encode()


def _number(at: int) -> str:
    return f"_{at + 1}" if at else ""
