"""The scheduler: each slot makes one run, whatever comes between."""

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
from threadwire.engine.checkpointing import Checkpointing
from threadwire.engine.crons import Crons, Scheduler, zone_of
from threadwire.engine.deliveries import NoWebhooks
from threadwire.engine.follow import Followers
from threadwire.engine.graph_reads import GraphReads
from threadwire.engine.runs import Runs
from threadwire.engine.threads import Threads
from threadwire.engine.worker import Worker
from threadwire.errors import BadRequest, Invalid, NotFound
from threadwire.graphs.config import load_config
from threadwire.graphs.memory import Memory
from threadwire.graphs.registry import load_registry
from threadwire.graphs.user_loop import UserLoop
from threadwire.storage.abc import Storage
from threadwire.storage.memory import open_memory_storage
from threadwire.testing.conformance.samples import accept, keep_thread, new_thread_id

pytestmark = pytest.mark.anyio


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


class Stage:
    """Everything but a worker that works: runs are accepted and stay pending."""

    def __init__(self, storage: Storage, assistants: Assistants, worker: Worker, checkpointing: Checkpointing) -> None:
        self.storage = storage
        self.now = at("2026-11-15 12:00:30")
        followers = Followers(storage)
        self._runs = Runs(storage, assistants, followers, worker, checkpointing, NoWebhooks(), lambda: self.now)
        self.scheduler = self.another_scheduler()
        self.crons = Crons(storage, assistants, self._runs, self.scheduler, lambda: self.now)

    def another_scheduler(self) -> Scheduler:
        return Scheduler(self.storage, self._runs, lambda: self.now)

    async def cron(self, schedule: str = "* * * * *", assistant: str = "graph", **fields: Any) -> Cron:
        asked = Cron(
            cron_id=CronId(uuid7()),
            assistant_id=AssistantId(""),
            schedule=schedule,
            created_at=0,
            updated_at=0,
            **fields,
        )
        return await self.crons.create(asked, assistant)

    async def fire_at(self, time: str) -> None:
        self.now = at(time)
        await self.scheduler.fire_due()

    async def runs(self) -> list[Run]:
        """All that were made, each on the thread it is on, oldest first."""
        threads = list(self.storage.log._tables.logs)  # type: ignore[attr-defined]
        found = [run for thread in threads for run in await self.storage.runs.list(thread, limit=100)]
        return sorted(found, key=lambda run: run.created_at)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    (tmp_path / "langgraph.json").write_text(json.dumps({"graphs": {"graph": "./none.py:graph"}}))
    registry = load_registry(load_config(tmp_path / "langgraph.json"))
    async with open_memory_storage() as storage:
        with UserLoop("test") as loop:
            checkpointing = Checkpointing(storage)
            async with Memory().open_store(loop, storage.items, lambda: 0) as store:
                worker = Worker(
                    storage,
                    registry,
                    loop,
                    checkpointing=checkpointing,
                    store=store,
                    capacity=1,
                    clock=lambda: 0,
                )
                reads = GraphReads(registry, loop, store)
                followers = Followers(storage)
                threads = Threads(storage, registry, reads, worker, checkpointing, store, followers, lambda: 0)
            assistants = Assistants(storage, registry, reads, threads, lambda: 0)
            await assistants.ensure_graphs()
            yield Stage(storage, assistants, worker, checkpointing)


# -- firing ------------------------------------------------------------------------------------------------------------


async def test_a_slot_makes_one_run_when_it_comes(stage: Stage) -> None:
    cron = await stage.cron(metadata={"of": "cron"}, kwargs={"input": 1})
    assert cron.next_run_at == at("2026-11-15 12:01:00")
    await stage.fire_at("2026-11-15 12:00:59")
    assert await stage.runs() == []
    await stage.fire_at("2026-11-15 12:01:00")
    await stage.scheduler.fire_due()
    (run,) = await stage.runs()
    assert (run.status, run.kwargs["input"], run.temporary) == ("pending", 1, True)
    assert run.metadata["of"] == "cron"
    assert (await stage.crons.get(cron.cron_id)).next_run_at == at("2026-11-15 12:02:00")
    await stage.fire_at("2026-11-15 12:02:00")
    assert len(await stage.runs()) == 2


async def test_slots_that_passed_unseen_make_one_run_together(stage: Stage) -> None:
    cron = await stage.cron()
    await stage.fire_at("2026-11-15 17:30:10")
    assert len(await stage.runs()) == 1
    fired = await stage.crons.get(cron.cron_id)
    assert (fired.last_run_at, fired.next_run_at) == (at("2026-11-15 12:01:00"), at("2026-11-15 17:31:00"))


async def test_two_schedulers_take_a_slot_once(stage: Stage) -> None:
    await stage.cron()
    stage.now = at("2026-11-15 12:01:00")
    due = await stage.storage.crons.due(stage.now, limit=10)
    other = stage.another_scheduler()
    for cron in due:
        await stage.scheduler._fire(cron)
        await other._fire(cron)
    assert len(await stage.runs()) == 1


async def test_a_cron_that_is_not_enabled_makes_no_run(stage: Stage) -> None:
    cron = await stage.cron(enabled=False)
    await stage.fire_at("2026-11-15 12:05:00")
    assert await stage.runs() == []
    await stage.crons.update(cron.cron_id, lambda was: replace(was, enabled=True))
    await stage.scheduler.fire_due()
    assert await stage.runs() == [], "what passed while it was not enabled is not made up for"
    await stage.fire_at("2026-11-15 12:06:00")
    assert len(await stage.runs()) == 1


async def test_a_cron_ends_at_its_end_time(stage: Stage) -> None:
    cron = await stage.cron(end_time=at("2026-11-15 12:02:00"))
    await stage.fire_at("2026-11-15 12:01:00")
    await stage.fire_at("2026-11-15 12:02:00")
    assert len(await stage.runs()) == 2
    assert (await stage.crons.get(cron.cron_id)).next_run_at is None
    await stage.fire_at("2026-11-15 12:03:00")
    assert len(await stage.runs()) == 2


async def test_no_run_is_made_after_the_end_time_not_even_for_a_slot_before_it(stage: Stage) -> None:
    cron = await stage.cron(end_time=at("2026-11-15 12:01:30"))
    await stage.fire_at("2026-11-15 12:05:00")
    assert await stage.runs() == []
    assert (await stage.crons.get(cron.cron_id)).next_run_at is None


async def test_a_cron_of_a_thread_runs_there_and_the_others_on_threads_of_their_own(stage: Stage) -> None:
    thread_id = await keep_thread(stage.storage)
    await stage.cron(thread_id=thread_id)
    await stage.cron(keep_threads=True, metadata={"kept": True})
    await stage.cron()
    await stage.fire_at("2026-11-15 12:01:00")
    runs = await stage.runs()
    assert {run.thread_id == thread_id: run.temporary for run in runs if run.thread_id == thread_id} == {True: False}
    assert sorted(run.temporary for run in runs if run.thread_id != thread_id) == [False, True]
    (kept,) = [run for run in runs if "kept" in run.metadata]
    thread = await stage.storage.threads.get(kept.thread_id)
    assert thread is not None
    assert (thread.metadata["kept"], thread.metadata["graph_id"]) == (True, "graph")


async def test_a_slot_that_is_refused_passes(stage: Stage) -> None:
    thread_id = await keep_thread(stage.storage)
    await accept(stage.storage, thread_id)
    cron = await stage.cron(thread_id=thread_id, multitask_strategy="reject")
    await stage.fire_at("2026-11-15 12:01:00")
    assert len(await stage.runs()) == 1
    assert (await stage.crons.get(cron.cron_id)).next_run_at == at("2026-11-15 12:02:00")


async def test_a_cron_whose_assistant_is_gone_harms_nobody(stage: Stage) -> None:
    lost = await stage.cron()
    gone = AssistantId("00000000-0000-4000-8000-000000000000")
    await stage.storage.crons.update(lost.cron_id, lambda was: replace(was, assistant_id=gone))
    await stage.cron()
    await stage.fire_at("2026-11-15 12:01:00")
    assert len(await stage.runs()) == 1
    assert (await stage.crons.get(lost.cron_id)).next_run_at == at("2026-11-15 12:02:00")


async def test_a_cron_that_makes_no_sense_any_more_is_passed_over(stage: Stage) -> None:
    broken = await stage.cron()
    await stage.storage.crons.update(broken.cron_id, lambda was: replace(was, timezone="Atlantis/Capital"))
    await stage.cron()
    await stage.fire_at("2026-11-15 12:01:00")
    assert len(await stage.runs()) == 1
    assert (await stage.crons.get(broken.cron_id)).next_run_at is None


async def test_many_crons_fire_together(stage: Stage) -> None:
    for _ in range(250):
        await stage.cron()
    await stage.fire_at("2026-11-15 12:01:00")
    assert len(await stage.runs()) == 250


# -- changing ----------------------------------------------------------------------------------------------------------


async def test_a_new_schedule_or_zone_moves_the_next_slot(stage: Stage) -> None:
    cron = await stage.cron("0 9 * * *")
    assert cron.next_run_at == at("2026-11-16 09:00:00")
    moved = await stage.crons.update(cron.cron_id, lambda was: replace(was, schedule="0 13 * * *"))
    assert moved.next_run_at == at("2026-11-15 13:00:00")
    moved = await stage.crons.update(cron.cron_id, lambda was: replace(was, timezone="America/New_York"))
    assert moved.next_run_at == at("2026-11-15 18:00:00")


async def test_other_changes_leave_the_slot_alone(stage: Stage) -> None:
    cron = await stage.cron()
    stage.now = at("2026-11-15 12:10:00")
    changed = await stage.crons.update(cron.cron_id, lambda was: replace(was, metadata={"new": 1}))
    assert (changed.next_run_at, changed.updated_at) == (cron.next_run_at, stage.now)
    await stage.scheduler.fire_due()
    assert len(await stage.runs()) == 1


async def test_a_change_does_not_bring_back_a_slot_that_was_taken(stage: Stage) -> None:
    """Not even if the clock has been put back meanwhile."""
    cron = await stage.cron()
    await stage.fire_at("2026-11-15 12:01:00")
    stage.now = at("2026-11-15 12:00:59")
    changed = await stage.crons.update(cron.cron_id, lambda was: replace(was, schedule="*/1 * * * *"))
    assert changed.next_run_at == at("2026-11-15 12:02:00")


# -- refusing ----------------------------------------------------------------------------------------------------------


async def test_what_makes_no_sense_is_refused(stage: Stage) -> None:
    with pytest.raises(Invalid, match="Invalid cron schedule: 'bogus'"):
        await stage.cron("bogus")
    with pytest.raises(Invalid, match="Invalid timezone: 'nope'"):
        await stage.cron(timezone="nope")
    with pytest.raises(BadRequest, match="Cannot specify both configurable and context"):
        await stage.cron(kwargs={"config": {"configurable": {"a": 1}}, "context": {"a": 1}})
    with pytest.raises(Invalid, match="Webhooks are not offered here"):
        await stage.cron(kwargs={"webhook": "https://hooks.example/"})
    with pytest.raises(NotFound, match="Assistant 'nobody' not found"):
        await stage.cron(assistant="nobody")
    with pytest.raises(NotFound, match="Thread with ID"):
        await stage.cron(thread_id=new_thread_id())
    cron = await stage.cron()
    with pytest.raises(Invalid, match="Invalid cron schedule: 'bogus'"):
        await stage.crons.update(cron.cron_id, lambda was: replace(was, schedule="bogus"))
    assert await stage.crons.get(cron.cron_id) == cron


@pytest.mark.parametrize("name", ["", "Europe", "../etc/passwd", "/etc/localtime", "a\0b", "+02:00", "x" * 300])
def test_a_zone_has_a_name_of_the_database(name: str) -> None:
    with pytest.raises(Invalid, match="Invalid timezone"):
        zone_of(name)
