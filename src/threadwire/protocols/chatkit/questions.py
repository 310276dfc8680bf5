"""What an interrupt asks, recognized by the form of its value and of the schema of its answer."""

from dataclasses import dataclass, field
from typing import Any, Literal

from threadwire.core.entries import Json
from threadwire.core.json import dumps
from threadwire.core.timeline import Block
from threadwire.protocols.chatkit.widgets import InvalidWidget, checked, shown_value
from threadwire.protocols.chatkit.wire import Object

FieldKind = Literal["text", "long_text", "number", "integer", "boolean", "choice", "choices", "date", "json"]

DECISIONS = ("approve", "edit", "reject", "respond")
"""The decisions of LangChain's human-in-the-loop middleware, in the order in which they are offered."""

WHOLE = "answer"
"""The name of the only field of an answer that is not an object."""

_QUESTION_KEYS = ("question", "message", "prompt", "title", "text", "description")
_LONG = 80


@dataclass(frozen=True, slots=True)
class Field:
    """One value of an answer."""

    name: str
    label: str
    kind: FieldKind
    options: tuple[Json, ...] = ()
    required: bool = True
    description: str | None = None
    default: Json = None

    @property
    def fits_composer(self) -> bool:
        """Whether ChatKit's composer can ask for it."""
        return self.kind in ("text", "long_text", "choice", "choices")


@dataclass(frozen=True, slots=True)
class Review:
    """A tool call that waits for a decision."""

    name: str
    args: Object
    description: str | None
    allowed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    kind: Literal["reviews", "form", "structured", "choices", "text", "widget", "client_tool", "breakpoint"]
    text: str
    details: tuple[tuple[str, str], ...] = ()
    """Further facts, as names and values."""
    reviews: tuple[Review, ...] = ()
    is_batch: bool = True
    """Whether the answer of a review is a list of decisions, and not one decision."""
    fields: tuple[Field, ...] = ()
    is_object: bool = True
    """Whether the answer of a form is an object, and not the value of its only field."""
    options: tuple[tuple[str, Json], ...] = ()
    """The labels and values to choose from."""
    widget: Object = field(default_factory=dict)
    tool: Object = field(default_factory=dict)


def question_of(block: Block) -> Question:
    """What the interrupt of a timeline's block asks."""
    value, schema = block.get("value"), block.get("responseSchema")
    if block.get("breakpoint"):
        return Question("breakpoint", f"Paused before {', '.join(map(str, block['value']['next']))}")
    if isinstance(value, dict) and (special := _special(value, schema)) is not None:
        return special
    text, details = _described(value)
    if isinstance(schema, dict) and (fields := _fields(schema)):
        is_object = _resolved(schema, schema).get("type") == "object"
        kind: Literal["form", "structured"] = "structured" if all(each.fits_composer for each in fields) else "form"
        return Question(kind, text, details, fields=fields, is_object=is_object)
    if isinstance(value, dict) and isinstance(value.get("options"), list) and value["options"]:
        return Question("choices", text, details, options=tuple(_option(each) for each in value["options"]))
    return Question("text", text, details)


def _special(value: Object, schema: Json) -> Question | None:
    if value.get("type") == "tool_approval" and isinstance(value.get("name"), str):
        review = _review(value, [each for each in DECISIONS if f'"{each}"'.encode() in dumps(schema)])
        return Question("reviews", "Approve this step?", reviews=(review,), is_batch=False)
    if isinstance(value.get("action_requests"), list) and (reviews := _reviews(value)):
        noun = "this step" if len(reviews) == 1 else f"these {len(reviews)} steps"
        return Question("reviews", f"Approve {noun}?", reviews=reviews)
    tool = value.get("client_tool")
    if isinstance(tool, dict) and isinstance(tool.get("name"), str):
        return Question("client_tool", tool["name"], tool=tool)
    if "widget" in value:
        try:
            return Question("widget", _described(value)[0], widget=checked(value["widget"]))
        except InvalidWidget:
            return None
    return None


# -- texts ------------------------------------------------------------------------------------------------------------


def _described(value: Json) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The question in a value, and the other facts in it."""
    if isinstance(value, str):
        return value, ()
    if not isinstance(value, dict):
        return ("The agent asks for your input", () if value is None else (("Value", dumps(value).decode()),))
    key = next((each for each in _QUESTION_KEYS if isinstance(value.get(each), str) and value[each]), None)
    text = value[key] if key is not None else "The agent asks for your input"
    facts = {name: fact for name, fact in value.items() if name not in (key, "options", "type", "metadata", "widget")}
    return text, tuple((_label(name), shown_value(fact)) for name, fact in facts.items() if fact is not None)


def _label(name: str) -> str:
    return name.replace("_", " ").strip().capitalize() or name


def _option(option: Json) -> tuple[str, Json]:
    if isinstance(option, dict):
        value = option.get("value", option.get("id", option.get("label")))
        return str(option.get("label") or option.get("title") or value), value
    return shown_value(option), option


# -- reviews ----------------------------------------------------------------------------------------------------------


def _reviews(value: Object) -> tuple[Review, ...]:
    configs = value.get("review_configs")
    allowed = {
        each.get("action_name"): each.get("allowed_decisions")
        for each in (configs if isinstance(configs, list) else ())
        if isinstance(each, dict)
    }
    requests = [each for each in value["action_requests"] if isinstance(each, dict)]
    return tuple(_review(each, allowed.get(each.get("name"))) for each in requests)


def _review(request: Object, allowed: Json) -> Review:
    listed = allowed if isinstance(allowed, list) else DECISIONS[:3]
    args = request.get("args")
    return Review(
        str(request.get("name") or "tool"),
        args if isinstance(args, dict) else {},
        _description(request),
        tuple(each for each in DECISIONS if each in listed),
    )


def _description(request: Object) -> str | None:
    """The description of a call. By default the middleware ends it with the call, which the card shows anyway."""
    description = request.get("description")
    if not isinstance(description, str):
        return None
    return description.removesuffix(f"\n\nTool: {request.get('name')}\nArgs: {request.get('args')}")


def argument_fields(review: Review) -> tuple[Field, ...]:
    """The arguments of a call that a person may edit."""
    return tuple(Field(name, _label(name), _kind_of(value), default=value) for name, value in review.args.items())


def _kind_of(value: Json) -> FieldKind:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "long_text" if len(value) > _LONG or "\n" in value else "text"
        case _:
            return "json"


# -- schemas ----------------------------------------------------------------------------------------------------------


def _fields(schema: Object) -> tuple[Field, ...]:
    root = _resolved(schema, schema)
    if root.get("type") != "object":
        return (_field(WHOLE, root, schema, required=True),)
    properties, required = root.get("properties"), root.get("required")
    listed = properties.items() if isinstance(properties, dict) else ()
    needed = set(required) if isinstance(required, list) else set()
    return tuple(_field(name, each, schema, required=name in needed) for name, each in listed if isinstance(each, dict))


def _field(name: str, definition: Object, schema: Object, *, required: bool) -> Field:
    resolved = _resolved(definition, schema)
    items = _resolved(resolved["items"], schema) if isinstance(resolved.get("items"), dict) else {}
    kind, options = _kind_and_options(resolved, items)
    title, description = definition.get("title"), definition.get("description")
    return Field(
        name,
        title if isinstance(title, str) else _label(name),
        kind,
        options,
        required,
        description if isinstance(description, str) else None,
        definition.get("default"),
    )


def _kind_and_options(definition: Object, items: Object) -> tuple[FieldKind, tuple[Json, ...]]:
    if options := _enum(definition):
        return "choice", options
    match definition.get("type"):
        case "array" if options := _enum(items):
            return "choices", options
        case "string" if definition.get("format") in ("date", "date-time"):
            return "date", ()
        case "string":
            return ("long_text" if (definition.get("maxLength") or 0) > _LONG else "text"), ()
        case "boolean":
            return "boolean", ()
        case "integer":
            return "integer", ()
        case "number":
            return "number", ()
        case _:
            return "json", ()


def _enum(definition: Object) -> tuple[Json, ...]:
    if isinstance(listed := definition.get("enum"), list):
        return tuple(listed)
    return (definition["const"],) if "const" in definition else ()


def _resolved(definition: Object, schema: Object) -> Object:
    """A definition without references and without the alternative null."""
    for _ in range(10):
        reference, alternatives = definition.get("$ref"), definition.get("anyOf") or definition.get("allOf")
        if isinstance(reference, str):
            definition = _referenced(reference, schema)
        elif isinstance(alternatives, list):
            others = [each for each in alternatives if isinstance(each, dict) and each.get("type") != "null"]
            if len(others) != 1:
                return {}
            definition = others[0]
        else:
            return definition
    return {}


def _referenced(reference: str, schema: Object) -> Object:
    found: Any = schema
    for key in reference.removeprefix("#/").split("/"):
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}
