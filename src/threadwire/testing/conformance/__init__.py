"""Tests that prove that a storage driver fulfils `threadwire.storage.abc` and spec/log.md.

A driver's test file subclasses each class, adds an async fixture `storage` that opens an empty storage, and passes the
function that opens it to `storage_state_machine`. The tests run with anyio's pytest plugin on asyncio.
"""

from pkgutil import iter_modules

import pytest

# Before the suites are imported: without the rewrite, a failing assertion would not show the compared values.
pytest.register_assert_rewrite(*(f"{__name__}.{module.name}" for module in iter_modules(__path__)))

from threadwire.testing.conformance.access import AccessConformance  # noqa: E402
from threadwire.testing.conformance.assistants import AssistantsConformance  # noqa: E402
from threadwire.testing.conformance.checkpoints import CheckpointsConformance  # noqa: E402
from threadwire.testing.conformance.claims import ClaimsConformance  # noqa: E402
from threadwire.testing.conformance.crons import CronsConformance  # noqa: E402
from threadwire.testing.conformance.deliveries import DeliveriesConformance  # noqa: E402
from threadwire.testing.conformance.fold_snapshots import FoldSnapshotsConformance  # noqa: E402
from threadwire.testing.conformance.items import ItemsConformance  # noqa: E402
from threadwire.testing.conformance.keys import KeysConformance  # noqa: E402
from threadwire.testing.conformance.log import LogConformance  # noqa: E402
from threadwire.testing.conformance.runs import RunsConformance  # noqa: E402
from threadwire.testing.conformance.state_machine import storage_state_machine  # noqa: E402
from threadwire.testing.conformance.temporary import TemporaryRunsConformance  # noqa: E402
from threadwire.testing.conformance.threads import ThreadsConformance  # noqa: E402
from threadwire.testing.conformance.workers import WorkersConformance  # noqa: E402

__all__ = [
    "AccessConformance",
    "AssistantsConformance",
    "CheckpointsConformance",
    "ClaimsConformance",
    "CronsConformance",
    "DeliveriesConformance",
    "FoldSnapshotsConformance",
    "ItemsConformance",
    "KeysConformance",
    "LogConformance",
    "RunsConformance",
    "TemporaryRunsConformance",
    "ThreadsConformance",
    "WorkersConformance",
    "storage_state_machine",
]
