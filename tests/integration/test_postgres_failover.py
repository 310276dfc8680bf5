"""What the PostgreSQL driver does when connections are lost, at any point of a transaction."""

import time
from collections.abc import AsyncIterator, Iterator

import pytest

from services.fault_proxy import CommitFault, FaultProxy, fault_proxy
from services.fixtures import empty_database, postgres_server
from services.postgres_server import PostgresServer, running_postgres
from threadwire.core.entries import START, Kind
from threadwire.core.records import Ending, Lease, Run
from threadwire.errors import Fenced, StorageUnavailable
from threadwire.storage.abc import Commit, Storage
from threadwire.storage.postgres import database, open_postgres_storage
from threadwire.storage.postgres.connections import connect
from threadwire.storage.postgres.id_keys import key_of
from threadwire.testing.conformance.samples import (
    LONG_LEASE,
    NOW,
    a_run,
    a_thread,
    kinds,
    new_thread_id,
    note,
    the_run,
    values,
    whole_log,
)

__all__ = ["empty_database", "postgres_server"]

pytestmark = pytest.mark.anyio

EACH_FAULT = pytest.mark.parametrize("fault", ["before", "after"])


@pytest.fixture
def proxy(postgres_server: PostgresServer) -> Iterator[FaultProxy]:
    with fault_proxy(postgres_server.port) as proxy:
        yield proxy


@pytest.fixture
async def storage(empty_database: str, postgres_server: PostgresServer, proxy: FaultProxy) -> AsyncIterator[Storage]:
    """A storage whose connections all go through the proxy."""
    name = empty_database.rpartition("/")[2]
    async with open_postgres_storage(postgres_server.dsn(name, port=proxy.port)) as storage:
        yield storage


async def started(storage: Storage, lease: Lease = LONG_LEASE) -> Run:
    accepted = await storage.runs.accept(a_run(new_thread_id(), create_thread=True), claim=lease)
    assert accepted.started
    return accepted.run


@EACH_FAULT
async def test_a_run_is_accepted_once_although_its_commit_was_cut(
    storage: Storage, proxy: FaultProxy, fault: CommitFault
) -> None:
    new = a_run((await storage.threads.create(a_thread())).thread_id)
    proxy.cut_at_commit(fault)
    accepted = await storage.runs.accept(new)
    assert proxy.commits_cut == 1
    assert not accepted.repeated
    assert kinds(await whole_log(storage, new.thread_id)) == [Kind.RUN_QUEUED]
    assert await the_run(storage, new.run_id) == accepted.run


@EACH_FAULT
async def test_entries_are_appended_once_although_their_commit_was_cut(
    storage: Storage, proxy: FaultProxy, fault: CommitFault
) -> None:
    handle = storage.handle(await started(storage))
    proxy.cut_at_commit(fault)
    await handle.append([note("one"), note("two")]).wait()
    await handle.append([note("three")]).wait()
    assert proxy.commits_cut == 1
    entries = await whole_log(storage, handle.run.thread_id)
    assert values(entries) == ["one", "two", "three"]
    assert [entry.seq for entry in entries] == [1, 2, 3, 4]


@EACH_FAULT
async def test_a_run_ends_once_although_its_commit_was_cut(
    storage: Storage, proxy: FaultProxy, fault: CommitFault
) -> None:
    handle = storage.handle(await started(storage))
    handle.append([note("last")])
    proxy.cut_at_commit(fault)
    assert await handle.finish(Ending("success"), NOW)
    assert proxy.commits_cut == 1
    assert kinds(await whole_log(storage, handle.run.thread_id)) == [Kind.RUN_QUEUED, Kind.CUSTOM, Kind.RUN_ENDED]
    assert (await the_run(storage, handle.run.run_id)).status == "success"
    assert not await handle.finish(Ending("success"), NOW)


async def test_a_change_whose_outcome_the_database_has_forgotten_is_not_repeated(
    storage: Storage, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forgotten(*_: object) -> None:
        return None

    monkeypatch.setattr(database, "_transaction_status", forgotten)
    new = a_run((await storage.threads.create(a_thread())).thread_id)
    proxy.cut_at_commit("after")
    with pytest.raises(StorageUnavailable, match="no longer knows"):
        await storage.runs.accept(new)
    assert kinds(await whole_log(storage, new.thread_id)) == [Kind.RUN_QUEUED]


async def test_entries_are_written_again_if_a_crashed_database_reused_the_id_of_their_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crashes = 0

    async def crashed_and_reused(*_: object) -> str:
        nonlocal crashes
        crashes += 1
        if crashes == 1:
            server.restart("immediate")
            raise ConnectionError
        return "committed"  # which is true for the transaction that has the id now

    monkeypatch.setattr(database, "_transaction_status", crashed_and_reused)
    with running_postgres(durable=True) as server, fault_proxy(server.port) as proxy:
        name = (await server.create_database()).rpartition("/")[2]
        async with open_postgres_storage(server.dsn(name, port=proxy.port)) as storage:
            handle = storage.handle(await started(storage))
            proxy.cut_at_commit("before")
            await handle.append([note("one")]).wait()
            await handle.append([note("two")]).wait()
            assert (crashes, proxy.commits_cut) == (2, 1)
            assert values(await whole_log(storage, handle.run.thread_id)) == ["one", "two"]


async def test_entries_that_were_queued_behind_lost_ones_are_rejected(
    storage: Storage, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = storage.handle(await started(storage))
    later: list[Commit] = []

    async def forgotten(*_: object) -> None:
        later.append(handle.append([note("later")]))

    monkeypatch.setattr(database, "_transaction_status", forgotten)
    proxy.cut_at_commit("before")
    with pytest.raises(StorageUnavailable, match="no longer knows"):
        await handle.append([note("lost")]).wait()
    with pytest.raises(StorageUnavailable):
        await later[0].wait()
    assert values(await whole_log(storage, handle.run.thread_id)) == []


async def test_while_the_database_is_unreachable_entries_wait_and_requests_fail(
    storage: Storage, proxy: FaultProxy
) -> None:
    handle = storage.handle(await started(storage))
    proxy.cut()
    appended = handle.append([note("kept")])
    with pytest.raises(StorageUnavailable):
        await storage.runs.accept(a_run(new_thread_id(), create_thread=True))
    with pytest.raises(StorageUnavailable):
        await storage.runs.get(handle.run.run_id)
    assert isinstance(storage.write_error, StorageUnavailable)
    assert storage.fatal_error is None
    proxy.mend()
    await appended.wait()
    assert storage.write_error is None
    assert values(await whole_log(storage, handle.run.thread_id)) == ["kept"]


async def test_an_attempt_that_was_reclaimed_during_an_outage_is_fenced(
    storage: Storage, proxy: FaultProxy, empty_database: str
) -> None:
    run = await started(storage, Lease("worker", 0))
    handle = storage.handle(run)
    async with open_postgres_storage(empty_database) as other:
        proxy.cut()
        appended = handle.append([note("stale")])
        assert [each.status for each in await other.runs.reclaim(NOW)] == ["pending"]
        proxy.mend()
        with pytest.raises(Fenced):
            await appended.wait()
        assert kinds(await whole_log(other, run.thread_id)) == [Kind.RUN_QUEUED]


async def test_a_thread_that_another_transaction_has_locked_does_not_delay_the_others(
    storage: Storage, empty_database: str
) -> None:
    locked, free = storage.handle(await started(storage)), storage.handle(await started(storage))
    blocker = await connect(empty_database)
    await blocker.execute("BEGIN")
    await blocker.execute("SELECT 1 FROM thread_heads WHERE thread = $1 FOR UPDATE", key_of(locked.run.thread_id))
    later = locked.append([note("later")])
    await free.append([note("now")]).wait()
    assert values(await whole_log(storage, locked.run.thread_id)) == []
    await blocker.execute("ROLLBACK")
    await later.wait()
    assert values(await whole_log(storage, locked.run.thread_id)) == ["later"]
    await blocker.close()


async def test_a_server_that_crashes_and_restarts_loses_nothing_that_was_acknowledged() -> None:
    with running_postgres(durable=True) as server:
        async with open_postgres_storage(await server.create_database()) as storage:
            handle = storage.handle(await started(storage))
            await handle.append([note("before")]).wait()
            with storage.log.watch(handle.run.thread_id) as wakeup:
                server.restart("immediate")
                await handle.append([note("after")]).wait()
                assert await wakeup.wait(30)
            entries = await whole_log(storage, handle.run.thread_id)
            assert values(entries) == ["before", "after"]
            assert [entry.seq for entry in entries] == [1, 2, 3]


async def test_the_lease_of_a_worker_whose_event_loop_is_blocked_is_renewed(empty_database: str) -> None:
    async with open_postgres_storage(empty_database) as storage, open_postgres_storage(empty_database) as other:
        run = await started(storage, Lease("worker", 1_500))
        time.sleep(2.5)  # noqa: ASYNC251 - the subject of the test
        assert await other.runs.reclaim(NOW) == []
        assert run.fence in await storage.runs.renew(Lease("worker", 1_500))


async def test_a_follower_in_another_process_reads_entries_right_after_their_commit(empty_database: str) -> None:
    async with open_postgres_storage(empty_database) as storage, open_postgres_storage(empty_database) as other:
        run = await started(storage)
        with other.log.watch(run.thread_id) as wakeup:
            last = START
            for number in range(5):
                await storage.handle(run).append([note(number)]).wait()
                assert await wakeup.wait(30)
                entries = await other.log.read(run.thread_id, last)
                last = entries[-1].seq
            assert values(await whole_log(other, run.thread_id)) == [0, 1, 2, 3, 4]
