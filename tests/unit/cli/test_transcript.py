"""The text that `threadwire watch` prints."""

import pytest

from threadwire.cli.transcript import MAX_VALUE_LENGTH, Transcript

META = {"langgraph_node": "model"}


def printed(*frames, transcript=None):
    transcript = transcript or Transcript()
    return "".join(piece.text for event, data in frames for piece in transcript.feed(event, data))


def token(text, message_id="m1", **fields):
    return ("messages", [{"type": "AIMessageChunk", "id": message_id, "content": text, **fields}, META])


def call(index, name, args, message_id="m1"):
    return token("", message_id, tool_call_chunks=[{"index": index, "name": name, "args": args}])


def test_tokens_are_appended_to_the_line_of_their_message():
    assert printed(token("Hel"), token("lo"), token("Bye", "m2")) == "  model: Hello\n  model: Bye"


def test_an_empty_token_shows_nothing():
    assert printed(token(""), token("a"), token("")) == "  model: a"


def test_another_event_ends_the_line_and_the_message_continues_on_a_new_one():
    frames = [token("one "), ("custom", {"done": 50}), token("two")]
    assert printed(*frames) == '  model: one \n  ✎ {"done":50}\n  model: two'


def test_continuation_lines_of_a_message_are_indented():
    assert printed(token("a\nb"), token("\nc")) == "  model: a\n    b\n    c"


def test_the_text_of_content_blocks_is_shown():
    blocks = [{"type": "text", "text": "a"}, {"type": "image", "url": "x"}, "b"]
    assert printed(token(blocks)) == "  model: ab"


def test_tool_calls_are_shown_as_their_arguments_arrive():
    frames = [token("Let me."), call(0, "add", ""), call(0, None, '{"a":'), call(0, None, " 1}"), call(1, "sub", "{}")]
    assert printed(*frames) == '  model: Let me.\n  → add {"a": 1}\n  → sub {}'


def test_a_whole_message_is_shown_with_its_tool_calls():
    message = {"type": "ai", "id": "m", "content": "Hi", "tool_calls": [{"name": "add", "args": {"a": 1}}]}
    assert printed(("messages", [message, META])) == '  model: Hi\n  → add {"a":1}\n'


def test_tool_results_and_roles_are_distinguished():
    result = ("messages", [{"type": "tool", "name": "add", "content": "3"}, {"langgraph_node": "tools"}])
    human = ("messages", [{"type": "human", "id": "h", "content": "me"}, META])
    assert printed(result, human) == "  ← add 3\n  human: me"


def test_nodes_are_shown_with_the_keys_they_wrote():
    updates = [
        ("updates", {"model": {"messages": [], "n": 1}}),
        ("updates", {"idle": None}),
        ("updates|sub:1|in:2", {"x": {}}),
    ]
    assert printed(*updates) == "  ✓ model (messages, n)\n  ✓ idle\n  ✓ sub ▸ in ▸ x\n"


def test_after_an_interrupt_the_run_is_waiting_for_an_answer():
    transcript = Transcript()
    interrupted = ("updates", {"__interrupt__": [{"value": {"q": "ok?"}, "id": "i1"}]})
    assert printed(interrupted, transcript=transcript) == '  ? {"q":"ok?"}  (interrupt i1)\n'
    assert transcript.end("success")[0].text == "── waiting for an answer\n"
    transcript.start({"run_id": "r2", "assistant_id": "a"})
    assert transcript.end("success")[0].text == "── success\n"


def test_a_breakpoint_is_shown():
    assert printed(("updates", {"__interrupt__": []})) == "  ‖ paused between two steps\n"


def test_errors_new_attempts_and_restarted_messages_are_shown():
    assert printed(
        ("metadata", {"run_id": "r", "attempt": 1}),
        token("half"),
        ("metadata", {"run_id": "r", "attempt": 2}),
        ("messages", [{"type": "remove", "id": "m1"}, META]),
        ("error", {"error": "ValueError", "message": "boom"}),
    ) == (
        "  model: half\n"
        "  ↻ attempt 2, resuming from the last checkpoint\n"
        "  ↶ restarting the message above\n"
        "  ✗ ValueError: boom\n"
    )  # fmt: skip


@pytest.mark.parametrize("event", ["values", "checkpoints", "tasks", "something-new"])
def test_other_events_are_ignored(event):
    assert printed((event, {"a": 1})) == ""


def test_a_long_value_is_truncated():
    assert printed(("custom", "x" * (MAX_VALUE_LENGTH + 1))) == f"  ✎ {'x' * MAX_VALUE_LENGTH}…\n"


@pytest.mark.parametrize("hostile", ["\x1b]0;title\x07", "\x1b[2J", "\r", "\x9b1A", "\x00"])
def test_model_output_cannot_send_control_sequences_to_the_terminal(hostile):
    frames = [
        token(f"a{hostile}"),
        ("custom", f"b{hostile}"),
        ("error", {"error": "E", "message": hostile}),
        ("updates", {hostile: None}),
        call(0, hostile, hostile),
    ]
    assert not set(printed(*frames)) & set("\x00\x07\r\x1b\x9b")


def test_the_heading_of_a_run_ends_an_open_line():
    transcript = Transcript()
    printed(token("half"), transcript=transcript)
    text = "".join(
        piece.text for piece in transcript.start({"run_id": "r", "assistant_id": "a", "metadata": {"graph_id": "g"}})
    )
    assert text == "\nrun r · g\n"
