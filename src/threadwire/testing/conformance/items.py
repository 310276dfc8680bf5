"""Conformance tests for the store's items."""

import threading
from typing import Any

import anyio
import pytest

from threadwire.core.store_items import (
    DropItem,
    GetItem,
    Item,
    ItemOperation,
    ItemResult,
    Labels,
    ListNamespaces,
    PutItem,
    SearchItems,
)
from threadwire.core.vectors import unit_vector
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.hostile_metadata import HOSTILE_KEYS, INNOCENT, with_every_hostile_key
from threadwire.testing.conformance.samples import NOW

NAMESPACE: Labels = ("users", "ada")
SECOND = 1000


async def execute(storage: Storage, operation: ItemOperation, now: int = NOW) -> ItemResult:
    [result] = await storage.items.abatch([operation], now)
    return result


async def put(
    storage: Storage, key: str, value: dict[str, Any], namespace: Labels = NAMESPACE, now: int = NOW, **options: Any
) -> None:
    await execute(storage, PutItem(namespace, key, value, **options), now)


async def get(storage: Storage, key: str, namespace: Labels = NAMESPACE, now: int = NOW, **options: Any) -> Item | None:
    found = await execute(storage, GetItem(namespace, key, **options), now)
    assert found is None or isinstance(found, Item)
    return found


async def search(storage: Storage, prefix: Labels = (), now: int = NOW, **options: Any) -> list[Any]:
    found = await execute(storage, SearchItems(prefix, **options), now)
    assert isinstance(found, list)
    return found


async def keys(storage: Storage, prefix: Labels = (), now: int = NOW, **options: Any) -> list[str]:
    return [item.key for item in await search(storage, prefix, now, **options)]


async def namespaces(storage: Storage, now: int = NOW, **options: Any) -> list[Any]:
    found = await execute(storage, ListNamespaces(**options), now)
    assert isinstance(found, list)
    return found


class ItemsConformance:
    pytestmark = pytest.mark.anyio

    # -- one item --------------------------------------------------------------------------------------------------

    async def test_an_item_is_read_as_it_was_put(self, storage: Storage) -> None:
        value = {"likes": ["looms", {"n": 1.5}], "none": None, "ключ": "\U0001f511"}
        await put(storage, "k", value, owner="ada")
        assert await get(storage, "k") == Item(NAMESPACE, "k", value, NOW, NOW, owner="ada")

    async def test_an_unknown_item_is_none(self, storage: Storage) -> None:
        await put(storage, "k", {})
        assert await get(storage, "other") is None
        assert await get(storage, "k", ("users",)) is None
        assert await get(storage, "k", (*NAMESPACE, "deeper")) is None

    async def test_putting_again_replaces_the_value_but_not_the_creation_time_or_owner(self, storage: Storage) -> None:
        await put(storage, "k", {"a": 1, "b": 2}, owner="ada")
        await put(storage, "k", {"a": 3}, now=NOW + SECOND, owner="bob")
        assert await get(storage, "k") == Item(NAMESPACE, "k", {"a": 3}, NOW, NOW + SECOND, owner="ada")
        assert await keys(storage) == ["k"]

    async def test_dropping_an_item_removes_it_and_dropping_it_again_is_a_no_op(self, storage: Storage) -> None:
        await put(storage, "k", {}, vectors=(unit_vector([1, 0]),))
        await put(storage, "other", {})
        for _ in range(2):
            assert await execute(storage, DropItem(NAMESPACE, "k")) is None
            assert await get(storage, "k") is None
            assert await keys(storage, near=unit_vector([1, 0])) == ["other"]

    async def test_mutating_shared_values_does_not_change_an_item(self, storage: Storage) -> None:
        value: dict[str, Any] = {"list": [1]}
        await put(storage, "k", value)
        value["list"].append(2)
        first = await get(storage, "k")
        assert first is not None
        first.value["list"].append(3)
        again = await get(storage, "k")
        assert again is not None
        assert again.value == {"list": [1]}

    # -- batches ---------------------------------------------------------------------------------------------------

    async def test_a_batch_reads_the_items_before_it_and_its_last_write_wins(self, storage: Storage) -> None:
        await put(storage, "k", {"v": 0})
        operations: list[ItemOperation] = [
            PutItem(NAMESPACE, "k", {"v": 1}),
            GetItem(NAMESPACE, "k"),
            PutItem(NAMESPACE, "k", {"v": 2}),
            SearchItems(NAMESPACE),
            DropItem(NAMESPACE, "new"),
            PutItem(NAMESPACE, "new", {}),
            ListNamespaces(),
        ]
        results = await storage.items.abatch(operations, NOW)
        before = Item(NAMESPACE, "k", {"v": 0}, NOW, NOW)
        assert results == [None, before, None, [before], None, None, [NAMESPACE]]
        after = await get(storage, "k")
        assert after is not None
        assert after.value == {"v": 2}
        assert await get(storage, "new") is not None

    async def test_an_empty_batch_is_a_no_op(self, storage: Storage) -> None:
        assert await storage.items.abatch([], NOW) == []
        assert storage.items.batch([], NOW) == []

    async def test_threads_can_put_and_read_concurrently(self, storage: Storage) -> None:
        """Graphs do so from sync nodes while the event loop runs."""
        barrier = threading.Barrier(4)
        seen: list[ItemResult] = []

        def work(worker: int) -> None:
            barrier.wait()
            for n in range(25):
                storage.items.batch([PutItem(("threads", str(worker)), str(n), {"n": n})], NOW)
                seen.extend(storage.items.batch([GetItem(("threads", str(worker)), str(n))], NOW))

        async with anyio.create_task_group() as tasks:
            for worker in range(4):
                tasks.start_soon(anyio.to_thread.run_sync, work, worker)
        assert len(await search(storage, ("threads",), limit=1000)) == 100
        assert len(seen) == 100
        assert None not in seen

    # -- searching -------------------------------------------------------------------------------------------------

    async def test_a_search_covers_the_namespace_and_those_below_it_last_put_first(self, storage: Storage) -> None:
        for key, namespace in (("a", ("x",)), ("b", ("x", "y")), ("c", ("xy",)), ("d", ("z", "x")), ("e", ())):
            await put(storage, key, {}, namespace)
        await put(storage, "a", {"again": True}, ("x",))
        assert await keys(storage, ("x",)) == ["a", "b"]
        assert await keys(storage, ("x", "y")) == ["b"]
        assert await keys(storage, ()) == ["a", "e", "d", "c", "b"]
        assert await keys(storage, ("nowhere",)) == []

    async def test_pages_of_items_are_consecutive(self, storage: Storage) -> None:
        for n in range(5):
            await put(storage, f"k{n}", {})
        pages = [await keys(storage, NAMESPACE, limit=2, offset=offset) for offset in (0, 2, 4, 6)]
        assert pages == [["k4", "k3"], ["k2", "k1"], ["k0"], []]
        assert await keys(storage, NAMESPACE, limit=0) == []

    @pytest.mark.parametrize(
        ("wanted", "found"),
        [
            ({"n": 2}, ["two"]),
            ({"n": 2.0}, ["two"]),
            ({"n": "2"}, []),
            ({"n": True}, []),
            ({"n": {"$eq": 3}}, ["three"]),
            ({"n": {"$ne": 2}}, ["none", "text", "three"]),
            ({"n": {"$gt": 2}}, ["three"]),
            ({"n": {"$gte": 2}}, ["three", "two"]),
            ({"n": {"$lt": 3}}, ["two"]),
            ({"n": {"$lte": 3, "$gt": 2}}, ["three"]),
            ({"n": {"$gt": "a"}}, ["text"]),
            ({"n": None}, ["none"]),
            ({"missing": None}, ["none", "text", "three", "two"]),
            ({"deep": {"er": {"$gte": 7}}}, ["three"]),
            ({"deep": {"er": 7, "most": None}}, ["three"]),
            ({"deep": {"$eq": {"er": 7}}}, ["three"]),
            ({"deep": {"$eq": {"er": 8}}}, []),
            ({"list": [1, {"$gt": 1}]}, ["two"]),
            ({"list": [1]}, []),
            ({"n": 2, "list": [1, 2]}, ["two"]),
            ({"n": 3, "list": [1, 2]}, []),
        ],
        ids=str,
    )
    async def test_a_filter_compares_values(self, storage: Storage, wanted: dict[str, Any], found: list[str]) -> None:
        await put(storage, "two", {"n": 2, "list": [1, 2]})
        await put(storage, "three", {"n": 3, "deep": {"er": 7}})
        await put(storage, "text", {"n": "b"})
        await put(storage, "none", {})
        assert await keys(storage, NAMESPACE, filter=wanted) == found

    async def test_paging_applies_to_filtered_items(self, storage: Storage) -> None:
        for n in range(10):
            await put(storage, f"k{n}", {"even": n % 2 == 0})
        assert await keys(storage, NAMESPACE, filter={"even": True}, limit=2, offset=1) == ["k6", "k4"]

    # -- searching by meaning --------------------------------------------------------------------------------------

    async def test_the_nearest_items_come_first_and_those_without_vectors_last(self, storage: Storage) -> None:
        await put(storage, "none", {})
        await put(storage, "far", {}, vectors=(unit_vector([-1, 0]),))
        await put(storage, "near", {}, vectors=(unit_vector([3, 0]),))
        await put(storage, "between", {}, vectors=(unit_vector([1, 1]),))
        found = await search(storage, NAMESPACE, near=unit_vector([1, 0]))
        assert [item.key for item in found] == ["near", "between", "far", "none"]
        assert [item.score for item in found] == [pytest.approx(1), pytest.approx(0.5**0.5), pytest.approx(-1), None]
        pages = [
            await keys(storage, NAMESPACE, near=unit_vector([1, 0]), limit=2, offset=offset) for offset in (0, 2, 4)
        ]
        assert pages == [["near", "between"], ["far", "none"], []]

    async def test_the_nearest_of_several_vectors_counts(self, storage: Storage) -> None:
        await put(storage, "one", {}, vectors=(unit_vector([1, 1]),))
        await put(storage, "two", {}, vectors=(unit_vector([-1, 0]), unit_vector([1, 0.1])))
        assert await keys(storage, NAMESPACE, near=unit_vector([1, 0])) == ["two", "one"]

    async def test_putting_again_replaces_the_vectors(self, storage: Storage) -> None:
        await put(storage, "k", {}, vectors=(unit_vector([1, 0]),))
        await put(storage, "k", {})
        [item] = await search(storage, NAMESPACE, near=unit_vector([1, 0]))
        assert item.score is None

    async def test_a_vector_of_another_dimension_is_ignored(self, storage: Storage) -> None:
        await put(storage, "old", {}, vectors=(unit_vector([1, 0, 0]),))
        await put(storage, "new", {}, vectors=(unit_vector([0, 1]),))
        found = await search(storage, NAMESPACE, near=unit_vector([1, 0]))
        assert [(item.key, item.score) for item in found] == [("new", 0), ("old", None)]

    async def test_a_search_by_meaning_respects_prefix_and_filter(self, storage: Storage) -> None:
        await put(storage, "mine", {"n": 1}, vectors=(unit_vector([0, 1]),))
        await put(storage, "filtered", {"n": 2}, vectors=(unit_vector([1, 0]),))
        await put(storage, "elsewhere", {"n": 1}, ("other",), vectors=(unit_vector([1, 0]),))
        assert await keys(storage, NAMESPACE, filter={"n": 1}, near=unit_vector([1, 0])) == ["mine"]

    # -- namespaces ------------------------------------------------------------------------------------------------

    async def test_namespaces_are_listed_by_prefix_suffix_wildcard_and_depth(self, storage: Storage) -> None:
        existing: list[Labels] = [
            ("a",),
            ("a", "b", "c"),
            ("a", "b", "d", "e"),
            ("a", "x", "c"),
            ("ab", "c"),
            ("b", "c"),
        ]
        for namespace in existing:
            await put(storage, "one", {}, namespace)
            await put(storage, "two", {}, namespace)
        assert await namespaces(storage) == existing
        assert await namespaces(storage, prefixes=(("a",),)) == existing[:4]
        assert await namespaces(storage, prefixes=(("a", "b"),)) == existing[1:3]
        assert await namespaces(storage, suffixes=(("c",),)) == [existing[1], *existing[3:]]
        assert await namespaces(storage, prefixes=(("a", "*", "c"),)) == [existing[1], existing[3]]
        assert await namespaces(storage, prefixes=(("*", "b"),)) == existing[1:3]
        assert await namespaces(storage, suffixes=(("x", "*"),)) == [existing[3]]
        assert await namespaces(storage, prefixes=(("a",),), suffixes=(("c",),)) == [existing[1], existing[3]]
        assert await namespaces(storage, prefixes=(("a",), ("*", "x"))) == [existing[3]]
        assert await namespaces(storage, max_depth=2) == [("a",), ("a", "b"), ("a", "x"), ("ab", "c"), ("b", "c")]
        assert await namespaces(storage, max_depth=2, limit=2, offset=1) == [("a", "b"), ("a", "x")]
        assert await namespaces(storage, prefixes=(("nowhere",),)) == []

    async def test_a_namespace_without_items_is_not_listed(self, storage: Storage) -> None:
        await put(storage, "k", {})
        await get(storage, "k", ("only", "read"))
        await execute(storage, DropItem(NAMESPACE, "k"))
        assert await namespaces(storage) == []

    # -- time to live ----------------------------------------------------------------------------------------------

    async def test_an_expired_item_is_treated_as_absent(self, storage: Storage) -> None:
        await put(storage, "short", {}, ttl=SECOND, vectors=(unit_vector([1, 0]),))
        await put(storage, "long", {}, ("other",))
        assert await get(storage, "short", now=NOW + SECOND - 1, refresh=False) is not None
        later = NOW + SECOND
        assert await get(storage, "short", now=later) is None
        assert await keys(storage, now=later) == ["long"]
        assert await keys(storage, now=later, near=unit_vector([1, 0])) == ["long"]
        assert await namespaces(storage, now=later) == [("other",)]

    async def test_an_item_put_in_place_of_an_expired_one_is_new(self, storage: Storage) -> None:
        await put(storage, "k", {"old": 1}, ttl=SECOND, owner="ada")
        later = NOW + SECOND
        await put(storage, "k", {"new": 1}, now=later, owner="bob")
        assert await get(storage, "k", now=later * 2) == Item(NAMESPACE, "k", {"new": 1}, later, later, owner="bob")

    async def test_a_read_postpones_expiry_unless_refresh_is_off(self, storage: Storage) -> None:
        for key in ("got", "found", "peeked"):
            await put(storage, key, {"key": key}, ttl=10 * SECOND)
        then = NOW + 6 * SECOND
        await get(storage, "got", now=then)
        await search(storage, NAMESPACE, now=then, filter={"key": "found"})
        await get(storage, "peeked", now=then, refresh=False)
        await search(storage, NAMESPACE, now=then, refresh=False)
        await put(storage, "after", {}, ("other",), now=then)  # writes deferred by the reads are applied before it
        assert sorted(await keys(storage, NAMESPACE, now=NOW + 12 * SECOND, refresh=False)) == ["found", "got"]
        assert await keys(storage, NAMESPACE, now=then + 10 * SECOND, refresh=False) == []

    async def test_reading_does_not_add_a_ttl(self, storage: Storage) -> None:
        await put(storage, "k", {})
        await get(storage, "k")
        await put(storage, "after", {})
        assert await get(storage, "k", now=NOW * 2) is not None
        assert await storage.items.sweep(NOW * 2) == 0

    async def test_sweeping_removes_only_expired_items(self, storage: Storage) -> None:
        for n in range(5):
            await put(storage, f"k{n}", {}, ttl=SECOND)
        await put(storage, "later", {}, ttl=2 * SECOND)
        await put(storage, "other", {})
        assert await storage.items.sweep(NOW) == 0
        assert await storage.items.sweep(NOW + SECOND, limit=3) == 3
        assert await storage.items.sweep(NOW + SECOND, limit=3) == 2
        assert await storage.items.sweep(NOW + SECOND, limit=3) == 0
        assert await keys(storage, now=NOW) == ["other", "later"]

    # -- hostile names ---------------------------------------------------------------------------------------------

    @with_every_hostile_key
    async def test_a_hostile_name_is_treated_as_plain_text(self, storage: Storage, key: str) -> None:
        for n, value in enumerate(INNOCENT):
            await put(storage, f"other {n}", value, ("a", "b"))
        assert await keys(storage, (key,)) == []
        assert await namespaces(storage, prefixes=((key,),)) == []
        assert await get(storage, key, ("a", "b")) is None
        await put(storage, key, {key: 1}, (key, key))
        assert await get(storage, key, (key, key)) == Item((key, key), key, {key: 1}, NOW, NOW)
        assert await keys(storage, (key,)) == [key]
        assert await keys(storage, filter={key: 1}) == [key]
        assert await namespaces(storage, prefixes=((key,),)) == [(key, key)]
        await execute(storage, DropItem((key, key), key))
        assert len(await keys(storage)) == len(INNOCENT)

    async def test_namespaces_never_collide(self, storage: Storage) -> None:
        all_labels: list[Labels] = [
            ("a", "b"),
            ("a.b",),
            ("a,b",),
            ('a","b',),
            ("a", "", "b"),
            ("a", "b", ""),
            ("a\\",),
        ]
        all_labels += [(key,) for key in HOSTILE_KEYS if (key,) not in all_labels]
        for n, labels in enumerate(all_labels):
            await put(storage, "k", {"n": n}, labels)
        for n, labels in enumerate(all_labels):
            item = await get(storage, "k", labels)
            assert item is not None
            assert item.value == {"n": n}
        assert await namespaces(storage, limit=1000) == sorted(all_labels)
        assert len(await keys(storage, ("a",))) == 3

    async def test_a_lone_surrogate_is_a_valid_name(self, storage: Storage) -> None:
        await put(storage, "\ud800", {}, ("\udfff",))
        found = await get(storage, "\ud800", ("\udfff",))
        assert found is not None
        assert (found.namespace, found.key) == (("\udfff",), "\ud800")
        assert await get(storage, "\udfff", ("\ud800",)) is None

    async def test_a_filter_that_no_item_can_match_finds_nothing(self, storage: Storage) -> None:
        for n, value in enumerate(INNOCENT):
            await put(storage, f"other {n}", value)
        never: list[dict[str, Any]] = [{"a": "x" * 10_000}, {"a": [[[]]]}, {"a": {"b": {"c": 1}}}, {"\ud800": 1}]
        for wanted in (*never, {"a": 10**30}):
            assert await search(storage, filter=wanted) == []
