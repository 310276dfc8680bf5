"""The conformance suites on PostgreSQL. Hints go through the database, or through Redis if CONFORMANCE_REDIS is set."""

import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import pytest
from hypothesis import settings

from services.redis_server import RedisServer
from threadwire.storage.abc import Storage
from threadwire.storage.postgres import open_postgres_storage
from threadwire.testing.conformance import (
    AccessConformance,
    AssistantsConformance,
    CheckpointsConformance,
    ClaimsConformance,
    CronsConformance,
    DeliveriesConformance,
    FoldSnapshotsConformance,
    ItemsConformance,
    KeysConformance,
    LogConformance,
    RunsConformance,
    TemporaryRunsConformance,
    ThreadsConformance,
    WorkersConformance,
    storage_state_machine,
)

EXAMPLES = int(os.environ.get("THREADWIRE_HYPOTHESIS_EXAMPLES", "15"))


class InPostgres:
    @pytest.fixture
    async def storage(self, database: str, redis: str | None) -> AsyncIterator[Storage]:
        async with open_postgres_storage(database, redis=redis) as storage:
            yield storage


class TestLog(InPostgres, LogConformance): ...


class TestAccess(InPostgres, AccessConformance): ...


class TestThreads(InPostgres, ThreadsConformance): ...


class TestRuns(InPostgres, RunsConformance): ...


class TestTemporaryRuns(InPostgres, TemporaryRunsConformance): ...


class TestClaims(InPostgres, ClaimsConformance): ...


class TestWorkers(InPostgres, WorkersConformance):
    @pytest.fixture
    async def other(self, storage: Storage, database: str, redis: str | None) -> AsyncIterator[Storage]:
        """A second storage on the same database, as another process would open it."""
        async with open_postgres_storage(database, redis=redis) as other:
            yield other


class TestWorkersWithRedis(TestWorkers):
    @pytest.fixture
    def redis(self, redis_server: RedisServer) -> str:
        return redis_server.url


class TestCrons(InPostgres, CronsConformance): ...


class TestDeliveries(InPostgres, DeliveriesConformance): ...


class TestFoldSnapshots(InPostgres, FoldSnapshotsConformance): ...


class TestAssistants(InPostgres, AssistantsConformance): ...


class TestCheckpoints(InPostgres, CheckpointsConformance): ...


class TestItems(InPostgres, ItemsConformance): ...


class TestKeys(InPostgres, KeysConformance): ...


class TestItemsWithPgvector(ItemsConformance):
    @pytest.fixture
    async def storage(self, pgvector_database: str) -> AsyncIterator[Storage]:
        async with open_postgres_storage(pgvector_database) as storage:
            yield storage


class _Stories:
    """The servers of the stories. A test case of Hypothesis cannot use fixtures itself."""

    dsn = ""
    redis: str | None = None


@pytest.fixture
def stories_database(database: str, redis: str | None) -> None:
    _Stories.dsn, _Stories.redis = database, redis


def _open() -> AbstractAsyncContextManager[Storage]:
    return open_postgres_storage(_Stories.dsn, redis=_Stories.redis)


def _open_other(storage: Storage) -> AbstractAsyncContextManager[Storage]:
    return open_postgres_storage(_Stories.dsn, redis=_Stories.redis)


TestStories = storage_state_machine(_open, open_other=_open_other).TestCase
TestStories.settings = settings(max_examples=EXAMPLES, stateful_step_count=30, deadline=None)
TestStories.pytestmark = [pytest.mark.usefixtures("stories_database"), pytest.mark.timeout(7200)]
