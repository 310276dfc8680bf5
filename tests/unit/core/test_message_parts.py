"""When the parts of streamed messages start, grow and end."""

from typing import Any

from chunk_streams import META, entries_of, entry, interleaved
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import BaseMessageChunk

from threadwire.core.message_content import reasoning_of, text_of
from threadwire.core.message_fold import MessageFold
from threadwire.core.message_parts import MessageParts, MessageWithParts
from threadwire.core.open_parts import OpenParts, Part, PartChange, PartDelta, PartStarted


class Reader:
    """The folds that a protocol combines."""

    def __init__(self, hidden: tuple[str, ...] = ()) -> None:
        self.opened = OpenParts()
        self.hidden = hidden
        self.messages = MessageFold(MessageWithParts)
        self.parts = MessageParts[MessageWithParts](self.opened, self._shows)

    def _shows(self, message: MessageWithParts, part: Part) -> bool:
        return part.kind not in self.hidden and part.name not in self.hidden

    def feed(self, data: Any, number: int = 1) -> list[tuple[str, str, str]]:
        return [described(change) for change in self.changes(entry(data, number))]

    def changes(self, recorded: Any) -> list[PartChange]:
        message = self.messages.feed(recorded)
        assert message is not None
        return self.parts.feed(message)


def described(change: PartChange) -> tuple[str, str, str]:
    """`(what, kind of the part, id or text)`"""
    if isinstance(change, PartDelta):
        return "delta", change.part.kind, change.text
    return "start" if isinstance(change, PartStarted) else "end", change.part.kind, change.part.id


def first(content: Any, **fields: Any) -> dict[str, Any]:
    return {"i": 0, "chunk": {"type": "AIMessageChunk", "id": "m", "content": content, **fields}, "meta": META}


def call(args: str, call_id: str | None = None, name: str | None = None, index: int = 0) -> dict[str, Any]:
    return {"index": index, "id": call_id, "name": name, "args": args}


def patch(content: Any = "", **fields: Any) -> dict[str, Any]:
    return {"i": 0, "patch": {"content": content, **fields}}


def test_text_starts_grows_and_ends_with_the_last_chunk() -> None:
    reader = Reader()

    assert reader.feed(first("")) == []
    assert reader.feed([0, "He"]) == [("start", "text", "m"), ("delta", "text", "He")]
    assert reader.feed([0, "llo"]) == [("delta", "text", "llo")]
    assert reader.feed(patch(chunk_position="last")) == [("end", "text", "m")]


def test_a_part_belongs_to_the_task_of_its_model() -> None:
    reader = Reader()
    reader.feed(first("Hi", name="writer"))

    [part] = reader.opened
    assert (part.task, part.name) == ("task-1", "writer")
    assert [described(change) for change in reader.opened.task((), {"id": "task-1", "name": "x", "ended": True})] == [
        ("end", "text", "m")
    ]


def test_text_ends_reasoning_and_reasoning_ends_text() -> None:
    reader = Reader()

    assert reader.feed(first([{"type": "reasoning", "reasoning": "Hmm"}])) == [
        ("start", "reasoning", "m"),
        ("delta", "reasoning", "Hmm"),
    ]
    assert reader.feed([0, "Hi"]) == [("end", "reasoning", "m"), ("start", "text", "m"), ("delta", "text", "Hi")]
    assert reader.feed(patch([{"type": "reasoning", "reasoning": "So"}])) == [
        ("end", "text", "m"),
        ("start", "reasoning", "m"),
        ("delta", "reasoning", "So"),
    ]


def test_calls_follow_the_text_one_after_the_other() -> None:
    reader = Reader()
    reader.feed(first("Hi"))

    assert reader.feed(patch(tool_call_chunks=[call("{", "c1", "add")])) == [
        ("end", "text", "m"),
        ("start", "call", "c1"),
        ("delta", "call", "{"),
    ]
    assert reader.feed(patch(tool_call_chunks=[call("}")])) == [("delta", "call", "}")]
    assert reader.feed(patch(tool_call_chunks=[call("", "c2", "add", index=1)])) == [
        ("end", "call", "c1"),
        ("start", "call", "c2"),
    ]
    assert reader.feed(patch(tool_call_chunks=[], chunk_position="last")) == [("end", "call", "c2")]


def test_a_call_without_an_id_gets_one_from_its_message() -> None:
    assert Reader().feed(first("", tool_call_chunks=[call("{}", name="add")]))[0] == ("start", "call", "m:0")


def test_a_call_is_started_once() -> None:
    reader = Reader()
    repeated = [call("{", "c", "add", index=0), call("}", "c", "add", index=1)]

    assert reader.feed(first("", tool_call_chunks=repeated)) == [
        ("start", "call", "c"),
        ("delta", "call", "{"),
        ("end", "call", "c"),
    ]


def test_a_call_that_was_not_shown_may_start_later() -> None:
    """Some models send the name after the id."""
    reader = Reader(hidden=("",))
    reader.feed(first("", tool_call_chunks=[call("", "c")]))

    assert reader.feed(patch(tool_call_chunks=[call("{}", "c", "add", index=1)])) == [
        ("start", "call", "c"),
        ("delta", "call", "{}"),
    ]


def test_a_call_id_that_another_message_uses_starts_a_new_call() -> None:
    reader = Reader()
    reader.feed(first("", tool_call_chunks=[call("{", "c", "add")]))
    other = first("", tool_call_chunks=[call("{}", "c", "add")])

    assert reader.feed({**other, "i": 1, "chunk": {**other["chunk"], "id": "n"}}) == [
        ("end", "call", "c"),
        ("start", "call", "c"),
        ("delta", "call", "{}"),
    ]


def test_a_whole_message_is_complete_immediately() -> None:
    calls = [{"id": "c", "name": "add", "args": {"a": 1}}]
    message = {
        "type": "ai",
        "id": "m",
        "content": [{"type": "thinking", "thinking": "Hmm"}, {"type": "text", "text": "Hi"}],
        "tool_calls": calls,
    }

    assert Reader().feed({"i": 0, "message": message, "meta": None}) == [
        ("start", "reasoning", "m"),
        ("delta", "reasoning", "Hmm"),
        ("end", "reasoning", "m"),
        ("start", "text", "m"),
        ("delta", "text", "Hi"),
        ("end", "text", "m"),
        ("start", "call", "c"),
        ("delta", "call", '{"a":1}'),
        ("end", "call", "c"),
    ]


def test_only_messages_of_models_have_parts() -> None:
    assert Reader().feed({"i": 0, "message": {"type": "tool", "id": "t", "content": "3"}, "meta": {}}) == []
    assert Reader().feed(first("Hi", type="HumanMessageChunk")) == []


def test_a_text_that_the_reader_does_not_show_is_skipped() -> None:
    reader = Reader(hidden=("text", "reasoning"))
    reader.feed(first("", tool_call_chunks=[call("{", "c", "add")]))

    assert reader.feed(patch("Hi", additional_kwargs={"reasoning_content": "Hmm"}, tool_call_chunks=[])) == []
    assert reader.feed(patch("", tool_call_chunks=[call("}")])) == [("delta", "call", "}")]


def test_a_text_that_the_reader_does_not_show_is_not_appended_to_an_open_one() -> None:
    reader = Reader()
    reader.feed(first("Hi"))
    reader.hidden = ("text",)

    assert reader.feed(patch("secret")) == []


def test_a_call_that_the_reader_does_not_show_ends_what_is_before_it() -> None:
    reader = Reader(hidden=("secret",))
    reader.feed(first("Hi"))

    assert reader.feed(patch(tool_call_chunks=[call("{", "c", "secret")])) == [("end", "text", "m")]
    assert reader.feed(patch(tool_call_chunks=[call("}")])) == []


def test_a_text_that_its_task_closed_starts_again() -> None:
    reader = Reader()
    reader.feed(first("He"))
    reader.opened.close_all()

    assert reader.feed([0, "llo"]) == [("start", "text", "m"), ("delta", "text", "llo")]


texts_only = st.builds(dict, content=st.text("ab", max_size=3))


@settings(max_examples=100, deadline=None)
@given(interleaved(texts_only) | interleaved(), st.text("ab", min_size=1, max_size=3))
def test_a_text_after_plain_text_only_appends_to_it(chunks: list[BaseMessageChunk], text: str) -> None:
    reader = Reader()
    for recorded in entries_of(chunks):
        reader.changes(recorded)

    for number, message in reader.messages.streamed.items():
        if message.plain_text is not None and message.plain_text.is_open:
            assert reader.feed([number, text]) == [("delta", "text", text)]


def test_plain_text_is_known_once_it_has_started() -> None:
    reader = Reader()
    reader.feed(first("Hi"))
    message = reader.messages.streamed[0]

    assert message.plain_text is reader.opened.get(("text", "m"))
    reader.feed(patch("Hi", additional_kwargs={"reasoning_content": "Hmm"}))
    assert message.plain_text is None


@settings(max_examples=100, deadline=None)
@given(interleaved())
def test_deltas_add_up_to_the_content_and_only_open_parts_grow(chunks: list[BaseMessageChunk]) -> None:
    reader, is_open = Reader(), set[Part]()
    texts: dict[tuple[str, str], str] = {}
    for recorded in entries_of(chunks):
        for change in reader.changes(recorded):
            match change:
                case PartDelta(part, text):
                    assert part in is_open
                    texts[part.key] = texts.get(part.key, "") + text
                case PartStarted(part):
                    assert part.key not in {each.key for each in is_open}
                    is_open.add(part)
                case _:
                    is_open.remove(change.part)
        assert set(reader.opened) == is_open

    for message_id in "mno":
        of_message = [chunk for chunk in chunks if chunk.id == message_id]
        text = "".join(text_of(chunk.content) for chunk in of_message)
        reasoning = "".join(reasoning_of(chunk.content, chunk.additional_kwargs) for chunk in of_message)
        assert texts.get(("text", message_id), "") == text
        assert texts.get(("reasoning", message_id), "") == reasoning


@settings(max_examples=60, deadline=None)
@given(interleaved(), st.data())
def test_a_reader_primed_up_to_any_entry_continues_with_the_same_changes(
    chunks: list[BaseMessageChunk], data: st.DataObject
) -> None:
    entries = entries_of(chunks)
    position = data.draw(st.integers(0, len(entries)))
    live, late = Reader(), Reader()
    sent = [[described(change) for change in live.changes(recorded)] for recorded in entries]

    for recorded in entries[:position]:
        late.changes(recorded)

    assert [[described(change) for change in late.changes(recorded)] for recorded in entries[position:]] == sent[
        position:
    ]
