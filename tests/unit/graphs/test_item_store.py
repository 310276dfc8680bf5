"""The store that graphs get returns the same results as LangGraph's own."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.embeddings import Embeddings
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
)
from langgraph.store.base.embed import ensure_embeddings
from langgraph.store.memory import InMemoryStore

from threadwire.errors import GraphFailed
from threadwire.graphs.persistence_config import IndexConfig, TtlConfig
from threadwire.graphs.project_persistence import ProjectPersistence
from threadwire.graphs.user_loop import UserLoop
from threadwire.storage.abc import Storage
from threadwire.storage.memory import open_memory_storage
from threadwire.storage.sqlite import open_sqlite_storage

EXAMPLES = int(os.environ.get("THREADWIRE_HYPOTHESIS_EXAMPLES", "60"))
WORDS = ("tea", "coffee", "rain")
MINUTE = 60_000


def embed(texts: list[str]) -> list[list[float]]:
    return [[*(float(text.count(word)) for word in WORDS), 0.125] for text in texts]


async def embed_async(texts: list[str]) -> list[list[float]]:
    await asyncio.sleep(0)
    return embed(texts)


class Model(Embeddings):
    """Embeds queries differently from documents."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return embed(texts)

    def embed_query(self, text: str) -> list[float]:
        return embed([text.removeprefix("query: ")])[0]


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now


@asynccontextmanager
async def opened(
    storage: Storage, loop: UserLoop, *, function: Any = None, clock: Any = None, **index: Any
) -> AsyncIterator[BaseStore]:
    config = None if function is None else (IndexConfig(4, "test", **index), ensure_embeddings(function))
    async with ProjectPersistence(index=config).open_store(loop, storage.items, clock or Clock()) as home:
        yield home.for_owner("ada")


# -- compared with LangGraph's own store ------------------------------------------------------------------------------

LABELS = st.sampled_from(["a", "b", "c", "'", '"', "$", "ключ", "%", "a" * 300])
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
PREFIXES = st.lists(LABELS, max_size=2).map(tuple)
PATTERNS = st.lists(LABELS | st.just("*"), min_size=1, max_size=3).map(tuple)
KEYS = st.sampled_from(["k", "l", "", "a.b", "'; --", "\x00", "💥"])
FIELDS = st.sampled_from(["n", "m", "a.b", "$n", "'"])
# Without 1: in Python True equals 1, in JSON it does not.
SCALARS = st.none() | st.booleans() | st.integers(2, 6) | st.sampled_from(["x", "5", "tea"])
PLAIN_FIELDS = st.sampled_from(["n", "m", "a.b", "'"])
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(PLAIN_FIELDS, inner, max_size=2),
    max_leaves=4,
)
VALUES = st.dictionaries(FIELDS, JSON, max_size=3)
CONDITIONS = st.dictionaries(st.sampled_from(["$eq", "$ne"]), JSON, min_size=1, max_size=2) | st.dictionaries(
    st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), st.integers(2, 6) | st.just("4"), min_size=1, max_size=2
)
FILTERS = st.none() | st.dictionaries(FIELDS, JSON | CONDITIONS, max_size=2)
PUTS = st.builds(lambda namespace, key, value: PutOp(namespace, key, value), NAMESPACES, KEYS, VALUES)
OPS = st.one_of(
    PUTS,
    PUTS,
    st.builds(lambda namespace, key: PutOp(namespace, key, None), NAMESPACES, KEYS),
    st.builds(lambda namespace, key: GetOp(namespace, key), NAMESPACES, KEYS),
    st.builds(lambda prefix, wanted: SearchOp(prefix, wanted, limit=1000), PREFIXES, FILTERS),
    st.builds(
        ListNamespacesOp,
        st.lists(st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), PATTERNS), max_size=2).map(tuple),
        st.none() | st.integers(1, 3),
        st.integers(0, 5),
        st.integers(0, 2),
    ),
)


class OpenStores:
    """Stores that stay open from one example to the next, on a loop that runs only on demand."""

    def __init__(self, folder: Path) -> None:
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self.loop = self._stack.enter_context(UserLoop("test"))
        self.stores = [
            self.do(self._open(open_memory_storage())),
            self.do(self._open(open_sqlite_storage(folder))),
        ]

    async def _open(self, opening: Any) -> BaseStore:
        storage = await self._stack.enter_async_context(opening)
        return await self._stack.enter_async_context(opened(storage, self.loop))

    def do(self, work: Any) -> Any:
        return self._runner.run(work)

    def empty(self) -> None:
        for store in self.stores:
            for item in store.search((), limit=10_000):
                store.delete(item.namespace, item.key)

    def close(self) -> None:
        self.do(self._stack.aclose())
        self._runner.close()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenStores]:
    home = OpenStores(tmp_path_factory.mktemp("items"))
    yield home
    home.close()


@settings(max_examples=EXAMPLES, deadline=None)
@given(batches=st.lists(st.lists(OPS, min_size=1, max_size=4), min_size=1, max_size=8), sync=st.booleans())
def test_results_equal_those_of_langgraphs_store(home: OpenStores, batches: list[list[Op]], sync: bool) -> None:
    home.empty()
    reference = InMemoryStore()
    for ops in batches:
        expected = expected_of(reference, ops)
        for store in home.stores:
            results = store.batch(ops) if sync else home.do(store.abatch(ops))
            assert len(results) == len(ops)
            for op, ours, theirs in zip(ops, results, expected, strict=True):
                if theirs is not RAISED:
                    assert plain(op, ours) == theirs


RAISED = object()
"""LangGraph's store raises when a filter compares incomparable values; ours finds nothing."""


def expected_of(reference: InMemoryStore, ops: list[Op]) -> list[Any]:
    """Run reads one by one, because one that raises fails the whole batch, and puts last."""
    results: list[Any] = [None] * len(ops)
    for number, op in enumerate(ops):
        if not isinstance(op, PutOp):
            try:
                results[number] = plain(op, without_empty(reference).batch([op])[0])
            except (TypeError, ValueError):
                results[number] = RAISED
    reference.batch([op for op in ops if isinstance(op, PutOp)])
    return results


def without_empty(reference: InMemoryStore) -> InMemoryStore:
    """Drop empty namespaces: LangGraph's store also lists namespaces that have only been read."""
    fresh = InMemoryStore()
    for item in reference.search((), limit=10_000):
        fresh.put(item.namespace, item.key, item.value)
    return fresh


def plain(op: Op, result: Any) -> Any:
    """A result without timestamps. Search results are sorted, because LangGraph's store defines no order."""
    if isinstance(op, SearchOp):
        return sorted(([list(item.namespace), item.key, repr(item.value), item.score] for item in result), key=repr)
    if isinstance(op, GetOp) and result is not None:
        return [list(result.namespace), result.key, result.value]
    return result


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    texts=st.lists(st.text("tea cofrin", max_size=20), min_size=1, max_size=6, unique=True),
    query=st.sampled_from(["tea", "rain and tea", "coffee", "nothing"]),
)
def test_scores_equal_those_of_langgraphs_store(home: OpenStores, texts: list[str], query: str) -> None:
    async def ours() -> dict[str, float]:
        async with (
            open_memory_storage() as storage,
            opened(storage, home.loop, function=embed, fields=("text",)) as store,
        ):
            for number, text in enumerate(texts):
                await store.aput(("a",), str(number), {"text": text})
            return {item.key: item.score for item in await store.asearch(("a",), query=query)}

    reference = InMemoryStore(index={"dims": 4, "embed": embed, "fields": ["text"]})
    for number, text in enumerate(texts):
        reference.put(("a",), str(number), {"text": text})
    theirs = {item.key: item.score for item in reference.search(("a",), query=query)}
    assert home.do(ours()) == {key: pytest.approx(score, abs=1e-6) for key, score in theirs.items()}


# -- the index --------------------------------------------------------------------------------------------------------


@pytest.fixture
def loop() -> Iterator[UserLoop]:
    with UserLoop("test") as loop:
        yield loop


@pytest.fixture
async def storage() -> AsyncIterator[Storage]:
    async with open_memory_storage() as storage:
        yield storage


async def near(store: BaseStore, query: str) -> list[str]:
    return [item.key for item in await store.asearch((), query=query) if item.score and item.score > 0.5]


@pytest.mark.anyio
@pytest.mark.parametrize("function", [embed, embed_async, Model()], ids=["function", "async function", "embeddings"])
async def test_semantic_search_works_from_any_loop_and_thread(storage, loop, function):
    async with opened(storage, loop, function=function) as store:
        await store.aput(("a",), "here", {"text": "tea"})
        await to_thread.run_sync(store.put, ("a",), "in a thread", {"text": "coffee"})
        await loop.run(lambda: store.aput(("a",), "there", {"text": "rain"}))
        assert await near(store, "a cup of tea") == ["here"]
        assert await loop.run(lambda: near(store, "rain")) == ["there"]
        found = await to_thread.run_sync(lambda: store.search(("a",), query="coffee"))
        assert found[0].key == "in a thread"


@pytest.mark.anyio
async def test_query_is_embedded_as_a_query(storage, loop):
    async with opened(storage, loop, function=Model()) as store:
        await store.aput(("a",), "k", {"text": "tea"})
        (item,) = await store.asearch(("a",), query="query: tea")
        assert item.score == pytest.approx(1)


@pytest.mark.anyio
async def test_async_embedding_function_runs_on_the_user_loop(storage, loop):
    called_on = []

    async def recording_embed(texts: list[str]) -> list[list[float]]:
        called_on.append(asyncio.get_running_loop())
        return embed(texts)

    async def running_loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    user_loop = await loop.run(running_loop)
    async with opened(storage, loop, function=recording_embed) as store:
        await store.aput(("a",), "k", {})
        await to_thread.run_sync(store.put, ("a",), "k", {})
        await loop.run(lambda: store.asearch(("a",), query="tea"))
    assert called_on == [user_loop] * 3


@pytest.mark.anyio
async def test_sync_call_on_the_embedding_loop_raises_instead_of_deadlocking(storage, loop):
    async def call_sync(store: BaseStore) -> None:
        store.put(("a",), "k", {"text": "tea"})

    async with opened(storage, loop, function=embed_async) as store:
        with pytest.raises(RuntimeError, match="Await the async method"):
            await loop.run(lambda: call_sync(store))


@pytest.mark.anyio
async def test_put_may_choose_what_is_indexed(storage, loop):
    async with opened(storage, loop, function=embed, fields=("about",)) as store:
        await store.aput(("a",), "default", {"about": "tea", "other": "rain"})
        await store.aput(("a",), "not", {"about": "tea"}, index=False)
        deep = {"about": "rain", "list": [{"x": "tea"}, {"x": "coffee"}]}
        await store.aput(("a",), "these", deep, index=["list[*].x"])
        await store.aput(("a",), "nothing there", {"no": "tea"})
        assert sorted(await near(store, "tea")) == ["default", "these"]
        assert await near(store, "coffee") == ["these"]
        assert await near(store, "rain") == []
        scores = {item.key: item.score for item in await store.asearch(("a",), query="tea")}
        assert scores["not"] is None
        assert scores["nothing there"] is None


@pytest.mark.anyio
async def test_query_is_ignored_without_an_index(storage, loop):
    async with opened(storage, loop) as store:
        await store.aput(("a",), "k", {"text": "rain"}, index=["text"])
        (item,) = await store.asearch(("a",), query="tea")
        assert (item.key, item.score) == ("k", None)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda texts: [[1.0, 2.0]] * len(texts), "a vector of 2 dimensions, but `store.index.dims` is 4"),
        (lambda texts: [], "returned 0 vectors for 1 texts"),
    ],
)
async def test_embedding_of_the_wrong_shape_raises_and_stores_nothing(storage, loop, function, message):
    async with opened(storage, loop, function=function) as store:
        with pytest.raises(GraphFailed, match=message):
            await store.aput(("a",), "k", {})
        with pytest.raises(GraphFailed, match=message):
            store.put(("a",), "k", {})
        assert await store.aget(("a",), "k") is None


# -- namespaces, TTLs, owners -----------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_invalid_namespace_is_rejected_also_in_a_batch(storage, loop):
    async with opened(storage, loop) as store:
        for invalid in ((), ("a.b",), ("",), ("langgraph",)):
            with pytest.raises(InvalidNamespaceError):
                await store.aput(invalid, "k", {})
        with pytest.raises(InvalidNamespaceError):
            store.batch([PutOp(("fine",), "k", {}), GetOp(("a.b",), "k")])
        assert await store.aget(("fine",), "k") is None


@pytest.mark.anyio
async def test_unsupported_filter_operator_is_rejected_even_if_the_store_is_empty(storage, loop):
    async with opened(storage, loop) as store:
        with pytest.raises(ValueError, match="Unsupported operator: \\$in"):
            await store.asearch((), filter={"n": {"$in": [1]}})


@pytest.mark.anyio
async def test_ttl_is_in_minutes_and_refreshed_by_reads(storage, loop):
    clock = Clock()
    config = TtlConfig(default=2, refresh_on_read=True)
    async with ProjectPersistence(ttl=config).open_store(loop, storage.items, clock) as home:
        store = home.for_owner(None)
        await store.aput(("a",), "default", {})
        await store.aput(("a",), "own", {}, ttl=0.5)
        await store.aput(("a",), "forever", {}, ttl=None)
        clock.now += MINUTE // 2
        assert await store.aget(("a",), "own") is None
        clock.now += MINUTE
        assert await store.aget(("a",), "default", refresh_ttl=True) is not None
        clock.now += MINUTE
        assert {item.key for item in await store.asearch(("a",), refresh_ttl=False)} == {"default", "forever"}
        clock.now += MINUTE
        assert [item.key for item in await store.asearch(("a",))] == ["forever"]


@pytest.mark.anyio
@pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf")])
async def test_invalid_ttl_is_rejected(storage, loop, ttl):
    async with opened(storage, loop) as store:
        with pytest.raises(ValueError, match="a positive number of minutes"):
            await store.aput(("a",), "k", {}, ttl=ttl)


@pytest.mark.anyio
async def test_huge_ttl_is_clamped(storage, loop):
    async with opened(storage, loop) as store:
        await store.aput(("a",), "k", {}, ttl=1e300)
        assert await store.aget(("a",), "k") is not None


@pytest.mark.anyio
async def test_refresh_on_read_can_be_disabled(storage, loop):
    clock = Clock()
    config = TtlConfig(default=1, refresh_on_read=False)
    async with ProjectPersistence(ttl=config).open_store(loop, storage.items, clock) as home:
        await home.for_owner(None).aput(("a",), "k", {})
        clock.now += MINUTE - 1
        assert await home.for_owner(None).aget(("a",), "k") is not None
        clock.now += 1
        assert await home.for_owner(None).aget(("a",), "k") is None


@pytest.mark.anyio
async def test_item_is_visible_to_every_owner(storage, loop):
    async with ProjectPersistence().open_store(loop, storage.items, Clock()) as home:
        await home.for_owner("ada").aput(("a",), "k", {"n": 1})
        assert (await home.for_owner("bob").aget(("a",), "k")).value == {"n": 1}
