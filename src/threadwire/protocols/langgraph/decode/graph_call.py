"""What a graph is called with, whoever asks for it: a client that starts a run, or a cron."""

from typing import Any, Literal

from pydantic import Field

from threadwire.core.lists import Listed
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
    stream_mode: Mode | Listed[Mode] | None = None
    stream_subgraphs: Flag = False
    stream_resumable: Flag = False
    interrupt_before: Literal["*"] | Listed[str] | None = None
    interrupt_after: Literal["*"] | Listed[str] | None = None
    multitask_strategy: Literal["reject", "enqueue", "interrupt", "rollback"] = "enqueue"
    durability: Literal["sync", "async", "exit"] | None = None
    checkpoint_during: Flag | None = None
    webhook: str | None = Field(default=None, min_length=1)

    @property
    def modes(self) -> list[str]:
        given = self.stream_mode or DEFAULT_MODES
        return [given] if isinstance(given, str) else list(dict.fromkeys(given))

    def configurable(self) -> Object:
        given: Object = self.config.get("configurable") or {}
        place = checkpoint_at(given, None) or {}
        return {key: value for key, value in given.items() if key not in CHECKPOINT_KEYS} | place

    def kwargs(self, *, temporary: bool, **of_one_run: Any) -> Object:
        """What a graph is called with; a run that is not a cron's may be given more."""
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
            **of_one_run,
        )
