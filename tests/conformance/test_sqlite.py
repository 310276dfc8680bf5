import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings

from threadwire.storage.abc import Storage
from threadwire.storage.sqlite import open_sqlite_storage
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
_DIRECTORY = TemporaryDirectory()
"""The stories' data: a crash within a story reopens it, and so does the next story."""


class InOneFile:
    @pytest.fixture
    async def storage(self, tmp_path: Path) -> AsyncIterator[Storage]:
        async with open_sqlite_storage(tmp_path) as storage:
            yield storage


class TestLog(InOneFile, LogConformance): ...


class TestAccess(InOneFile, AccessConformance): ...


class TestThreads(InOneFile, ThreadsConformance): ...


class TestRuns(InOneFile, RunsConformance): ...


class TestTemporaryRuns(InOneFile, TemporaryRunsConformance): ...


class TestClaims(InOneFile, ClaimsConformance): ...


class TestWorkers(InOneFile, WorkersConformance): ...


class TestCrons(InOneFile, CronsConformance): ...


class TestDeliveries(InOneFile, DeliveriesConformance): ...


class TestFoldSnapshots(InOneFile, FoldSnapshotsConformance): ...


class TestAssistants(InOneFile, AssistantsConformance): ...


class TestCheckpoints(InOneFile, CheckpointsConformance): ...


class TestItems(InOneFile, ItemsConformance): ...


class TestKeys(InOneFile, KeysConformance): ...


_open_in_directory = partial(open_sqlite_storage, Path(_DIRECTORY.name))

TestStories = storage_state_machine(_open_in_directory, reopens=True).TestCase
TestStories.settings = settings(max_examples=EXAMPLES, stateful_step_count=30, deadline=None)
