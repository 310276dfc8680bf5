"""What the project brings to keep things in: a checkpoint saver or a store of its own."""

import inspect
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.store.base import BaseStore

from threadwire.core.ids import RunId, ThreadId
from threadwire.core.records import CheckpointPut, Put
from threadwire.errors import ConfigError
from threadwire.graphs.modules import CannotLoad, ProjectModules, name_and_message
from threadwire.graphs.source import CodeSource
from threadwire.graphs.user_loop import UserLoop

T = TypeVar("T")
Saver = BaseCheckpointSaver[str]


@dataclass(frozen=True)
class Brought(Generic[T]):
    """Loaded, and not yet opened. `target` is the thing itself or what makes it: a function, sync or async, or a
    context manager of either kind."""

    key: str
    source: CodeSource
    target: object
    kind: type[Any]

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[T]:
        """Called on the loop where it will be used. Raises `ConfigError` if what is made is something else."""
        async with AsyncExitStack() as resources:
            try:
                made = await self._make(resources)
            except Exception as error:
                raise ConfigError(f'"{self.key}": opening {self.source} failed: {name_and_message(error)}') from error
            if not isinstance(made, self.kind):
                raise ConfigError(
                    f'"{self.key}": {self.source} gave {type(made).__name__}, which is no {self.kind.__name__}. It '
                    "must be one, or an (async) function or context manager that gives one."
                )
            yield made

    async def _make(self, resources: AsyncExitStack) -> object:
        if isinstance(self.target, self.kind) or not callable(self.target):
            return self.target
        made = self.target()
        if inspect.isawaitable(made):
            made = await made
        if isinstance(made, self.kind):  # some are context managers besides
            return made
        if isinstance(made, AbstractAsyncContextManager):
            return await resources.enter_async_context(made)
        if isinstance(made, AbstractContextManager):
            return resources.enter_context(made)
        return made


def load_saver(source: CodeSource, modules: ProjectModules) -> Brought[Saver]:
    return Brought("checkpointer", source, load("checkpointer", source, modules), BaseCheckpointSaver)


def load_store(source: CodeSource, modules: ProjectModules) -> Brought[BaseStore]:
    return Brought("store", source, load("store", source, modules), BaseStore)


def load(key: str, source: CodeSource, modules: ProjectModules) -> object:
    """The object that langgraph.json names under `key`. Raises `ConfigError`."""
    try:
        module = modules.load(source)
    except CannotLoad as failure:
        raise ConfigError(f'"{key}": {failure}') from failure
    try:
        return getattr(module, source.attribute)
    except AttributeError:
        raise ConfigError(f'"{key}": {source.location} has no "{source.attribute}".') from None


class BroughtSaver:
    """A saver of the project's, on the loop it belongs to."""

    def __init__(self, saver: Saver, loop: UserLoop) -> None:
        self.saver = saver
        self._loop = loop

    async def newest(self, thread_id: ThreadId) -> tuple[str, RunId | None] | None:
        newest = await self._loop.run(
            lambda: self.saver.aget_tuple({"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}})
        )
        return None if newest is None else (newest.checkpoint["id"], _made_by(newest.metadata))

    async def has(self, thread_id: ThreadId, checkpoint_id: str, ns: str = "") -> bool:
        place = {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}
        return await self._loop.run(lambda: self.saver.aget_tuple({"configurable": place})) is not None

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
    def copies_threads(self) -> bool:
        return type(self.saver).acopy_thread is not BaseCheckpointSaver.acopy_thread

    @property
    def prunes_threads(self) -> bool:
        return type(self.saver).aprune is not BaseCheckpointSaver.aprune

    @property
    def forgets_threads(self) -> bool:
        return type(self.saver).adelete_thread is not BaseCheckpointSaver.adelete_thread

    @property
    def forgets_runs(self) -> bool:
        return type(self.saver).adelete_for_runs is not BaseCheckpointSaver.adelete_for_runs

    async def forget_run(self, run_id: RunId) -> None:
        await self._loop.run(lambda: self.saver.adelete_for_runs([run_id]))


def _made_by(metadata: object) -> RunId | None:
    return metadata.get("run_id") if isinstance(metadata, dict) else None
