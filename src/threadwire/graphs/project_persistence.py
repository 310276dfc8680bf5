"""The checkpointer and the store that a project configures: built-in or user-provided."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from langchain_core.embeddings import Embeddings
from langgraph.store.base import BaseStore

from threadwire.graphs.config import ProjectConfig
from threadwire.graphs.custom_persistence import CustomSaver, Provider, Saver, load_saver, load_store
from threadwire.graphs.item_embeddings import Index, load_embeddings
from threadwire.graphs.persistence_config import IndexConfig, TtlConfig
from threadwire.graphs.project_modules import ProjectModules
from threadwire.graphs.store import ItemStorage, ItemStore, StoreProvider
from threadwire.graphs.user_loop import UserLoop


@dataclass(frozen=True)
class ProjectPersistence:
    """A project's checkpointer and store, loaded but not yet opened."""

    saver: Provider[Saver] | None = None
    store: Provider[BaseStore] | None = None
    index: tuple[IndexConfig, Embeddings] | None = None
    ttl: TtlConfig = field(default_factory=TtlConfig)

    @property
    def is_custom(self) -> bool:
        """Whether the checkpointer or the store is user-provided and therefore bound to one loop."""
        return self.saver is not None or self.store is not None

    @asynccontextmanager
    async def open_saver(self, loop: UserLoop) -> AsyncIterator[CustomSaver | None]:
        if self.saver is None:
            yield None
            return
        async with loop.enter(self.saver.opened()) as saver:
            yield CustomSaver(saver, loop)

    @asynccontextmanager
    async def open_store(
        self, loop: UserLoop, items: ItemStorage, clock: Callable[[], int]
    ) -> AsyncIterator[StoreProvider]:
        if self.store is not None:
            async with loop.enter(self.store.opened()) as store:
                yield StoreProvider(lambda owner: store, loop)
            return
        index = None if self.index is None else Index(*self.index, loop)
        yield StoreProvider(
            lambda owner: ItemStore(items, index, self.ttl, owner, clock),
            restricted=lambda access: ItemStore(items, index, self.ttl, None, clock, access),
        )


def load_persistence(config: ProjectConfig, modules: ProjectModules) -> ProjectPersistence:
    """Import what the config names. Requires `prepare_environment`. Raises `ConfigError`."""
    store, saver = config.store, config.checkpointer.source
    return ProjectPersistence(
        saver=None if saver is None else load_saver(saver, modules),
        store=None if store.source is None else load_store(store.source, modules),
        index=None if store.index is None else (store.index, load_embeddings(store.index.embed, modules)),
        ttl=store.ttl,
    )
