"""The operations from which a timeline is folded (spec/timeline.md, section 2)."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from threadwire.core.entries import Json, Namespace
from threadwire.core.timeline.chunks import Message


class Stamp(NamedTuple):
    """Where and when an operation happened."""

    run_id: str | None = None
    ns: Namespace = ()
    seq: int = 0
    at: int = 0


@dataclass(frozen=True, slots=True)
class RunStarted:
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class RunInput:
    """The run takes new input instead of an answer."""


@dataclass(frozen=True, slots=True)
class RunForked:
    """The run, or an update outside a run, starts from a checkpoint that the client named."""

    branch_id: str | None = None
    """The branch that it leaves. None if the checkpoint is the newest one, or if the branch is not known."""
    position: int | None = None
    """The position of the checkpoint, if it is known."""


@dataclass(frozen=True, slots=True)
class MessageDelta:
    message: Message
    meta: dict[str, Json] | None = None
    begin: bool = False
    """Whether it is known to be the first chunk of its stream."""


@dataclass(frozen=True, slots=True)
class MessageText:
    """A delta that has only text."""

    message_id: str
    text: str


@dataclass(frozen=True, slots=True)
class MessageSnapshot:
    message: Message
    meta: dict[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class MessageFull:
    message: Message
    meta: dict[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class MessageMeta:
    message_id: str
    meta: dict[str, Json]


@dataclass(frozen=True, slots=True)
class MessageRemove:
    message_id: str


@dataclass(frozen=True, slots=True)
class Values:
    """The whole state of a namespace."""

    values: Json


@dataclass(frozen=True, slots=True)
class ValuesPatch:
    """What changed in the state of a namespace (spec/log.md, 6.6)."""

    full: bool = False
    set: dict[str, Json] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    splice: dict[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NamespaceEnded:
    """No further operations follow in this namespace."""


@dataclass(frozen=True, slots=True)
class Ui:
    ui: dict[str, Json]


@dataclass(frozen=True, slots=True)
class UiRemove:
    ui_id: str


@dataclass(frozen=True, slots=True)
class Interrupt:
    interrupt_id: str
    value: Json
    response_schema: Json = None
    ns: Namespace | None = None
    """Where it was asked; None for the namespace of the operation."""
    breakpoint: bool = False


@dataclass(frozen=True, slots=True)
class Interrupts:
    interrupts: tuple[Interrupt, ...]


@dataclass(frozen=True, slots=True)
class InterruptsPending:
    """The exact list of what is pending outside a run."""

    interrupts: tuple[Interrupt, ...]


@dataclass(frozen=True, slots=True)
class InterruptAnswered:
    answers: tuple[tuple[str, Json], ...] | None
    """Interrupt ids and responses; None if it is not known what `response` answers."""
    response: Json = None
    by: Json = None
    via: str | None = None


@dataclass(frozen=True, slots=True)
class InterruptFrozen:
    interrupt_id: str
    frozen_value: tuple[Json] | None = None
    """What the widget showed, in a tuple because that may be null."""
    by: Json = None


@dataclass(frozen=True, slots=True)
class RunEnded:
    status: str
    pending: tuple[Interrupt, ...] | None = None
    """The exact list of what is pending; None if it is not known."""
    next: tuple[str, ...] = ()
    checkpoint_id: str | None = None
    unanswered: tuple[str, ...] = ()
    """The interrupts whose answers were lost with the run."""


@dataclass(frozen=True, slots=True)
class Custom:
    value: Json


@dataclass(frozen=True, slots=True)
class Forget:
    """Remove everything."""


Operation = (
    RunStarted
    | RunInput
    | RunForked
    | MessageDelta
    | MessageText
    | MessageSnapshot
    | MessageFull
    | MessageMeta
    | MessageRemove
    | Values
    | ValuesPatch
    | NamespaceEnded
    | Ui
    | UiRemove
    | Interrupts
    | InterruptsPending
    | InterruptAnswered
    | InterruptFrozen
    | RunEnded
    | Custom
    | Forget
)


def stamp_of(data: dict[str, Any]) -> Stamp:
    """The stamp of an operation in its JSON form."""
    return Stamp(run_id=data.get("runId"), ns=tuple(data.get("ns", ())), seq=data.get("seq", 0), at=data.get("at", 0))


def operation_of(data: dict[str, Any]) -> Operation:
    """An operation from its JSON form. Raises `ValueError` if the specification has no such operation."""
    match data["op"]:
        case "run.started":
            return RunStarted(data.get("attempt", 1))
        case "run.input":
            return RunInput()
        case "run.forked":
            return RunForked(data.get("branchId"), data.get("position"))
        case "message.delta" if "text" in data:
            return MessageText(data["id"], data["text"])
        case "message.delta":
            return MessageDelta(data["message"], data.get("meta"), data.get("begin", False))
        case "message.snapshot":
            return MessageSnapshot(data["message"], data.get("meta"))
        case "message.full":
            return MessageFull(data["message"], data.get("meta"))
        case "message.meta":
            return MessageMeta(data["id"], data["meta"])
        case "message.remove":
            return MessageRemove(data["id"])
        case "values":
            return Values(data["values"])
        case "values.patch":
            unset = tuple(data.get("unset", ()))
            return ValuesPatch(data.get("full", False), data.get("set", {}), unset, data.get("splice", {}))
        case "namespace.ended":
            return NamespaceEnded()
        case "ui":
            return Ui(data["ui"])
        case "ui.remove":
            return UiRemove(data["id"])
        case "interrupts":
            return Interrupts(_interrupts_of(data["interrupts"]))
        case "interrupts.pending":
            return InterruptsPending(_interrupts_of(data["interrupts"]))
        case "interrupt.answered":
            answers = data.get("answers")
            named = None if answers is None else tuple((answer["id"], answer.get("response")) for answer in answers)
            return InterruptAnswered(named, data.get("response"), data.get("by"), data.get("via"))
        case "interrupt.frozen":
            frozen = (data["frozenValue"],) if "frozenValue" in data else None
            return InterruptFrozen(data["id"], frozen, data.get("by"))
        case "run.ended":
            pending = _interrupts_of(data["pending"]) if data.get("pending") is not None else None
            following, unanswered = tuple(data.get("next", ())), tuple(data.get("unanswered", ()))
            return RunEnded(data["status"], pending, following, data.get("checkpointId"), unanswered)
        case "custom":
            return Custom(data.get("value"))
        case "reset":
            return Forget()
        case unknown:
            raise ValueError(f"Unknown operation: {unknown}")


def _interrupts_of(items: list[dict[str, Json]]) -> tuple[Interrupt, ...]:
    return tuple(
        Interrupt(item["id"], item.get("value"), item.get("responseSchema"), _optional_ns(item)) for item in items
    )


def _optional_ns(item: dict[str, Json]) -> Namespace | None:
    return tuple(item["ns"]) if "ns" in item else None
