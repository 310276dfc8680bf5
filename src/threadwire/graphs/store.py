"""The built-in store as a LangGraph `BaseStore`. Graphs get it as `runtime.store`, and the API serves it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol, cast

from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
)
from langgraph.store.base import Item as StoreItem

from threadwire.core.access_filter import EVERYTHING, AccessFilter
from threadwire.core.json import native
from threadwire.core.store_items import (
    DropItem,
    GetItem,
    Item,
    ItemOperation,
    ItemResult,
    ListNamespaces,
    PutItem,
    SearchItems,
    check_filter,
    ttl_milliseconds,
)
from threadwire.graphs.item_embeddings import Index
from threadwire.graphs.persistence_config import TtlConfig
from threadwire.graphs.user_loop import UserLoop


class ItemStorage(Protocol):
    """Where items are stored: the part of the storage's `Items` that is needed here."""

    def batch(self, operations: Sequence[ItemOperation], now: int) -> list[ItemResult]: ...

    async def abatch(self, operations: Sequence[ItemOperation], now: int) -> list[ItemResult]: ...


@dataclass(frozen=True)
class StoreProvider:
    """The server's store, built-in or user-provided."""

    for_owner: Callable[[str | None], BaseStore]
    """Returns the store for a user, who then owns the items put into it."""
    loop: UserLoop | None = None
    """The loop on which the store must be called; None if it may be called on any loop."""
    restricted: Callable[[AccessFilter], BaseStore] | None = None
    """Returns the store without the items that are foreign to a filter. None if the store is user-provided."""


class ItemStore(BaseStore):
    """The built-in store. May be called from any thread and any loop. A put is durable when it returns."""

    supports_ttl = True

    def __init__(
        self,
        items: ItemStorage,
        index: Index | None,
        ttl: TtlConfig,
        owner: str | None,
        clock: Callable[[], int],
        access: AccessFilter = EVERYTHING,
    ) -> None:
        self._items = items
        self._index = index
        self._owner = owner
        self._access = access
        self._clock = clock
        self.ttl_config = TTLConfig(default_ttl=ttl.default, refresh_on_read=ttl.refresh_on_read)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        batch = _Batch(ops, self._index)
        if self._index is not None:
            batch.vectors = self._index.vectors(batch.texts) if batch.texts else []
            batch.query_vectors = {query: self._index.query(query) for query in batch.queries}
        return batch.results(self._items.batch(batch.operations(self._owner, self._access), self._clock()))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        batch = _Batch(ops, self._index)
        if self._index is not None:
            batch.vectors = await self._index.avectors(batch.texts) if batch.texts else []
            batch.query_vectors = {query: await self._index.aquery(query) for query in batch.queries}
        return batch.results(await self._items.abatch(batch.operations(self._owner, self._access), self._clock()))


class _Batch:
    """Converts LangGraph's operations to ours and collects the texts to embed. Raises if any operation is invalid."""

    def __init__(self, ops: Iterable[Op], index: Index | None) -> None:
        self._ops = list(ops)
        self._values: dict[int, dict[str, Any]] = {}
        self._texts: dict[int, list[str]] = {}
        self.queries: set[str] = set()
        self.query_vectors: dict[str, bytes] = {}
        self.vectors: list[bytes] = []
        for number, op in enumerate(self._ops):
            _check_labels(op)
            if isinstance(op, PutOp) and op.value is not None:
                self._values[number] = native(dict(op.value))
                if index is not None and op.index is not False:
                    self._texts[number] = index.texts(self._values[number], op.index)
            elif isinstance(op, SearchOp):
                for condition in (op.filter or {}).values():
                    check_filter(native(condition))
                if index is not None and op.query:
                    self.queries.add(op.query)

    @property
    def texts(self) -> list[str]:
        return [text for texts in self._texts.values() for text in texts]

    def operations(self, owner: str | None, access: AccessFilter) -> list[ItemOperation]:
        vectors = iter(self.vectors)
        operations = [self._operation(number, op, owner, vectors) for number, op in enumerate(self._ops)]
        return [replace(each, access=access) for each in operations] if access else operations

    def _operation(self, number: int, op: Op, owner: str | None, vectors: Iterable[bytes]) -> ItemOperation:
        match op:
            case PutOp(value=None):
                return DropItem(tuple(op.namespace), op.key)
            case PutOp():
                own = tuple(vector for _, vector in zip(self._texts.get(number, ()), vectors, strict=False))
                ttl = None if op.ttl is None else ttl_milliseconds(op.ttl)
                return PutItem(tuple(op.namespace), op.key, self._values[number], ttl, own, owner)
            case GetOp():
                return GetItem(tuple(op.namespace), op.key, op.refresh_ttl)
            case SearchOp():
                near = self.query_vectors.get(op.query or "")
                conditions = native(op.filter or {})
                return SearchItems(tuple(op.namespace_prefix), conditions, op.limit, op.offset, near, op.refresh_ttl)
            case ListNamespacesOp():
                return _listing(op)

    def results(self, found: list[ItemResult]) -> list[Result]:
        return [_result(op, each) for op, each in zip(self._ops, found, strict=True)]


def _check_labels(op: Op) -> None:
    """LangGraph's rules for operations that are passed to `batch` directly. Its own function for this is missing in
    langgraph-checkpoint 4.0."""
    match op:
        case GetOp() | PutOp():
            namespaces = [op.namespace]
        case SearchOp():
            namespaces = [op.namespace_prefix]
        case ListNamespacesOp():
            namespaces = [each.path for each in op.match_conditions or ()]
    for namespace in namespaces:
        for label in namespace:
            if not isinstance(label, str) or not label or "." in label or "\0" in label:
                raise InvalidNamespaceError(
                    f"Invalid namespace label {label!r} in {namespace}: a label is a string that is not empty and has"
                    " no period and no NUL."
                )


def _listing(op: ListNamespacesOp) -> ListNamespaces:
    conditions = op.match_conditions or ()
    return ListNamespaces(
        tuple(tuple(each.path) for each in conditions if each.match_type == "prefix"),
        tuple(tuple(each.path) for each in conditions if each.match_type == "suffix"),
        op.max_depth,
        op.limit,
        op.offset,
    )


def _result(op: Op, found: ItemResult) -> Result:
    if isinstance(op, SearchOp):
        return [SearchItem(**_fields(each), score=each.score) for each in cast("list[Item]", found)]
    if isinstance(found, Item):
        return StoreItem(**_fields(found))
    return cast("list[tuple[str, ...]] | None", found)


def _fields(item: Item) -> dict[str, Any]:
    return {
        "namespace": item.namespace,
        "key": item.key,
        "value": item.value,
        "created_at": _datetime(item.created_at),
        "updated_at": _datetime(item.updated_at),
    }


def _datetime(timestamp: int) -> datetime:
    return datetime.fromtimestamp(timestamp / 1000, UTC)
