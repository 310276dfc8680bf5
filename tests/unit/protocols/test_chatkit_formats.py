"""Formats, widgets, icons and file names: what clients accept, and what replaces the rest."""

from typing import Any

import pytest

from threadwire.core.entries import Entry
from threadwire.core.ids import RunId, Seq
from threadwire.errors import Invalid, TooLarge
from threadwire.graphs.chatkit_config import AttachmentSection
from threadwire.protocols.chatkit.attachments import check_content, check_declared, file_name, is_attachment_id
from threadwire.protocols.chatkit.encode import ChatKitEncoder
from threadwire.protocols.chatkit.formats import AgentFormat, AgentFormats, Formats, Sources, Text, ToolFormat
from threadwire.protocols.chatkit.history import cut_off_messages
from threadwire.protocols.chatkit.icons import known_icon
from threadwire.protocols.chatkit.rendering import rendered_result, rendered_ui
from threadwire.protocols.chatkit.widgets import MAX_BYTES, InvalidWidget, checked, update_between

CARD: dict[str, Any] = {"type": "Card", "children": []}


@pytest.mark.parametrize(
    ("name", "expected"),
    [("bolt", "bolt"), ("lucide:x", "lucide:x"), ("vendor:y", "vendor:y"), ("upload", "lucide:upload")],
)
def test_an_icon_is_known_or_one_of_lucide(name: str, expected: str) -> None:
    assert known_icon(name) == expected


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        ("messages", [0, "token"], False),
        ("messages", {"i": 0, "chunk": {}, "meta": {}}, False),
        ("messages", {"i": 0, "patch": {}}, False),
        ("messages", {"i": 0, "message": {"type": "tool"}, "meta": {}}, True),
        ("state", {}, True),
        ("custom", {"value": {"type": "ui"}}, True),
        ("checkpoint", {}, False),
    ],
)
def test_only_entries_that_may_be_rendered_by_functions_are_fed_in_a_thread(
    kind: str, data: Any, expected: bool
) -> None:
    entry = Entry(Seq(1), RunId("r"), 1, 0, (), kind, data)
    formats = Formats()
    formats.tool("t")(str)
    with_functions = AgentFormats({"g": AgentFormat(tools=formats.tools)})
    only_titles = AgentFormats({"g": AgentFormat(tools={"t": ToolFormat(title="T")})})

    assert ChatKitEncoder("thread", with_functions).calls_project_code(entry) == expected
    assert not ChatKitEncoder("thread", only_titles).calls_project_code(entry)


@pytest.mark.parametrize("name", ["🙂", "", None, 3, "Two Words", "<script>"])
def test_anything_else_is_replaced(name: Any) -> None:
    assert known_icon(name, "empty-circle") == "empty-circle"


def test_a_widget_keeps_what_its_author_wrote_except_for_nulls_and_unknown_icons() -> None:
    widget = {
        **CARD,
        "border": {"size": 1, "color": None},
        "children": [{"type": "Button", "iconStart": "🙂", "a": None}],
    }

    assert checked(widget) == {
        **CARD,
        "border": {"size": 1},
        "children": [{"type": "Button", "iconStart": "empty-circle"}],
    }


@pytest.mark.parametrize(
    ("widget", "reason"),
    [
        ({"type": "Text"}, "a widget is an object"),
        ([CARD], "a widget is an object"),
        ({**CARD, "children": ["text"]}, r"Card\[0\]: must be an object with a type"),
        ({**CARD, "children": [{"value": "x"}]}, r"Card\[0\]: must be an object with a type"),
        ({**CARD, "id": 3}, "Card.id: must be a string"),
        ({"type": "ListView", "children": [{"type": "Text"}]}, "every child must be a ListViewItem"),
        ({**CARD, "title": "x" * MAX_BYTES}, "larger than"),
    ],
)
def test_an_invalid_widget_is_rejected_with_the_reason(widget: Any, reason: str) -> None:
    with pytest.raises(InvalidWidget, match=reason):
        checked(widget)


def test_a_deeply_nested_widget_is_rejected() -> None:
    widget: dict[str, Any] = {"type": "Text", "value": "x"}
    for _ in range(60):
        widget = {"type": "Box", "children": [widget]}
    with pytest.raises(InvalidWidget, match="nested more than"):
        checked({**CARD, "children": [widget]})


def test_only_added_text_is_sent_where_a_text_has_an_id() -> None:
    def card(value: str, *, component_id: str | None = "t", size: str = "md") -> dict[str, Any]:
        text = {"type": "Text", "value": value, **({"id": component_id} if component_id else {})}
        return {**CARD, "size": size, "children": [text]}

    delta = {"type": "widget.streaming_text.value_delta", "component_id": "t", "delta": "lo", "done": True}
    assert update_between(card("hel"), card("hello")) == delta
    for after in (card("other"), card("hello", size="lg")):
        assert update_between(card("hel"), after) == {"type": "widget.root.updated", "widget": after}
    unnamed = card("hello", component_id=None)
    assert update_between(card("hel", component_id=None), unnamed)["type"] == "widget.root.updated"


def test_a_title_has_the_arguments_of_its_call() -> None:
    tool = ToolFormat(title="Weather in {city}")

    assert tool.titled("get_weather", {"city": "Paris"}) == "Weather in Paris"
    assert tool.titled("get_weather", {}) == "Weather in …"
    assert ToolFormat(title="{").titled("x", {}) == "{"
    assert ToolFormat().titled("get_weather", None) == "Get weather"


def test_a_result_is_rendered_in_every_form() -> None:
    def render(result: Any, args: Any) -> list[Any]:
        source = {"type": "url", "url": "https://example.org", "title": "E"}
        return [f"{result['a']} {args['b']}", Text("text"), CARD, Sources([source, {"type": "url"}]), None]

    result = rendered_result("x", ToolFormat(result=render), {"content": '{"a": 1}'}, {"b": 2})

    assert (result.content, result.texts, result.widgets) == ("1 2", ["text"], [CARD])
    assert [each["source"]["title"] for each in result.annotations] == ["E"]


def test_a_format_that_fails_shows_the_plain_result() -> None:
    failing = rendered_result("x", ToolFormat(result=lambda result: 1 / 0), {"content": "1"}, None)
    invalid = rendered_result("x", ToolFormat(result=lambda result: {"type": "Nonsense"}), {"content": "1"}, None)

    assert (failing.content, failing.widgets, failing.problem) == (None, [], None)
    assert invalid.problem is not None


def test_a_result_that_is_a_widget_needs_no_format() -> None:
    assert rendered_result("x", ToolFormat(), {"content": "ok", "artifact": CARD}, None).widgets == [CARD]


def test_a_ui_message_without_a_format_is_a_card_with_its_props() -> None:
    card = rendered_ui(AgentFormat(), {"name": "my_chart", "props": {"points": [1]}})

    assert card["children"][0]["value"] == "My chart"
    assert rendered_ui(AgentFormat(), {"name": "x", "props": {"widget": CARD}}) == CARD


def test_the_digest_changes_with_the_formats() -> None:
    formats = Formats()

    @formats.tool("a", title="A")
    def render(result: Any) -> str:
        return "one"

    digests = [
        AgentFormats({}).digest,
        AgentFormats({"g": AgentFormat()}).digest,
        AgentFormats({"g": AgentFormat(tools=formats.tools)}).digest,
        AgentFormats({"g": AgentFormat(tools={"a": ToolFormat(title="B")})}).digest,
    ]
    assert len(set(digests)) == len(digests)
    assert AgentFormats({"g": AgentFormat(tools=formats.tools)}).digest == digests[2]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.png", "a.png"), ("../a.png", "a.png"), ("C:\\x\\a.png", "a.png"), ("..", "file"), ("a\0b\n.png", "ab.png")],
)
def test_a_file_name_has_no_folder(name: str, expected: str) -> None:
    assert file_name(name) == expected


def test_attachment_ids_are_never_paths() -> None:
    assert is_attachment_id("atc_" + "0" * 32)
    assert not any(map(is_attachment_id, ("", "atc_", "../x", "atc_" + "0" * 31 + "/", "atc_" + "0" * 33)))


def test_types_and_sizes_are_limited() -> None:
    limits = AttachmentSection(max_bytes=10, accept={"image/*": [], "text/plain": []})

    assert check_declared("Image/PNG; x=1", 10, limits) == "image/png"
    for mime_type in ("text/html", "png", ""):
        with pytest.raises(Invalid):
            check_declared(mime_type, 1, limits)
    with pytest.raises(TooLarge):
        check_declared("image/png", 11, limits)
    with pytest.raises(Invalid, match="in UTF-8"):
        check_content("text/plain", b"\xff", limits)


def test_cut_off_messages_are_what_the_state_does_not_have() -> None:
    conversation = [{"type": "human", "id": "h", "content": "x"}, {"type": "ai", "id": "a", "content": ""}]
    known = {"kind": "message", "status": "complete", "ns": [], "message": conversation[1]}
    cut_off = {"kind": "message", "status": "failed", "ns": [], "message": {"type": "ai", "id": "b", "content": "half"}}

    assert cut_off_messages({"messages": conversation}, [known, cut_off]) == [cut_off["message"]]
    assert cut_off_messages({"other": 1}, [cut_off]) == []
