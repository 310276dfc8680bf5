import os
from collections.abc import AsyncIterator

import pytest
from hypothesis import settings

from threadwire.storage.abc import Storage
from threadwire.storage.memory import open_memory_storage
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

EXAMPLES = int(os.environ.get("THREADWIRE_HYPOTHESIS_EXAMPLES", "60"))


class InMemory:
    @pytest.fixture
    async def storage(self) -> AsyncIterator[Storage]:
        async with open_memory_storage() as storage:
            yield storage


class TestLog(InMemory, LogConformance): ...


class TestAccess(InMemory, AccessConformance): ...


class TestThreads(InMemory, ThreadsConformance): ...


class TestRuns(InMemory, RunsConformance): ...


class TestTemporaryRuns(InMemory, TemporaryRunsConformance): ...


class TestClaims(InMemory, ClaimsConformance): ...


class TestWorkers(InMemory, WorkersConformance): ...


class TestCrons(InMemory, CronsConformance): ...


class TestDeliveries(InMemory, DeliveriesConformance): ...


class TestFoldSnapshots(InMemory, FoldSnapshotsConformance): ...


class TestAssistants(InMemory, AssistantsConformance): ...


class TestCheckpoints(InMemory, CheckpointsConformance): ...


class TestItems(InMemory, ItemsConformance): ...


class TestKeys(InMemory, KeysConformance): ...


TestStories = storage_state_machine(open_memory_storage).TestCase
TestStories.settings = settings(max_examples=EXAMPLES, stateful_step_count=30, deadline=None)
