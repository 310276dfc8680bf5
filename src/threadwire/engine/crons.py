"""Crons: storing them, and starting one run per slot.

A slot is a time in a cron's schedule. One transaction claims the slot and accepts its run, so a crash neither loses nor
repeats a run. Slots that were missed while no scheduler was running start a single run, when the next scheduler starts.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, tzinfo
from functools import lru_cache, partial
from typing import Any
from zoneinfo import ZoneInfo

import anyio
import structlog

from threadwire.core.access_filter import EVERYTHING, AccessFilter
from threadwire.core.configuration import merge_run_configuration
from threadwire.core.ids import CronId
from threadwire.core.records import Accepted, Cron, CronQuery, Fired, Lease, NewRun
from threadwire.core.schedule import parse_schedule
from threadwire.core.users import User
from threadwire.engine.access import Authorization, acting_as, allowed, current_owner, current_user
from threadwire.engine.assistants import Assistants
from threadwire.engine.clock import Clock, seconds_until
from threadwire.engine.runs import Runs, StartRun
from threadwire.errors import AuthFailed, Forbidden, Invalid, NotFound, Rejected, StorageError
from threadwire.storage.abc import Storage

logger = structlog.get_logger("threadwire.crons")

RETRY_DELAY = 1.0
BATCH = 100
MAX_CORRECTION = 3_600_000
"""Milliseconds. A claimed slot that lies further in the future than this was claimed while the clock was wrong, and may
be claimed again. Within this limit, no slot is claimed twice."""
_CREATOR = "auth_user"
"""The key of a cron's `kwargs` for the user who created it. Clients cannot set it: `kwargs` has fixed keys."""
_TOLERANCE = 1000
"""Milliseconds by which the clock may move back before all crons are checked."""


class Scheduler:
    """Fires due crons. One per process."""

    def __init__(self, storage: Storage, runs: Runs, clock: Clock, authorization: Authorization | None = None) -> None:
        self._storage = storage
        self._runs = runs
        self._clock = clock
        self._authorization = authorization or Authorization()
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
        """After the clock was set back, recompute the next slot of every cron that would otherwise wait until the clock
        has caught up. The first call always does so: the clock may have been set back while no scheduler was
        running."""
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
        except (Invalid, NotFound, Forbidden, Rejected, AuthFailed) as error:
            # It was valid when stored. Its time zone or assistant no longer exists, or its creator lost access.
            fired = await self._skip(cron, next_run_at, error.message)
        if fired is not None and fired.rejected is not None:
            logger.warning("cron_run_rejected", cron_id=cron.cron_id, reason=fired.rejected)

    async def _start_run(self, cron: Cron, next_run_at: int | None) -> Fired | None:
        fired: Fired | None = None

        async def accept(new: NewRun, claim: Lease | None) -> Accepted | None:
            nonlocal fired
            fired = await self._storage.crons.fire(cron, new, next_run_at, claim=claim)
            return None if fired is None else fired.accepted

        with acting_as(creator_of(cron), self._authorization.rules):
            await self._runs.accept_with(await self._runs.authorize(_run_request(cron)), accept)
        return fired

    async def _skip(self, cron: Cron, next_run_at: int | None, reason: str | None = None) -> Fired | None:
        """Claim the slot without starting a run."""
        fired = await self._storage.crons.fire(cron, None, next_run_at)
        return None if fired is None else replace(fired, rejected=reason)


def _run_request(cron: Cron) -> StartRun:
    return StartRun(
        assistant=cron.assistant_id,
        thread_id=cron.thread_id,
        kwargs={name: value for name, value in cron.kwargs.items() if name != _CREATOR},
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
        cron = replace(cron, owner=cron.owner or current_owner(), kwargs=_with_creator(cron.kwargs, current_user.get()))
        cron, thread_access = await self._authorize(cron)
        await self._check(cron)
        payload = {**cron.payload, "assistant_id": resolved.assistant_id}
        now = self._clock()
        cron = replace(cron, assistant_id=resolved.assistant_id, payload=payload, created_at=now, updated_at=now)
        cron = replace(cron, next_run_at=next_slot(cron, now))
        try:
            await self._storage.crons.create(cron, thread_access=thread_access)
        except NotFound:
            raise _thread_missing(cron) from None
        self._scheduler.hint()
        return cron

    async def _authorize(self, cron: Cron) -> tuple[Cron, AccessFilter]:
        """Return the cron with the metadata that it may be created with, and the filter for its thread."""
        value: dict[str, Any] = {
            "payload": cron.payload,
            "schedule": cron.schedule,
            "cron_id": cron.cron_id,
            "thread_id": cron.thread_id,
            "user_id": cron.owner,
            "end_time": cron.end_time,
            "metadata": dict(cron.metadata),
        }
        await allowed("crons", "create", value)
        cron = replace(cron, metadata=value["metadata"])
        if cron.thread_id is None:
            return cron, EVERYTHING
        access = await allowed("threads", "read", {"thread_id": cron.thread_id, "metadata": dict(cron.metadata)})
        if access and await self._storage.threads.get(cron.thread_id, with_state=False, access=access) is None:
            raise _thread_missing(cron)  # before any check that reads the thread
        return cron, access

    async def _check(self, cron: Cron) -> None:
        """Reject a cron if all its runs would be rejected."""
        merge_run_configuration(cron.kwargs.get("config") or {}, cron.kwargs.get("context") or {}, {}, {})
        await self._runs.check(_run_request(cron))

    async def get(self, cron_id: CronId) -> Cron:
        access = await allowed("crons", "read", {"cron_id": cron_id})
        if (cron := await self._storage.crons.get(cron_id, access=access)) is None:
            raise NotFound("Not Found")
        return cron

    async def update(
        self, cron_id: CronId, change: Callable[[Cron], Cron], fields: dict[str, Any] | None = None
    ) -> Cron:
        """Change a cron. `fields` are the fields that the client sent. The access rules of the caller receive them.

        If the change moves the cron's slots, its next slot is the first one after both now and the last claimed slot.
        """

        def changed(cron: Cron) -> Cron:
            updated, now = change(cron), self._clock()
            updated = replace(updated, metadata={**updated.metadata, **value.get("metadata", {})})
            if _timing(updated) != _timing(cron):
                updated = replace(updated, next_run_at=next_slot(updated, max(now, cron.last_run_at or 0)))
            return replace(updated, updated_at=now, kwargs=_with_creator(updated.kwargs, creator_of(cron)))

        value = {"cron_id": cron_id, **_described(fields or {})}
        access = await allowed("crons", "update", value)
        if (cron := await self._storage.crons.get(cron_id, access=access)) is not None:
            await self._check(change(cron))
        updated = await self._storage.crons.update(cron_id, changed, access=access)
        self._scheduler.hint()
        return updated

    async def delete(self, cron_id: CronId) -> None:
        access = await allowed("crons", "delete", {"cron_id": cron_id})
        try:
            await self._storage.crons.delete(cron_id, access=access)
        except NotFound:
            raise NotFound("Not Found") from None

    async def search(self, query: CronQuery) -> list[Cron]:
        query, access, thread_access = await _authorize_search(query)
        return await self._storage.crons.search(query, access=access, thread_access=thread_access)

    async def page(self, query: CronQuery) -> tuple[list[Cron], int]:
        """Return one page of search results and the total count."""
        query, access, thread_access = await _authorize_search(query)
        found = await self._storage.crons.search(query, access=access, thread_access=thread_access)
        return found, await self._storage.crons.count(query, access=access, thread_access=thread_access)

    async def count(self, query: CronQuery) -> int:
        query, access, thread_access = await _authorize_search(replace(query, limit=0))
        return await self._storage.crons.count(query, access=access, thread_access=thread_access)


async def _authorize_search(query: CronQuery) -> tuple[CronQuery, AccessFilter, AccessFilter]:
    """Return the query, the filter for crons and the one for their threads."""
    value: dict[str, Any] = {
        "assistant_id": query.assistant_id,
        "thread_id": query.thread_id,
        "limit": query.limit,
        "offset": query.offset,
        "metadata": dict(query.metadata),
    }
    access = await allowed("crons", "search", value)
    if query.thread_id is None:
        thread_access = await allowed("threads", "search", {})
    else:
        thread_access = await allowed("threads", "read", {"thread_id": query.thread_id})
    return replace(query, metadata=value["metadata"]), access, thread_access


def creator_of(cron: Cron) -> User | None:
    """The user who created a cron, and on whose behalf its runs are executed; None if the server had no auth then."""
    stored = cron.kwargs.get(_CREATOR)
    return User(stored) if isinstance(stored, dict) else None


def _with_creator(kwargs: dict[str, Any], user: User | None) -> dict[str, Any]:
    return kwargs if user is None else {**kwargs, _CREATOR: dict(user)}


def _described(fields: dict[str, Any]) -> dict[str, Any]:
    """An update as the project's auth handlers see it."""
    shown = {name: fields.get(name) for name in ("schedule", "end_time", "enabled", "on_run_completed")}
    metadata = {"metadata": dict(fields["metadata"])} if fields.get("metadata") else {}
    return {**shown, "payload": fields, **metadata}


def _thread_missing(cron: Cron) -> NotFound:
    return NotFound(
        f"Thread with ID '{cron.thread_id}' not found. Please verify the ID is correct and the thread hasn't been"
        " deleted or expired."
    )


def next_slot(cron: Cron, after: int) -> int | None:
    """The first slot after the given time, or None if the cron ends before it."""
    slot = parse_schedule(cron.schedule).after(after, zone_of(cron.timezone))
    return None if slot is None or (cron.end_time is not None and slot > cron.end_time) else slot


def _corrected(cron: Cron, now: int) -> Cron:
    """Return the cron with its first unclaimed slot after `now`, or unchanged if its stored slot is not later than
    that."""
    claimed = cron.last_run_at or 0
    try:
        slot = next_slot(cron, now if claimed > now + MAX_CORRECTION else max(now, claimed))
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
