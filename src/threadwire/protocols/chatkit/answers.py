"""Answers to interrupts, from what clients send: a click, a form, the composer's own questions, or a typed message.

Everything that a client sends is untrusted. An answer that the question does not allow is rejected before it reaches
the graph.
"""

import math
from collections.abc import Mapping
from typing import Any

from threadwire.core.entries import Json
from threadwire.core.json import loads_exactly
from threadwire.errors import Invalid
from threadwire.protocols.chatkit.cards import ANSWER
from threadwire.protocols.chatkit.decode import Action, StructuredInputSubmission
from threadwire.protocols.chatkit.questions import WHOLE, Field, Question, Review, argument_fields
from threadwire.protocols.chatkit.wire import Object


def from_action(question: Question, action: Action) -> Json:
    """The answer that an action on the question's card gives. Raises `Invalid`."""
    payload = action.payload if isinstance(action.payload, dict) else {}
    if question.kind == "widget":
        return action.payload if action.type == ANSWER else {"type": action.type, "payload": action.payload}
    if action.type != ANSWER:
        raise Invalid(f"action.type: {action.type[:100]!r} is not an action of this item")
    match question.kind:
        case "reviews":
            decisions = [_decision(at, review, payload) for at, review in enumerate(question.reviews)]
            return {"decisions": decisions} if question.is_batch else decisions[0]
        case "choices":
            return _choice(question, payload.get("choice"))
        case "breakpoint":
            return None
        case "form":
            return _form_answer(question, _object(payload.get("answer")))
        case "text":
            return _required_text(_object(payload.get("answer")).get(WHOLE), "answer")
        case _:
            raise Invalid("item_id: this item cannot be answered by an action")


def from_submission(question: Question, submission: StructuredInputSubmission, skip_value: Json) -> Json:
    """The answer that the composer's questions give. Raises `Invalid`."""
    if unknown := submission.answers.keys() - {field.name for field in question.fields}:
        raise Invalid(f"input.answers: unknown question {sorted(unknown)[0][:100]!r}")
    if submission.status == "skipped":
        return skip_value
    values: Object = {}
    for field in question.fields:
        answer = submission.answers.get(field.name)
        if answer is None or answer.skipped or not answer.values:
            continue
        values[field.name] = _submitted(field, answer.values)
    if not question.is_object:
        return values.get(WHOLE, skip_value)
    return values if values else skip_value


def from_text(question: Question, text: str) -> tuple[Json] | None:
    """The answer that a typed message gives, in a tuple because it may be null; None if only a click can answer."""
    if not text.strip():
        return None
    if question.kind == "text":
        return (text,)
    if question.kind == "choices":
        wanted = text.strip().lower()
        return next(((value,) for label, value in question.options if label.lower() == wanted), None)
    if question.kind == "reviews" and len(question.reviews) == 1 and "respond" in question.reviews[0].allowed:
        decision = {"type": "respond", "message": text}
        return ({"decisions": [decision]} if question.is_batch else decision,)
    if question.kind == "structured" and len(question.fields) == 1 and question.fields[0].kind in ("text", "long_text"):
        return ({question.fields[0].name: text} if question.is_object else text,)
    return None


# -- reviews ----------------------------------------------------------------------------------------------------------


def _decision(at: int, review: Review, payload: Object) -> Object:
    decision = _object(payload.get("decision")).get(str(at))
    if decision not in review.allowed:
        raise Invalid(f"action.payload.decision.{at}: must be one of {', '.join(review.allowed)}")
    message = _object(payload.get("message")).get(str(at))
    match decision:
        case "edit":
            edited = _object(_object(payload.get("edit")).get(str(at)))
            args = {field.name: _edited(field, edited) for field in argument_fields(review)}
            return {"type": "edit", "edited_action": {"name": review.name, "args": args}}
        case "respond":
            return {"type": "respond", "message": _required_text(message, f"message.{at}")}
        case "reject" if isinstance(message, str) and message.strip():
            return {"type": "reject", "message": message}
        case _:
            return {"type": decision}


def _edited(field: Field, edited: Mapping[str, Any]) -> Json:
    return _converted(field, edited[field.name]) if field.name in edited else field.default


def _choice(question: Question, choice: Json) -> Json:
    if type(choice) is not int or not 0 <= choice < len(question.options):
        raise Invalid("action.payload.choice: must be the number of an option")
    return question.options[choice][1]


# -- forms ------------------------------------------------------------------------------------------------------------


def _form_answer(question: Question, sent: Mapping[str, Any]) -> Json:
    answer: Object = {}
    for field in question.fields:
        value = sent.get(field.name)
        if value is None or value == "":
            if field.kind == "boolean" and field.required:
                answer[field.name] = False
            elif field.required:
                raise Invalid(f"{field.name}: required")
            continue
        answer[field.name] = _converted(field, value)
    return answer if question.is_object else answer.get(WHOLE)


def _submitted(field: Field, values: list[str]) -> Json:
    """The value of a question in the composer. A choice may be answered with any text, unless the graph's schema only
    accepts its options."""
    if field.kind == "choices":
        return [_option(field, each) for each in values]
    return _option(field, values[0]) if field.kind == "choice" else values[0]


def _option(field: Field, text: Json) -> Json:
    for option in field.options:
        if text == option or (isinstance(text, str) and text == _as_text(option)):
            return option
    raise Invalid(f"{field.name}: must be one of the options")


def _as_text(option: Json) -> str:
    return option if isinstance(option, str) else str(option)


def _converted(field: Field, value: Json) -> Json:
    match field.kind:
        case "boolean":
            return _boolean(field, value)
        case "number" | "integer":
            return _number(field, value)
        case "choice":
            return _option(field, value)
        case "choices":
            return [_option(field, each) for each in (value if isinstance(value, list) else [value])]
        case "json":
            return _json(field, value)
        case _:
            return _required_text(value, field.name)


def _boolean(field: Field, value: Json) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "on", "false", "off"):
        return value in ("true", "on")
    raise Invalid(f"{field.name}: must be true or false")


def _number(field: Field, value: Json) -> int | float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise Invalid(f"{field.name}: must be a number") from None
    if isinstance(value, bool) or not math.isfinite(number):
        raise Invalid(f"{field.name}: must be a number")
    if field.kind == "integer":
        if not number.is_integer():
            raise Invalid(f"{field.name}: must be a whole number")
        return int(number)
    return number


def _json(field: Field, value: Json) -> Json:
    if not isinstance(value, str):
        return value
    try:
        return loads_exactly(value)
    except ValueError:
        raise Invalid(f"{field.name}: must be JSON") from None


def _required_text(value: Json, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Invalid(f"{name}: must be a string")
    return value


def _object(value: Json) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
