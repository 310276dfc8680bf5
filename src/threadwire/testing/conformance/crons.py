"""Conformance tests for crons: storing and finding them, and creating one run per slot."""

from dataclasses import replace
from typing import Any

import pytest

from threadwire.core.ids import AssistantId, CronId, RunId, ThreadId, uuid7
from threadwire.core.records import Cron, CronQuery, Fired, NewRun, Run
from threadwire.errors import Conflict, Invalid, NotFound
from threadwire.storage.abc import Storage
from threadwire.testing.conformance.assistants import an_assistant
from threadwire.testing.conformance.hostile_metadata import with_every_hostile_key
from threadwire.testing.conformance.samples import (
    ASSIGNED,
    ASSISTANT,
    LEASE,
    NOW,
    a_run,
    accept,
    new_thread_id,
    store_thread,
    the_run,
    the_thread,
    write,
)

SLOT = NOW + 60_000
NEXT = NOW + 120_000
OTHER_ASSISTANT = AssistantId("6ba7b821-0000-4000-8000-000000000002")


def a_cron(**fields: Any) -> Cron:
    defaults: dict[str, Any] = {
        "cron_id": CronId(uuid7()),
        "assistant_id": ASSISTANT,
        "schedule": "* * * * *",
        "created_at": NOW,
        "updated_at": NOW,
        "next_run_at": SLOT,
    }
    return Cron(**defaults | fields)


async def store_cron(storage: Storage, **fields: Any) -> Cron:
    cron = a_cron(**fields)
    await storage.crons.create(cron)
    return cron


async def the_cron(storage: Storage, cron_id: CronId) -> Cron:
    cron = await storage.crons.get(cron_id)
    assert cron is not None
    return cron


def run_of(cron: Cron, **fields: Any) -> NewRun:
    thread_id = cron.thread_id or new_thread_id()
    return a_run(thread_id, **{"create_thread": cron.thread_id is None, "created_at": SLOT, "due_at": SLOT, **fields})


def run_in(fired: Fired | None) -> Run:
    assert fired is not None
    assert fired.accepted is not None
    return fired.accepted.run


class CronsConformance:
    pytestmark = pytest.mark.anyio

    # Storing

    async def test_a_cron_is_read_as_it_was_stored(self, storage: Storage) -> None:
        cron = await store_cron(
            storage,
            thread_id=await store_thread(storage),
            keep_threads=True,
            timezone="Europe/Berlin",
            end_time=NEXT,
            last_run_at=NOW,
            enabled=False,
            multitask_strategy="reject",
            metadata={"m": [1]},
            payload={"input": {"a": None}},
            kwargs={"input": {"a": None}, "config": {}},
            owner="ada",
        )
        assert await the_cron(storage, cron.cron_id) == cron

    async def test_an_unknown_cron_is_none(self, storage: Storage) -> None:
        assert await storage.crons.get(CronId(uuid7())) is None

    async def test_a_cron_for_an_unknown_thread_is_rejected(self, storage: Storage) -> None:
        with pytest.raises(NotFound):
            await store_cron(storage, thread_id=new_thread_id())
        assert await storage.crons.count(CronQuery()) == 0

    async def test_a_cron_is_deleted_with_its_thread(self, storage: Storage) -> None:
        thread_id = await store_thread(storage)
        deleted, other = await store_cron(storage, thread_id=thread_id), await store_cron(storage)
        await storage.threads.delete(thread_id)
        assert await storage.crons.get(deleted.cron_id) is None
        assert await the_cron(storage, other.cron_id) == other

    async def test_a_cron_is_deleted_with_its_assistant(self, storage: Storage) -> None:
        assistant = await storage.assistants.create(an_assistant("agent"))
        deleted, other = await store_cron(storage, assistant_id=assistant.assistant_id), await store_cron(storage)
        await storage.assistants.delete(assistant.assistant_id)
        assert await storage.crons.get(deleted.cron_id) is None
        assert await the_cron(storage, other.cron_id) == other

    async def test_mutating_shared_values_does_not_change_a_cron(self, storage: Storage) -> None:
        cron = await store_cron(storage, metadata={"list": [1]})
        cron.metadata["list"].append(2)
        (await the_cron(storage, cron.cron_id)).metadata["list"].append(3)
        assert (await the_cron(storage, cron.cron_id)).metadata == {"list": [1]}

    async def test_a_cron_is_updated_by_a_function_of_its_current_value(self, storage: Storage) -> None:
        cron = await store_cron(storage, metadata={"n": 1})
        changed = await storage.crons.update(
            cron.cron_id, lambda current: replace(current, metadata={"n": current.metadata["n"] + 1}, next_run_at=None)
        )
        assert changed == replace(cron, metadata={"n": 2}, next_run_at=None)
        assert await the_cron(storage, cron.cron_id) == changed

    async def test_an_update_that_raises_changes_nothing(self, storage: Storage) -> None:
        cron = await store_cron(storage)

        def fail(current: Cron) -> Cron:
            raise Invalid("no")

        with pytest.raises(Invalid, match="no"):
            await storage.crons.update(cron.cron_id, fail)
        assert await the_cron(storage, cron.cron_id) == cron

    async def test_an_unknown_cron_can_be_neither_updated_nor_deleted(self, storage: Storage) -> None:
        with pytest.raises(NotFound):
            await storage.crons.update(CronId(uuid7()), lambda current: current)
        with pytest.raises(NotFound):
            await storage.crons.delete(CronId(uuid7()))

    async def test_deleting_a_cron_keeps_its_runs(self, storage: Storage) -> None:
        cron = await store_cron(storage)
        run = run_in(await storage.crons.fire(cron, run_of(cron), NEXT))
        await storage.crons.delete(cron.cron_id)
        assert await storage.crons.get(cron.cron_id) is None
        assert (await the_run(storage, run.run_id)).status == "pending"

    # Finding

    async def test_crons_are_found_by_their_fields_and_metadata(self, storage: Storage) -> None:
        thread_id = await store_thread(storage)
        first = await store_cron(storage, metadata={"a": 1, "b": {"c": [1, 2]}}, created_at=NOW)
        second = await store_cron(storage, thread_id=thread_id, enabled=False, created_at=NOW + 1)
        third = await store_cron(storage, assistant_id=OTHER_ASSISTANT, created_at=NOW + 2)

        async def found(**fields: Any) -> list[CronId]:
            query = CronQuery(**fields)
            rows = [cron.cron_id for cron in await storage.crons.search(query)]
            assert await storage.crons.count(query) == len(rows)
            return rows

        assert await found() == [third.cron_id, second.cron_id, first.cron_id]
        assert await found(assistant_id=OTHER_ASSISTANT) == [third.cron_id]
        assert await found(thread_id=thread_id) == [second.cron_id]
        assert await found(thread_id=ThreadId("no such thread")) == []
        assert await found(enabled=False) == [second.cron_id]
        assert await found(enabled=True) == [third.cron_id, first.cron_id]
        assert await found(metadata={"a": 1, "b": {"c": [2]}}) == [first.cron_id]
        assert await found(metadata={"a": 2}) == []

    @with_every_hostile_key
    async def test_a_hostile_key_is_treated_as_plain_text(self, storage: Storage, key: str) -> None:
        cron = await store_cron(storage, metadata={key: "x"})
        await store_cron(storage, metadata={"other": "x"})
        assert await storage.crons.search(CronQuery(metadata={key: "x"})) == [cron]

    async def test_crons_are_sorted_and_paged(self, storage: Storage) -> None:
        crons = [await store_cron(storage, next_run_at=SLOT + n, created_at=NOW - n) for n in range(4)]
        never = await store_cron(storage, next_run_at=None, created_at=NOW - 4)
        ascending = CronQuery(sort_by="next_run_at", descending=False)
        assert await storage.crons.search(ascending) == [never, *crons]
        assert await storage.crons.search(replace(ascending, limit=2, offset=1)) == crons[:2]
        assert await storage.crons.search(CronQuery(limit=2)) == crons[:2]
        assert await storage.crons.count(replace(ascending, limit=2)) == 5

    # Firing

    async def test_due_crons_are_ordered_by_slot(self, storage: Storage) -> None:
        late, early = await store_cron(storage, next_run_at=SLOT), await store_cron(storage, next_run_at=SLOT - 5)
        await store_cron(storage, next_run_at=SLOT + 1)
        await store_cron(storage, next_run_at=None)
        await store_cron(storage, next_run_at=NOW, enabled=False)
        assert await storage.crons.due(SLOT, limit=10) == [early, late]
        assert await storage.crons.due(SLOT, limit=1) == [early]
        assert await storage.crons.due(NOW, limit=10) == []
        assert await storage.crons.next_due() == SLOT - 5

    async def test_nothing_is_due_without_crons(self, storage: Storage) -> None:
        assert await storage.crons.due(SLOT, limit=10) == []
        assert await storage.crons.next_due() is None

    async def test_taking_a_slot_accepts_its_run_and_sets_the_next_slot(self, storage: Storage) -> None:
        cron = await store_cron(storage)
        new = run_of(cron, temporary=True, metadata={"of": "cron"}, thread_metadata={"user": "ada"})
        run = run_in(await storage.crons.fire(cron, new, NEXT))
        assert (run.run_id, run.status, run.temporary) == (new.run_id, "pending", True)
        assert await the_run(storage, run.run_id) == run
        assert (await the_thread(storage, run.thread_id)).metadata == {"user": "ada", **ASSIGNED}
        assert await the_cron(storage, cron.cron_id) == replace(cron, last_run_at=SLOT, next_run_at=NEXT)

    async def test_a_slot_can_be_taken_only_once(self, storage: Storage) -> None:
        cron = await store_cron(storage)
        run_in(await storage.crons.fire(cron, run_of(cron), NEXT))
        again = run_of(cron)
        assert await storage.crons.fire(cron, again, NEXT) is None
        assert await storage.runs.get(again.run_id) is None
        assert await storage.threads.get(again.thread_id) is None

    @pytest.mark.parametrize("change", [{"enabled": False}, {"next_run_at": NEXT}, {"payload": {"input": 2}}])
    async def test_the_slot_of_a_changed_cron_cannot_be_taken(self, storage: Storage, change: dict[str, Any]) -> None:
        cron = await store_cron(storage)
        changed = await storage.crons.update(cron.cron_id, lambda current: replace(current, **change))
        new = run_of(cron)
        assert await storage.crons.fire(cron, new, NEXT) is None
        assert await storage.runs.get(new.run_id) is None
        assert await the_cron(storage, cron.cron_id) == changed

    async def test_the_slot_of_a_deleted_cron_cannot_be_taken(self, storage: Storage) -> None:
        cron = await store_cron(storage)
        await storage.crons.delete(cron.cron_id)
        assert await storage.crons.fire(cron, run_of(cron), NEXT) is None

    async def test_the_slot_passes_if_the_run_is_rejected(self, storage: Storage) -> None:
        cron = await store_cron(storage, thread_id=await store_thread(storage))
        assert cron.thread_id is not None
        await accept(storage, cron.thread_id)
        new = run_of(cron, multitask_strategy="reject")
        fired = await storage.crons.fire(cron, new, NEXT)
        assert fired is not None
        assert fired.accepted is None
        assert fired.rejected is not None
        assert "already running" in fired.rejected
        assert await storage.runs.get(new.run_id) is None
        assert (await the_cron(storage, cron.cron_id)).next_run_at == NEXT

    async def test_a_slot_can_pass_without_a_run(self, storage: Storage) -> None:
        cron = await store_cron(storage)
        assert await storage.crons.fire(cron, None, None) == Fired()
        assert await the_cron(storage, cron.cron_id) == replace(cron, last_run_at=SLOT, next_run_at=None)
        assert await storage.crons.next_due() is None

    async def test_a_run_that_can_start_immediately_is_started(self, storage: Storage) -> None:
        cron = await store_cron(storage)
        fired = await storage.crons.fire(cron, run_of(cron), NEXT, claim=LEASE)
        run = run_in(fired)
        assert fired is not None
        assert fired.accepted is not None
        assert fired.accepted.started
        await fired.accepted.commit.wait()
        assert (run.status, run.attempt) == ("running", 1)
        await write(storage, run, "its attempt holds the thread")

    async def test_a_run_waits_its_turn_on_a_busy_thread(self, storage: Storage) -> None:
        thread_id = await store_thread(storage)
        first = await accept(storage, thread_id)
        cron = await store_cron(storage, thread_id=thread_id)
        run = run_in(await storage.crons.fire(cron, run_of(cron), NEXT, claim=LEASE))
        assert run.status == "pending"
        assert [each.run_id for each in await storage.runs.claim(5, LEASE, now=SLOT)] == [first.run_id]

    async def test_a_run_id_that_exists_is_rejected(self, storage: Storage) -> None:
        """As by `Runs.accept`; the slot passes."""
        cron = await store_cron(storage)
        run = run_in(await storage.crons.fire(cron, run_of(cron), NEXT))
        fired = await storage.crons.fire(
            await the_cron(storage, cron.cron_id), run_of(cron, run_id=RunId(run.run_id)), None
        )
        assert fired is not None
        assert fired.rejected is not None
        with pytest.raises(Conflict):
            await storage.runs.accept(run_of(cron, run_id=run.run_id))
