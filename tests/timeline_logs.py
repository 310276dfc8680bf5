"""Logs that a thread could have, for tests of the timeline that hypothesis feeds."""

from hypothesis import strategies as st

from threadwire.core.entries import Entry, Kind
from threadwire.core.ids import RunId, Seq
from threadwire.core.json import native
from threadwire.core.timeline import TimelineOptions

names = st.sampled_from(["a", "b", "c", "d"])
words = st.sampled_from(["x", " y", "", "zz"])
namespaces = st.sampled_from([(), (), ("s:1",), ("s:1", "t:2")])
statuses = st.sampled_from(["success", "success", "error", "interrupted", "rolled_back", "timeout"])
metas = st.sampled_from([{}, {"langgraph_node": "n", "run_id": "r"}])


@st.composite
def whole_messages(draw):
    return {"type": draw(st.sampled_from(["ai", "human"])), "id": draw(names), "content": draw(words)}


@st.composite
def ui_messages(draw):
    metadata = {"merge": draw(st.booleans())}
    if draw(st.booleans()):
        metadata["message_id"] = draw(names)
    return {"type": "ui", "id": draw(names), "name": "card", "props": {draw(names): 1}, "metadata": metadata}


@st.composite
def interrupts(draw):
    value = draw(st.sampled_from(["ok?", "sure?", {"metadata": {"attachmentId": "a"}}, {"tool_call_id": "call"}]))
    return {"id": draw(st.sampled_from(["p", "q"])), "value": value}


def unique(items):
    return list({item["id"]: item for item in items}.values())


class Log:
    """Writes a log that a thread could have: runs one after another, splices that fit, messages that were declared."""

    def __init__(self, draw, exact=False):
        self._draw = draw
        self._exact = exact
        """Whether only the root has states, and streams leave alone what is in them: then writing a state
        again as a whole changes nothing."""
        self.entries = []
        self._run = None
        self._runs = 0
        self._attempt = 0
        self._messages = []
        self._states = {}
        self._checkpoints = ["before"]
        """The checkpoints that the thread has: one that is older than the log, and those of the log."""

    def write(self, kind, data, ns=(), outside=False):
        run, attempt = (None, 0) if outside or self._run is None else (self._run, self._attempt)
        seq = Seq(len(self.entries) + 1)
        self.entries.append(Entry(seq, run, attempt, 1000 - seq % 7, ns, kind, native(data)))

    def _is_taken(self, key, found):
        states = self._states.values()
        return self._exact and any(item["id"] == found for state in states for item in state.get(key, ()))

    def start(self):
        if self._run is None:
            self._runs += 1
            self._run, self._attempt = RunId(f"r{self._runs}"), 0
        self._attempt += 1
        self._messages, self._states = [], {}
        self.write(Kind.RUN_STARTED, {"attempt": self._attempt})
        if self._attempt == 1:
            self._take_input()

    def _take_input(self):
        match self._draw(st.sampled_from(["input", "answer", "bare", "fork", "nothing"])):
            case "input":
                self._write_checkpoint("input", [])
            case "answer":
                answers = [{"id": self._draw(st.sampled_from(["p", "q"])), "response": 1}]
                self.write(Kind.INPUT_ANSWERED, {"value": 1, "answers": answers, "by": "ana", "via": "langgraph"})
            case "bare":
                self.write(Kind.INPUT_ANSWERED, {"value": self._draw(st.sampled_from([1, {"p": 1}, {"p": 1, "q": 2}]))})
            case "fork":
                base = self._draw(st.sampled_from(self._checkpoints))
                self.write(Kind.STATE_RESET, {"cause": "fork", "checkpoint_id": base})

    def end(self):
        if self._run is not None:
            data = {"status": self._draw(statuses)}
            if data["status"] == "success" and self._draw(st.booleans()):
                data["interrupts"] = unique(self._draw(st.lists(interrupts(), max_size=2)))
            if data["status"] in ("error", "interrupted") and self._draw(st.booleans()):
                data["unanswered"] = self._draw(st.lists(st.sampled_from(["p", "q"]), unique=True))
            self.write(Kind.RUN_ENDED, data)
            self._run = None

    def chunk(self):
        message = {"type": "AIMessageChunk", "id": self._draw(names), "content": self._draw(words)}
        data = {"i": len(self._messages), "chunk": message, "meta": self._draw(metas)}
        ns = self._draw(namespaces)
        if not self._is_taken("messages", message["id"]):
            self._messages.append((ns, message["id"]))
            self.write(Kind.MESSAGES, data, ns)

    def more(self):
        if self._messages:
            index = self._draw(st.integers(0, len(self._messages) - 1))
            calls = [{"type": "tool_call_chunk", "index": 0, "id": "call", "name": "f", "args": "{"}]
            patches = [
                {},
                {"chunk_position": "last"},
                {"tool_call_chunks": calls},
                {"content": [{"index": 0, "text": "t"}]},
            ]
            patch = self._draw(st.sampled_from([None, *patches]))
            text = self._draw(words)
            data = [index, text] if patch is None else {"i": index, "patch": {"content": text, **patch}}
            ns, message_id = self._messages[index]
            if not self._is_taken("messages", message_id):
                self.write(Kind.MESSAGES, data, ns)

    def whole(self):
        message = {**self._draw(whole_messages()), "type": self._draw(st.sampled_from(["ai", "tool", "remove"]))}
        if not self._is_taken("messages", message["id"]):
            self._messages.append(((), ""))
            data = {"i": len(self._messages) - 1, "message": message, "meta": self._draw(metas)}
            root = self._draw(st.sampled_from([{}, {"root": True}]))
            self.write(Kind.MESSAGES, {**data, **root}, self._draw(namespaces))

    def state(self):
        ns = () if self._exact else self._draw(namespaces)
        before = self._states.get(ns)
        if before is None or self._draw(st.integers(0, 4)) == 0:
            self._states[ns] = after = self._whole_state()
            self.write(Kind.STATE, {"full": True, "set": after, "keys": list(after)}, ns)
        else:
            self._patch_state(ns, before)

    def _whole_state(self):
        state = {"k": self._draw(st.integers(0, 2)), "l": [1]}
        if self._draw(st.integers(0, 5)):
            state["messages"] = unique(self._draw(st.lists(whole_messages(), max_size=4)))
        if self._draw(st.booleans()):
            state["ui"] = unique(self._draw(st.lists(ui_messages(), max_size=3)))
        return state

    def _patch_state(self, ns, before):
        key = self._draw(st.sampled_from(["k", "l", "messages", "ui"]))
        if isinstance(before.get(key), list):
            at = self._draw(st.integers(0, len(before[key])))
            drop = self._draw(st.integers(0, len(before[key]) - at))
            items = [1] if key == "l" else [self._draw(whole_messages() if key == "messages" else ui_messages())]
            items = items[: self._draw(st.integers(0, 1))]
            after = [*before[key][:at], *items, *before[key][at + drop :]]
            if key != "l" and len(unique(after)) < len(after):
                return
            self._states[ns] = {**before, key: after}
            self.write(Kind.STATE, {"splice": {key: [at, drop, items]}}, ns)
        elif key in before and self._draw(st.booleans()):
            self._states[ns] = {each: value for each, value in before.items() if each != key}
            self.write(Kind.STATE, {"unset": [key], "keys": list(self._states[ns])}, ns)

    def reset(self):
        if self._run is None:
            values = self._whole_state()
            bases = [None, *self._checkpoints]
            base = self._draw(st.sampled_from(bases))
            reset = {"cause": "update", "values": values, "interrupts": [], "checkpoint_id": f"c{len(bases)}"}
            self._checkpoints.append(reset["checkpoint_id"])
            self.write(Kind.STATE_RESET, reset | ({"base_checkpoint_id": base} if base else {}), outside=True)

    def custom(self):
        removal = {"type": "remove-ui", "id": self._draw(names)}
        value = self._draw(st.sampled_from([removal, {"progress": 1}, [removal]]) | ui_messages())
        if not self._is_taken("ui", value.get("id") if isinstance(value, dict) else removal["id"]):
            self.write(Kind.CUSTOM, {"value": value}, self._draw(namespaces))

    def ask(self):
        asked = {"interrupts": unique(self._draw(st.lists(interrupts(), max_size=2)))}
        if ns := self._draw(namespaces):
            self.write(Kind.UPDATES, {"value": {"__interrupt__": asked["interrupts"]}}, ns)
        self.write(Kind.INPUT_REQUESTED, asked)

    def freeze(self):
        frozen = {"interrupt_id": self._draw(st.sampled_from(["p", "q"])), "frozen_value": {"shown": 1}, "by": "ben"}
        self.write(Kind.WIDGET_FROZEN, frozen, outside=True)

    def checkpoint(self):
        self._write_checkpoint("loop", self._draw(st.sampled_from([[], ["n"]])))

    def _write_checkpoint(self, source, following):
        self._checkpoints.append(f"c{len(self._checkpoints) + 1}")
        self.write(Kind.CHECKPOINT, {"id": self._checkpoints[-1], "source": source, "next": following})

    def task(self):
        self.write(Kind.TASK, {"id": "1", "name": "s", "ended": True})
        self._states = {ns: state for ns, state in self._states.items() if not ns}


OUTSIDE = ("start", "reset", "freeze")
INSIDE = (
    "chunk",
    "more",
    "more",
    "whole",
    "state",
    "state",
    "custom",
    "ask",
    "freeze",
    "checkpoint",
    "task",
    "start",
    "end",
)


@st.composite
def logs(draw, exact=False):
    log = Log(draw, exact)
    for _ in range(draw(st.integers(1, 30))):
        getattr(log, draw(st.sampled_from(INSIDE if log._run is not None else OUTSIDE)))()
    return log.entries


options = st.sampled_from([TimelineOptions(), TimelineOptions(partial_display="hold")])
