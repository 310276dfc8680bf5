"""What a page sends to run or to connect (AG-UI's `RunAgentInput`)."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.alias_generators import to_camel

from threadwire.core.entries import Json
from threadwire.core.ids import ThreadId, thread_id_named
from threadwire.core.lists import Listed
from threadwire.protocols.ag_ui.messages import Message


class _Input(BaseModel):
    model_config = ConfigDict(extra="ignore", alias_generator=to_camel, populate_by_name=True)


class ResumeEntry(_Input):
    """A person's answer to one interrupt."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"] = "resolved"
    payload: Any = None


class ConnectInput(_Input):
    """Only what connecting needs: the rest of what a page sends along is not looked at."""

    thread_id: str
    last_seen_event_id: str | int | None = Field(
        default=None, description="Where to go on; the `Last-Event-ID` header says the same."
    )
    protocol_version: str | None = None
    forwarded_props: Any = None

    @property
    def thread(self) -> ThreadId:
        return thread_id_named(self.thread_id)

    @property
    def modern(self) -> bool:
        return self.protocol_version is not None

    @property
    def raw(self) -> bool:
        """Whether the page wants the log's own entries besides, as RAW events."""
        return isinstance(self.forwarded_props, dict) and self.forwarded_props.get("rawEvents") is True


class RunInput(ConnectInput):
    run_id: str = Field(max_length=255)
    messages: Listed[Message] = Field(default_factory=list)
    state: Any = None
    tools: Listed[dict[str, Any]] | None = None
    context: Listed[dict[str, Any]] | None = None
    resume: Listed[ResumeEntry] | None = None

    @field_validator("messages")
    @classmethod
    def _sound_messages(cls, messages: list[Message]) -> list[Message]:
        for at, message in enumerate(messages):
            if (mistake := _mistake_in(message)) is not None:
                raise ValueError(f"messages.{at}{mistake}")
        return messages

    @property
    def forwarded(self) -> dict[str, Json]:
        return self.forwarded_props if isinstance(self.forwarded_props, dict) else {}


_ROLES = frozenset({"user", "assistant", "system", "developer", "tool", "activity", "reasoning"})


def _mistake_in(message: Message) -> str | None:
    """What is wrong with a message that a page sent, as far as it would be in the way."""
    role, content = message.get("role"), message.get("content")
    if not isinstance(message.get("id"), str) or not message["id"]:
        return " has no id"
    if not isinstance(role, str) or role not in _ROLES:
        return " has no role that is known"
    if role in ("activity", "reasoning"):  # a page's own, and never kept
        return None
    if not isinstance(content, str | list | None):
        return ".content is neither text nor parts"
    if isinstance(content, list) and not all(_is_part(part) for part in content):
        return ".content has a part that is not one"
    if role == "tool" and not isinstance(message.get("toolCallId"), str):
        return " has no toolCallId"
    calls = message.get("toolCalls")
    if calls is not None and not (isinstance(calls, list) and all(map(_is_call, calls))):
        return ".toolCalls has something that is not a call"
    return None


def _is_part(part: Json) -> bool:
    return isinstance(part, dict) and isinstance(part.get("source"), dict | None)


def _is_call(call: Json) -> bool:
    return isinstance(call, dict) and isinstance(call.get("id"), str) and isinstance(call.get("function"), dict)


class StopInput(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)

    run_id: str | None = None
