"""Crons: storing them, and starting one run per slot.

A slot is a time in a cron's schedule. One transaction claims the slot and accepts its run, so a crash neither loses nor
repeats a run. Slots missed while no scheduler was running start a single run when one is running again.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, tzinfo
from functools import lru_cache, partial
from zoneinfo import ZoneInfo

import anyio
import structlog

from threadwire.core.configuration import merge_run_configuration
from threadwire.core.ids import CronId
from threadwire.core.records import Accepted, Cron, CronQuery, Fired, NewRun
from threadwire.core.schedule import parse_schedule
from threadwire.engine.assistants import Assistants
from threadwire.engine.clock import Clock, seconds_until
from threadwire.engine.runs import Runs, StartClaimed, StartRun
from threadwire.errors import Invalid, NotFound, StorageError
from threadwire.storage.abc import Storage

logger = structlog.get_logger("threadwire.crons")

RETRY_DELAY = 1.0
BATCH = 100
MAX_CORRECTION = 3_600_000
"""Milliseconds. A slot that was taken further in the future than this was taken by a clock that was wrong. Within it,
no slot is taken twice."""
_TOLERANCE = 1000
"""Milliseconds that the clock may move back without a check of all crons."""


class Scheduler:
    """Fires due crons. One per process."""

    def __init__(self, storage: Storage, runs: Runs, clock: Clock) -> None:
        self._storage = storage
        self._runs = runs
        self._clock = clock
        self._wake = asyncio.Event()
        self._last_poll: int | None = None

    def hint(self) -> None:
        """Wake the scheduler, because a cron was created or changed."""
        self._wake.set()

    async def work(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self.correct_slots()
                await self.fire_due()
                seconds = seconds_until(await self._storage.crons.next_due(), self._clock())
            except StorageError as error:
                logger.error("cron_poll_failed", error=error.message)
                seconds = RETRY_DELAY
            with anyio.move_on_after(seconds):
                await self._wake.wait()

    async def correct_slots(self) -> None:
        """If the clock was set back, or may have been while no scheduler was running: compute the next slot of every
        cron again that would otherwise wait until the clock has caught up."""
        now, last_poll = self._clock(), self._last_poll
        if last_poll is None or now < last_poll - _TOLERANCE:
            await self._correct_all(now)
        self._last_poll = now

    async def _correct_all(self, now: int) -> None:
        query = CronQuery(enabled=True, sort_by="cron_id", limit=BATCH)
        while crons := await self._storage.crons.search(query):
            for cron in crons:
                if (corrected := _corrected(cron, now)) is not cron:
                    logger.warning("cron_rescheduled", cron_id=cron.cron_id, reason="The clock was set back.")
                    with suppress(NotFound):  # deleted meanwhile
                        await self._storage.crons.update(corrected.cron_id, partial(_corrected, now=now))
            query = replace(query, offset=query.offset + BATCH)

    async def fire_due(self) -> None:
        while due := await self._storage.crons.due(self._clock(), limit=BATCH):
            for outcome in await asyncio.gather(*map(self._fire, due), return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome

    async def _fire(self, cron: Cron) -> None:
        now = self._clock()
        next_run_at = None
        try:
            next_run_at = next_slot(cron, now)
            is_over = cron.end_time is not None and now > cron.end_time
            fired = await (self._skip(cron, next_run_at) if is_over else self._start_run(cron, next_run_at))
        except (Invalid, NotFound) as error:  # it was valid when stored, so its time zone or assistant no longer exists
            fired = await self._skip(cron, next_run_at, error.message)
        if fired is not None and fired.rejected is not None:
            logger.warning("cron_run_rejected", cron_id=cron.cron_id, reason=fired.rejected)

    async def _start_run(self, cron: Cron, next_run_at: int | None) -> Fired | None:
        fired: Fired | None = None

        async def accept(new: NewRun, start: StartClaimed | None) -> Accepted | None:
            nonlocal fired
            fired = await self._storage.crons.fire(cron, new, next_run_at, start=start)
            return None if fired is None else fired.accepted

        await self._runs.accept_with(_run_request(cron), accept)
        return fired

    async def _skip(self, cron: Cron, next_run_at: int | None, reason: str | None = None) -> Fired | None:
        """Claim the slot without starting a run."""
        fired = await self._storage.crons.fire(cron, None, next_run_at)
        return None if fired is None else replace(fired, rejected=reason)


def _run_request(cron: Cron) -> StartRun:
    return StartRun(
        assistant=cron.assistant_id,
        thread_id=cron.thread_id,
        kwargs=cron.kwargs,
        metadata=cron.metadata,
        thread_metadata=cron.metadata if cron.thread_id is None else {},
        multitask_strategy=cron.multitask_strategy,
        temporary=cron.thread_id is None and not cron.keep_threads,
        webhook=cron.kwargs.get("webhook"),
        owner=cron.owner,
        via="cron",
    )


class Crons:
    def __init__(
        self, storage: Storage, assistants: Assistants, runs: Runs, scheduler: Scheduler, clock: Clock
    ) -> None:
        self._storage = storage
        self._assistants = assistants
        self._runs = runs
        self._scheduler = scheduler
        self._clock = clock

    async def create(self, cron: Cron, assistant: str) -> Cron:
        """Store a cron. Resolves its assistant, given by id or name, and computes its first slot."""
        try:
            resolved = await self._assistants.resolve(assistant)
        except (Invalid, NotFound):
            raise NotFound(f"Assistant '{assistant[:200]}' not found") from None
        await self._check(cron)
        payload = {**cron.payload, "assistant_id": resolved.assistant_id}
        now = self._clock()
        cron = replace(cron, assistant_id=resolved.assistant_id, payload=payload, created_at=now, updated_at=now)
        cron = replace(cron, next_run_at=next_slot(cron, now))
        try:
            await self._storage.crons.create(cron)
        except NotFound:
            raise NotFound(
                f"Thread with ID '{cron.thread_id}' not found. Please verify the ID is correct and the thread hasn't"
                " been deleted or expired."
            ) from None
        self._scheduler.hint()
        return cron

    async def _check(self, cron: Cron) -> None:
        """Reject a cron whose every run would be rejected."""
        merge_run_configuration(cron.kwargs.get("config") or {}, cron.kwargs.get("context") or {}, {}, {})
        await self._runs.check(_run_request(cron))

    async def get(self, cron_id: CronId) -> Cron:
        if (cron := await self._storage.crons.get(cron_id)) is None:
            raise NotFound("Not Found")
        return cron

    async def update(self, cron_id: CronId, change: Callable[[Cron], Cron]) -> Cron:
        """Change a cron. If its slots move, the next one is the first after now, and never one already claimed."""

        def changed(cron: Cron) -> Cron:
            updated, now = change(cron), self._clock()
            if _timing(updated) != _timing(cron):
                updated = replace(updated, next_run_at=next_slot(updated, max(now, cron.last_run_at or 0)))
            return replace(updated, updated_at=now)

        if (cron := await self._storage.crons.get(cron_id)) is not None:
            await self._check(change(cron))
        updated = await self._storage.crons.update(cron_id, changed)
        self._scheduler.hint()
        return updated

    async def delete(self, cron_id: CronId) -> None:
        try:
            await self._storage.crons.delete(cron_id)
        except NotFound:
            raise NotFound("Not Found") from None

    async def search(self, query: CronQuery) -> list[Cron]:
        return await self._storage.crons.search(query)

    async def count(self, query: CronQuery) -> int:
        return await self._storage.crons.count(query)


def next_slot(cron: Cron, after: int) -> int | None:
    """The first slot after the given time, or None if the cron ends before it."""
    slot = parse_schedule(cron.schedule).after(after, zone_of(cron.timezone))
    return None if slot is None or (cron.end_time is not None and slot > cron.end_time) else slot


def _corrected(cron: Cron, now: int) -> Cron:
    """The cron with its first slot after `now` that was not taken, or the same cron if its stored slot is no later."""
    taken = cron.last_run_at or 0
    try:
        slot = next_slot(cron, now if taken > now + MAX_CORRECTION else max(now, taken))
    except Invalid:  # its time zone no longer exists
        return cron
    stored = cron.next_run_at
    is_late = slot is not None and cron.enabled and (stored is None or stored > slot)
    return replace(cron, next_run_at=slot) if is_late else cron


def _timing(cron: Cron) -> tuple[object, ...]:
    return cron.schedule, cron.timezone, cron.end_time, cron.enabled


@lru_cache(maxsize=1024)
def zone_of(name: str | None) -> tzinfo:
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, not a valid key, or a directory of zones
        raise Invalid(
            f"Invalid timezone: '{name[:200]}'. Use IANA timezone format (e.g. 'America/New_York')."
        ) from None
