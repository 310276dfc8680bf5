"""Access filters: foreign rows are treated as if they did not exist. Numbers refer to spec/access.md."""

import json
import os
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from threadwire.core.access_filter import EVERYTHING, AccessFilter, parse_access_filter
from threadwire.core.ids import ThreadId, uuid7
from threadwire.core.records import AssistantQuery, CronQuery, RunSelection, StateSummary, ThreadQuery
from threadwire.core.store_items import (
    DropItem,
    GetItem,
    Item,
    ItemOperation,
    ItemResult,
    ListNamespaces,
    PutItem,
    SearchItems,
)
from threadwire.errors import Conflict, NotFound
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.assistants import an_assistant
from threadwire.testing.conformance.crons import a_cron, store_cron, the_cron
from threadwire.testing.conformance.samples import (
    NOW,
    a_run,
    a_thread,
    accept,
    new_thread_id,
    note,
    store_thread,
    the_run,
    the_thread,
)

ALICE = parse_access_filter({"owner": "alice"})
BOB = parse_access_filter({"owner": "bob"})

ROWS: dict[str, dict[str, Any]] = {
    "alice": {"owner": "alice"},
    "team": {"owner": "alice", "members": ["alice", "bob"], "level": 1},
    "bob": {"owner": "bob", "members": ["bob"], "level": 1.0, "open": True},
    "nested": {"owner": {"owner": "alice"}, "members": {"0": "bob"}, "level": True},
    "listed": {"owner": ["alice"], "members": "bob", "level": "1"},
    "dotted": {"owner.name": "alice", "owner": None, "members": []},
    "large": {"owner": "alice", "members": ["bob"], **{f"key {n}": n for n in range(100)}},
    "none": {},
}
"""Metadata by the name of their row. The last but one has more values than a driver can be expected to index."""

FILTERS: list[tuple[dict[str, Any], set[str]]] = [
    ({}, set(ROWS)),
    ({"owner": "alice"}, {"alice", "team", "large"}),
    ({"owner": {"$eq": "alice"}}, {"alice", "team", "large"}),
    ({"owner": "nobody"}, set()),
    ({"owner": None}, {"dotted"}),
    ({"owner": ["alice"]}, {"listed"}),
    ({"owner": {"$eq": {"owner": "alice"}}}, {"nested"}),
    ({"owner.name": "alice"}, {"dotted"}),
    ({"level": 1}, {"team", "bob"}),
    ({"level": 1.0}, {"team", "bob"}),
    ({"level": True}, {"nested"}),
    ({"members": {"$contains": "bob"}}, {"team", "bob", "large"}),
    ({"members": {"$contains": ["bob", "alice"]}}, {"team"}),
    ({"members": {"$contains": []}}, {"team", "bob", "dotted", "large"}),
    ({"members": {"$contains": {"a": 1}}}, set()),
    ({"owner": "alice", "members": {"$contains": "bob"}}, {"team", "large"}),
    ({"$or": [{"owner": "bob"}, {"members": {"$contains": "bob"}}]}, {"team", "bob", "large"}),
    ({"$or": [{"owner": "bob"}, {"owner": ["alice"]}]}, {"bob", "listed"}),
    ({"$or": [{"owner": "bob"}, {"owner": "alice"}], "level": 1}, {"team", "bob"}),
    ({"$and": [{"owner": "alice"}, {"level": 1}]}, {"team"}),
    ({"$and": [{"$or": [{"owner": "bob"}, {"level": 1}]}, {"members": {"$contains": "alice"}}]}, {"team"}),
]

with_every_filter = pytest.mark.parametrize(("raw", "names"), FILTERS, ids=[str(raw) for raw, _ in FILTERS])
with_and_without_large = pytest.mark.parametrize("stored", [{*ROWS}, {*ROWS} - {"large"}], ids=["large", "small"])


EXAMPLES = int(os.environ.get("THREADWIRE_HYPOTHESIS_EXAMPLES", "60")) // 3
ABSENT = object()

_KEYS = st.sampled_from(["owner", "team", "a.b"])
_PLAIN = st.sampled_from(["alice", "bob", "", "1", 0, 1, True, False, None])
_VALUES = _PLAIN | st.lists(_PLAIN, max_size=3) | st.dictionaries(_KEYS, _PLAIN, max_size=2)
METADATA = st.dictionaries(_KEYS, _VALUES, max_size=3) | st.just({f"key {n}": n for n in range(100)} | {"owner": "bob"})
_CONDITIONS = (
    _PLAIN
    | st.lists(_PLAIN, max_size=2)
    | st.fixed_dictionaries({"$eq": _VALUES})
    | st.fixed_dictionaries({"$contains": _PLAIN | st.lists(_PLAIN, max_size=3)})
)
_SIMPLE = st.dictionaries(_KEYS, _CONDITIONS, min_size=1, max_size=2)


def _with_operators(filters: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    groups = st.lists(filters, min_size=2, max_size=3)
    return filters | st.builds(lambda key, group, more: {key: group, **more}, _OPERATORS, groups, _SIMPLE | st.just({}))


_OPERATORS = st.sampled_from(["$or", "$and"])
RAW_FILTERS = _with_operators(_with_operators(_SIMPLE))


class AccessConformance:
    pytestmark = pytest.mark.anyio

    # Threads

    @with_every_filter
    @with_and_without_large
    async def test_threads_that_match_a_filter_are_found(
        self, storage: Storage, stored: set[str], raw: dict[str, Any], names: set[str]
    ) -> None:
        access, names = parse_access_filter(raw), names & stored
        threads = {name: await store_thread(storage, metadata=ROWS[name]) for name in sorted(stored)}
        found = await storage.threads.search(ThreadQuery(limit=100), access=access)
        assert {thread.thread_id for thread in found} == {threads[name] for name in names}
        assert await storage.threads.count(ThreadQuery(), access=access) == len(names)
        for name, thread_id in threads.items():
            for with_state in (True, False):
                thread = await storage.threads.get(thread_id, with_state=with_state, access=access)
                assert (thread is not None) == (name in names)

    @pytest.mark.parametrize("sort_by", ["thread_id", "status", "created_at", "updated_at", "state_updated_at"])
    async def test_foreign_threads_take_no_room_on_a_page(self, storage: Storage, sort_by: Any) -> None:
        own: list[ThreadId] = []
        for at in range(12):
            owner = "alice" if at % 3 == 0 else "bob"
            times = {"created_at": NOW + at, "updated_at": NOW + at, "state_updated_at": NOW + at}
            thread_id = await store_thread(storage, metadata={"owner": owner}, **times)
            own += [thread_id] if owner == "alice" else []
        own = sorted(own) if sort_by == "thread_id" else own
        for offset in range(5):
            query = ThreadQuery(limit=2, offset=offset, sort_by=sort_by, descending=False)
            page = await storage.threads.search(query, access=ALICE)
            assert [thread.thread_id for thread in page] == own[offset : offset + 2]

    @pytest.mark.parametrize(
        "query",
        [
            ThreadQuery(metadata={"owner": "bob"}),
            ThreadQuery(metadata={"shared": True}),
            ThreadQuery(metadata={"tags": ["a"]}),
            ThreadQuery(values={"secret": 1}),
            ThreadQuery(status="idle"),
            ThreadQuery(status="idle", metadata={"shared": True}),
        ],
    )
    async def test_query_and_filter_must_both_match(self, storage: Storage, query: ThreadQuery) -> None:
        metadata = {"owner": "bob", "shared": True, "tags": ["a"]}
        foreign = await store_thread(storage, metadata=metadata, values={"secret": 1})
        assert [thread.thread_id for thread in await storage.threads.search(query, access=BOB)] == [foreign]
        assert await storage.threads.count(query, access=BOB) == 1
        assert await storage.threads.search(query, access=ALICE) == []
        assert await storage.threads.count(query, access=ALICE) == 0

    async def test_foreign_thread_is_not_found_by_its_id(self, storage: Storage) -> None:
        foreign = await store_thread(storage, metadata={"owner": "bob"})
        assert await storage.threads.search(ThreadQuery(ids=(foreign,)), access=ALICE) == []
        assert await storage.threads.count(ThreadQuery(ids=(foreign,)), access=ALICE) == 0

    async def test_foreign_thread_is_not_changed(self, storage: Storage) -> None:
        foreign = await store_thread(storage, metadata={"owner": "bob"}, values={"a": 1})
        before = await the_thread(storage, foreign)
        with pytest.raises(NotFound):
            await storage.threads.update(foreign, metadata={"owner": "alice"}, ttl=None, now=NOW + 1, access=ALICE)
        with pytest.raises(NotFound):
            await storage.threads.delete(foreign, access=ALICE)
        assert not await storage.threads.prune(foreign, NOW + 1, access=ALICE)
        summary = StateSummary("idle", {"a": 2})
        with pytest.raises(NotFound):
            await storage.threads.commit_state(
                foreign, summary, [note(1)], since=await storage.log.last(foreign), now=NOW + 1, access=ALICE
            ).wait()
        assert await the_thread(storage, foreign) == before
        assert await storage.log.last(foreign) == 0

    async def test_errors_of_a_foreign_thread_are_those_of_an_unknown_one(self, storage: Storage) -> None:
        foreign, unknown = await store_thread(storage, metadata={"owner": "bob"}), new_thread_id()
        messages = []
        for thread_id in (foreign, unknown):
            with pytest.raises(NotFound) as update:
                await storage.threads.update(thread_id, metadata={}, now=NOW, access=ALICE)
            with pytest.raises(NotFound) as delete:
                await storage.threads.delete(thread_id, access=ALICE)
            messages.append([each.value.message.replace(thread_id, "") for each in (update, delete)])
        assert messages[0] == messages[1]

    async def test_own_thread_is_changed(self, storage: Storage) -> None:
        own = await store_thread(storage, metadata={"owner": "alice"})
        updated = await storage.threads.update(own, metadata={"a": 1}, now=NOW + 1, access=ALICE)
        assert updated.metadata == {"owner": "alice", "a": 1}
        assert await storage.threads.prune(own, NOW + 1, access=ALICE)
        since = await storage.log.last(own)
        summary = StateSummary("idle", {"a": 2})
        assert await storage.threads.commit_state(own, summary, [], since=since, now=NOW + 1, access=ALICE).wait()
        await storage.threads.delete(own, access=ALICE)
        assert await storage.threads.get(own) is None

    async def test_update_can_make_a_thread_foreign(self, storage: Storage) -> None:
        own = await store_thread(storage, metadata={"owner": "alice", "members": ["alice"]})
        updated = await storage.threads.update(
            own, metadata={"owner": "bob", "members": ["bob"]}, now=NOW + 1, access=ALICE
        )
        assert updated.metadata["owner"] == "bob"
        assert await storage.threads.count(ThreadQuery(), access=ALICE) == 0
        assert await storage.threads.count(ThreadQuery(), access=BOB) == 1
        member = parse_access_filter({"members": {"$contains": "alice"}})
        assert await storage.threads.search(ThreadQuery(), access=member) == []

    @pytest.mark.parametrize("if_exists", ["raise", "do_nothing"])
    async def test_foreign_thread_cannot_be_created_again(self, storage: Storage, if_exists: str) -> None:
        foreign = await store_thread(storage, metadata={"owner": "bob"})
        again = a_thread(thread_id=foreign, metadata={"owner": "alice"})
        with pytest.raises(Conflict):
            await storage.threads.create(again, if_exists=if_exists, access=ALICE)
        assert (await the_thread(storage, foreign)).metadata == {"owner": "bob"}

    async def test_existing_own_thread_is_returned(self, storage: Storage) -> None:
        own = await store_thread(storage, metadata={"owner": "alice"})
        again = await storage.threads.create(a_thread(thread_id=own), if_exists="do_nothing", access=ALICE)
        assert again.metadata == {"owner": "alice"}

    @pytest.mark.parametrize(("access", "answered"), [(EVERYTHING, True), (ALICE, False), (BOB, False)])
    async def test_deletion_is_only_reported_without_restrictions(
        self, storage: Storage, access: AccessFilter, answered: bool
    ) -> None:
        thread_id = await store_thread(storage, metadata={"owner": "alice"})
        await storage.threads.delete(thread_id)
        assert await storage.threads.was_deleted(thread_id, access=access) == answered

    # Runs

    @with_every_filter
    async def test_runs_belong_to_the_owner_of_their_thread(
        self, storage: Storage, raw: dict[str, Any], names: set[str]
    ) -> None:
        access = parse_access_filter(raw)
        for name, metadata in ROWS.items():
            thread_id = await store_thread(storage, metadata=metadata)
            run = await accept(storage, thread_id, metadata={"owner": "carol"})
            assert (await storage.runs.get(run.run_id, access=access) is not None) == (name in names)
            assert len(await storage.runs.list(thread_id, access=access)) == (name in names)
            assert len(await storage.runs.list(thread_id, status="pending", access=access)) == (name in names)

    async def test_run_of_a_discarded_thread_still_belongs_to_its_owner(self, storage: Storage) -> None:
        new = a_run(new_thread_id(), create_thread=True, temporary=True, thread_metadata={"owner": "alice"})
        await storage.runs.accept(new)
        await storage.runs.cancel(new.run_id, "interrupt", NOW, access=ALICE)
        assert await storage.threads.get(new.thread_id) is None
        assert await storage.runs.get(new.run_id, access=ALICE) is not None
        assert await storage.runs.get(new.run_id, access=BOB) is None
        assert [len(await storage.runs.list(new.thread_id, access=access)) for access in (ALICE, BOB)] == [1, 0]

    @pytest.mark.parametrize("create_thread", [False, True])
    @pytest.mark.parametrize("strategy", ["enqueue", "reject", "interrupt", "rollback"])
    async def test_run_on_a_foreign_thread_is_rejected(
        self, storage: Storage, create_thread: bool, strategy: Any
    ) -> None:
        foreign = await store_thread(storage, metadata={"owner": "bob"})
        active = await accept(storage, foreign)
        before, position = await the_thread(storage, foreign), await storage.log.last(foreign)
        with pytest.raises(NotFound):
            await accept(
                storage,
                foreign,
                create_thread=create_thread,
                multitask_strategy=strategy,
                thread_metadata={"owner": "alice"},
                access=ALICE,
            )
        assert await the_thread(storage, foreign) == before
        assert await storage.runs.list(foreign) == [active]
        assert await storage.log.last(foreign) == position

    async def test_run_on_an_own_or_new_thread_is_accepted(self, storage: Storage) -> None:
        own = await store_thread(storage, metadata={"owner": "alice"})
        await accept(storage, own, access=ALICE)
        created = await accept(
            storage, new_thread_id(), create_thread=True, thread_metadata={"owner": "alice"}, access=ALICE
        )
        assert await storage.runs.get(created.run_id, access=ALICE) is not None

    async def test_foreign_run_is_neither_cancelled_nor_deleted(self, storage: Storage) -> None:
        foreign = await store_thread(storage, metadata={"owner": "bob"})
        run = await accept(storage, foreign)
        assert await storage.runs.cancel(run.run_id, "interrupt", NOW + 1, access=ALICE) is None
        for selection in (
            RunSelection(),
            RunSelection(status="pending"),
            RunSelection(thread_id=foreign),
            RunSelection(thread_id=foreign, run_ids=(run.run_id,)),
        ):
            assert not await storage.runs.cancel_many(selection, "rollback", NOW + 1, access=ALICE)
        with pytest.raises(NotFound):
            await storage.runs.delete(run.run_id, access=ALICE)
        assert await the_run(storage, run.run_id) == run

    async def test_many_own_runs_are_cancelled(self, storage: Storage) -> None:
        own = await store_thread(storage, metadata={"owner": "alice"})
        foreign = await store_thread(storage, metadata={"owner": "bob"})
        runs = [await accept(storage, own), await accept(storage, own)]
        await accept(storage, foreign)
        cancelled = await storage.runs.cancel_many(RunSelection(status="pending"), "interrupt", NOW + 1, access=ALICE)
        assert {each.run.run_id for each in cancelled} == {run.run_id for run in runs}
        assert len(await storage.runs.list(foreign, status="pending")) == 1

    async def test_own_run_is_cancelled_and_deleted(self, storage: Storage) -> None:
        own = await store_thread(storage, metadata={"owner": "alice"})
        run = await accept(storage, own)
        assert await storage.runs.cancel(run.run_id, "interrupt", NOW + 1, access=ALICE) is not None
        await storage.runs.delete(run.run_id, access=ALICE)
        assert await storage.runs.get(run.run_id) is None

    # Assistants

    @with_every_filter
    @with_and_without_large
    async def test_assistants_that_match_a_filter_are_found(
        self, storage: Storage, stored: set[str], raw: dict[str, Any], names: set[str]
    ) -> None:
        access, names = parse_access_filter(raw), names & stored
        for name in sorted(stored):
            await storage.assistants.create(an_assistant(name, metadata=ROWS[name]))
        found = await storage.assistants.search(AssistantQuery(limit=100), access=access)
        assert {assistant.name for assistant in found} == names
        assert await storage.assistants.count(AssistantQuery(), access=access) == len(names)
        for name in sorted(stored):
            assistant_id = an_assistant(name).assistant_id
            assert (await storage.assistants.get(assistant_id, access=access) is not None) == (name in names)
            versions = await storage.assistants.versions(assistant_id, metadata={}, access=access)
            assert len(versions) == (name in names)

    async def test_foreign_assistants_take_no_room_on_a_page(self, storage: Storage) -> None:
        for at in range(9):
            metadata = {"owner": "alice" if at % 3 == 0 else "bob"}
            await storage.assistants.create(an_assistant(f"agent {at}", metadata=metadata, created_at=NOW + at))
        query = AssistantQuery(limit=2, offset=1, descending=False)
        page = await storage.assistants.search(query, access=ALICE)
        assert [assistant.name for assistant in page] == ["agent 3", "agent 6"]
        named = AssistantQuery(graph_id="agent 1", name="AGENT")
        assert await storage.assistants.search(named, access=ALICE) == []
        assert await storage.assistants.count(named, access=BOB) == 1

    @pytest.mark.parametrize("if_exists", ["raise", "do_nothing"])
    async def test_foreign_assistant_is_not_changed(self, storage: Storage, if_exists: str) -> None:
        foreign = await storage.assistants.create(an_assistant("agent", metadata={"owner": "bob"}))
        with pytest.raises(Conflict):
            await storage.assistants.create(an_assistant("agent"), if_exists=if_exists, access=ALICE)
        with pytest.raises(NotFound):
            await storage.assistants.update(foreign.assistant_id, lambda current: current, NOW + 1, access=ALICE)
        with pytest.raises(NotFound):
            await storage.assistants.set_latest(foreign.assistant_id, 1, NOW + 1, access=ALICE)
        with pytest.raises(NotFound):
            await storage.assistants.delete(foreign.assistant_id, access=ALICE)
        assert await storage.assistants.get(foreign.assistant_id) == foreign

    async def test_own_assistant_is_changed(self, storage: Storage) -> None:
        own = await storage.assistants.create(an_assistant("agent", metadata={"owner": "alice"}))
        again = await storage.assistants.create(an_assistant("agent"), if_exists="do_nothing", access=ALICE)
        assert again == own
        renamed = await storage.assistants.update(
            own.assistant_id, lambda current: replace(current, name="New"), NOW + 1, access=ALICE
        )
        assert renamed.name == "New"
        restored = await storage.assistants.set_latest(own.assistant_id, 1, NOW + 2, access=ALICE)
        assert restored.name == "agent"
        await storage.assistants.delete(own.assistant_id, access=ALICE)
        assert await storage.assistants.get(own.assistant_id) is None

    async def test_versions_have_their_own_owners(self, storage: Storage) -> None:
        own = await storage.assistants.create(an_assistant("agent", metadata={"owner": "alice"}))
        await storage.assistants.update(
            own.assistant_id, lambda current: replace(current, metadata={"owner": "bob"}), NOW + 1
        )
        for access, version in ((ALICE, 1), (BOB, 2)):
            found = await storage.assistants.versions(own.assistant_id, metadata={}, access=access)
            assert [each.version for each in found] == [version]
        assert await storage.assistants.search(AssistantQuery(), access=ALICE) == []
        assert await storage.assistants.count(AssistantQuery(), access=BOB) == 1

    # Crons

    @with_every_filter
    @with_and_without_large
    async def test_crons_that_match_a_filter_are_found(
        self, storage: Storage, stored: set[str], raw: dict[str, Any], names: set[str]
    ) -> None:
        access, names = parse_access_filter(raw), names & stored
        crons = {name: await store_cron(storage, metadata=ROWS[name]) for name in sorted(stored)}
        found = await storage.crons.search(CronQuery(limit=100), access=access)
        assert {cron.cron_id for cron in found} == {crons[name].cron_id for name in names}
        assert await storage.crons.count(CronQuery(), access=access) == len(names)
        for name, cron in crons.items():
            assert (await storage.crons.get(cron.cron_id, access=access) is not None) == (name in names)

    async def test_crons_of_foreign_threads_are_not_found(self, storage: Storage) -> None:
        own = await store_thread(storage, metadata={"owner": "alice"})
        foreign = await store_thread(storage, metadata={"owner": "bob"})
        crons = [await store_cron(storage, thread_id=thread_id) for thread_id in (None, own, foreign)]
        found = await storage.crons.search(CronQuery(limit=2, descending=False), thread_access=ALICE)
        assert {cron.cron_id for cron in found} == {cron.cron_id for cron in crons[:2]}
        assert await storage.crons.count(CronQuery(), thread_access=ALICE) == 2
        assert await storage.crons.count(CronQuery(thread_id=foreign), thread_access=ALICE) == 0

    async def test_cron_cannot_be_created_on_a_foreign_thread(self, storage: Storage) -> None:
        foreign = await store_thread(storage, metadata={"owner": "bob"})
        with pytest.raises(NotFound):
            await storage.crons.create(a_cron(thread_id=foreign), thread_access=ALICE)
        assert await storage.crons.count(CronQuery()) == 0
        await storage.crons.create(a_cron(thread_id=foreign), thread_access=BOB)

    async def test_foreign_cron_is_not_changed(self, storage: Storage) -> None:
        foreign = await store_cron(storage, metadata={"owner": "bob"})
        with pytest.raises(NotFound):
            await storage.crons.update(foreign.cron_id, lambda cron: replace(cron, enabled=False), access=ALICE)
        with pytest.raises(NotFound):
            await storage.crons.delete(foreign.cron_id, access=ALICE)
        assert await the_cron(storage, foreign.cron_id) == foreign

    async def test_own_cron_is_changed(self, storage: Storage) -> None:
        own = await store_cron(storage, metadata={"owner": "alice"})
        given = {"owner": "bob"}
        await storage.crons.update(own.cron_id, lambda cron: replace(cron, metadata=given), access=ALICE)
        assert [await storage.crons.count(CronQuery(), access=access) for access in (ALICE, BOB)] == [0, 1]
        await storage.crons.delete(own.cron_id, access=BOB)
        assert await storage.crons.count(CronQuery()) == 0

    # The store

    @with_every_filter
    async def test_items_that_match_a_filter_are_found(
        self, storage: Storage, raw: dict[str, Any], names: set[str]
    ) -> None:
        access = parse_access_filter(raw)
        puts = [PutItem(("notes", name), name, value) for name, value in ROWS.items()]
        await storage.items.abatch(puts, NOW)
        operations: list[ItemOperation] = [
            SearchItems(("notes",), limit=100, access=access),
            ListNamespaces(access=access),
            *(GetItem(("notes", name), name, access=access) for name in ROWS),
        ]
        searched, namespaces, *found = await storage.items.abatch(operations, NOW)
        assert _keys(searched) == names
        assert namespaces == sorted(("notes", name) for name in names)
        assert {name for name, item in zip(ROWS, found, strict=True) if item is not None} == names

    async def test_foreign_items_take_no_room_on_a_page(self, storage: Storage) -> None:
        owners = ("alice", "bob", "bob", "alice", "bob", "alice")
        await storage.items.abatch([PutItem((), str(n), {"owner": each}) for n, each in enumerate(owners)], NOW)
        [page] = await storage.items.abatch([SearchItems((), limit=2, offset=1, access=ALICE)], NOW)
        assert [item.key for item in _items(page)] == ["3", "0"]

    async def test_foreign_item_is_not_changed(self, storage: Storage) -> None:
        await storage.items.abatch([PutItem((), "a", {"owner": "bob"})], NOW)
        batch = [PutItem((), "b", {}, access=ALICE), PutItem((), "a", {"owner": "alice"}, access=ALICE)]
        with pytest.raises(Conflict):
            await storage.items.abatch(batch, NOW)
        with pytest.raises(Conflict):
            storage.items.batch(batch, NOW)
        await storage.items.abatch([DropItem((), "a", access=ALICE)], NOW)
        [items] = await storage.items.abatch([SearchItems(())], NOW)
        assert [(item.key, item.value) for item in _items(items)] == [("a", {"owner": "bob"})]

    async def test_expired_foreign_item_is_replaced(self, storage: Storage) -> None:
        await storage.items.abatch([PutItem((), "a", {"owner": "bob"}, ttl=1000)], NOW)
        await storage.items.abatch([PutItem((), "a", {"owner": "alice"}, access=ALICE)], NOW + 1000)
        [item] = await storage.items.abatch([GetItem((), "a", access=ALICE)], NOW + 1000)
        assert item is not None

    async def test_own_item_is_changed(self, storage: Storage) -> None:
        await storage.items.abatch([PutItem((), "a", {"owner": "alice"}, access=ALICE)], NOW)
        await storage.items.abatch([PutItem((), "a", {"owner": "alice", "n": 1}, access=ALICE)], NOW)
        [item] = await storage.items.abatch([GetItem((), "a", access=ALICE)], NOW)
        assert isinstance(item, Item)
        assert item.value == {"owner": "alice", "n": 1}
        await storage.items.abatch([DropItem((), "a", access=ALICE)], NOW)
        assert await storage.items.abatch([GetItem((), "a")], NOW) == [None]

    # Everything

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    @given(rows=st.lists(METADATA, min_size=1, max_size=4), raws=st.lists(RAW_FILTERS, min_size=1, max_size=3))
    async def test_foreign_rows_never_appear(
        self, storage: Storage, rows: list[dict[str, Any]], raws: list[dict[str, Any]]
    ) -> None:
        """Rows of earlier examples stay. The filters of later examples may match them."""
        for metadata in rows:
            await _store_everywhere(storage, metadata)
        for raw in raws:
            await _check_everywhere(storage, raw, parse_access_filter(raw))


async def _store_everywhere(storage: Storage, metadata: dict[str, Any]) -> None:
    thread_id = await store_thread(storage, metadata=metadata)
    await accept(storage, thread_id)
    name = uuid7()
    await storage.assistants.create(an_assistant(name, metadata=metadata))
    await store_cron(storage, metadata=metadata, thread_id=thread_id)
    await storage.items.abatch([PutItem((name,), name, metadata)], NOW)


async def _check_everywhere(storage: Storage, raw: dict[str, Any], access: AccessFilter) -> None:
    """Compare every read with an interpretation of the filter that no driver uses."""
    every, own = ThreadQuery(limit=10_000), 0
    threads = await storage.threads.search(every)
    for thread in threads:
        allowed = _is_own(thread.metadata, raw)
        own += allowed
        assert (await storage.threads.get(thread.thread_id, access=access) is not None) == allowed
        [run] = await storage.runs.list(thread.thread_id)
        assert (await storage.runs.get(run.run_id, access=access) is not None) == allowed
        assert len(await storage.runs.list(thread.thread_id, access=access)) == allowed
    expected = [thread.thread_id for thread in threads if _is_own(thread.metadata, raw)]
    assert [each.thread_id for each in await storage.threads.search(every, access=access)] == expected
    middle = replace(every, offset=own // 2, limit=3)
    found = await storage.threads.search(middle, access=access)
    assert [each.thread_id for each in found] == expected[own // 2 :][:3]
    assert await storage.threads.count(every, access=access) == own
    assistants = await storage.assistants.search(AssistantQuery(limit=10_000), access=access)
    crons = await storage.crons.search(CronQuery(limit=10_000), access=access, thread_access=access)
    items, namespaces = await storage.items.abatch(
        [SearchItems((), limit=10_000, access=access), ListNamespaces(limit=10_000, access=access)], NOW
    )
    assert isinstance(namespaces, list)
    assert len(assistants) == len(crons) == len(_items(items)) == len(namespaces) == own
    values = [*(row.metadata for row in assistants), *(row.metadata for row in crons)]
    values += [item.value for item in _items(items)]
    assert all(_is_own(metadata, raw) for metadata in values)
    assert await storage.assistants.count(AssistantQuery(), access=access) == own
    assert await storage.crons.count(CronQuery(), access=access, thread_access=access) == own


def _is_own(metadata: dict[str, Any], raw: dict[str, Any]) -> bool:
    return all(_holds(metadata, key, wanted) for key, wanted in raw.items())


def _holds(metadata: dict[str, Any], key: str, wanted: Any) -> bool:
    if key in ("$or", "$and"):
        return (any if key == "$or" else all)(_is_own(metadata, each) for each in wanted)
    found = metadata.get(key, ABSENT)
    if isinstance(wanted, dict) and "$contains" in wanted:
        elements = wanted["$contains"]
        elements = elements if isinstance(elements, list) else [elements]
        return isinstance(found, list) and {*map(_text, elements)} <= {*map(_text, found)}
    return found is not ABSENT and _text(found) == _text(wanted["$eq"] if isinstance(wanted, dict) else wanted)


def _text(value: Any) -> str:
    """Equal for equal JSON values, if all their numbers are integers."""
    return json.dumps(value, sort_keys=True)


def _items(result: ItemResult) -> list[Item]:
    assert isinstance(result, list)
    return [each for each in result if isinstance(each, Item)]


def _keys(result: ItemResult) -> set[str]:
    return {item.key for item in _items(result)}
