"""A fast path for LangChain callbacks when LangGraph's own stream handlers are the only ones.

**For:** every node, and every function an edge calls, reports its start and its end, and a model reports every token.
LangChain wraps each report in a task, shields it from cancellation and gathers the asynchronous handlers, even if there
are none; this is a tenth of the work of a small step, and a quarter of that of a token. LangGraph's stream handlers and
ours are synchronous, so calling them directly is enough. As soon as there is any other handler (a tracer, or one from
the project), all handlers are called through LangChain.

The graph's callback manager is replaced; those of its nodes derive from it. Those of models do not, so their method is
replaced.

**Changed LangGraph:** the function that creates the manager, the class of the stream handler or the method is missing.
Then LangChain calls all handlers: steps or tokens are slower, and nothing else changes.
"""

import importlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, ClassVar, Self
from uuid import UUID

from langchain_core.callbacks import (
    AsyncCallbackManager,
    AsyncCallbackManagerForChainRun,
    AsyncCallbackManagerForLLMRun,
    BaseCallbackHandler,
)
from langchain_core.utils.uuid import uuid7

from threadwire.graphs.langgraph_private.callback_events import CallbackEvents
from threadwire.graphs.langgraph_private.process_patch import ProcessPatch

logger = logging.getLogger(__name__)


class Callbacks(AsyncCallbackManager):
    direct_handlers: ClassVar[frozenset[type]] = frozenset()
    """Handler types that may be called directly: ours, and LangGraph's own that the installed version has."""

    @classmethod
    def from_manager(cls, manager: AsyncCallbackManager) -> Self:
        return cls(
            handlers=manager.handlers,
            inheritable_handlers=manager.inheritable_handlers,
            parent_run_id=manager.parent_run_id,
            tags=manager.tags,
            inheritable_tags=manager.inheritable_tags,
            metadata=manager.metadata,
            inheritable_metadata=manager.inheritable_metadata,
        )

    async def on_chain_start(
        self, serialized: dict[str, Any] | None, inputs: Any, run_id: UUID | None = None, **kwargs: Any
    ) -> "ChainCallbacks":
        if _all_direct(self.handlers):
            run_id = run_id or uuid7()
            ids = {"run_id": run_id, "parent_run_id": self.parent_run_id, "tags": self.tags}
            metadata = self.metadata
            _notify_chain(self.handlers, "on_chain_start", serialized, inputs, **ids, metadata=metadata, **kwargs)
        else:
            run_id = (await super().on_chain_start(serialized, inputs, run_id, **kwargs)).run_id
        return ChainCallbacks(
            run_id=run_id,
            handlers=self.handlers,
            inheritable_handlers=self.inheritable_handlers,
            parent_run_id=self.parent_run_id,
            tags=self.tags,
            inheritable_tags=self.inheritable_tags,
            metadata=self.metadata,
            inheritable_metadata=self.inheritable_metadata,
        )


class ChainCallbacks(AsyncCallbackManagerForChainRun):
    def get_child(self, tag: str | None = None) -> Callbacks:
        child = Callbacks(
            handlers=[],
            parent_run_id=self.run_id,
            tags=self.inheritable_tags.copy() if tag is None else [*self.inheritable_tags, tag],
            inheritable_tags=self.inheritable_tags.copy(),
            metadata=self.inheritable_metadata.copy(),
            inheritable_metadata=self.inheritable_metadata.copy(),
        )
        child.set_handlers(self.inheritable_handlers)  # removes duplicates
        return child

    async def on_chain_end(self, outputs: Any, **kwargs: Any) -> None:
        if _all_direct(self.handlers):
            self._notify("on_chain_end", outputs, **kwargs)
        else:
            await super().on_chain_end(outputs, **kwargs)

    async def on_chain_error(self, error: BaseException, **kwargs: Any) -> None:
        if _all_direct(self.handlers):
            self._notify("on_chain_error", error, **kwargs)
        else:
            await super().on_chain_error(error, **kwargs)

    def _notify(self, event: str, value: Any, **kwargs: Any) -> None:
        ids = {"run_id": self.run_id, "parent_run_id": self.parent_run_id, "tags": self.tags}
        _notify_chain(self.handlers, event, value, **ids, **kwargs)


def _all_direct(handlers: Sequence[BaseCallbackHandler]) -> bool:
    return Callbacks.direct_handlers.issuperset(map(type, handlers))


def _notify_chain(handlers: Sequence[BaseCallbackHandler], event: str, *args: Any, **kwargs: Any) -> None:
    for handler in handlers:
        if not handler.ignore_chain:
            _notify(handler, event, *args, **kwargs)


def _notify(handler: BaseCallbackHandler, event: str, *args: Any, **kwargs: Any) -> None:
    try:
        getattr(handler, event)(*args, **kwargs)
    except Exception as error:  # a failing handler must not fail the run
        logger.warning("Error in %s.%s callback: %r", type(handler).__name__, event, error)
        if handler.raise_error:
            raise


def _direct_tokens(original: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., Coroutine[Any, Any, None]]:
    if not iscoroutinefunction(original):
        raise TypeError(f"{original.__qualname__} is not a coroutine function")

    async def on_llm_new_token(self: AsyncCallbackManagerForLLMRun, token: Any, **kwargs: Any) -> None:
        if not _all_direct(self.handlers):
            await original(self, token, **kwargs)
            return
        for handler in self.handlers:
            if not handler.ignore_llm:
                ids = {"run_id": self.run_id, "parent_run_id": self.parent_run_id, "tags": self.tags}
                _notify(handler, "on_llm_new_token", token, **ids, **kwargs)

    return on_llm_new_token


def _direct_manager(original: Callable[[Any], AsyncCallbackManager]) -> Callable[[Any], Callbacks]:
    handlers = {importlib.import_module("langgraph.pregel._messages").StreamMessagesHandler, CallbackEvents}
    try:
        handlers.add(importlib.import_module("langgraph.pregel._tools").StreamToolCallHandler)
    except (ImportError, AttributeError):  # before LangGraph 1.2
        pass
    Callbacks.direct_handlers = frozenset(handlers)
    return partial(_direct_callbacks, original)


def _direct_callbacks(manager_for_config: Callable[[Any], AsyncCallbackManager], config: Any) -> Callbacks:
    return Callbacks.from_manager(manager_for_config(config))


DIRECT_CALLBACKS = ProcessPatch(
    "direct callbacks",
    "Steps are about a tenth slower.",
    {"langgraph.pregel.main:get_async_callback_manager_for_config": _direct_manager},
)

DIRECT_TOKENS = ProcessPatch(
    "direct tokens",
    "Streaming a token takes longer.",
    {"langchain_core.callbacks.manager:AsyncCallbackManagerForLLMRun.on_llm_new_token": _direct_tokens},
)
