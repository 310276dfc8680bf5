"""What keeping assistants must mean."""

from dataclasses import replace
from typing import Any

import pytest

from threadwire.core.ids import AssistantId, assistant_id_of
from threadwire.core.records import Assistant, AssistantQuery
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.hostile import INNOCENT, NEVER_STORED, with_every_hostile_key
from threadwire.testing.conformance.samples import NOW

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
        assert await storage.assistants.ensure(assistant) == assistant
        assert await storage.assistants.get(assistant.assistant_id) == assistant

    async def test_ensuring_again_changes_nothing_and_returns_what_is_kept(self, storage: Storage) -> None:
        kept = await storage.assistants.ensure(an_assistant("agent"))
        assert await storage.assistants.ensure(replace(kept, name="another")) == kept
        assert await storage.assistants.get(kept.assistant_id) == kept
        assert await storage.assistants.count(AssistantQuery()) == 1

    async def test_an_unknown_assistant_is_none(self, storage: Storage) -> None:
        assert await storage.assistants.get(AssistantId("nobody")) is None

    async def test_assistants_are_found_by_graph_name_and_metadata(self, storage: Storage) -> None:
        a = await storage.assistants.ensure(an_assistant("a", name="Same", metadata={"team": "x", "n": 1}))
        b = await storage.assistants.ensure(an_assistant("b", name="Same", metadata={"team": "y", "n": 1}))

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
        assert await found(metadata={"team": "y"}) == {b.assistant_id}
        assert await found(metadata={"n": 1}, graph_id="b") == {b.assistant_id}
        assert await found(metadata={"n": True}) == set()

    @with_every_hostile_key
    async def test_a_hostile_metadata_key_is_only_a_key(self, storage: Storage, key: str) -> None:
        for at, metadata in enumerate(INNOCENT):
            await storage.assistants.ensure(an_assistant(f"innocent {at}", metadata=metadata))
        assert await storage.assistants.search(AssistantQuery(metadata={key: 1})) == []
        mine = await storage.assistants.ensure(an_assistant("mine", metadata={key: 1}))
        assert await storage.assistants.search(AssistantQuery(metadata={key: 1})) == [mine]

    async def test_a_query_no_row_could_match_finds_nothing(self, storage: Storage) -> None:
        for at, metadata in enumerate(INNOCENT):
            await storage.assistants.ensure(an_assistant(f"innocent {at}", metadata=metadata))
        for query in NEVER_STORED:
            assert await storage.assistants.search(AssistantQuery(metadata=query)) == []

    @pytest.mark.parametrize("sort_by", SORTS)
    @pytest.mark.parametrize("descending", [False, True])
    async def test_assistants_are_sorted_by_any_column_both_ways(
        self, storage: Storage, sort_by: Any, descending: bool
    ) -> None:
        for at, graph_id in enumerate(("b", "c", "a")):
            assistant = an_assistant(graph_id, name=f"n{at * 7 % 5}", created_at=NOW + at, updated_at=NOW - at * 5 % 7)
            await storage.assistants.ensure(assistant)
        found = await storage.assistants.search(AssistantQuery(sort_by=sort_by, descending=descending))
        keys = [getattr(assistant, sort_by) for assistant in found]
        assert keys == sorted(keys, reverse=descending)
        assert len(set(keys)) == 3

    async def test_pages_of_assistants_follow_one_another(self, storage: Storage) -> None:
        for at in range(5):
            await storage.assistants.ensure(an_assistant(f"g{at}", created_at=NOW + at))
        pages = [
            await storage.assistants.search(AssistantQuery(limit=2, offset=offset, descending=False))
            for offset in (0, 2, 4, 6)
        ]
        names = [[assistant.graph_id for assistant in page] for page in pages]
        assert names == [["g0", "g1"], ["g2", "g3"], ["g4"], []]
        assert await storage.assistants.count(AssistantQuery(limit=2, offset=4)) == 5
