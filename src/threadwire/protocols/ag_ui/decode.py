"""The request bodies for running and connecting (AG-UI's `RunAgentInput`)."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic.alias_generators import to_camel

from threadwire.core.bounded_list import BoundedList
from threadwire.core.entries import Json
from threadwire.core.ids import ThreadId, thread_id_from_name
from threadwire.protocols.ag_ui.messages import Message
from threadwire.protocols.ag_ui.raw_events import RawChoice, parse_choice


class _Input(BaseModel):
    model_config = ConfigDict(extra="ignore", alias_generator=to_camel, populate_by_name=True)


class ResumeEntry(_Input):
    """The user's answer to one interrupt."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"] = "resolved"
    payload: Any = None


class _ThreadInput(_Input):
    """The fields that running and connecting have in common."""

    last_seen_event_id: str | int | None = Field(
        default=None, description="The cursor to resume from; equivalent to the `Last-Event-ID` header."
    )
    protocol_version: str | None = None
    forwarded_props: Any = None

    @field_validator("forwarded_props")
    @classmethod
    def _valid_properties(cls, properties: Json) -> Json:
        if isinstance(properties, dict):
            parse_choice(properties.get("rawEvents"))
        return properties

    @model_validator(mode="before")
    @classmethod
    def _thread_of_config(cls, body: Any) -> Any:
        """LangGraph's clients put the thread's id into the config of a run."""
        if isinstance(body, dict) and body.get("threadId") is None:
            config = body.get("config")
            configurable = config.get("configurable") if isinstance(config, dict) else None
            if isinstance(configurable, dict) and configurable.get("thread_id") is not None:
                return {**body, "threadId": configurable["thread_id"]}
        return body

    @property
    def modern(self) -> bool:
        return self.protocol_version is not None

    @property
    def raw(self) -> RawChoice | None:
        """Which RAW events the client also wants; None if it does not choose."""
        return parse_choice(self.forwarded_props.get("rawEvents")) if isinstance(self.forwarded_props, dict) else None


class ConnectInput(_ThreadInput):
    """The fields that connecting needs. Everything else that a client sends is ignored."""

    thread_id: str | None = Field(
        default=None, description="Required; without it, the stream consists of a single `RUN_ERROR`."
    )


class RunInput(_ThreadInput):
    thread_id: str
    run_id: str = Field(max_length=255)
    messages: BoundedList[Message] = Field(default_factory=list)
    state: Any = None
    tools: BoundedList[dict[str, Any]] | None = None
    context: BoundedList[dict[str, Any]] | None = None
    resume: BoundedList[ResumeEntry] | None = None

    @field_validator("messages")
    @classmethod
    def _valid_messages(cls, messages: list[Message]) -> list[Message]:
        for at, message in enumerate(messages):
            if (error := _error_in(message)) is not None:
                raise ValueError(f"messages.{at}{error}")
        return messages

    @property
    def thread(self) -> ThreadId:
        return thread_id_from_name(self.thread_id)

    @property
    def forwarded(self) -> dict[str, Json]:
        return self.forwarded_props if isinstance(self.forwarded_props, dict) else {}


_ROLES = frozenset({"user", "assistant", "system", "developer", "tool", "activity", "reasoning"})


def _error_in(message: Message) -> str | None:
    """The first error in a message that a client sent, as far as it matters to us."""
    role, content = message.get("role"), message.get("content")
    if not isinstance(message.get("id"), str) or not message["id"]:
        return " has no id"
    if not isinstance(role, str) or role not in _ROLES:
        return " has an unknown role"
    if role in ("activity", "reasoning"):  # the client's own, and never stored
        return None
    if not isinstance(content, str | list | None):
        return ".content must be a string or a list of parts"
    if isinstance(content, list) and not all(_is_part(part) for part in content):
        return ".content has an invalid part"
    if role == "tool" and not isinstance(message.get("toolCallId"), str):
        return " has no toolCallId"
    calls = message.get("toolCalls")
    if calls is not None and not (isinstance(calls, list) and all(map(_is_call, calls))):
        return ".toolCalls has an invalid call"
    return None


def _is_part(part: Json) -> bool:
    return isinstance(part, dict) and isinstance(part.get("source"), dict | None)


def _is_call(call: Json) -> bool:
    return isinstance(call, dict) and isinstance(call.get("id"), str) and isinstance(call.get("function"), dict)


class StopInput(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)

    run_id: str | None = None
