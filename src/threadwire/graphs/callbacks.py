"""LangChain's callbacks of a run that nobody but LangGraph listens to.

Every node, and every function an edge calls, tells its beginning and its end. LangChain makes a task of that, shields
it from cancellation and gathers those who take their time, even if there are none; in a small step this is a tenth of
the work. LangGraph's stream handlers are called and have returned, so for them a call is enough. As soon as anybody
else listens (a tracer, a handler of the project's), everybody is told in LangChain's way.
"""

import logging
from collections.abc import Sequence
from typing import Any, ClassVar, Self
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackManager, AsyncCallbackManagerForChainRun, BaseCallbackHandler
from langchain_core.utils.uuid import uuid7

logger = logging.getLogger(__name__)


class Callbacks(AsyncCallbackManager):
    at_once: ClassVar[frozenset[type]] = frozenset()
    """Which handlers take no time: LangGraph's own, where it has them."""

    @classmethod
    def instead_of(cls, usual: AsyncCallbackManager) -> Self:
        return cls(
            handlers=usual.handlers,
            inheritable_handlers=usual.inheritable_handlers,
            parent_run_id=usual.parent_run_id,
            tags=usual.tags,
            inheritable_tags=usual.inheritable_tags,
            metadata=usual.metadata,
            inheritable_metadata=usual.inheritable_metadata,
        )

    async def on_chain_start(
        self, serialized: dict[str, Any] | None, inputs: Any, run_id: UUID | None = None, **kwargs: Any
    ) -> "ChainCallbacks":
        if _return_at_once(self.handlers):
            run_id = run_id or uuid7()
            about = {"run_id": run_id, "parent_run_id": self.parent_run_id, "tags": self.tags}
            _tell(self.handlers, "on_chain_start", serialized, inputs, **about, metadata=self.metadata, **kwargs)
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
        child.set_handlers(self.inheritable_handlers)  # each once, however often it is named
        return child

    async def on_chain_end(self, outputs: Any, **kwargs: Any) -> None:
        if _return_at_once(self.handlers):
            self._tell("on_chain_end", outputs, **kwargs)
        else:
            await super().on_chain_end(outputs, **kwargs)

    async def on_chain_error(self, error: BaseException, **kwargs: Any) -> None:
        if _return_at_once(self.handlers):
            self._tell("on_chain_error", error, **kwargs)
        else:
            await super().on_chain_error(error, **kwargs)

    def _tell(self, event: str, what: Any, **kwargs: Any) -> None:
        about = {"run_id": self.run_id, "parent_run_id": self.parent_run_id, "tags": self.tags}
        _tell(self.handlers, event, what, **about, **kwargs)


def _return_at_once(handlers: Sequence[BaseCallbackHandler]) -> bool:
    return all(type(handler) in Callbacks.at_once for handler in handlers)


def _tell(handlers: Sequence[BaseCallbackHandler], event: str, *what: Any, **about: Any) -> None:
    for handler in handlers:
        if not handler.ignore_chain:
            try:
                getattr(handler, event)(*what, **about)
            except Exception as error:  # a run does not fail of what could not be shown of it
                logger.warning("Error in %s.%s callback: %r", type(handler).__name__, event, error)
                if handler.raise_error:
                    raise
