"""A worker process's checkpoint saver. It serializes and deserializes in the worker process."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol

from threadwire.core.records import Durability
from threadwire.ipc.channel import Channel
from threadwire.storage.checkpoint_encoding import EncodedPut, address_of
from threadwire.storage.checkpoint_ids import advance_id_clock
from threadwire.storage.checkpoint_saver import EncodingSaver
from threadwire.storage.sqlite.checkpoint_rows import Portable, PreparedPut, load_portable, prepare

if TYPE_CHECKING:
    from threadwire.storage.sqlite.remote.run_handle import RemoteRunHandle

_Found = tuple[Portable, str] | None


class RemoteSaver(EncodingSaver):
    """Usable on any thread and event loop. With a handle, its puts belong to the attempt."""

    def __init__(
        self,
        channel: Channel,
        serde: SerializerProtocol,
        handle: "RemoteRunHandle | None",
        durability: Durability,
    ) -> None:
        super().__init__(serde, None if handle is None else handle.run.run_id)
        self._channel = channel
        self._handle = handle
        self._durability = durability
        self._fence = None if handle is None else tuple(handle.run.fence)
        self._has_put = [False]
        """Whether anything was put. Shared with clones (`with_allowlist`)."""

    # Putting

    async def _store(self, put: EncodedPut) -> None:
        self._before_put()
        prepared = prepare(put)
        if self._waits_for(prepared):
            await self._channel.request("put", self._fence, self._durability, prepared.portable())
        else:
            self._channel.notify("put_soon", self._fence, prepared.portable())
            if self._channel.is_full:
                await self._channel.wait_for_room()

    def _store_blocking(self, put: EncodedPut) -> None:
        self._before_put()
        prepared = prepare(put)
        if self._waits_for(prepared) or self._channel.is_full:
            self._channel.request_blocking("put", self._fence, self._durability, prepared.portable())
        else:
            self._channel.notify("put_soon", self._fence, prepared.portable())

    def _before_put(self) -> None:
        self._has_put[0] = True
        if self._handle is not None:
            self._handle.require_open()

    def _waits_for(self, prepared: PreparedPut) -> bool:
        """Whether the put must be stored before the caller continues. Outside an attempt, the next read must see it. In
        an attempt, the next step of a subgraph starts when this put returns, so the put itself has to wait (7.4)."""
        if self._fence is None or self._durability == "sync":
            return True
        return prepared.table == "checkpoints" and bool(prepared.address.ns)

    # Getting

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        if self._is_empty(config):
            return None
        return self._found(self._channel.request_blocking("get_checkpoint", self._fence, _location(config)))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        if self._is_empty(config):
            return None
        return self._found(await self._channel.request("get_checkpoint", self._fence, _location(config)))

    def _is_empty(self, config: RunnableConfig) -> bool:
        """Whether the thread is known to have no checkpoints."""
        run = None if self._handle is None else self._handle.run
        return (
            run is not None
            and run.is_first_on_thread
            and not self._has_put[0]
            and address_of(config).thread_id == run.thread_id
        )

    def _found(self, found: _Found) -> CheckpointTuple | None:
        if found is None:
            return None
        stored, newest = found
        advance_id_clock(newest)
        return load_portable(self.serde, stored)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        pages = _Pages(config, filter, before, limit)
        while not pages.complete:
            page = self._channel.request_blocking("list_checkpoints", self._fence, pages.request())
            for stored in pages.take(page):
                yield load_portable(self.serde, stored)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        pages = _Pages(config, filter, before, limit)
        while not pages.complete:
            page = await self._channel.request("list_checkpoints", self._fence, pages.request())
            for stored in pages.take(page):
                yield load_portable(self.serde, stored)

    # Removing and copying

    def delete_thread(self, thread_id: str) -> None:
        self._channel.request_blocking("maintain_checkpoints", self._fence, "adelete_thread", thread_id)

    async def adelete_thread(self, thread_id: str) -> None:
        await self._channel.request("maintain_checkpoints", self._fence, "adelete_thread", thread_id)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        self._channel.request_blocking("maintain_checkpoints", self._fence, "adelete_for_runs", [*run_ids])

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._channel.request("maintain_checkpoints", self._fence, "adelete_for_runs", [*run_ids])

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        arguments = (source_thread_id, target_thread_id)
        self._channel.request_blocking("maintain_checkpoints", self._fence, "acopy_thread", *arguments)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        arguments = (source_thread_id, target_thread_id)
        await self._channel.request("maintain_checkpoints", self._fence, "acopy_thread", *arguments)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self._channel.request_blocking("prune_checkpoints", [*thread_ids], strategy)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await self._channel.request("prune_checkpoints", [*thread_ids], strategy)


class _Pages:
    """Asks for the pages of a list, one after the other."""

    def __init__(
        self,
        config: RunnableConfig | None,
        metadata: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> None:
        self._config = None if config is None else _location(config)
        self._metadata = metadata or {}
        self._before = None if before is None else _location(before)
        self._left = limit
        self._last: tuple[Any, ...] | None = None
        self.complete = limit is not None and limit <= 0

    def request(self) -> tuple[Any, ...]:
        return (self._config, self._metadata, self._before, self._left, self._last)

    def take(self, page: tuple[list[Portable], tuple[Any, ...] | None, bool]) -> list[Portable]:
        found, self._last, self.complete = page
        if self._left is not None:
            self._left -= len(found)
            self.complete = self.complete or self._left <= 0
        return found


def _location(config: RunnableConfig) -> RunnableConfig:
    """The part of a config that selects checkpoints. The rest may hold objects of the project."""
    configurable = config["configurable"]
    keys = ("thread_id", "checkpoint_ns", "checkpoint_id")
    located = {key: configurable[key] for key in keys if configurable.get(key) is not None}
    return {"configurable": {**located, "thread_id": str(configurable["thread_id"])}}
