"""Conformance tests for assistants."""

from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import pytest

from threadwire.core.ids import AssistantId, assistant_id_of
from threadwire.core.records import Assistant, AssistantQuery, AssistantVersion
from threadwire.errors import Conflict, NotFound
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.hostile_metadata import INNOCENT, NEVER_STORED, with_every_hostile_key
from threadwire.testing.conformance.samples import LEASE, NOW, accept, store_thread

SORTS = ("assistant_id", "graph_id", "name", "created_at", "updated_at")


def an_assistant(graph_id: str, **fields: Any) -> Assistant:
    defaults: dict[str, Any] = {
        "assistant_id": assistant_id_of(graph_id),
        "graph_id": graph_id,
        "name": graph_id,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Assistant(**defaults | fields)


class AssistantsConformance:
    pytestmark = pytest.mark.anyio

    async def test_an_assistant_is_read_as_it_was_stored(self, storage: Storage) -> None:
        assistant = an_assistant(
            "agent",
            version=3,
            description="What it does",
            config={"configurable": {"model": "x"}},
            context={"user": None},
            metadata={"created_by": "system", "n": 1.5},
            owner="ada",
        )
        assert await storage.assistants.create(assistant) == assistant
        assert await storage.assistants.get(assistant.assistant_id) == assistant

    async def test_creating_an_assistant_with_a_taken_id_is_a_conflict_or_a_no_op(self, storage: Storage) -> None:
        existing = await storage.assistants.create(an_assistant("agent"))
        other = replace(existing, name="another")
        with pytest.raises(Conflict):
            await storage.assistants.create(other)
        assert await storage.assistants.create(other, if_exists="do_nothing") == existing
        assert await storage.assistants.get(existing.assistant_id) == existing
        assert await storage.assistants.count(AssistantQuery()) == 1
        assert len(await storage.assistants.versions(existing.assistant_id, metadata={})) == 1

    async def test_mutating_shared_values_does_not_change_an_assistant(self, storage: Storage) -> None:
        config: dict[str, Any] = {"tags": []}
        existing = await storage.assistants.create(an_assistant("agent", config=config))
        config["tags"].append("later")
        assert (await the_assistant(storage, existing)).config == {"tags": []}

    async def test_an_unknown_assistant_is_none(self, storage: Storage) -> None:
        assert await storage.assistants.get(AssistantId("unknown")) is None

    async def test_assistants_are_found_by_graph_name_and_metadata(self, storage: Storage) -> None:
        a = await storage.assistants.create(an_assistant("a", name="Same", metadata={"team": "x", "n": 1}))
        b = await storage.assistants.create(an_assistant("b", name="Same", metadata={"team": "y", "n": 1}))

        async def found(**query: Any) -> set[str]:
            wanted = AssistantQuery(**query)
            assistants = await storage.assistants.search(wanted)
            assert await storage.assistants.count(wanted) == len(assistants)
            return {assistant.assistant_id for assistant in assistants}

        both = {a.assistant_id, b.assistant_id}
        assert await found() == both
        assert await found(graph_id="a") == {a.assistant_id}
        assert await found(graph_id="' OR 1=1 --") == set()
        assert await found(name="Same") == both
        assert await found(name="sam") == both
        assert await found(name="AME") == both
        assert await found(name="S%e") == set()
        assert await found(name="Sam_") == set()
        assert await found(metadata={"team": "y"}) == {b.assistant_id}
        assert await found(metadata={"n": 1}, graph_id="b") == {b.assistant_id}
        assert await found(metadata={"n": True}) == set()

    @with_every_hostile_key
    async def test_a_hostile_metadata_key_is_treated_as_plain_text(self, storage: Storage, key: str) -> None:
        for at, metadata in enumerate(INNOCENT):
            await storage.assistants.create(an_assistant(f"other {at}", metadata=metadata))
        assert await storage.assistants.search(AssistantQuery(metadata={key: 1})) == []
        mine = await storage.assistants.create(an_assistant("mine", metadata={key: 1}))
        assert await storage.assistants.search(AssistantQuery(metadata={key: 1})) == [mine]

    async def test_a_query_that_no_row_can_match_finds_nothing(self, storage: Storage) -> None:
        for at, metadata in enumerate(INNOCENT):
            await storage.assistants.create(an_assistant(f"other {at}", metadata=metadata))
        for query in NEVER_STORED:
            assert await storage.assistants.search(AssistantQuery(metadata=query)) == []

    @pytest.mark.parametrize("sort_by", SORTS)
    @pytest.mark.parametrize("descending", [False, True])
    async def test_assistants_are_sorted_by_any_column_in_both_directions(
        self, storage: Storage, sort_by: Any, descending: bool
    ) -> None:
        for at, graph_id in enumerate(("b", "c", "a")):
            assistant = an_assistant(graph_id, name=f"n{at * 7 % 5}", created_at=NOW + at, updated_at=NOW - at * 5 % 7)
            await storage.assistants.create(assistant)
        found = await storage.assistants.search(AssistantQuery(sort_by=sort_by, descending=descending))
        keys = [getattr(assistant, sort_by) for assistant in found]
        assert keys == sorted(keys, reverse=descending)
        assert len(set(keys)) == 3

    async def test_pages_of_assistants_are_consecutive(self, storage: Storage) -> None:
        for at in range(5):
            await storage.assistants.create(an_assistant(f"g{at}", created_at=NOW + at))
        pages = [
            await storage.assistants.search(AssistantQuery(limit=2, offset=offset, descending=False))
            for offset in (0, 2, 4, 6)
        ]
        names = [[assistant.graph_id for assistant in page] for page in pages]
        assert names == [["g0", "g1"], ["g2", "g3"], ["g4"], []]
        assert await storage.assistants.count(AssistantQuery(limit=2, offset=4)) == 5

    async def test_name_search_ignores_case_in_any_script_and_takes_no_patterns(self, storage: Storage) -> None:
        existing = await storage.assistants.create(an_assistant("a", name="Übung 100% _x_"))
        await storage.assistants.create(an_assistant("b", name="Uebung 1000 xxx"))
        for part in ("übung", "ÜBUNG", "0% _", "%", "_X", ""):
            found = await storage.assistants.search(AssistantQuery(name=part, graph_id="a"))
            assert found == [existing], part
        assert await storage.assistants.count(AssistantQuery(name="%")) == 1
        assert await storage.assistants.search(AssistantQuery(name="\ud800")) == []

    # -- versions --------------------------------------------------------------------------------------------------

    async def test_an_update_creates_the_next_version_and_keeps_the_others(self, storage: Storage) -> None:
        first = await storage.assistants.create(
            an_assistant("agent", config={"tags": ["a"]}, metadata={"n": 1}, owner="ada")
        )
        changed = await storage.assistants.update(
            first.assistant_id,
            lambda current: replace(
                current,
                graph_id="other",
                name="Second",
                description="new",
                config={"tags": ["b"]},
                context={"x": 1},
                metadata=current.metadata | {"m": 2},
            ),
            NOW + 5,
        )
        assert changed == replace(
            first,
            graph_id="other",
            name="Second",
            description="new",
            config={"tags": ["b"]},
            context={"x": 1},
            metadata={"n": 1, "m": 2},
            version=2,
            updated_at=NOW + 5,
        )
        assert await the_assistant(storage, first) == changed
        assert await storage.assistants.versions(first.assistant_id, metadata={}) == [
            AssistantVersion.of(changed, NOW + 5),
            AssistantVersion.of(first, NOW),
        ]

    async def test_an_update_cannot_change_the_identity_of_an_assistant(self, storage: Storage) -> None:
        first = await storage.assistants.create(an_assistant("agent", owner="ada"))

        def change_identity(current: Assistant) -> Assistant:
            return replace(current, assistant_id=AssistantId("x"), owner="eve", created_at=0, updated_at=0, version=70)

        assert await storage.assistants.update(first.assistant_id, change_identity, NOW + 1) == replace(
            first, version=2, updated_at=NOW + 1
        )
        assert await storage.assistants.get(AssistantId("x")) is None

    async def test_an_update_that_raises_changes_nothing(self, storage: Storage) -> None:
        first = await storage.assistants.create(an_assistant("agent"))

        def fail(current: Assistant) -> Assistant:
            raise Conflict("no")

        with pytest.raises(Conflict, match="no"):
            await storage.assistants.update(first.assistant_id, fail, NOW + 1)
        assert await the_assistant(storage, first) == first
        assert len(await storage.assistants.versions(first.assistant_id, metadata={})) == 1

    async def test_concurrent_updates_each_see_the_previous_one(self, storage: Storage) -> None:
        first = await storage.assistants.create(an_assistant("agent"))

        async def change(number: int) -> None:
            await storage.assistants.update(
                first.assistant_id,
                lambda current: replace(current, metadata=current.metadata | {str(number): 1}),
                NOW,
            )

        async with anyio.create_task_group() as tasks:
            for number in range(10):
                tasks.start_soon(change, number)
        last = await the_assistant(storage, first)
        assert (last.version, len(last.metadata)) == (11, 10)

    async def test_an_earlier_version_can_become_current_again(self, storage: Storage) -> None:
        first = await storage.assistants.create(an_assistant("agent", context={"x": 1}, config={"tags": ["a"]}))
        await storage.assistants.update(
            first.assistant_id,
            lambda current: replace(
                current, graph_id="b", name="B", description="d", context={}, config={}, metadata={"m": 1}
            ),
            NOW + 1,
        )
        again = await storage.assistants.set_latest(first.assistant_id, 1, NOW + 2)
        assert again == replace(first, updated_at=NOW + 2)
        assert await the_assistant(storage, first) == again
        assert [each.version for each in await storage.assistants.versions(first.assistant_id, metadata={})] == [2, 1]

    async def test_an_update_after_returning_to_an_earlier_version_gets_the_highest_number(
        self, storage: Storage
    ) -> None:
        first = await storage.assistants.create(an_assistant("agent"))
        await storage.assistants.update(first.assistant_id, lambda current: replace(current, name="B"), NOW)
        await storage.assistants.set_latest(first.assistant_id, 1, NOW)
        changed = await storage.assistants.update(
            first.assistant_id, lambda current: replace(current, description="C"), NOW
        )
        assert (changed.version, changed.name, changed.description) == (3, "agent", "C")

    async def test_versions_are_paged_and_filtered_by_metadata(self, storage: Storage) -> None:
        first = await storage.assistants.create(an_assistant("agent", metadata={"n": 1}))
        for number in range(2, 6):
            described = partial(replace, metadata={"n": number, "even": number % 2 == 0})
            await storage.assistants.update(first.assistant_id, described, NOW)

        async def numbers(**query: Any) -> list[int]:
            query = {"metadata": {}} | query
            return [each.version for each in await storage.assistants.versions(first.assistant_id, **query)]

        assert await numbers() == [5, 4, 3, 2, 1]
        assert await numbers(limit=2) == [5, 4]
        assert await numbers(limit=2, offset=3) == [2, 1]
        assert await numbers(metadata={"even": True}) == [4, 2]
        assert await numbers(metadata={"even": True}, limit=1, offset=1) == [2]
        for query in NEVER_STORED:
            assert await numbers(metadata=query) == []

    @with_every_hostile_key
    async def test_a_hostile_metadata_key_of_a_version_is_treated_as_plain_text(
        self, storage: Storage, key: str
    ) -> None:
        first = await storage.assistants.create(an_assistant("agent", metadata={"a": 1, "b": {"c": 1}}))
        assert await storage.assistants.versions(first.assistant_id, metadata={key: 1}) == []
        await storage.assistants.update(first.assistant_id, lambda current: replace(current, metadata={key: 1}), NOW)
        found = await storage.assistants.versions(first.assistant_id, metadata={key: 1})
        assert [each.version for each in found] == [2]

    async def test_deleting_an_assistant_deletes_its_versions(self, storage: Storage) -> None:
        first = await storage.assistants.create(an_assistant("agent"))
        other = await storage.assistants.create(an_assistant("other"))
        await storage.assistants.update(first.assistant_id, lambda current: replace(current, name="B"), NOW)
        await storage.assistants.delete(first.assistant_id)
        assert await storage.assistants.get(first.assistant_id) is None
        assert await storage.assistants.versions(first.assistant_id, metadata={}) == []
        assert await storage.assistants.search(AssistantQuery()) == [other]
        assert (await storage.assistants.create(first)).version == 1
        assert len(await storage.assistants.versions(first.assistant_id, metadata={})) == 1

    async def test_deleting_an_assistant_keeps_its_threads_and_runs(self, storage: Storage) -> None:
        assistant = await storage.assistants.create(an_assistant("agent"))
        thread_id = await store_thread(storage, metadata={"assistant_id": assistant.assistant_id})
        run = await accept(storage, thread_id, assistant_id=assistant.assistant_id)
        await storage.assistants.delete(assistant.assistant_id)
        assert await storage.runs.get(run.run_id) == run
        assert [each.run_id for each in await storage.runs.claim(1, LEASE, now=NOW)] == [run.run_id]

    async def test_unknown_assistants_and_versions_are_not_found(self, storage: Storage) -> None:
        unknown = AssistantId("unknown")
        with pytest.raises(NotFound):
            await storage.assistants.update(unknown, lambda current: current, NOW)
        with pytest.raises(NotFound):
            await storage.assistants.set_latest(unknown, 1, NOW)
        with pytest.raises(NotFound):
            await storage.assistants.delete(unknown)
        assert await storage.assistants.versions(unknown, metadata={}) == []
        existing = await storage.assistants.create(an_assistant("agent"))
        for version in (0, 2, -1, 2**62):
            with pytest.raises(NotFound):
                await storage.assistants.set_latest(existing.assistant_id, version, NOW)
        assert await the_assistant(storage, existing) == existing


async def the_assistant(storage: Storage, assistant: Assistant) -> Assistant:
    existing = await storage.assistants.get(assistant.assistant_id)
    assert existing is not None
    return existing
