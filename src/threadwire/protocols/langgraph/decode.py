"""Requests of the LangGraph API, and what they mean to the engine.

Unknown keys are ignored, as the official server does, because SDKs send keys of their own; a key we know and cannot
honour is refused, never dropped.
"""

from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from threadwire.core.ids import ThreadId, parse_uuid
from threadwire.core.records import ThreadQuery
from threadwire.engine.runs import StartRun
from threadwire.errors import Invalid
from threadwire.protocols.langgraph.encode import DEFAULT_MODES, MODES

Mode = Literal["values", "updates", "messages", "messages-tuple", "custom", "events", "debug", "tasks", "checkpoints"]
Object = dict[str, Any]

MAX_PAGE = 1000
MAX_RECURSION = 10_000


def _none_is_absent(value: Any) -> Any:
    return {} if value is None else value


OptionalObject = Annotated[Object, BeforeValidator(_none_is_absent)]
"""An object that may be missing or null; both mean empty."""


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore")


class CommandBody(_Body):
    resume: Any = None
    update: Any = None
    goto: Any = None

    @field_validator("goto")
    @classmethod
    def _targets(cls, goto: Any) -> Any:
        for target in goto if isinstance(goto, list) else [goto]:
            if target is None or isinstance(target, str):
                continue
            if not isinstance(target, dict) or not isinstance(target.get("node"), str):
                raise ValueError("goto names nodes, or sends {node, input}")
        return goto


class RunBody(_Body):
    assistant_id: str = Field(max_length=255)
    input: Any = None
    command: CommandBody | None = None
    config: OptionalObject = Field(default_factory=dict)
    context: OptionalObject = Field(default_factory=dict)
    metadata: OptionalObject = Field(default_factory=dict)
    checkpoint: Object | None = None
    checkpoint_id: str | None = None
    stream_mode: Mode | list[Mode] | None = None
    stream_subgraphs: bool = False
    stream_resumable: bool = False
    interrupt_before: Literal["*"] | list[str] | None = None
    interrupt_after: Literal["*"] | list[str] | None = None
    multitask_strategy: Literal["reject", "enqueue", "interrupt", "rollback"] = "enqueue"
    on_disconnect: Literal["cancel", "continue"] = "continue"
    if_not_exists: Literal["create", "reject"] = "reject"
    after_seconds: float = Field(default=0, ge=0, le=366 * 86_400)
    durability: Literal["sync", "async", "exit"] | None = None
    checkpoint_during: bool | None = None
    feedback_keys: list[str] | None = None
    webhook: None = Field(default=None, description="Webhooks are not offered yet; naming one is refused.")

    @field_validator("config")
    @classmethod
    def _sound_config(cls, config: Object) -> Object:
        configurable = config.get("configurable") or {}
        if not isinstance(configurable, dict):
            raise ValueError("configurable must be an object")
        if inner := [key for key in configurable if key.startswith("__")]:
            raise ValueError(f"configurable keys that begin with '__' belong to the server: {inner[0][:60]!r}")
        limit = config.get("recursion_limit")
        if limit is not None and (type(limit) is not int or not 1 <= limit <= MAX_RECURSION):
            raise ValueError(f"recursion_limit must be a whole number from 1 to {MAX_RECURSION}")
        if not isinstance(config.get("tags", []), list) or not isinstance(config.get("metadata", {}), dict):
            raise ValueError("tags must be a list and metadata an object")
        return config

    @model_validator(mode="after")
    def _one_intent(self) -> "RunBody":
        if self.command is not None and self.input is not None:
            raise ValueError("Cannot specify both input and command")
        return self

    @property
    def modes(self) -> list[str]:
        given = self.stream_mode or DEFAULT_MODES
        return [given] if isinstance(given, str) else list(dict.fromkeys(given))

    def start(self, thread_id: ThreadId, *, idempotency_key: str | None = None) -> StartRun:
        return StartRun(
            assistant=self.assistant_id,
            thread_id=thread_id,
            kwargs=self._kwargs(),
            metadata=self.metadata,
            multitask_strategy=self.multitask_strategy,
            create_thread=self.if_not_exists == "create",
            after_seconds=self.after_seconds,
            idempotency_key=idempotency_key,
        )

    def _kwargs(self) -> Object:
        durability = self.durability or ("exit" if self.checkpoint_during is False else "async")
        return {
            "input": self.input,
            "command": self.command.model_dump(exclude_none=True) if self.command else None,
            "config": {**self.config, "configurable": self._configurable()},
            "context": self.context,
            "stream_mode": self.modes,
            "interrupt_before": self.interrupt_before,
            "interrupt_after": self.interrupt_after,
            "webhook": None,
            "feedback_keys": self.feedback_keys,
            "temporary": False,
            "subgraphs": self.stream_subgraphs,
            "resumable": self.stream_resumable,
            "checkpoint_during": durability != "exit",
            "durability": durability,
        }

    def _configurable(self) -> Object:
        configurable = dict(self.config.get("configurable") or {})
        for key in ("checkpoint_id", "checkpoint_ns", "checkpoint_map"):
            if self.checkpoint and self.checkpoint.get(key) is not None:
                configurable[key] = self.checkpoint[key]
        if self.checkpoint_id is not None:
            configurable["checkpoint_id"] = self.checkpoint_id
        return configurable


class ThreadBody(_Body):
    thread_id: str | None = None
    metadata: OptionalObject = Field(default_factory=dict)
    if_exists: Literal["raise", "do_nothing"] = "raise"
    ttl: None = Field(default=None, description="Thread TTLs are not offered yet; naming one is refused.")
    supersteps: None = Field(default=None, description="Creating from supersteps is not offered yet.")


class ThreadPatch(_Body):
    metadata: OptionalObject = Field(default_factory=dict)
    ttl: None = Field(default=None, description="Thread TTLs are not offered yet; naming one is refused.")


class ThreadSearch(_Body):
    ids: list[str] | None = None
    metadata: OptionalObject = Field(default_factory=dict)
    values: OptionalObject = Field(default_factory=dict)
    status: Literal["idle", "busy", "interrupted", "error"] | None = None
    limit: int = Field(default=10, ge=1, le=MAX_PAGE)
    offset: int = Field(default=0, ge=0, le=2**53)
    sort_by: Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"] | None = None
    sort_order: Literal["asc", "desc"] | None = None
    select: list[str] | None = None
    extract: None = Field(default=None, description="Extracting from values is not offered yet; asking is refused.")

    def query(self) -> ThreadQuery:
        return ThreadQuery(
            ids=tuple(ThreadId(_uuid(each, "thread ID")) for each in self.ids or ()),
            metadata=self.metadata,
            values=self.values,
            status=self.status,
            limit=self.limit,
            offset=self.offset,
            sort_by=self.sort_by or "created_at",
            descending=self.sort_order != "asc",
        )


class AssistantSearch(_Body):
    graph_id: str | None = None
    name: str | None = None
    metadata: OptionalObject = Field(default_factory=dict)
    limit: int = Field(default=10, ge=1, le=MAX_PAGE)
    offset: int = Field(default=0, ge=0, le=2**53)
    sort_by: Literal["assistant_id", "graph_id", "name", "created_at", "updated_at"] | None = None
    sort_order: Literal["asc", "desc"] | None = None
    select: list[str] | None = None


class StateUpdate(_Body):
    values: Any = None
    as_node: str | None = None
    checkpoint: Object | None = None
    checkpoint_id: str | None = None

    def at(self) -> Object | None:
        return checkpoint_at(self.checkpoint, self.checkpoint_id)


class StateAtCheckpoint(_Body):
    checkpoint: Object
    subgraphs: bool = False


class HistoryBody(_Body):
    limit: int = Field(default=10, ge=1, le=MAX_PAGE)
    before: str | Object | None = None
    metadata: OptionalObject = Field(default_factory=dict)
    checkpoint: Object | None = None

    def bound(self) -> Object | None:
        """`before` is a checkpoint's id, a checkpoint, or a config that holds one."""
        if self.before is None:
            return None
        if isinstance(self.before, str):
            return {"checkpoint_id": self.before}
        inner = self.before.get("configurable", self.before)
        if not isinstance(inner, dict):
            raise Invalid("before: configurable must be an object")
        return checkpoint_at(inner, None)


def checkpoint_at(checkpoint: Object | None, checkpoint_id: str | None) -> Object | None:
    """Where in a thread's past: only the keys that say so, and only as text (or, for the map, an object)."""
    at = {key: value for key, value in (checkpoint or {}).items() if key in _CHECKPOINT_KEYS and value is not None}
    if checkpoint_id is not None:
        at["checkpoint_id"] = checkpoint_id
    for key, value in at.items():
        if not isinstance(value, dict if key == "checkpoint_map" else str):
            raise Invalid(f"{key} has the wrong type")
    return at or None


_CHECKPOINT_KEYS = frozenset({"checkpoint_id", "checkpoint_ns", "checkpoint_map"})


def decode_query_modes(given: list[str]) -> frozenset[str] | None:
    modes = decode_query_list(given, "stream_mode")
    if unknown := [mode for mode in modes if mode not in MODES]:
        raise Invalid(f"stream_mode: {unknown[0][:60]!r} is not one of {', '.join(sorted(MODES))}")
    return frozenset(modes) or None


def decode_query_list(given: list[str], name: str) -> list[str]:
    """Names in a query: repeated keys (`a&a`), or, as one SDK sends them, one JSON array; an empty one, as another
    sends when nothing is asked for, names nothing."""
    names: list[str] = []
    for each in filter(None, given):
        names.extend(_json_list(each, name) if each.startswith("[") else [each])
    return names


def _json_list(text: str, name: str) -> list[str]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Invalid(f"{name}: not a JSON array") from error
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise Invalid(f"{name}: not an array of names")
    return value


def _uuid(text: str, what: str) -> str:
    if (parsed := parse_uuid(text)) is None:
        raise Invalid(f"Invalid {what}: must be a UUID")
    return parsed
