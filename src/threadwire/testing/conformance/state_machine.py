"""Long random sequences of operations, called stories. After each step, the whole storage is compared with a model.

TestStories = storage_state_machine(open_storage).TestCase
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from threadwire.core.entries import Draft, Entry, Kind
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import (
    CancelAction,
    CheckpointPut,
    Commit,
    Ending,
    Lease,
    MultitaskStrategy,
    Run,
    StateSummary,
    ThreadQuery,
    ThreadStatus,
)
from threadwire.errors import Fenced, NotFound, RollbackDue, ThreadBusy
from threadwire.storage.abc import RunHandle, Storage
from threadwire.testing.conformance.model import Line, Model, Rejection, Row
from threadwire.testing.conformance.samples import NOW, a_run, a_thread, note, whole_log
from threadwire.testing.conformance.saver_calls import a_step, id_of, save

OpenStorage = Callable[[], AbstractAsyncContextManager[Storage]]
OpenOther = Callable[[Storage], AbstractAsyncContextManager[Storage]]
Handles = tuple[Storage, Storage]
Result = TypeVar("Result")

STRATEGIES: list[MultitaskStrategy] = ["enqueue", "reject", "interrupt", "rollback"]
ACTIONS: list[CancelAction] = ["interrupt", "rollback"]
STATUSES: list[ThreadStatus] = ["idle", "busy", "interrupted", "error"]
A_THREAD = st.integers(0, 3)
A_RUN = st.integers(0, 7)
WORKERS = ["one", "two"]
A_WORKER = st.sampled_from(range(len(WORKERS)))
HOUR = 3_600_000
LEASE_TIMES = st.sampled_from([0, HOUR])
BY_INTEREST = ["running", "pending", "success", "error", "interrupted", "timeout"]
ENDINGS = {
    "success": Ending("success"),
    "error": Ending("error", error={"message": "no"}),
    "timeout": Ending("timeout", error={"message": "late"}),
    "interrupted": Ending("interrupted"),
    "rolled_back": Ending("interrupted", rollback=True),
}


def storage_state_machine(
    open_storage: OpenStorage, *, reopens: bool = False, open_other: OpenOther = nullcontext
) -> type[RuleBasedStateMachine]:
    """Return a hypothesis state machine for one driver.

    With `reopens`, the data survives reopening, and a crash closes and reopens the storage. Each story first removes
    what an earlier one left, so all of them may share a directory.

    Two workers act in a story, each with its own handle on the database. `open_other` opens the second one, given the
    first. A driver whose database only one process can open serves both workers through one storage.
    """

    class StorageStories(_Stories):
        def __init__(self) -> None:
            super().__init__(open_storage, open_other, reopens)

    return StorageStories


class _Host:
    """Keeps two handles on a storage open between the rules, on its own event loop.

    The same task enters and exits the context manager, because a driver may hold a task group or cancel scope while the
    storage is open.
    """

    def __init__(self, open_storage: OpenStorage, open_other: OpenOther) -> None:
        self._open_storage = open_storage
        self._open_other = open_other
        self._runner = asyncio.Runner()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._runner.run(work)

    def open(self) -> Handles:
        return self.run(self._open())

    def close(self) -> None:
        self.run(self._close())

    def shut_down(self) -> None:
        self.close()
        self._runner.close()

    async def _open(self) -> Handles:
        self._closing = asyncio.Event()
        opened: asyncio.Future[Handles] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold_open(opened))
        return await opened

    async def _hold_open(self, opened: "asyncio.Future[Handles]") -> None:
        try:
            async with self._open_storage() as storage, self._open_other(storage) as other:
                opened.set_result((storage, other))
                await self._closing.wait()
        except BaseException as error:
            if opened.done():
                raise
            opened.set_exception(error)

    async def _close(self) -> None:
        self._closing.set()
        await self._task


class _Stories(RuleBasedStateMachine):
    def __init__(self, open_storage: OpenStorage, open_other: OpenOther, reopens: bool) -> None:
        super().__init__()
        self.reopens = reopens
        self.host = _Host(open_storage, open_other)
        self.handles = self.host.open()
        self.model = Model()
        self.now = NOW
        self.written = 0
        self.commits: list[Commit] = []
        self.threads: list[ThreadId] = []
        self.runs: dict[RunId, Run] = {}
        """Every run that was ever accepted, as it was then."""
        self.attempts: Counter[RunId] = Counter()
        self.host.run(self._remove_leftovers())

    @property
    def storage(self) -> Storage:
        return self.handles[0]

    def teardown(self) -> None:
        self.host.shut_down()

    # Threads and time

    @initialize()
    def start_with_one_running_and_one_pending_run(self) -> None:
        for which in range(2):
            self.create_thread()
            self.accept(which, "enqueue", 0)
        self.claim(1, 0, 0)

    @rule()
    def create_thread(self) -> None:
        thread = self.host.run(self.storage.threads.create(a_thread()))
        self.model.create(thread.thread_id)
        self.threads.append(thread.thread_id)

    @rule(which=A_THREAD)
    def delete_thread(self, which: int) -> None:
        thread_id = self._thread(which)
        if not self.model.exists(thread_id):
            with pytest.raises(NotFound):
                self.host.run(self.storage.threads.delete(thread_id))
            return
        self.host.run(self.storage.threads.delete(thread_id))
        self.model.delete(thread_id)

    @rule(which=A_THREAD, mark=st.booleans())
    def describe_thread(self, which: int, mark: bool) -> None:
        thread_id = self._thread(which)
        update = self.storage.threads.update(thread_id, metadata={"mark": mark, "n": which}, now=self.now)
        if not self.model.exists(thread_id):
            with pytest.raises(NotFound):
                self.host.run(update)
            return
        self.host.run(update)
        (self.model.marked.add if mark else self.model.marked.discard)(thread_id)

    @rule(which=A_THREAD)
    def prune_thread(self, which: int) -> None:
        """Only while there are no active runs; the newest checkpoint stays, and an entry records the removal."""
        thread_id = self._thread(which)
        prunable = self.model.exists(thread_id) and not self.model.active(thread_id)
        assert self.host.run(self.storage.threads.prune(thread_id, self.now)) == prunable
        if prunable and len(saved := self.model.saved[thread_id]) > 1:
            self.model.saved[thread_id] = saved[-1:]
            self.model.logs[thread_id].append(Line(None, 0, "state.reset prune"))

    @rule(which=A_THREAD)
    def write_outside_a_run(self, which: int) -> None:
        thread_id = self._thread(which)
        if not self.model.exists(thread_id):
            with pytest.raises(NotFound):
                self.host.run(_append_outside(self.storage, thread_id, note("late")))
            return
        self.written += 1
        self.commits.append(self.storage.log.append(thread_id, [note(self.written)]))
        self.model.logs[thread_id].append(Line(None, 0, f"custom {self.written}"))

    @rule(which=A_THREAD, behind=st.sampled_from([0, 0, 1]))
    def change_state(self, which: int, behind: int) -> None:
        """7.6: only from the thread's current state, and only while it has no active runs."""
        thread_id = self._thread(which)
        step = a_step(thread_id, None)
        commit = self.storage.threads.commit_state(
            thread_id,
            StateSummary("idle", {}),
            [Draft(Kind.STATE_RESET, {"cause": "update"}, at=self.now)],
            [CheckpointPut(*step)],
            since=Seq(len(self.model.logs.get(thread_id, ())) - behind),
            now=self.now,
        )
        if not self.model.exists(thread_id):
            with pytest.raises(NotFound):
                self.host.run(commit.wait())
            return
        allowed = not behind and not self.model.active(thread_id)
        assert self.host.run(commit.wait()) == allowed
        if allowed:
            self.model.saved[thread_id].append((step[1]["id"], None))
            self.model.resting_status[thread_id] = "idle"
            self.model.logs[thread_id].append(Line(None, 0, "state.reset update"))

    @rule(change=st.sampled_from([1, 10, -20]))
    def change_clock(self, change: int) -> None:
        """Also backwards, as when a clock is set back."""
        self.now += change

    @rule()
    def sweep(self) -> None:
        """5.10"""
        old = self.host.run(self.storage.threads.discarded(before=2**53))
        self.host.run(self.storage.threads.sweep(old))
        assert set(old) == self.model.sweep()

    # The queue

    @rule(
        which=A_THREAD,
        strategy=st.sampled_from(STRATEGIES),
        delay=st.sampled_from([0, 5, -5]),
        temporary=st.sampled_from([False, False, True]),
    )
    def accept(self, which: int, strategy: MultitaskStrategy, delay: int, temporary: bool = False) -> None:
        new = a_run(
            self._thread(which),
            multitask_strategy=strategy,
            created_at=self.now,
            due_at=self.now + delay,
            temporary=temporary,
        )
        stopping: Rejection | tuple[RunId, ...]
        try:
            accepted = self.host.run(self.storage.runs.accept(new))
            stopping = accepted.stopping
            self.runs[new.run_id] = accepted.run
        except (NotFound, ThreadBusy) as error:
            stopping = type(error)
        assert stopping == self.model.accept(new)

    @rule(limit=st.integers(1, 3), worker=A_WORKER, milliseconds=LEASE_TIMES)
    def claim(self, limit: int, worker: int, milliseconds: int) -> None:
        """5.7, 5.8: which runs may start, and in which order."""
        lease = Lease(WORKERS[worker], milliseconds)
        claimed = self.host.run(self.handles[worker].runs.claim(limit, lease, now=self.now))
        assert [run.run_id for run in claimed] == self.model.claim(limit, lease, self.now)
        assert all(run.status == "running" for run in claimed)

    @rule(limit=st.integers(1, 2), milliseconds=LEASE_TIMES)
    def both_claim(self, limit: int, milliseconds: int) -> None:
        """8.1: both workers together claim what one of them would, and no run twice."""
        leases = [Lease(worker, milliseconds) for worker in WORKERS]
        by_worker = self.host.run(self._both_claim(limit, leases))
        claimed = [run.run_id for runs in by_worker for run in runs]
        assert len(claimed) == len(set(claimed))
        assert set(claimed) == set(self.model.claim(2 * limit, leases[0], self.now))
        for lease, runs in zip(leases, by_worker, strict=True):
            for run in runs:
                self.model.rows[run.run_id].worker = lease.worker

    async def _both_claim(self, limit: int, leases: list[Lease]) -> list[Sequence[Run]]:
        claims = (each.runs.claim(limit, lease, now=self.now) for each, lease in zip(self.handles, leases, strict=True))
        return await asyncio.gather(*claims)

    @rule(worker=A_WORKER, milliseconds=LEASE_TIMES)
    def renew(self, worker: int, milliseconds: int) -> None:
        """8.2, 8.3: also with a lease that expires immediately, as if the worker were dead from then on."""
        lease = Lease(WORKERS[worker], milliseconds)
        assert self.host.run(self.handles[worker].runs.renew(lease)) == self.model.renew(lease)

    @rule(worker=A_WORKER)
    def reclaim(self, worker: int) -> None:
        """8.2: only runs whose leases have expired."""
        reclaimed = self.host.run(self.handles[worker].runs.reclaim(self.now))
        assert {run.run_id for run in reclaimed} == self.model.reclaim()

    @rule(which=A_RUN, worker=A_WORKER, actions=st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=2))
    def cancel(self, which: int, worker: int, actions: list[CancelAction]) -> None:
        run_id = self._run(which)
        for action in actions:
            cancelled = self.host.run(self.handles[worker].runs.cancel(run_id, action, self.now))
            assert (None if cancelled is None else cancelled.ended) == self.model.cancel(run_id, action)

    @rule(which=A_RUN)
    def release(self, which: int) -> None:
        run_id = self._run(which)
        held = self.model.holds(run_id)
        assert self.host.run(self._handle(run_id).release(self.now)) == held
        if held:
            self.model.rows[run_id].status = "pending"

    @rule()
    def crash(self) -> None:
        """5.6: a new process recovers first."""
        if self.reopens:
            self.host.run(self._commit())
            self.host.close()
            self.handles = self.host.open()
            for row in self.model.rows.values():
                row.lease_is_live = False
        else:
            for worker in range(len(WORKERS)):
                self.renew(worker, 0)
        self.reclaim(0)

    @rule(times=st.integers(1, 2))
    def crash_while_running(self, times: int) -> None:
        """5.7: often enough to produce suspects."""
        for _ in range(times):
            self.claim(3, 0, 0)
            self.crash()

    # Attempts

    @rule(which=A_RUN, count=st.integers(1, 3))
    def take_a_step(self, which: int, count: int) -> None:
        """7.1: a checkpoint among entries is durable once the entry after it is."""
        run_id = self._run(which)
        if self.model.holds(run_id):
            self._write(run_id, count)
            self._save(run_id)
            self._write(run_id, 1)
        else:
            self._cannot_write(run_id)

    @rule(which=A_RUN, off_by=st.sampled_from([-1, 1]))
    def write_as_another_attempt(self, which: int, off_by: int) -> None:
        """2.5, 7.2"""
        run_id = self._run(which)
        self._cannot_write(run_id, off_by)

    @rule(which=A_RUN, how=st.sampled_from(sorted(ENDINGS)), unawaited=st.integers(0, 3))
    def finish(self, which: int, how: str, unawaited: int) -> None:
        """5.3: also directly after entries whose commits were not awaited."""
        run_id = self._run(which)
        held = self.model.holds(run_id)
        if held:
            self._write(run_id, unawaited)
        finish = self._handle(run_id).finish(ENDINGS[how], self.now)
        if held and self.model.rows[run_id].cancel == "rollback" and how != "rolled_back":
            with pytest.raises(RollbackDue):
                self.host.run(finish)
            return
        assert self.host.run(finish) == held
        if held:
            self.model.end(self.model.rows[run_id], how)

    @rule(which=A_RUN, how=st.sampled_from(sorted(ENDINGS)))
    def finish_as_an_earlier_attempt(self, which: int, how: str) -> None:
        """2.6"""
        run_id = self._run(which)
        stale = self._handle(run_id, off_by=-1)
        assert not self.host.run(stale.finish(ENDINGS[how], self.now))
        assert not self.host.run(stale.release(self.now))

    # Invariants

    @invariant()
    def storage_and_model_agree(self) -> None:
        self.host.run(self._agree())

    async def _agree(self) -> None:
        await self._commit()
        for thread_id, lines in self.model.logs.items():
            entries = await whole_log(self.storage, thread_id)
            assert [_line(entry) for entry in entries] == lines
            rows = await self.storage.runs.list(thread_id, limit=1000)
            await self._thread_agrees(thread_id, rows)
            _check_log(entries)
            _check_endings(entries, rows)
            self._check_attempts(rows)
            await self.handles[0].threads.hold(thread_id, Lease(WORKERS[0], HOUR))
            assert await self.handles[1].runs.next_due() == self.model.next_due(thread_id)
            await self.handles[0].threads.end_hold(thread_id, WORKERS[0])
        assert await self.storage.runs.next_due() == self.model.next_due()
        await self._counts_agree()

    async def _counts_agree(self) -> None:
        for status in STATUSES:
            matching = {
                each for each in self.model.logs if self.model.exists(each) and self.model.status(each) == status
            }
            assert await self.storage.threads.count(ThreadQuery(status=status)) == len(matching)
            marked = ThreadQuery(status=status, metadata={"mark": True})
            assert await self.storage.threads.count(marked) == len(matching & self.model.marked)

    async def _thread_agrees(self, thread_id: ThreadId, rows: list[Run]) -> None:
        assert {_facts(run) for run in rows} == {_facts(row) for row in self.model.of(thread_id)}
        thread = await self.storage.threads.get(thread_id)
        if not self.model.exists(thread_id):
            assert thread is None
            return
        assert thread is not None
        assert thread.status == self.model.status(thread_id)
        saved = self.model.saved[thread_id]
        assert await self.storage.checkpoints.newest(thread_id) == (saved[-1] if saved else None)

    def _check_attempts(self, rows: list[Run]) -> None:
        """5.4: attempt numbers never decrease; 5.8: at most one run is running."""
        for run in rows:
            assert run.attempt >= self.attempts[run.run_id]
            self.attempts[run.run_id] = run.attempt
        assert sum(run.status == "running" for run in rows) <= 1

    # Helpers

    def _thread(self, which: int) -> ThreadId:
        return _pick(sorted(self.threads, key=lambda thread_id: thread_id not in self.model.logs), which)

    def _run(self, which: int) -> RunId:
        """Pick one of all runs that ever existed; running and pending runs come first."""

        def interest(run_id: RunId) -> int:
            row = self.model.rows.get(run_id)
            return len(BY_INTEREST) if row is None else BY_INTEREST.index(row.status)

        return _pick(sorted(self.runs, key=interest), which)

    def _handle(self, run_id: RunId, off_by: int = 0) -> RunHandle:
        """The handle of the current attempt or, for a run that was removed, of its last one."""
        row = self.model.rows.get(run_id)
        attempt = self.attempts[run_id] if row is None else row.attempt
        worker = 0 if row is None or not row.worker else WORKERS.index(row.worker)
        return self.handles[worker].handle(replace(self.runs[run_id], attempt=attempt + off_by))

    def _write(self, run_id: RunId, count: int) -> None:
        for _ in range(count):
            self.written += 1
            self.commits.append(self._handle(run_id).append([note(self.written)]))
            self.model.write(self.model.rows[run_id], f"custom {self.written}")

    def _save(self, run_id: RunId) -> None:
        thread_id = self.runs[run_id].thread_id
        stored = self.host.run(save(self._handle(run_id).saver(), thread_id, run_id))
        self.model.saved[thread_id].append((id_of(stored), run_id))

    def _cannot_write(self, run_id: RunId, off_by: int = 0) -> None:
        thread_id, handle = self.runs[run_id].thread_id, self._handle(run_id, off_by)
        with pytest.raises(Fenced):
            self.host.run(_append(handle, note("stale")))
        with pytest.raises(Fenced):
            self.host.run(save(handle.saver("sync"), thread_id, run_id))

    async def _commit(self) -> None:
        for commit in self.commits:
            await commit.wait()
        self.commits.clear()

    async def _remove_leftovers(self) -> None:
        for thread in await self.storage.threads.search(ThreadQuery(limit=10_000)):
            await self.storage.threads.delete(thread.thread_id)
        await self.storage.threads.sweep(await self.storage.threads.discarded(before=2**53, limit=10_000))


async def _append_outside(storage: Storage, thread_id: ThreadId, draft: Draft) -> None:
    await storage.log.append(thread_id, [draft]).wait()


async def _append(handle: RunHandle, draft: Draft) -> None:
    await handle.append([draft]).wait()


def _facts(run: Run | Row) -> tuple[object, ...]:
    """The fields that must agree. `cancel` matters only while the run is active."""
    cancel = run.cancel if run.status in ("pending", "running") else None
    return (run.run_id, run.status, run.attempt, run.crashes, cancel)


def _pick(items: list[Result], which: int) -> Result:
    return items[which % len(items)]


def _line(entry: Entry) -> Line:
    detail = next((entry.data[key] for key in ("status", "cause", "value") if key in entry.data), None)
    return Line(entry.run_id, entry.attempt, entry.kind if detail is None else f"{entry.kind} {detail}")


def _check_log(entries: list[Entry]) -> None:
    """1.2: numbers are dense; 5.4: no attempt writes after a later attempt of its run."""
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    latest: Counter[RunId] = Counter()
    for entry in entries:
        if entry.run_id is not None:
            assert entry.attempt >= latest[entry.run_id]
            latest[entry.run_id] = entry.attempt


def _check_endings(entries: list[Entry], rows: list[Run]) -> None:
    """5.1, 5.3: a run is queued once and ends once, its ending is its last entry, and its row agrees."""
    of_run: dict[RunId, list[Entry]] = {}
    for entry in entries:
        if entry.run_id is not None:
            of_run.setdefault(entry.run_id, []).append(entry)
    active = {run.run_id for run in rows if run.active}
    for run_id, mine in of_run.items():
        kinds = Counter(entry.kind for entry in mine)
        assert (mine[0].kind, kinds[Kind.RUN_QUEUED]) == (Kind.RUN_QUEUED, 1)
        assert kinds[Kind.RUN_ENDED] == (0 if run_id in active else 1)
        assert run_id in active or mine[-1].kind == Kind.RUN_ENDED
    for run in rows:
        assert run.queued_seq == of_run[run.run_id][0].seq
        assert run.ended_seq == (None if run.active else of_run[run.run_id][-1].seq)
