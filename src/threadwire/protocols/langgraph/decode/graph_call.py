"""The arguments of a call to a graph, which are the same for runs and crons."""

from typing import Any, Literal

from pydantic import Field

from threadwire.core.bounded_list import BoundedList
from threadwire.engine.runs import run_kwargs
from threadwire.protocols.langgraph.decode.body import Flag, Object, OptionalObject, RequestBody
from threadwire.protocols.langgraph.decode.config import Config, Context
from threadwire.protocols.langgraph.decode.state import CHECKPOINT_KEYS, checkpoint_at
from threadwire.protocols.langgraph.encode import DEFAULT_MODES

Mode = Literal["values", "updates", "messages", "messages-tuple", "custom", "events", "debug", "tasks", "checkpoints"]


class GraphCall(RequestBody):
    input: Any = None
    config: Config = Field(default_factory=dict)
    context: Context = Field(default_factory=dict)
    metadata: OptionalObject = Field(default_factory=dict)
    stream_mode: Mode | BoundedList[Mode] | None = None
    stream_subgraphs: Flag = False
    stream_resumable: Flag = False
    interrupt_before: Literal["*"] | BoundedList[str] | None = None
    interrupt_after: Literal["*"] | BoundedList[str] | None = None
    multitask_strategy: Literal["reject", "enqueue", "interrupt", "rollback"] = "enqueue"
    durability: Literal["sync", "async", "exit"] | None = None
    checkpoint_during: Flag | None = None
    webhook: str | None = Field(default=None, min_length=1)

    @property
    def modes(self) -> list[str]:
        modes = self.stream_mode or DEFAULT_MODES
        return [modes] if isinstance(modes, str) else list(dict.fromkeys(modes))

    def configurable(self) -> Object:
        configurable: Object = self.config.get("configurable") or {}
        checkpoint = checkpoint_at(configurable, None) or {}
        return {key: value for key, value in configurable.items() if key not in CHECKPOINT_KEYS} | checkpoint

    def kwargs(self, *, temporary: bool, **run_only: Any) -> Object:
        """The stored arguments of the call. `run_only` are those that crons do not have."""
        durability = self.durability or ("exit" if self.checkpoint_during is False else "async")
        return run_kwargs(
            input=self.input,
            config={**self.config, "configurable": self.configurable()},
            context=self.context,
            stream_mode=self.modes,
            interrupt_before=self.interrupt_before,
            interrupt_after=self.interrupt_after,
            webhook=self.webhook,
            temporary=temporary,
            subgraphs=self.stream_subgraphs,
            resumable=self.stream_resumable,
            durability=durability,
            **run_only,
        )
