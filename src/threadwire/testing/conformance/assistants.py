"""What keeping assistants must mean."""

from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import pytest

from threadwire.core.ids import AssistantId, assistant_id_of
from threadwire.core.records import Assistant, AssistantQuery, AssistantVersion
from threadwire.errors import Conflict, NotFound
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.hostile import INNOCENT, NEVER_STORED, with_every_hostile_key
from threadwire.testing.conformance.samples import NOW, accept, keep_thread

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

    async def test_an_assistant_comes_back_as_it_was_kept(self, storage: Storage) -> None:
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

    async def test_a_taken_id_is_a_conflict_or_nothing(self, storage: Storage) -> None:
        kept = await storage.assistants.create(an_assistant("agent"))
        other = replace(kept, name="another")
        with pytest.raises(Conflict):
            await storage.assistants.create(other)
        assert await storage.assistants.create(other, if_exists="do_nothing") == kept
        assert await storage.assistants.get(kept.assistant_id) == kept
        assert await storage.assistants.count(AssistantQuery()) == 1
        assert len(await storage.assistants.versions(kept.assistant_id, metadata={})) == 1

    async def test_an_assistant_that_is_kept_is_nobodys_object(self, storage: Storage) -> None:
        config: dict[str, Any] = {"tags": []}
        kept = await storage.assistants.create(an_assistant("agent", config=config))
        config["tags"].append("later")
        assert (await the_assistant(storage, kept)).config == {"tags": []}

    async def test_an_unknown_assistant_is_none(self, storage: Storage) -> None:
        assert await storage.assistants.get(AssistantId("nobody")) is None

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
    async def test_a_hostile_metadata_key_is_only_a_key(self, storage: Storage, key: str) -> None:
        for at, metadata in enumerate(INNOCENT):
            await storage.assistants.create(an_assistant(f"innocent {at}", metadata=metadata))
        assert await storage.assistants.search(AssistantQuery(metadata={key: 1})) == []
        mine = await storage.assistants.create(an_assistant("mine", metadata={key: 1}))
        assert await storage.assistants.search(AssistantQuery(metadata={key: 1})) == [mine]

    async def test_a_query_no_row_could_match_finds_nothing(self, storage: Storage) -> None:
        for at, metadata in enumerate(INNOCENT):
            await storage.assistants.create(an_assistant(f"innocent {at}", metadata=metadata))
        for query in NEVER_STORED:
            assert await storage.assistants.search(AssistantQuery(metadata=query)) == []

    @pytest.mark.parametrize("sort_by", SORTS)
    @pytest.mark.parametrize("descending", [False, True])
    async def test_assistants_are_sorted_by_any_column_both_ways(
        self, storage: Storage, sort_by: Any, descending: bool
    ) -> None:
        for at, graph_id in enumerate(("b", "c", "a")):
            assistant = an_assistant(graph_id, name=f"n{at * 7 % 5}", created_at=NOW + at, updated_at=NOW - at * 5 % 7)
            await storage.assistants.create(assistant)
        found = await storage.assistants.search(AssistantQuery(sort_by=sort_by, descending=descending))
        keys = [getattr(assistant, sort_by) for assistant in found]
        assert keys == sorted(keys, reverse=descending)
        assert len(set(keys)) == 3

    async def test_pages_of_assistants_follow_one_another(self, storage: Storage) -> None:
        for at in range(5):
            await storage.assistants.create(an_assistant(f"g{at}", created_at=NOW + at))
        pages = [
            await storage.assistants.search(AssistantQuery(limit=2, offset=offset, descending=False))
            for offset in (0, 2, 4, 6)
        ]
        names = [[assistant.graph_id for assistant in page] for page in pages]
        assert names == [["g0", "g1"], ["g2", "g3"], ["g4"], []]
        assert await storage.assistants.count(AssistantQuery(limit=2, offset=4)) == 5

    async def test_a_name_is_found_in_any_script_and_nothing_in_it_is_a_pattern(self, storage: Storage) -> None:
        kept = await storage.assistants.create(an_assistant("a", name="Übung 100% _x_"))
        await storage.assistants.create(an_assistant("b", name="Uebung 1000 xxx"))
        for part in ("übung", "ÜBUNG", "0% _", "%", "_X", ""):
            found = await storage.assistants.search(AssistantQuery(name=part, graph_id="a"))
            assert found == [kept], part
        assert await storage.assistants.count(AssistantQuery(name="%")) == 1
        assert await storage.assistants.search(AssistantQuery(name="\ud800")) == []

    # -- versions --------------------------------------------------------------------------------------------------

    async def test_a_change_makes_the_next_version_and_keeps_the_others(self, storage: Storage) -> None:
        first = await storage.assistants.create(
            an_assistant("agent", config={"tags": ["a"]}, metadata={"n": 1}, owner="ada")
        )
        changed = await storage.assistants.update(
            first.assistant_id,
            lambda kept: replace(
                kept,
                graph_id="other",
                name="Second",
                description="new",
                config={"tags": ["b"]},
                context={"x": 1},
                metadata=kept.metadata | {"m": 2},
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

    async def test_what_identifies_an_assistant_cannot_be_changed(self, storage: Storage) -> None:
        first = await storage.assistants.create(an_assistant("agent", owner="ada"))

        def steal(kept: Assistant) -> Assistant:
            return replace(kept, assistant_id=AssistantId("x"), owner="eve", created_at=0, updated_at=0, version=70)

        assert await storage.assistants.update(first.assistant_id, steal, NOW + 1) == replace(
            first, version=2, updated_at=NOW + 1
        )
        assert await storage.assistants.get(AssistantId("x")) is None

    async def test_a_change_that_is_refused_changes_nothing(self, storage: Storage) -> None:
        first = await storage.assistants.create(an_assistant("agent"))

        def refuse(kept: Assistant) -> Assistant:
            raise Conflict("no")

        with pytest.raises(Conflict, match="no"):
            await storage.assistants.update(first.assistant_id, refuse, NOW + 1)
        assert await the_assistant(storage, first) == first
        assert len(await storage.assistants.versions(first.assistant_id, metadata={})) == 1

    async def test_changes_made_at_once_each_see_the_one_before(self, storage: Storage) -> None:
        first = await storage.assistants.create(an_assistant("agent"))

        async def change(number: int) -> None:
            await storage.assistants.update(
                first.assistant_id, lambda kept: replace(kept, metadata=kept.metadata | {str(number): 1}), NOW
            )

        async with anyio.create_task_group() as tasks:
            for number in range(10):
                tasks.start_soon(change, number)
        last = await the_assistant(storage, first)
        assert (last.version, len(last.metadata)) == (11, 10)

    async def test_an_earlier_version_can_count_again(self, storage: Storage) -> None:
        first = await storage.assistants.create(an_assistant("agent", context={"x": 1}, config={"tags": ["a"]}))
        await storage.assistants.update(
            first.assistant_id,
            lambda kept: replace(
                kept, graph_id="b", name="B", description="d", context={}, config={}, metadata={"m": 1}
            ),
            NOW + 1,
        )
        again = await storage.assistants.set_latest(first.assistant_id, 1, NOW + 2)
        assert again == replace(first, updated_at=NOW + 2)
        assert await the_assistant(storage, first) == again
        assert [each.version for each in await storage.assistants.versions(first.assistant_id, metadata={})] == [2, 1]

    async def test_a_change_after_going_back_is_numbered_above_all(self, storage: Storage) -> None:
        first = await storage.assistants.create(an_assistant("agent"))
        await storage.assistants.update(first.assistant_id, lambda kept: replace(kept, name="B"), NOW)
        await storage.assistants.set_latest(first.assistant_id, 1, NOW)
        changed = await storage.assistants.update(first.assistant_id, lambda kept: replace(kept, description="C"), NOW)
        assert (changed.version, changed.name, changed.description) == (3, "agent", "C")

    async def test_versions_come_in_pages_and_by_metadata(self, storage: Storage) -> None:
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
    async def test_a_hostile_metadata_key_of_a_version_is_only_a_key(self, storage: Storage, key: str) -> None:
        first = await storage.assistants.create(an_assistant("agent", metadata={"a": 1, "b": {"c": 1}}))
        assert await storage.assistants.versions(first.assistant_id, metadata={key: 1}) == []
        await storage.assistants.update(first.assistant_id, lambda kept: replace(kept, metadata={key: 1}), NOW)
        found = await storage.assistants.versions(first.assistant_id, metadata={key: 1})
        assert [each.version for each in found] == [2]

    async def test_a_deleted_assistant_is_gone_with_its_versions(self, storage: Storage) -> None:
        first = await storage.assistants.create(an_assistant("agent"))
        other = await storage.assistants.create(an_assistant("other"))
        await storage.assistants.update(first.assistant_id, lambda kept: replace(kept, name="B"), NOW)
        await storage.assistants.delete(first.assistant_id)
        assert await storage.assistants.get(first.assistant_id) is None
        assert await storage.assistants.versions(first.assistant_id, metadata={}) == []
        assert await storage.assistants.search(AssistantQuery()) == [other]
        assert (await storage.assistants.create(first)).version == 1
        assert len(await storage.assistants.versions(first.assistant_id, metadata={})) == 1

    async def test_deleting_an_assistant_leaves_its_threads_and_runs(self, storage: Storage) -> None:
        assistant = await storage.assistants.create(an_assistant("agent"))
        thread_id = await keep_thread(storage, metadata={"assistant_id": assistant.assistant_id})
        run = await accept(storage, thread_id, assistant_id=assistant.assistant_id)
        await storage.assistants.delete(assistant.assistant_id)
        assert await storage.runs.get(run.run_id) == run
        assert [each.run_id for each in await storage.runs.claim(1, now=NOW)] == [run.run_id]

    async def test_what_is_not_there_is_not_found(self, storage: Storage) -> None:
        nobody = AssistantId("nobody")
        with pytest.raises(NotFound):
            await storage.assistants.update(nobody, lambda kept: kept, NOW)
        with pytest.raises(NotFound):
            await storage.assistants.set_latest(nobody, 1, NOW)
        with pytest.raises(NotFound):
            await storage.assistants.delete(nobody)
        assert await storage.assistants.versions(nobody, metadata={}) == []
        kept = await storage.assistants.create(an_assistant("agent"))
        for version in (0, 2, -1, 2**62):
            with pytest.raises(NotFound):
                await storage.assistants.set_latest(kept.assistant_id, version, NOW)
        assert await the_assistant(storage, kept) == kept


async def the_assistant(storage: Storage, assistant: Assistant) -> Assistant:
    kept = await storage.assistants.get(assistant.assistant_id)
    assert kept is not None
    return kept
