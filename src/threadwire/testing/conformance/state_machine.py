"""Long random stories over a whole storage, each step compared with a model.

TestStories = storage_state_machine(open_storage).TestCase
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from threadwire.core.entries import Draft, Entry, Fence, Kind
from threadwire.core.ids import RunId, Seq, ThreadId
from threadwire.core.records import (
    CancelAction,
    CheckpointPut,
    Ending,
    MultitaskStrategy,
    Run,
    Settled,
    ThreadQuery,
    ThreadStatus,
)
from threadwire.errors import Fenced, NotFound, RollbackDue, ThreadBusy
from threadwire.storage.abc import Commit, Storage
from threadwire.testing.conformance.model import Line, Model, Refusal, Row
from threadwire.testing.conformance.samples import NOW, a_run, a_thread, note, whole_log
from threadwire.testing.conformance.steps import a_step, id_of, save

OpenStorage = Callable[[], AbstractAsyncContextManager[Storage]]
Result = TypeVar("Result")

STRATEGIES: list[MultitaskStrategy] = ["enqueue", "reject", "interrupt", "rollback"]
ACTIONS: list[CancelAction] = ["interrupt", "rollback"]
STATUSES: list[ThreadStatus] = ["idle", "busy", "interrupted", "error"]
A_THREAD = st.integers(0, 3)
A_RUN = st.integers(0, 7)
INTERESTING = ["running", "pending", "success", "error", "interrupted", "timeout"]
ENDINGS = {
    "success": Ending("success"),
    "error": Ending("error", error={"message": "no"}),
    "timeout": Ending("timeout", error={"message": "late"}),
    "interrupted": Ending("interrupted"),
    "rolled_back": Ending("interrupted", rollback=True),
}


def storage_state_machine(open_storage: OpenStorage, *, reopens: bool = False) -> type[RuleBasedStateMachine]:
    """A hypothesis machine for one driver.

    With `reopens`, opening again finds the data of the last time, and a crash closes and opens the storage.
    What an earlier story left is removed when a story begins, so all of them may use one directory.
    """

    class StorageStories(_Stories):
        def __init__(self) -> None:
            super().__init__(open_storage, reopens)

    return StorageStories


class _Home:
    """Keeps a storage open between the rules, on a loop of its own.

    One task enters and leaves it, because a driver may hold a task group or cancel scope while it is open.
    """

    def __init__(self, open_storage: OpenStorage) -> None:
        self._open_storage = open_storage
        self._runner = asyncio.Runner()

    def do(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._runner.run(work)

    def open(self) -> Storage:
        return self.do(self._begin())

    def close(self) -> None:
        self.do(self._end())

    def leave(self) -> None:
        self.close()
        self._runner.close()

    async def _begin(self) -> Storage:
        self._over = asyncio.Event()
        opened: asyncio.Future[Storage] = asyncio.get_running_loop().create_future()
        self._stay = asyncio.create_task(self._live(opened))
        return await opened

    async def _live(self, opened: "asyncio.Future[Storage]") -> None:
        try:
            async with self._open_storage() as storage:
                opened.set_result(storage)
                await self._over.wait()
        except BaseException as error:
            if opened.done():
                raise
            opened.set_exception(error)

    async def _end(self) -> None:
        self._over.set()
        await self._stay


class _Stories(RuleBasedStateMachine):
    def __init__(self, open_storage: OpenStorage, reopens: bool) -> None:
        super().__init__()
        self.reopens = reopens
        self.home = _Home(open_storage)
        self.storage = self.home.open()
        self.model = Model()
        self.now = NOW
        self.written = 0
        self.commits: list[Commit] = []
        self.threads: list[ThreadId] = []
        self.thread_of: dict[RunId, ThreadId] = {}
        self.attempts: Counter[RunId] = Counter()
        self.home.do(self._remove_what_was_left())

    def teardown(self) -> None:
        self.home.leave()

    # Threads and time

    @initialize()
    def begin_with_one_run_at_work_and_one_waiting(self) -> None:
        for which in range(2):
            self.create_thread()
            self.accept(which, "enqueue", 0)
        self.claim(1)

    @rule()
    def create_thread(self) -> None:
        thread = self.home.do(self.storage.threads.create(a_thread()))
        self.model.create(thread.thread_id)
        self.threads.append(thread.thread_id)

    @rule(which=A_THREAD)
    def delete_thread(self, which: int) -> None:
        thread_id = self._thread(which)
        if not self.model.exists(thread_id):
            with pytest.raises(NotFound):
                self.home.do(self.storage.threads.delete(thread_id))
            return
        self.home.do(self.storage.threads.delete(thread_id))
        self.model.delete(thread_id)

    @rule(which=A_THREAD, mark=st.booleans())
    def describe_thread(self, which: int, mark: bool) -> None:
        thread_id = self._thread(which)
        update = self.storage.threads.update(thread_id, metadata={"mark": mark, "n": which}, now=self.now)
        if not self.model.exists(thread_id):
            with pytest.raises(NotFound):
                self.home.do(update)
            return
        self.home.do(update)
        (self.model.marked.add if mark else self.model.marked.discard)(thread_id)

    @rule(which=A_THREAD)
    def prune_thread(self, which: int) -> None:
        """Only while it has no active runs; then the newest checkpoint stays, and an entry says that others went."""
        thread_id = self._thread(which)
        free = self.model.exists(thread_id) and not self.model.active(thread_id)
        assert self.home.do(self.storage.threads.prune(thread_id, self.now)) == free
        if free and len(saved := self.model.saved[thread_id]) > 1:
            self.model.saved[thread_id] = saved[-1:]
            self.model.logs[thread_id].append(Line(None, 0, "state.reset prune"))

    @rule(which=A_THREAD)
    def write_outside_a_run(self, which: int) -> None:
        thread_id = self._thread(which)
        if not self.model.exists(thread_id):
            with pytest.raises(NotFound):
                self.storage.log.append(thread_id, [note("late")])
            return
        self.written += 1
        self.commits.append(self.storage.log.append(thread_id, [note(self.written)]))
        self.model.logs[thread_id].append(Line(None, 0, f"custom {self.written}"))

    @rule(which=A_THREAD, behind=st.sampled_from([0, 0, 1]))
    def settle(self, which: int, behind: int) -> None:
        """7.6: only on what the thread is now, and only while it has no active runs."""
        thread_id = self._thread(which)
        step = a_step(thread_id, None)
        settle = self.storage.threads.settle(
            thread_id,
            Settled("idle", {}),
            [Draft(Kind.STATE_RESET, {"cause": "update"}, at=self.now)],
            [CheckpointPut(*step)],
            since=Seq(len(self.model.logs.get(thread_id, ())) - behind),
            now=self.now,
        )
        if not self.model.exists(thread_id):
            with pytest.raises(NotFound):
                self.home.do(settle.wait())
            return
        free = not behind and not self.model.active(thread_id)
        assert self.home.do(settle.wait()) == free
        if free:
            self.model.saved[thread_id].append((step[1]["id"], None))
            self.model.left_as[thread_id] = "idle"
            self.model.logs[thread_id].append(Line(None, 0, "state.reset update"))

    @rule(moment=st.sampled_from([1, 10, -20]))
    def let_time_pass(self, moment: int) -> None:
        """Also backwards, as a clock does when somebody sets it."""
        self.now += moment

    @rule()
    def sweep(self) -> None:
        """5.10"""
        old = self.home.do(self.storage.threads.discarded(before=2**53))
        self.home.do(self.storage.threads.sweep(old))
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
        stopping: Refusal | tuple[RunId, ...]
        try:
            stopping = self.home.do(self.storage.runs.accept(new)).stopping
        except (NotFound, ThreadBusy) as refusal:
            stopping = type(refusal)
        assert stopping == self.model.accept(new)
        if not isinstance(stopping, type):
            self.thread_of[new.run_id] = new.thread_id

    @rule(limit=st.integers(1, 3))
    def claim(self, limit: int) -> None:
        """5.7, 5.8: who may run, and in which order."""
        claimed = self.home.do(self.storage.runs.claim(limit, now=self.now))
        assert [run.run_id for run in claimed] == self.model.claim(limit, self.now)
        assert all(run.status == "running" for run in claimed)

    @rule(which=A_RUN, actions=st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=2))
    def cancel(self, which: int, actions: list[CancelAction]) -> None:
        run_id = self._run(which)
        for action in actions:
            cancelled = self.home.do(self.storage.runs.cancel(run_id, action, self.now))
            assert (None if cancelled is None else cancelled.at_once) == self.model.cancel(run_id, action)

    @rule(which=A_RUN)
    def release(self, which: int) -> None:
        run_id = self._run(which)
        held = self.model.holds(run_id)
        assert self.home.do(self.storage.runs.release(self._fence(run_id), self.now)) == held
        if held:
            self.model.rows[run_id].status = "pending"

    @rule()
    def crash(self) -> None:
        """5.6: what a new process does first."""
        if self.reopens:
            self.home.do(self._commit())
            self.home.close()
            self.storage = self.home.open()
        recovered = self.home.do(self.storage.runs.recover(self.now))
        assert {run.run_id for run in recovered} == self.model.crash()

    @rule(times=st.integers(1, 2))
    def crash_at_work(self, times: int) -> None:
        """5.7: often enough that suspects come to be."""
        for _ in range(times):
            self.claim(3)
            self.crash()

    # Attempts

    @rule(which=A_RUN, count=st.integers(1, 3))
    def take_a_step(self, which: int, count: int) -> None:
        """7.1: a checkpoint among entries, durable when the entry behind it is."""
        run_id = self._run(which)
        if self.model.holds(run_id):
            self._write(run_id, count)
            self._save(run_id)
            self._write(run_id, 1)
        else:
            self._cannot_write(run_id, self._fence(run_id))

    @rule(which=A_RUN, off_by=st.sampled_from([-1, 1]))
    def write_as_another_attempt(self, which: int, off_by: int) -> None:
        """2.5, 7.2"""
        run_id = self._run(which)
        fence = self._fence(run_id)
        self._cannot_write(run_id, Fence(run_id, fence.attempt + off_by))

    @rule(which=A_RUN, how=st.sampled_from(sorted(ENDINGS)), last_words=st.integers(0, 3))
    def finish(self, which: int, how: str, last_words: int) -> None:
        """5.3: also right behind entries that nobody waited for."""
        run_id = self._run(which)
        held = self.model.holds(run_id)
        if held:
            self._write(run_id, last_words)
        finish = self.storage.runs.finish(self._fence(run_id), ENDINGS[how], self.now)
        if held and self.model.rows[run_id].cancel == "rollback" and how != "rolled_back":
            with pytest.raises(RollbackDue):
                self.home.do(finish)
            return
        assert self.home.do(finish) == held
        if held:
            self.model.end(self.model.rows[run_id], how)

    @rule(which=A_RUN, how=st.sampled_from(sorted(ENDINGS)))
    def finish_as_an_earlier_attempt(self, which: int, how: str) -> None:
        """2.6"""
        run_id = self._run(which)
        stale = Fence(run_id, self._fence(run_id).attempt - 1)
        assert not self.home.do(self.storage.runs.finish(stale, ENDINGS[how], self.now))
        assert not self.home.do(self.storage.runs.release(stale, self.now))

    # What must hold after every step

    @invariant()
    def storage_and_model_agree(self) -> None:
        self.home.do(self._agree())

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
            assert await self.storage.runs.next_due(but_not=frozenset({thread_id})) == self.model.next_due(thread_id)
        assert await self.storage.runs.next_due() == self.model.next_due()
        await self._counts_agree()

    async def _counts_agree(self) -> None:
        for status in STATUSES:
            alike = {each for each in self.model.logs if self.model.exists(each) and self.model.status(each) == status}
            assert await self.storage.threads.count(ThreadQuery(status=status)) == len(alike)
            marked = ThreadQuery(status=status, metadata={"mark": True})
            assert await self.storage.threads.count(marked) == len(alike & self.model.marked)

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
        """5.4: an attempt never goes back; 5.8: one of them runs."""
        for run in rows:
            assert run.attempt >= self.attempts[run.run_id]
            self.attempts[run.run_id] = run.attempt
        assert sum(run.status == "running" for run in rows) <= 1

    # Moves

    def _thread(self, which: int) -> ThreadId:
        return _pick(sorted(self.threads, key=lambda thread_id: thread_id not in self.model.logs), which)

    def _run(self, which: int) -> RunId:
        """One of all there ever were, those that run and wait before those that are over."""

        def interest(run_id: RunId) -> int:
            row = self.model.rows.get(run_id)
            return len(INTERESTING) if row is None else INTERESTING.index(row.status)

        return _pick(sorted(self.thread_of, key=interest), which)

    def _fence(self, run_id: RunId) -> Fence:
        """The present attempt, or for a run that is gone the one it last had."""
        row = self.model.rows.get(run_id)
        return Fence(run_id, self.attempts[run_id] if row is None else row.attempt)

    def _write(self, run_id: RunId, count: int) -> None:
        for _ in range(count):
            self.written += 1
            append = self.storage.log.append
            self.commits.append(append(self.thread_of[run_id], [note(self.written)], self._fence(run_id)))
            self.model.write(self.model.rows[run_id], f"custom {self.written}")

    def _save(self, run_id: RunId) -> None:
        thread_id = self.thread_of[run_id]
        saver = self.storage.checkpoints.saver(self._fence(run_id))
        stored = self.home.do(save(saver, thread_id, run_id))
        self.model.saved[thread_id].append((id_of(stored), run_id))

    def _cannot_write(self, run_id: RunId, fence: Fence) -> None:
        thread_id = self.thread_of[run_id]
        with pytest.raises(Fenced):
            self.storage.log.append(thread_id, [note("stale")], fence)
        with pytest.raises(Fenced):
            self.home.do(save(self.storage.checkpoints.saver(fence, "sync"), thread_id, run_id))

    async def _commit(self) -> None:
        for commit in self.commits:
            await commit.wait()
        self.commits.clear()

    async def _remove_what_was_left(self) -> None:
        for thread in await self.storage.threads.search(ThreadQuery(limit=10_000)):
            await self.storage.threads.delete(thread.thread_id)
        await self.storage.threads.sweep(await self.storage.threads.discarded(before=2**53, limit=10_000))


def _facts(run: Run | Row) -> tuple[object, ...]:
    """What must agree of a row. Whether a run was asked to stop matters only as long as it can."""
    asked = run.cancel if run.status in ("pending", "running") else None
    return (run.run_id, run.status, run.attempt, run.crashes, asked)


def _pick(items: list[Result], which: int) -> Result:
    return items[which % len(items)]


def _line(entry: Entry) -> Line:
    detail = next((entry.data[key] for key in ("status", "cause", "value") if key in entry.data), None)
    return Line(entry.run_id, entry.attempt, entry.kind if detail is None else f"{entry.kind} {detail}")


def _check_log(entries: list[Entry]) -> None:
    """1.2: dense numbers; 5.4: no attempt writes after a later one of its run."""
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    reached: Counter[RunId] = Counter()
    for entry in entries:
        if entry.run_id is not None:
            assert entry.attempt >= reached[entry.run_id]
            reached[entry.run_id] = entry.attempt


def _check_endings(entries: list[Entry], rows: list[Run]) -> None:
    """5.1, 5.3: a run begins once and ends once, its ending is its last entry, and its row agrees."""
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
