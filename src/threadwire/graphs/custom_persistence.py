"""User-provided checkpointers and stores."""

import inspect
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.store.base import BaseStore

from threadwire.core.ids import RunId, ThreadId
from threadwire.core.records import CheckpointPut, Put
from threadwire.errors import ConfigError
from threadwire.graphs.code_reference import CodeReference
from threadwire.graphs.project_modules import LoadError, ProjectModules, name_and_message
from threadwire.graphs.user_loop import UserLoop

T = TypeVar("T")
Saver = BaseCheckpointSaver[str]


@dataclass(frozen=True)
class Provider(Generic[T]):
    """A user-provided object that is loaded but not yet opened.

    `target` is the object itself or what creates it: a function or a context manager, sync or async.
    """

    key: str
    source: CodeReference
    target: object
    kind: type[Any]

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[T]:
        """Must be entered on the loop that will use the object.

        Raises `ConfigError` if creating the object fails or if it has the wrong type.
        """
        async with AsyncExitStack() as resources:
            try:
                instance = await self._create(resources)
            except Exception as error:
                raise ConfigError(f'"{self.key}": opening {self.source} failed: {name_and_message(error)}') from error
            if not isinstance(instance, self.kind):
                raise ConfigError(
                    f'"{self.key}": {self.source} must be a {self.kind.__name__}, or a function or context manager '
                    f"(sync or async) that returns one, not {type(instance).__name__}."
                )
            yield instance

    async def _create(self, resources: AsyncExitStack) -> object:
        if isinstance(self.target, self.kind) or not callable(self.target):
            return self.target
        result = self.target()
        if inspect.isawaitable(result):
            result = await result
        if isinstance(result, self.kind):  # may also be a context manager, which must not be entered
            return result
        if isinstance(result, AbstractAsyncContextManager):
            return await resources.enter_async_context(result)
        if isinstance(result, AbstractContextManager):
            return resources.enter_context(result)
        return result


def load_saver(source: CodeReference, modules: ProjectModules) -> Provider[Saver]:
    return Provider("checkpointer", source, load("checkpointer", source, modules), BaseCheckpointSaver)


def load_store(source: CodeReference, modules: ProjectModules) -> Provider[BaseStore]:
    return Provider("store", source, load("store", source, modules), BaseStore)


def load(key: str, source: CodeReference, modules: ProjectModules) -> object:
    """Return the object that langgraph.json names under `key`. Raises `ConfigError`."""
    try:
        module = modules.load(source)
    except LoadError as failure:
        raise ConfigError(f'"{key}": {failure}') from failure
    try:
        return getattr(module, source.attribute)
    except AttributeError:
        raise ConfigError(f'"{key}": {source.location} has no "{source.attribute}".') from None


class CustomSaver:
    """A user-provided checkpointer. Every call runs on the loop that opened it."""

    def __init__(self, saver: Saver, loop: UserLoop) -> None:
        self.saver = saver
        self._loop = loop

    async def newest(self, thread_id: ThreadId) -> tuple[str, RunId | None] | None:
        newest = await self._newest(thread_id)
        return None if newest is None else (newest.checkpoint["id"], _created_by(newest.metadata))

    async def newest_metadata(self, thread_id: ThreadId) -> Mapping[str, Any]:
        newest = await self._newest(thread_id)
        return newest.metadata if newest is not None and isinstance(newest.metadata, dict) else {}

    async def _newest(self, thread_id: ThreadId) -> CheckpointTuple | None:
        return await self._loop.run(
            lambda: self.saver.aget_tuple({"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}})
        )

    async def has(self, thread_id: ThreadId, checkpoint_id: str, ns: str = "") -> bool:
        configurable = {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}
        return await self._loop.run(lambda: self.saver.aget_tuple({"configurable": configurable})) is not None

    async def put(self, puts: Sequence[Put]) -> None:
        await self._loop.run(lambda: self._put(puts))

    async def _put(self, puts: Sequence[Put]) -> None:
        for each in puts:
            if isinstance(each, CheckpointPut):
                await self.saver.aput(each.config, each.checkpoint, each.metadata, each.new_versions)
            else:
                await self.saver.aput_writes(each.config, each.writes, each.task_id, each.task_path)

    async def forget_thread(self, thread_id: ThreadId) -> None:
        await self._loop.run(lambda: self.saver.adelete_thread(thread_id))

    async def copy_thread(self, source: ThreadId, target: ThreadId) -> None:
        await self._loop.run(lambda: self.saver.acopy_thread(source, target))

    async def prune(self, thread_id: ThreadId) -> None:
        await self._loop.run(lambda: self.saver.aprune([thread_id], strategy="keep_latest"))

    @property
    def can_copy_threads(self) -> bool:
        return self._implements("acopy_thread")

    @property
    def can_prune_threads(self) -> bool:
        return self._implements("aprune")

    @property
    def can_delete_threads(self) -> bool:
        return self._implements("adelete_thread")

    @property
    def can_delete_runs(self) -> bool:
        return self._implements("adelete_for_runs")

    def _implements(self, method: str) -> bool:
        """Whether the class overrides the method. The base class has a method that raises, or none in version 4.0.0 of
        langgraph-checkpoint."""
        own = getattr(type(self.saver), method, None)
        return own is not getattr(BaseCheckpointSaver, method, None)

    async def forget_run(self, run_id: RunId) -> None:
        await self._loop.run(lambda: self.saver.adelete_for_runs([run_id]))


def _created_by(metadata: object) -> RunId | None:
    return metadata.get("run_id") if isinstance(metadata, dict) else None
