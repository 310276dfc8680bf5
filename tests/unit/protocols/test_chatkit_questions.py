"""Interrupts as ChatKit's items, and answers to them."""

from typing import Any

import pytest

from threadwire.errors import Invalid
from threadwire.protocols.chatkit.answers import from_action, from_submission, from_text
from threadwire.protocols.chatkit.cards import ANSWER, item_id_of, item_of
from threadwire.protocols.chatkit.decode import Action, StructuredInputSubmission
from threadwire.protocols.chatkit.questions import question_of


def block(value: Any, schema: Any = None, **fields: Any) -> dict[str, Any]:
    asked = {"id": "i:abc", "interruptId": "abc", "kind": "interrupt", "value": value, "completed": False, **fields}
    return asked if schema is None else {**asked, "responseSchema": schema}


def answered(asked: dict[str, Any], response: Any) -> dict[str, Any]:
    return {**asked, "completed": True, "outcome": "answered", "response": response}


def answer(**payload: Any) -> Action:
    return Action(type=ANSWER, payload=payload)


FLAT = {
    "type": "object",
    "title": "Order",
    "properties": {
        "size": {"enum": ["small", "large"], "title": "Size"},
        "extras": {"type": "array", "items": {"$ref": "#/$defs/Extra"}},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
    },
    "required": ["size"],
    "$defs": {"Extra": {"enum": ["milk", "sugar"]}},
}
FORM = {
    "type": "object",
    "properties": {
        "count": {"type": "integer"},
        "price": {"type": "number"},
        "sure": {"type": "boolean"},
        "when": {"type": "string", "format": "date"},
        "colour": {"enum": ["red", 7]},
        "more": {"type": "object"},
    },
    "required": ["count", "sure"],
}


@pytest.mark.parametrize(
    ("value", "schema", "kind"),
    [
        ("How old are you?", None, "text"),
        (None, None, "text"),
        ([1, 2], None, "text"),
        ({"question": "Which?", "options": ["a", "b"]}, None, "choices"),
        ({"question": "Which?", "options": []}, None, "text"),
        ({"question": "What?"}, FLAT, "structured"),
        ({"question": "What?"}, FORM, "form"),
        ("What?", {"type": "string"}, "structured"),
        ("What?", {"enum": ["a"]}, "structured"),
        ("What?", {"type": "object", "properties": {}}, "text"),
        ({"action_requests": [{"name": "pay", "args": {}}], "review_configs": []}, None, "reviews"),
        ({"action_requests": []}, None, "text"),
        ({"type": "tool_approval", "name": "pay", "args": {}}, {"const": "approve"}, "reviews"),
        ({"client_tool": {"name": "pick"}}, None, "client_tool"),
        ({"client_tool": "pick"}, None, "text"),
        ({"widget": {"type": "Card", "children": []}}, None, "widget"),
        ({"widget": {"type": "Nonsense"}}, None, "text"),
    ],
)
def test_a_question_is_recognized_by_its_form(value: Any, schema: Any, kind: str) -> None:
    assert question_of(block(value, schema)).kind == kind


@pytest.mark.parametrize(
    ("description", "shown"),
    [
        ("Pay this?\n\nTool: pay\nArgs: {'sum': 7, 'to': None}", "Pay this?"),
        (
            "Pay this?\n\nTool: other\nArgs: {'sum': 7, 'to': None}",
            "Pay this?\n\nTool: other\nArgs: {'sum': 7, 'to': None}",
        ),
        ("Pay this?", "Pay this?"),
        (None, None),
    ],
)
def test_a_review_does_not_repeat_the_call_in_its_description(description: Any, shown: str | None) -> None:
    request = {"name": "pay", "args": {"sum": 7, "to": None}, "description": description}
    question = question_of(block({"action_requests": [request], "review_configs": []}))
    assert [review.description for review in question.reviews] == [shown]


def test_a_second_generation_of_an_interrupt_has_its_own_item() -> None:
    assert item_id_of(block("?")) == "int_abc"
    assert item_id_of(block("?", id="i:abc#2")) == "int_abc_2"


def test_a_form_converts_what_was_typed() -> None:
    question = question_of(block({"question": "What?"}, FORM))
    sent = {"count": "3", "price": "2.5", "sure": True, "when": "2026-01-01", "colour": "7", "more": '{"a": 1}'}

    assert from_action(question, answer(answer=sent)) == {
        "count": 3,
        "price": 2.5,
        "sure": True,
        "when": "2026-01-01",
        "colour": 7,
        "more": {"a": 1},
    }
    assert from_action(question, answer(answer={"count": 3})) == {"count": 3, "sure": False}


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ({}, "count: required"),
        ({"count": "many"}, "count: must be a number"),
        ({"count": "1.5"}, "count: must be a whole number"),
        ({"count": "nan"}, "count: must be a number"),
        ({"count": 1, "sure": "maybe"}, "sure: must be true or false"),
        ({"count": 1, "colour": "blue"}, "colour: must be one of the options"),
        ({"count": 1, "more": "{"}, "more: must be JSON"),
    ],
)
def test_a_form_rejects_what_the_schema_does_not_allow(sent: dict[str, Any], reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        from_action(question_of(block({"question": "What?"}, FORM)), answer(answer=sent))


def test_structured_input_leaves_out_what_was_skipped() -> None:
    asked = block({"question": "What?"}, FLAT)
    submitted = StructuredInputSubmission.model_validate(
        {"answers": {"size": {"values": ["small"]}, "extras": {"values": ["milk", "sugar"]}, "note": {"skipped": True}}}
    )

    response = from_submission(question_of(asked), submitted, None)

    assert response == {"size": "small", "extras": ["milk", "sugar"]}
    kind, fields = item_of(answered(asked, response))
    assert (kind, fields["status"]) == ("structured_input", "answered")
    assert [each["answer"]["values"] for each in fields["inputs"]] == [["small"], ["milk", "sugar"], []]


def test_skipped_questions_are_answered_with_the_skip_value() -> None:
    asked = block({"question": "What?"}, FLAT)
    skipped = StructuredInputSubmission(status="skipped")

    assert from_submission(question_of(asked), skipped, "nothing") == "nothing"
    assert item_of(answered(asked, "nothing"), "nothing")[1]["status"] == "skipped"


@pytest.mark.parametrize(
    ("answers", "reason"),
    [({"age": {"values": ["1"]}}, "unknown question 'age'"), ({"size": {"values": ["huge"]}}, "size: must be one of")],
)
def test_structured_input_rejects_other_answers(answers: dict[str, Any], reason: str) -> None:
    submitted = StructuredInputSubmission.model_validate({"answers": answers})
    with pytest.raises(Invalid, match=reason):
        from_submission(question_of(block({"question": "What?"}, FLAT)), submitted, None)


@pytest.mark.parametrize("choice", [None, -1, 2, "0", True])
def test_a_choice_is_the_number_of_an_option(choice: Any) -> None:
    question = question_of(block({"question": "Which?", "options": [{"label": "One", "value": 1}, "two"]}))

    assert from_action(question, answer(choice=0)) == 1
    with pytest.raises(Invalid, match="must be the number of an option"):
        from_action(question, answer(choice=choice))


def test_only_some_questions_are_answered_by_typing() -> None:
    review = {"action_requests": [{"name": "a", "args": {}}], "review_configs": []}
    respond = {**review, "review_configs": [{"action_name": "a", "allowed_decisions": ["respond"]}]}

    assert from_text(question_of(block("How?")), "so") == ("so",)
    assert from_text(question_of(block("How?")), "  ") is None
    assert from_text(question_of(block({"question": "?", "options": ["Red"]})), " red ") == ("Red",)
    assert from_text(question_of(block({"question": "?", "options": ["Red"]})), "blue") is None
    assert from_text(question_of(block(review)), "no") is None
    assert from_text(question_of(block(respond)), "no") == ({"decisions": [{"type": "respond", "message": "no"}]},)


def test_an_action_of_another_type_is_not_an_answer() -> None:
    with pytest.raises(Invalid, match="is not an action of this item"):
        from_action(question_of(block("How?")), Action(type="refresh"))
