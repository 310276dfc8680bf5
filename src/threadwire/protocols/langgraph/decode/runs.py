"""Request bodies for starting and cancelling runs."""

from functools import cache
from typing import Any, Literal

from pydantic import Field, ModelWrapValidatorHandler, PrivateAttr, field_validator, model_validator
from pydantic.alias_generators import to_camel

from threadwire.core.bounded_list import MAX_LIST_LENGTH, BoundedList
from threadwire.core.ids import ThreadId, parse_run_id, parse_thread_id, parse_uuid
from threadwire.core.records import RunSelection
from threadwire.engine.runs import StartRun
from threadwire.errors import BadRequest, Invalid
from threadwire.protocols.langgraph.decode.body import MAX_PAGE, Flag, Number, Object, RequestBody
from threadwire.protocols.langgraph.decode.config import answers_of_caller
from threadwire.protocols.langgraph.decode.graph_call import GraphCall
from threadwire.protocols.langgraph.decode.idempotency import IdempotentRequest
from threadwire.protocols.langgraph.decode.state import checkpoint_at


class CommandBody(RequestBody):
    resume: Any = None
    update: Object | BoundedList[Any] | None = None
    goto: Any = None

    @field_validator("update")
    @classmethod
    def _valid_update(cls, update: Object | list[Any] | None) -> Object | list[Any] | None:
        if isinstance(update, list) and not all(_is_pair(each) for each in update):
            raise ValueError("update must be an object or a list of [key, value] pairs")
        return update

    @field_validator("goto")
    @classmethod
    def _valid_goto(cls, goto: Any) -> Any:
        targets = goto if isinstance(goto, list) else [goto]
        if len(targets) > MAX_LIST_LENGTH:
            raise ValueError(f"goto must have at most {MAX_LIST_LENGTH} targets")
        for target in targets:
            if target is not None and not _is_target(target):
                raise ValueError("goto must be a node name, {node, input}, or a list of these")
        return goto

    @model_validator(mode="after")
    def _not_empty(self) -> "CommandBody":
        if self.model_fields_set and self.resume is None and not self.update and not self.goto:
            raise ValueError("a command must resume, update or go to a node")
        return self

    def as_dict(self) -> Object:
        return self.model_dump(exclude_none=True)


def _is_pair(change: Any) -> bool:
    return isinstance(change, list) and len(change) == 2 and isinstance(change[0], str)


def _is_target(target: Any) -> bool:
    node = target.get("node") if isinstance(target, dict) and "input" in target else target
    return isinstance(node, str) and node != ""


class TracerBody(RequestBody):
    project_name: str | None = None
    example_id: str | None = None

    @field_validator("example_id")
    @classmethod
    def _valid_example_id(cls, example_id: str | None) -> str | None:
        if example_id is not None and (example_id := parse_uuid(example_id)) is None:
            raise ValueError("must be a UUID")
        return example_id

    def as_dict(self) -> Object:
        return self.model_dump(exclude_none=True)


class RunBody(GraphCall):
    assistant_id: str = Field(max_length=255)
    command: CommandBody | None = None
    checkpoint: Object | None = None
    checkpoint_id: str | None = None
    on_disconnect: Literal["cancel", "continue"] = "continue"
    if_not_exists: Literal["create", "reject"] = "reject"
    after_seconds: Number = Field(default=0, ge=0, le=366 * 86_400)
    feedback_keys: BoundedList[str] | None = None
    strict_resume: Flag | None = None
    langsmith_tracer: TracerBody | None = None
    _answers_of_caller: Object = PrivateAttr(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _keep_answers_of_caller(cls, value: Any, handler: ModelWrapValidatorHandler["RunBody"]) -> "RunBody":
        body = handler(value)
        body._answers_of_caller = answers_of_caller(value)
        return body

    @property
    def temporary(self) -> bool:
        return False

    def start(
        self,
        thread_id: ThreadId | None,
        idempotent_request: IdempotentRequest | None = None,
        *,
        defer_sync: bool = False,
    ) -> StartRun:
        return StartRun(
            assistant=self.assistant_id,
            thread_id=thread_id,
            kwargs=self.kwargs(
                temporary=self.temporary,
                command=None if self.command is None else self.command.as_dict(),
                feedback_keys=self.feedback_keys,
                strict_resume=bool(self.strict_resume),
                langsmith_tracer=None if self.langsmith_tracer is None else self.langsmith_tracer.as_dict(),
            ),
            answers_if_pending=self._answers_of_caller,
            metadata=self.metadata,
            multitask_strategy=self.multitask_strategy,
            create_thread=self.if_not_exists == "create",
            temporary=self.temporary,
            webhook=self.webhook,
            after_seconds=self.after_seconds,
            idempotency_key=None if idempotent_request is None else idempotent_request.key,
            request_digest=None if idempotent_request is None else idempotent_request.digest,
            defer_sync=defer_sync,
            via="langgraph",
        )

    def configurable(self) -> Object:
        return super().configurable() | (checkpoint_at(self.checkpoint, self.checkpoint_id) or {})


class StatelessRunBody(RunBody):
    """A run on a temporary thread, which is deleted with the run unless `on_completion` is `keep`."""

    on_completion: Literal["delete", "keep"] = "delete"

    @property
    def temporary(self) -> bool:
        return self.on_completion == "delete"

    def start(
        self,
        thread_id: ThreadId | None,
        idempotent_request: IdempotentRequest | None = None,
        *,
        defer_sync: bool = False,
    ) -> StartRun:
        if thread_id is None and self.command is not None and self.command.resume is not None:
            raise BadRequest("You must provide a thread_id when resuming.")
        return super().start(thread_id, idempotent_request, defer_sync=defer_sync)


class BatchedRunBody(StatelessRunBody):
    """One run of a batch. With a `thread_id` it is an ordinary run on that thread.

    Unlike in their other requests, the JavaScript SDKs send the names of the options untranslated, in camelCase.
    """

    thread_id: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _translate(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {**{name: value[alias] for name, alias in _camel_names().items() if alias in value}, **value}

    @property
    def temporary(self) -> bool:
        return self.thread_id is None and super().temporary

    def thread(self) -> ThreadId | None:
        return None if self.thread_id is None else parse_thread_id(self.thread_id)


@cache
def _camel_names() -> dict[str, str]:
    return {name: to_camel(name) for name in BatchedRunBody.model_fields if "_" in name}


class CancelBody(RequestBody):
    """The runs to cancel: all with a status, or some of one thread."""

    status: Literal["pending", "running", "all"] | None = None
    thread_id: str | None = None
    run_ids: list[str] | None = Field(default=None, min_length=1, max_length=MAX_PAGE, fail_fast=True)

    def selection(self) -> RunSelection:
        by_id = self.thread_id is not None or self.run_ids is not None
        if (self.status is None) == (not by_id) or (self.thread_id is None) != (self.run_ids is None):
            raise Invalid("Provide either `status`, or `thread_id` and `run_ids`")
        if self.status is not None:
            return RunSelection(status=None if self.status == "all" else self.status)
        return RunSelection(
            thread_id=parse_thread_id(self.thread_id or ""),
            run_ids=tuple(parse_run_id(each) for each in self.run_ids or ()),
        )
