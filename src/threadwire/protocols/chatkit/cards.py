"""Interrupts as items: cards with buttons and forms, the composer's own questions, and calls to the client's tools.

A card is interactive while its interrupt is pending. Afterwards the same item shows the question and its answer.
"""

from collections.abc import Iterable

from threadwire.core.entries import Json
from threadwire.core.timeline import Block
from threadwire.protocols.chatkit.questions import WHOLE, Field, Question, Review, argument_fields, question_of
from threadwire.protocols.chatkit.widgets import fact_rows, shown_value
from threadwire.protocols.chatkit.wire import Object, without_none

ANSWER = "threadwire.answer"
"""The type of the actions that answer an interrupt."""

_LABELS = {"approve": "Approve", "edit": "Save and approve", "reject": "Reject", "respond": "Respond"}
_DECIDED = {"approve": "Approved", "edit": "Edited and approved", "reject": "Rejected", "respond": "Answered"}
_OUTCOMES = {"abandoned": "Skipped", "cancelled": "Cancelled"}
_MAX_STATUS = 80


def item_id_of(block: Block) -> str:
    return "int_" + str(block["id"]).removeprefix("i:").replace("#", "_")


def item_of(block: Block, skip_value: Json = None) -> tuple[str, Object]:
    """The type and the fields of an interrupt's item."""
    question = question_of(block)
    if question.kind == "client_tool":
        return "client_tool_call", _client_tool_call(question, block)
    if question.kind == "structured":
        return "structured_input", _structured_input(question, block, skip_value)
    widget = _answered_card(question, block) if block["completed"] else _open_card(question, block["interruptId"])
    return "widget", {"widget": widget}


# -- client tools -----------------------------------------------------------------------------------------------------


def _client_tool_call(question: Question, block: Block) -> Object:
    tool = question.tool
    arguments = tool.get("arguments", tool.get("args"))
    return without_none(
        {
            "status": "completed" if block["completed"] else "pending",
            "call_id": str(tool.get("call_id") or block["interruptId"]),
            "name": tool["name"],
            "arguments": arguments if isinstance(arguments, dict) else {},
            "output": block.get("response"),
        }
    )


# -- structured input -------------------------------------------------------------------------------------------------


def _structured_input(question: Question, block: Block, skip_value: Json) -> Object:
    if not block["completed"]:
        return {"status": "pending", "inputs": [_input(question, field) for field in question.fields]}
    response = block.get("response")
    was_skipped = "response" not in block or response == skip_value
    inputs = [
        {**_input(question, field), "answer": _input_answer(question, field, None if was_skipped else response)}
        for field in question.fields
    ]
    return {"status": "skipped" if was_skipped else "answered", "inputs": inputs}


def _input(question: Question, field: Field) -> Object:
    asked = {"id": field.name, "question": question.text if field.name == WHOLE else field.label}
    if field.kind in ("choice", "choices"):
        options = [{"value": shown_value(option)} for option in field.options]
        return {**asked, "type": "multiple_choice", "options": options, "multiple": field.kind == "choices"}
    context = None if field.name == WHOLE else question.text
    return without_none({**asked, "type": "freeform", "description": field.description or context})


def _input_answer(question: Question, field: Field, response: Json) -> Object:
    if question.is_object:
        response = response.get(field.name) if isinstance(response, dict) else None
    if response is None:
        return {"values": [], "skipped": True}
    listed = response if isinstance(response, list) else [response]
    return {"values": [shown_value(each) for each in listed], "skipped": False}


# -- open cards -------------------------------------------------------------------------------------------------------


def _open_card(question: Question, interrupt_id: str) -> Object:
    match question.kind:
        case "widget":
            return question.widget
        case "reviews":
            return _review_card(question, interrupt_id)
        case "choices":
            buttons = [
                _button(label, {"interrupt_id": interrupt_id, "choice": at})
                for at, (label, _) in enumerate(question.options)
            ]
            return _card([*_heading(question), {"type": "Row", "wrap": "wrap", "gap": 2, "children": buttons}])
        case "breakpoint":
            return {**_card(_heading(question)), "confirm": _action("Continue", {"interrupt_id": interrupt_id})}
        case "form":
            return _form(question, interrupt_id, _inputs("answer", question.fields))
        case _:
            return _form(question, interrupt_id, [_textarea(f"answer.{WHOLE}", placeholder="Your answer")])


def _form(question: Question, interrupt_id: str, inputs: list[Object]) -> Object:
    card = _card([*_heading(question), *inputs])
    return {**card, "asForm": True, "confirm": _action("Send", {"interrupt_id": interrupt_id})}


def _review_card(question: Question, interrupt_id: str) -> Object:
    if len(question.reviews) > 1:
        sections = [
            part for at, review in enumerate(question.reviews) for part in (*_review(review), *_decision(at, review))
        ]
        return _form(question, interrupt_id, sections)
    (review,) = question.reviews
    card = _card([*_review(review), *_review_inputs(0, review)])
    if _review_inputs(0, review):
        card["asForm"] = True
    labelled = {each: _action(_LABELS[each], _decided(interrupt_id, each)) for each in review.allowed}
    places = {"confirm": labelled.pop("approve", None), "cancel": labelled.pop("reject", None)}
    buttons = [_button(each["label"], each["action"]["payload"]) for each in labelled.values()]
    if buttons:
        card["children"] = [*card["children"], {"type": "Row", "gap": 2, "children": buttons}]
    return without_none({**card, **places})


def _decided(interrupt_id: str, decision: str) -> Object:
    return {"interrupt_id": interrupt_id, "decision": {"0": decision}}


def _review(review: Review) -> list[Object]:
    heading: list[Object] = [{"type": "Title", "value": review.name.replace("_", " ").capitalize(), "size": "sm"}]
    if review.description:
        heading.append({"type": "Markdown", "value": review.description})
    return heading + fact_rows(review.args.items())


def _decision(at: int, review: Review) -> list[Object]:
    options = [{"label": _LABELS[each], "value": each} for each in review.allowed]
    first = review.allowed[0] if review.allowed else None
    choice = without_none(
        {"type": "RadioGroup", "name": f"decision.{at}", "options": options, "defaultValue": first, "direction": "row"}
    )
    return [choice, *_review_inputs(at, review), {"type": "Divider"}]


def _review_inputs(at: int, review: Review) -> list[Object]:
    """The inputs of the decisions that need more than a click."""
    inputs = _inputs(f"edit.{at}", argument_fields(review)) if "edit" in review.allowed else []
    if "respond" in review.allowed:
        inputs.append(_textarea(f"message.{at}", placeholder="Answer instead of the tool"))
    elif "reject" in review.allowed:
        inputs.append(_textarea(f"message.{at}", placeholder="Reason, if you reject it"))
    return inputs


# -- answered cards ---------------------------------------------------------------------------------------------------


def _answered_card(question: Question, block: Block) -> Object:
    answered = "response" in block
    status = {"text": _status(question, block)[:_MAX_STATUS], "icon": "check" if answered else "empty-circle"}
    if question.kind == "widget":
        children = [_read_only(child) for child in _listed(question.widget.get("children"))]
        plain = {name: each for name, each in question.widget.items() if name not in ("confirm", "cancel", "asForm")}
        return {**plain, "children": children, "status": status}
    shown = [part for review in question.reviews for part in _review(review)] or _heading(question)
    return {**_card(shown + fact_rows(_answer_facts(question, block))), "status": status}


def _status(question: Question, block: Block) -> str:
    if "response" not in block:
        return _OUTCOMES.get(block["outcome"], "Continued" if question.kind == "breakpoint" else "Answered")
    if question.kind == "reviews":
        decided = [_DECIDED.get(each, "Answered") for each in _decisions(block["response"])]
        counted = {each: decided.count(each) for each in decided}
        if len(decided) == 1:
            return decided[0]
        return ", ".join(f"{count} {text.lower()}" for text, count in counted.items()) or "Answered"
    if question.kind == "choices":
        return next((label for label, value in question.options if value == block["response"]), "Answered")
    return "Answered"


def _decisions(response: Json) -> list[str]:
    return [str(each.get("type")) for each in _decision_list(response)]


def _decision_list(response: Json) -> list[Object]:
    listed = response.get("decisions", response) if isinstance(response, dict) else None
    return [each for each in _listed(listed) if isinstance(each, dict)]


def _answer_facts(question: Question, block: Block) -> Iterable[tuple[str, Json]]:
    response = block.get("response")
    if question.kind == "reviews" and isinstance(response, dict):
        for decision in _decision_list(response):
            if isinstance(edited := decision.get("edited_action"), dict):
                yield from ((f"New {name}", value) for name, value in _items(edited.get("args")))
            elif decision.get("message"):
                yield "Message", decision["message"]
    elif question.kind == "form" and isinstance(response, dict):
        labels: dict[str, str] = {field.name: field.label for field in question.fields}
        yield from ((labels.get(name, str(name)), value) for name, value in response.items())
    elif question.kind in ("text", "form") and "response" in block:
        yield "Answer", response


def _items(value: Json) -> Iterable[tuple[str, Json]]:
    return value.items() if isinstance(value, dict) else ()


def _listed(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _read_only(component: Json) -> Json:
    """A component of the graph's own widget, without its actions and disabled."""
    if not isinstance(component, dict):
        return component
    fields = {name: each for name, each in component.items() if name not in ("onClickAction", "onChangeAction")}
    if component.get("type") in ("Button", "Input", "Textarea", "Select", "DatePicker", "Checkbox", "RadioGroup"):
        fields["disabled"] = True
    if component.get("type") == "Form":
        fields = {**fields, "type": "Col"}
        fields.pop("onSubmitAction", None)
    if "children" in component:
        children = component["children"]
        fields["children"] = (
            [_read_only(each) for each in children] if isinstance(children, list) else _read_only(children)
        )
    return fields


# -- components -------------------------------------------------------------------------------------------------------


def _card(children: list[Object]) -> Object:
    return {"type": "Card", "size": "md", "children": children}


def _heading(question: Question) -> list[Object]:
    return [{"type": "Markdown", "value": question.text}, *fact_rows(question.details)]


def _action(label: str, payload: Object) -> Object:
    return {"label": label, "action": {"type": ANSWER, "payload": payload}}


def _button(label: str, payload: Object) -> Object:
    return {"type": "Button", "label": label, "onClickAction": {"type": ANSWER, "payload": payload}}


def _textarea(name: str, *, placeholder: str) -> Object:
    return {"type": "Textarea", "name": name, "placeholder": placeholder, "rows": 2}


def _inputs(prefix: str, fields: Iterable[Field]) -> list[Object]:
    return [part for field in fields for part in _labelled_input(f"{prefix}.{field.name}", field)]


def _labelled_input(name: str, field: Field) -> list[Object]:
    if field.kind == "boolean":
        return [{"type": "Checkbox", "name": name, "label": field.label, "defaultChecked": field.default is True}]
    label = {"type": "Label", "value": field.label, "fieldName": name}
    hint = [{"type": "Caption", "value": field.description}] if field.description else []
    return [label, _control(name, field), *hint]


def _control(name: str, field: Field) -> Object:
    default = None if field.default is None else shown_value(field.default)
    common: Object = {"name": name, "defaultValue": default}
    match field.kind:
        case "choice":
            options = [{"value": shown_value(option), "label": shown_value(option)} for option in field.options]
            return without_none({"type": "Select", **common, "options": options, "clearable": not field.required})
        case "date":
            return {"type": "DatePicker", "name": name}
        case "number" | "integer":
            return without_none({"type": "Input", **common, "inputType": "number", "required": field.required})
        case "text":
            return without_none({"type": "Input", **common, "required": field.required})
        case _:
            return without_none({"type": "Textarea", **common, "required": field.required})
