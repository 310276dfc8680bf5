"""What keeping items must mean."""

import threading
from typing import Any

import anyio
import pytest

from threadwire.core.items import (
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
from threadwire.core.vectors import unit
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.hostile import HOSTILE_KEYS, INNOCENT, with_every_hostile_key
from threadwire.testing.conformance.samples import NOW

PLACE: Labels = ("users", "ada")
SECOND = 1000


async def do(storage: Storage, operation: ItemOperation, now: int = NOW) -> ItemResult:
    [result] = await storage.items.abatch([operation], now)
    return result


async def put(
    storage: Storage, key: str, value: dict[str, Any], namespace: Labels = PLACE, now: int = NOW, **how: Any
) -> None:
    await do(storage, PutItem(namespace, key, value, **how), now)


async def get(storage: Storage, key: str, namespace: Labels = PLACE, now: int = NOW, **how: Any) -> Item | None:
    found = await do(storage, GetItem(namespace, key, **how), now)
    assert found is None or isinstance(found, Item)
    return found


async def search(storage: Storage, prefix: Labels = (), now: int = NOW, **how: Any) -> list[Any]:
    found = await do(storage, SearchItems(prefix, **how), now)
    assert isinstance(found, list)
    return found


async def keys(storage: Storage, prefix: Labels = (), now: int = NOW, **how: Any) -> list[str]:
    return [item.key for item in await search(storage, prefix, now, **how)]


async def namespaces(storage: Storage, now: int = NOW, **how: Any) -> list[Any]:
    found = await do(storage, ListNamespaces(**how), now)
    assert isinstance(found, list)
    return found


class ItemsConformance:
    pytestmark = pytest.mark.anyio

    # -- one item --------------------------------------------------------------------------------------------------

    async def test_an_item_comes_back_as_it_was_put(self, storage: Storage) -> None:
        value = {"likes": ["looms", {"n": 1.5}], "none": None, "ключ": "\U0001f511"}
        await put(storage, "k", value, owner="ada")
        assert await get(storage, "k") == Item(PLACE, "k", value, NOW, NOW, owner="ada")

    async def test_an_item_that_is_not_there_is_none(self, storage: Storage) -> None:
        await put(storage, "k", {})
        assert await get(storage, "other") is None
        assert await get(storage, "k", ("users",)) is None
        assert await get(storage, "k", (*PLACE, "deeper")) is None

    async def test_putting_again_replaces_the_value_and_keeps_since_when_and_whose(self, storage: Storage) -> None:
        await put(storage, "k", {"a": 1, "b": 2}, owner="ada")
        await put(storage, "k", {"a": 3}, now=NOW + SECOND, owner="bob")
        assert await get(storage, "k") == Item(PLACE, "k", {"a": 3}, NOW, NOW + SECOND, owner="ada")
        assert await keys(storage) == ["k"]

    async def test_a_dropped_item_is_gone_and_dropping_it_again_is_nothing(self, storage: Storage) -> None:
        await put(storage, "k", {}, vectors=(unit([1, 0]),))
        await put(storage, "stays", {})
        for _ in range(2):
            assert await do(storage, DropItem(PLACE, "k")) is None
            assert await get(storage, "k") is None
            assert await keys(storage, near=unit([1, 0])) == ["stays"]

    async def test_what_was_put_does_not_change_with_the_callers_object(self, storage: Storage) -> None:
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

    async def test_a_batch_reads_what_was_before_it_and_its_last_change_wins(self, storage: Storage) -> None:
        await put(storage, "k", {"v": 0})
        operations: list[ItemOperation] = [
            PutItem(PLACE, "k", {"v": 1}),
            GetItem(PLACE, "k"),
            PutItem(PLACE, "k", {"v": 2}),
            SearchItems(PLACE),
            DropItem(PLACE, "new"),
            PutItem(PLACE, "new", {}),
            ListNamespaces(),
        ]
        results = await storage.items.abatch(operations, NOW)
        before = Item(PLACE, "k", {"v": 0}, NOW, NOW)
        assert results == [None, before, None, [before], None, None, [PLACE]]
        after = await get(storage, "k")
        assert after is not None
        assert after.value == {"v": 2}
        assert await get(storage, "new") is not None

    async def test_an_empty_batch_is_nothing(self, storage: Storage) -> None:
        assert await storage.items.abatch([], NOW) == []
        assert storage.items.batch([], NOW) == []

    async def test_threads_put_and_read_at_the_same_time(self, storage: Storage) -> None:
        """Graphs do: from sync nodes, while the loop goes on."""
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

    async def test_a_search_looks_in_the_namespace_and_under_it_the_last_put_first(self, storage: Storage) -> None:
        for key, namespace in (("a", ("x",)), ("b", ("x", "y")), ("c", ("xy",)), ("d", ("z", "x")), ("e", ())):
            await put(storage, key, {}, namespace)
        await put(storage, "a", {"again": True}, ("x",))
        assert await keys(storage, ("x",)) == ["a", "b"]
        assert await keys(storage, ("x", "y")) == ["b"]
        assert await keys(storage, ()) == ["a", "e", "d", "c", "b"]
        assert await keys(storage, ("nowhere",)) == []

    async def test_pages_of_items_follow_one_another(self, storage: Storage) -> None:
        for n in range(5):
            await put(storage, f"k{n}", {})
        pages = [await keys(storage, PLACE, limit=2, offset=offset) for offset in (0, 2, 4, 6)]
        assert pages == [["k4", "k3"], ["k2", "k1"], ["k0"], []]
        assert await keys(storage, PLACE, limit=0) == []

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
    async def test_a_filter_compares(self, storage: Storage, wanted: dict[str, Any], found: list[str]) -> None:
        await put(storage, "two", {"n": 2, "list": [1, 2]})
        await put(storage, "three", {"n": 3, "deep": {"er": 7}})
        await put(storage, "text", {"n": "b"})
        await put(storage, "none", {})
        assert await keys(storage, PLACE, filter=wanted) == found

    async def test_a_filter_is_met_before_a_page_is_cut(self, storage: Storage) -> None:
        for n in range(10):
            await put(storage, f"k{n}", {"even": n % 2 == 0})
        assert await keys(storage, PLACE, filter={"even": True}, limit=2, offset=1) == ["k6", "k4"]

    # -- searching by meaning --------------------------------------------------------------------------------------

    async def test_what_is_near_comes_first_and_what_has_no_vector_last(self, storage: Storage) -> None:
        await put(storage, "none", {})
        await put(storage, "far", {}, vectors=(unit([-1, 0]),))
        await put(storage, "near", {}, vectors=(unit([3, 0]),))
        await put(storage, "between", {}, vectors=(unit([1, 1]),))
        found = await search(storage, PLACE, near=unit([1, 0]))
        assert [item.key for item in found] == ["near", "between", "far", "none"]
        assert [item.score for item in found] == [pytest.approx(1), pytest.approx(0.5**0.5), pytest.approx(-1), None]
        pages = [await keys(storage, PLACE, near=unit([1, 0]), limit=2, offset=offset) for offset in (0, 2, 4)]
        assert pages == [["near", "between"], ["far", "none"], []]

    async def test_of_several_vectors_the_nearest_counts(self, storage: Storage) -> None:
        await put(storage, "one", {}, vectors=(unit([1, 1]),))
        await put(storage, "two", {}, vectors=(unit([-1, 0]), unit([1, 0.1])))
        assert await keys(storage, PLACE, near=unit([1, 0])) == ["two", "one"]

    async def test_putting_again_forgets_the_old_vectors(self, storage: Storage) -> None:
        await put(storage, "k", {}, vectors=(unit([1, 0]),))
        await put(storage, "k", {})
        [item] = await search(storage, PLACE, near=unit([1, 0]))
        assert item.score is None

    async def test_a_vector_of_other_dimensions_counts_as_none(self, storage: Storage) -> None:
        await put(storage, "old", {}, vectors=(unit([1, 0, 0]),))
        await put(storage, "new", {}, vectors=(unit([0, 1]),))
        found = await search(storage, PLACE, near=unit([1, 0]))
        assert [(item.key, item.score) for item in found] == [("new", 0), ("old", None)]

    async def test_a_search_by_meaning_keeps_to_prefix_and_filter(self, storage: Storage) -> None:
        await put(storage, "mine", {"n": 1}, vectors=(unit([0, 1]),))
        await put(storage, "filtered", {"n": 2}, vectors=(unit([1, 0]),))
        await put(storage, "elsewhere", {"n": 1}, ("other",), vectors=(unit([1, 0]),))
        assert await keys(storage, PLACE, filter={"n": 1}, near=unit([1, 0])) == ["mine"]

    # -- namespaces ------------------------------------------------------------------------------------------------

    async def test_namespaces_are_listed_by_prefix_suffix_wildcard_and_depth(self, storage: Storage) -> None:
        there: list[Labels] = [("a",), ("a", "b", "c"), ("a", "b", "d", "e"), ("a", "x", "c"), ("ab", "c"), ("b", "c")]
        for namespace in there:
            await put(storage, "one", {}, namespace)
            await put(storage, "two", {}, namespace)
        assert await namespaces(storage) == there
        assert await namespaces(storage, prefixes=(("a",),)) == there[:4]
        assert await namespaces(storage, prefixes=(("a", "b"),)) == there[1:3]
        assert await namespaces(storage, suffixes=(("c",),)) == [there[1], *there[3:]]
        assert await namespaces(storage, prefixes=(("a", "*", "c"),)) == [there[1], there[3]]
        assert await namespaces(storage, prefixes=(("*", "b"),)) == there[1:3]
        assert await namespaces(storage, suffixes=(("x", "*"),)) == [there[3]]
        assert await namespaces(storage, prefixes=(("a",),), suffixes=(("c",),)) == [there[1], there[3]]
        assert await namespaces(storage, prefixes=(("a",), ("*", "x"))) == [there[3]]
        assert await namespaces(storage, max_depth=2) == [("a",), ("a", "b"), ("a", "x"), ("ab", "c"), ("b", "c")]
        assert await namespaces(storage, max_depth=2, limit=2, offset=1) == [("a", "b"), ("a", "x")]
        assert await namespaces(storage, prefixes=(("nowhere",),)) == []

    async def test_a_namespace_without_items_is_none(self, storage: Storage) -> None:
        await put(storage, "k", {})
        await get(storage, "k", ("looked", "at"))
        await do(storage, DropItem(PLACE, "k"))
        assert await namespaces(storage) == []

    # -- time to live ----------------------------------------------------------------------------------------------

    async def test_an_expired_item_is_as_if_it_were_not_there(self, storage: Storage) -> None:
        await put(storage, "short", {}, ttl=SECOND, vectors=(unit([1, 0]),))
        await put(storage, "long", {}, ("other",))
        assert await get(storage, "short", now=NOW + SECOND - 1, refresh=False) is not None
        later = NOW + SECOND
        assert await get(storage, "short", now=later) is None
        assert await keys(storage, now=later) == ["long"]
        assert await keys(storage, now=later, near=unit([1, 0])) == ["long"]
        assert await namespaces(storage, now=later) == [("other",)]

    async def test_what_is_put_where_something_expired_is_new(self, storage: Storage) -> None:
        await put(storage, "k", {"old": 1}, ttl=SECOND, owner="ada")
        later = NOW + SECOND
        await put(storage, "k", {"new": 1}, now=later, owner="bob")
        assert await get(storage, "k", now=later * 2) == Item(PLACE, "k", {"new": 1}, later, later, owner="bob")

    async def test_a_read_puts_expiry_off_unless_it_says_not_to(self, storage: Storage) -> None:
        for key in ("got", "found", "looked at"):
            await put(storage, key, {"key": key}, ttl=10 * SECOND)
        then = NOW + 6 * SECOND
        await get(storage, "got", now=then)
        await search(storage, PLACE, now=then, filter={"key": "found"})
        await get(storage, "looked at", now=then, refresh=False)
        await search(storage, PLACE, now=then, refresh=False)
        await put(storage, "after", {}, ("other",), now=then)  # whatever the reads left to be written comes before
        assert sorted(await keys(storage, PLACE, now=NOW + 12 * SECOND, refresh=False)) == ["found", "got"]
        assert await keys(storage, PLACE, now=then + 10 * SECOND, refresh=False) == []

    async def test_reading_does_not_give_a_time_to_what_has_none(self, storage: Storage) -> None:
        await put(storage, "k", {})
        await get(storage, "k")
        await put(storage, "after", {})
        assert await get(storage, "k", now=NOW * 2) is not None
        assert await storage.items.sweep(NOW * 2) == 0

    async def test_sweeping_removes_what_has_expired_and_nothing_else(self, storage: Storage) -> None:
        for n in range(5):
            await put(storage, f"k{n}", {}, ttl=SECOND)
        await put(storage, "later", {}, ttl=2 * SECOND)
        await put(storage, "stays", {})
        assert await storage.items.sweep(NOW) == 0
        assert await storage.items.sweep(NOW + SECOND, limit=3) == 3
        assert await storage.items.sweep(NOW + SECOND, limit=3) == 2
        assert await storage.items.sweep(NOW + SECOND, limit=3) == 0
        assert await keys(storage, now=NOW) == ["stays", "later"]

    # -- hostile names ---------------------------------------------------------------------------------------------

    @with_every_hostile_key
    async def test_a_hostile_name_is_only_a_name(self, storage: Storage, key: str) -> None:
        for n, value in enumerate(INNOCENT):
            await put(storage, f"innocent {n}", value, ("a", "b"))
        assert await keys(storage, (key,)) == []
        assert await namespaces(storage, prefixes=((key,),)) == []
        assert await get(storage, key, ("a", "b")) is None
        await put(storage, key, {key: 1}, (key, key))
        assert await get(storage, key, (key, key)) == Item((key, key), key, {key: 1}, NOW, NOW)
        assert await keys(storage, (key,)) == [key]
        assert await keys(storage, filter={key: 1}) == [key]
        assert await namespaces(storage, prefixes=((key,),)) == [(key, key)]
        await do(storage, DropItem((key, key), key))
        assert len(await keys(storage)) == len(INNOCENT)

    async def test_no_two_namespaces_are_one(self, storage: Storage) -> None:
        places: list[Labels] = [("a", "b"), ("a.b",), ("a,b",), ('a","b',), ("a", "", "b"), ("a", "b", ""), ("a\\",)]
        places += [(key,) for key in HOSTILE_KEYS if (key,) not in places]
        for n, place in enumerate(places):
            await put(storage, "k", {"n": n}, place)
        for n, place in enumerate(places):
            item = await get(storage, "k", place)
            assert item is not None
            assert item.value == {"n": n}
        assert await namespaces(storage, limit=1000) == sorted(places)
        assert len(await keys(storage, ("a",))) == 3

    async def test_half_a_character_is_a_name_too(self, storage: Storage) -> None:
        await put(storage, "\ud800", {}, ("\udfff",))
        found = await get(storage, "\ud800", ("\udfff",))
        assert found is not None
        assert (found.namespace, found.key) == (("\udfff",), "\ud800")
        assert await get(storage, "\udfff", ("\ud800",)) is None

    async def test_a_filter_no_item_could_meet_finds_nothing(self, storage: Storage) -> None:
        for n, value in enumerate(INNOCENT):
            await put(storage, f"innocent {n}", value)
        never: list[dict[str, Any]] = [{"a": "x" * 10_000}, {"a": [[[]]]}, {"a": {"b": {"c": 1}}}, {"\ud800": 1}]
        for wanted in (*never, {"a": 10**30}):
            assert await search(storage, filter=wanted) == []
