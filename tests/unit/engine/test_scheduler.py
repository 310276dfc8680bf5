"""The scheduler: each slot starts exactly one run."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from threadwire.core.ids import AssistantId, CronId, uuid7
from threadwire.core.records import Cron, Run
from threadwire.engine.assistants import Assistants
from threadwire.engine.checkpoints import ThreadCheckpoints
from threadwire.engine.crons import Crons, Scheduler, zone_of
from threadwire.engine.followers import Followers
from threadwire.engine.graph_access import GraphAccess
from threadwire.engine.graph_operations import GraphTools
from threadwire.engine.runs import Runs
from threadwire.engine.thread_deletions import ThreadDeletions
from threadwire.engine.threads import Threads
from threadwire.engine.webhook_delivery import NoWebhooks
from threadwire.engine.worker import Worker
from threadwire.errors import BadRequest, Invalid, NotFound
from threadwire.graphs.config import load_config
from threadwire.graphs.project_persistence import ProjectPersistence
from threadwire.graphs.registry import load_registry
from threadwire.graphs.user_loop import UserLoop
from threadwire.storage.abc import Storage
from threadwire.storage.memory import open_memory_storage
from threadwire.testing.conformance.samples import accept, new_thread_id, store_thread

pytestmark = pytest.mark.anyio


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


class Harness:
    """All services except a running worker: runs are accepted and stay pending."""

    def __init__(
        self, storage: Storage, assistants: Assistants, worker: Worker, checkpoints: ThreadCheckpoints
    ) -> None:
        self.storage = storage
        self.now = at("2026-11-15 12:00:30")
        followers = Followers(storage)
        self._runs = Runs(storage, assistants, followers, worker, checkpoints, NoWebhooks(), lambda: self.now)
        self.scheduler = self.another_scheduler()
        self.crons = Crons(storage, assistants, self._runs, self.scheduler, lambda: self.now)

    def another_scheduler(self) -> Scheduler:
        return Scheduler(self.storage, self._runs, lambda: self.now)

    async def cron(self, schedule: str = "* * * * *", assistant: str = "graph", **fields: Any) -> Cron:
        cron = Cron(
            cron_id=CronId(uuid7()),
            assistant_id=AssistantId(""),
            schedule=schedule,
            created_at=0,
            updated_at=0,
            **fields,
        )
        return await self.crons.create(cron, assistant)

    async def fire_at(self, time: str) -> None:
        self.now = at(time)
        await self.scheduler.fire_due()

    async def runs(self) -> list[Run]:
        """All runs on all threads, oldest first."""
        threads = list(self.storage.log._tables.logs)  # type: ignore[attr-defined]
        found = [run for thread in threads for run in await self.storage.runs.list(thread, limit=100)]
        return sorted(found, key=lambda run: run.created_at)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    (tmp_path / "langgraph.json").write_text(json.dumps({"graphs": {"graph": "./none.py:graph"}}))
    registry = load_registry(load_config(tmp_path / "langgraph.json"))
    async with open_memory_storage() as storage:
        with UserLoop("test") as loop:
            checkpoints = ThreadCheckpoints(storage)
            async with ProjectPersistence().open_store(loop, storage.items, lambda: 0) as store:
                worker = Worker(
                    storage,
                    registry,
                    loop,
                    checkpoints=checkpoints,
                    store=store,
                    capacity=1,
                    clock=lambda: 0,
                )
                graph_access = GraphAccess(registry, loop, GraphTools(storage, checkpoints, store, lambda: 0))
                followers = Followers(storage)
                threads = Threads(
                    storage, registry, graph_access, worker, checkpoints, followers, lambda: 0, ThreadDeletions()
                )
            assistants = Assistants(storage, registry, graph_access, threads, lambda: 0)
            await assistants.ensure_graphs()
            yield Harness(storage, assistants, worker, checkpoints)


# -- firing ------------------------------------------------------------------------------------------------------------


async def test_a_due_slot_starts_one_run(harness: Harness) -> None:
    cron = await harness.cron(metadata={"of": "cron"}, kwargs={"input": 1})
    assert cron.next_run_at == at("2026-11-15 12:01:00")
    await harness.fire_at("2026-11-15 12:00:59")
    assert await harness.runs() == []
    await harness.fire_at("2026-11-15 12:01:00")
    await harness.scheduler.fire_due()
    (run,) = await harness.runs()
    assert (run.status, run.kwargs["input"], run.temporary, run.via) == ("pending", 1, True, "cron")
    assert run.metadata["of"] == "cron"
    assert (await harness.crons.get(cron.cron_id)).next_run_at == at("2026-11-15 12:02:00")
    await harness.fire_at("2026-11-15 12:02:00")
    assert len(await harness.runs()) == 2


async def test_missed_slots_start_one_run_together(harness: Harness) -> None:
    cron = await harness.cron()
    await harness.fire_at("2026-11-15 17:30:10")
    assert len(await harness.runs()) == 1
    fired = await harness.crons.get(cron.cron_id)
    assert (fired.last_run_at, fired.next_run_at) == (at("2026-11-15 12:01:00"), at("2026-11-15 17:31:00"))


async def test_two_schedulers_take_a_slot_once(harness: Harness) -> None:
    await harness.cron()
    harness.now = at("2026-11-15 12:01:00")
    due = await harness.storage.crons.due(harness.now, limit=10)
    other = harness.another_scheduler()
    for cron in due:
        await harness.scheduler._fire(cron)
        await other._fire(cron)
    assert len(await harness.runs()) == 1


async def test_a_disabled_cron_starts_no_run(harness: Harness) -> None:
    cron = await harness.cron(enabled=False)
    await harness.fire_at("2026-11-15 12:05:00")
    assert await harness.runs() == []
    await harness.crons.update(cron.cron_id, lambda cron: replace(cron, enabled=True))
    await harness.scheduler.fire_due()
    assert await harness.runs() == [], "slots missed while it was disabled are not made up for"
    await harness.fire_at("2026-11-15 12:06:00")
    assert len(await harness.runs()) == 1


async def test_a_cron_ends_at_its_end_time(harness: Harness) -> None:
    cron = await harness.cron(end_time=at("2026-11-15 12:02:00"))
    await harness.fire_at("2026-11-15 12:01:00")
    await harness.fire_at("2026-11-15 12:02:00")
    assert len(await harness.runs()) == 2
    assert (await harness.crons.get(cron.cron_id)).next_run_at is None
    await harness.fire_at("2026-11-15 12:03:00")
    assert len(await harness.runs()) == 2


async def test_no_run_starts_after_the_end_time_even_for_an_earlier_slot(harness: Harness) -> None:
    cron = await harness.cron(end_time=at("2026-11-15 12:01:30"))
    await harness.fire_at("2026-11-15 12:05:00")
    assert await harness.runs() == []
    assert (await harness.crons.get(cron.cron_id)).next_run_at is None


async def test_a_cron_with_a_thread_runs_there_and_others_on_new_threads(harness: Harness) -> None:
    thread_id = await store_thread(harness.storage)
    await harness.cron(thread_id=thread_id)
    await harness.cron(keep_threads=True, metadata={"persistent": True})
    await harness.cron()
    await harness.fire_at("2026-11-15 12:01:00")
    runs = await harness.runs()
    assert {run.thread_id == thread_id: run.temporary for run in runs if run.thread_id == thread_id} == {True: False}
    assert sorted(run.temporary for run in runs if run.thread_id != thread_id) == [False, True]
    (persistent,) = [run for run in runs if "persistent" in run.metadata]
    thread = await harness.storage.threads.get(persistent.thread_id)
    assert thread is not None
    assert (thread.metadata["persistent"], thread.metadata["graph_id"]) == (True, "graph")


async def test_a_slot_whose_run_is_rejected_is_skipped(harness: Harness) -> None:
    thread_id = await store_thread(harness.storage)
    await accept(harness.storage, thread_id)
    cron = await harness.cron(thread_id=thread_id, multitask_strategy="reject")
    await harness.fire_at("2026-11-15 12:01:00")
    assert len(await harness.runs()) == 1
    assert (await harness.crons.get(cron.cron_id)).next_run_at == at("2026-11-15 12:02:00")


async def test_a_cron_whose_assistant_was_deleted_does_not_affect_others(harness: Harness) -> None:
    orphaned = await harness.cron()
    deleted = AssistantId("00000000-0000-4000-8000-000000000000")
    await harness.storage.crons.update(orphaned.cron_id, lambda cron: replace(cron, assistant_id=deleted))
    await harness.cron()
    await harness.fire_at("2026-11-15 12:01:00")
    assert len(await harness.runs()) == 1
    assert (await harness.crons.get(orphaned.cron_id)).next_run_at == at("2026-11-15 12:02:00")


async def test_a_cron_that_has_become_invalid_is_skipped(harness: Harness) -> None:
    broken = await harness.cron()
    await harness.storage.crons.update(broken.cron_id, lambda cron: replace(cron, timezone="Atlantis/Capital"))
    await harness.cron()
    await harness.fire_at("2026-11-15 12:01:00")
    assert len(await harness.runs()) == 1
    assert (await harness.crons.get(broken.cron_id)).next_run_at is None


async def test_many_crons_fire_together(harness: Harness) -> None:
    for _ in range(250):
        await harness.cron()
    await harness.fire_at("2026-11-15 12:01:00")
    assert len(await harness.runs()) == 250


# -- changing ----------------------------------------------------------------------------------------------------------


async def test_a_new_schedule_or_zone_moves_the_next_slot(harness: Harness) -> None:
    cron = await harness.cron("0 9 * * *")
    assert cron.next_run_at == at("2026-11-16 09:00:00")
    moved = await harness.crons.update(cron.cron_id, lambda cron: replace(cron, schedule="0 13 * * *"))
    assert moved.next_run_at == at("2026-11-15 13:00:00")
    moved = await harness.crons.update(cron.cron_id, lambda cron: replace(cron, timezone="America/New_York"))
    assert moved.next_run_at == at("2026-11-15 18:00:00")


async def test_other_changes_leave_the_slot_alone(harness: Harness) -> None:
    cron = await harness.cron()
    harness.now = at("2026-11-15 12:10:00")
    changed = await harness.crons.update(cron.cron_id, lambda cron: replace(cron, metadata={"new": 1}))
    assert (changed.next_run_at, changed.updated_at) == (cron.next_run_at, harness.now)
    await harness.scheduler.fire_due()
    assert len(await harness.runs()) == 1


async def test_a_change_does_not_restore_a_slot_that_was_taken(harness: Harness) -> None:
    """Even if the clock was set back meanwhile."""
    cron = await harness.cron()
    await harness.fire_at("2026-11-15 12:01:00")
    harness.now = at("2026-11-15 12:00:59")
    changed = await harness.crons.update(cron.cron_id, lambda cron: replace(cron, schedule="*/1 * * * *"))
    assert changed.next_run_at == at("2026-11-15 12:02:00")


# -- a clock that is set back ------------------------------------------------------------------------------------------


async def test_cron_of_a_clock_that_was_years_ahead_is_rescheduled_when_it_is_set_back(harness: Harness) -> None:
    harness.now = at("2036-01-01 00:00:30")
    fired, new, ended = await harness.cron(), await harness.cron(), await harness.cron(end_time=at("2026-11-16 00:00"))
    await harness.crons.update(new.cron_id, lambda cron: replace(cron, schedule="30 * * * *"))
    await harness.scheduler.correct_slots()
    await harness.fire_at("2036-01-01 00:01:00")
    assert ended.next_run_at is None

    harness.now = at("2026-11-15 12:00:30")
    await harness.scheduler.correct_slots()

    slots = [(await harness.crons.get(cron.cron_id)).next_run_at for cron in (fired, new, ended)]
    assert slots == [at("2026-11-15 12:01:00"), at("2026-11-15 12:30:00"), at("2026-11-15 12:01:00")]


async def test_cron_of_a_clock_that_was_set_back_before_the_start_is_rescheduled(harness: Harness) -> None:
    harness.now = at("2036-01-01 00:00:30")
    cron = await harness.cron()
    harness.now = at("2026-11-15 12:00:30")
    await harness.another_scheduler().correct_slots()
    assert (await harness.crons.get(cron.cron_id)).next_run_at == at("2026-11-15 12:01:00")


async def test_small_correction_of_the_clock_claims_no_slot_twice(harness: Harness) -> None:
    cron = await harness.cron()
    await harness.fire_at("2026-11-15 12:05:00")
    harness.now = at("2026-11-15 11:50:00")
    for scheduler in (harness.scheduler, harness.another_scheduler()):
        await scheduler.correct_slots()
        assert (await harness.crons.get(cron.cron_id)).next_run_at == at("2026-11-15 12:02:00")


# -- rejecting ---------------------------------------------------------------------------------------------------------


async def test_invalid_crons_are_rejected(harness: Harness) -> None:
    with pytest.raises(Invalid, match="Invalid cron schedule: 'bogus'"):
        await harness.cron("bogus")
    with pytest.raises(Invalid, match="Invalid timezone: 'nope'"):
        await harness.cron(timezone="nope")
    with pytest.raises(BadRequest, match="Cannot specify both configurable and context"):
        await harness.cron(kwargs={"config": {"configurable": {"a": 1}}, "context": {"a": 1}})
    with pytest.raises(Invalid, match="Webhooks are not supported by this server"):
        await harness.cron(kwargs={"webhook": "https://hooks.example/"})
    with pytest.raises(NotFound, match="Assistant 'unknown' not found"):
        await harness.cron(assistant="unknown")
    with pytest.raises(NotFound, match="Thread with ID"):
        await harness.cron(thread_id=new_thread_id())
    cron = await harness.cron()
    with pytest.raises(Invalid, match="Invalid cron schedule: 'bogus'"):
        await harness.crons.update(cron.cron_id, lambda cron: replace(cron, schedule="bogus"))
    assert await harness.crons.get(cron.cron_id) == cron


@pytest.mark.parametrize("name", ["", "Europe", "../etc/passwd", "/etc/localtime", "a\0b", "+02:00", "x" * 300])
def test_a_time_zone_must_be_in_the_database(name: str) -> None:
    with pytest.raises(Invalid, match="Invalid timezone"):
        zone_of(name)
