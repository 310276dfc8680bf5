"""Requests of the thread wire: event streams, and commands with their parameters.

An invalid command gets an error of the protocol, with a code that clients know, and not an HTTP error.
"""

from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, Field, StrictInt, ValidationError, model_validator

from threadwire.core.bounded_list import MAX_LIST_LENGTH, BoundedList
from threadwire.core.entries import START
from threadwire.core.ids import Seq
from threadwire.errors import BadRequest
from threadwire.http.problems import validation_messages
from threadwire.protocols.langgraph.decode.body import MAX_PAGE, Integer, Object, OptionalObject, RequestBody
from threadwire.protocols.langgraph.decode.runs import TracerBody
from threadwire.protocols.langgraph.thread_wire.subscription import CHANNELS, NAMED_CUSTOM, Subscription

ErrorCode = Literal[
    "invalid_argument",
    "unknown_command",
    "unknown_error",
    "no_such_run",
    "no_such_subscription",
    "no_such_namespace",
    "no_such_interrupt",
    "no_such_checkpoint",
    "not_supported",
]

MAX_SEQ = 10**18 - 1
Path = BoundedList[str]


class CommandError(Exception):
    """A command failed. The protocol has a code for the reason."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class EventStreamBody(RequestBody):
    """What a client subscribes to, and after which event."""

    channels: BoundedList[str] = Field(
        default_factory=list, description=f"Required: any of {', '.join(CHANNELS)}, or `custom:<name>`"
    )
    namespaces: BoundedList[Path] | None = Field(None, description="Prefixes; without any, every namespace")
    depth: Integer | None = Field(None, ge=0, description="How many levels below a prefix are included")
    since: Integer | None = Field(None, ge=0, le=MAX_SEQ, description="The `seq` of the last event that was received")

    def subscription(self) -> Subscription:
        """Raises `BadRequest`."""
        if not self.channels:
            raise BadRequest("channels is required and must be a non-empty array")
        unknown = [each for each in self.channels if not _is_channel(each)]
        if unknown:
            names = ", ".join(each[:60] for each in unknown[:10])
            allowed = f"{', '.join(CHANNELS)}, or any `{NAMED_CUSTOM}<name>`"
            raise BadRequest(f"channels contains unsupported entries: {names}. Allowed: {allowed}.")
        prefixes = tuple(tuple(each) for each in self.namespaces or ())
        return Subscription(frozenset(self.channels), prefixes, self.depth if prefixes else None)

    @property
    def position(self) -> Seq:
        return START if self.since is None else Seq(self.since)


def _is_channel(name: str) -> bool:
    return name in CHANNELS or (name.startswith(NAMED_CUSTOM) and name != NAMED_CUSTOM)


# -- commands -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Command:
    id: int
    method: str
    params: Any


_NO_COMMAND = "Protocol commands must include an integer id and string method."


class _Envelope(RequestBody):
    id: StrictInt
    method: str
    params: Any = None


class CommandBody(RequestBody):
    """The body of a command, valid or not: an invalid one gets a response of the protocol."""

    id: Any = Field(None, description="An integer, which the response repeats")
    method: Any = Field(None, description="The name of the command")
    params: Any = Field(None, description="The parameters of the command")

    @model_validator(mode="before")
    @classmethod
    def _accept_anything(cls, value: Any) -> Any:
        return value if isinstance(value, dict) else {}


def decode_command(body: Any) -> Command:
    """Raises `CommandError`."""
    try:
        envelope = _Envelope.model_validate(body)
    except ValidationError:
        raise CommandError("invalid_argument", _NO_COMMAND) from None
    return Command(envelope.id, envelope.method, {} if envelope.params is None else envelope.params)


class RunStart(RequestBody):
    assistant_id: str
    input: Any = None
    config: OptionalObject = Field(default_factory=dict)
    metadata: OptionalObject = Field(default_factory=dict)
    multitask_strategy: str | None = Field(None, alias="multitaskStrategy")
    langsmith_tracer: TracerBody | None = None


class Response(RequestBody):
    interrupt_id: str
    response: Any = None
    namespace: Path = Field(default_factory=list)


class InputRespond(RequestBody):
    """One response, or a list of them."""

    responses: BoundedList[Response] = Field(min_length=1)
    update: Any = None
    goto: Any = None
    config: OptionalObject = Field(default_factory=dict)
    metadata: OptionalObject = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        if isinstance(value, dict) and "responses" not in value:
            return {**value, "responses": [value]}
        return value


class InjectedMessage(RequestBody):
    role: Literal["user", "system"]
    content: str
    name: str | None = None


class InputInject(RequestBody):
    message: InjectedMessage
    namespace: Path = Field(default_factory=list)


class StateGet(RequestBody):
    namespace: Path = Field(default_factory=list)
    keys: BoundedList[str] | None = None


class ListCheckpoints(RequestBody):
    namespace: Path = Field(default_factory=list)
    limit: Integer = Field(10, ge=1, le=MAX_PAGE)
    before: str | None = None


class StateFork(RequestBody):
    checkpoint_id: str = Field(min_length=1)
    input: Any = None
    config: OptionalObject = Field(default_factory=dict)


class GetTree(RequestBody):
    run_id: str | None = None


class Unsubscribe(RequestBody):
    subscription_id: str


class Reconnect(RequestBody):
    run_id: str
    last_event_id: str | None = None
    subscriptions: list[str] = Field(default_factory=list, max_length=MAX_LIST_LENGTH)


P = TypeVar("P", bound=BaseModel)


def decode_params(kind: type[P], params: Any) -> P:
    """Raises `CommandError`."""
    try:
        return kind.model_validate(params)
    except ValidationError as error:
        found: Any = error.errors(include_url=False, include_context=False)
        raise CommandError("invalid_argument", validation_messages(found)) from None


def checkpoint_in(namespace: list[str]) -> Object:
    return {"checkpoint_ns": "|".join(namespace)}
