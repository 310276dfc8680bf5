"""Tests that prove that a storage driver fulfils `threadwire.storage.abc` and spec/log.md.

A driver's test file subclasses each class, adds an async fixture `storage` that opens an empty storage, and passes the
function that opens it to `storage_state_machine`. The tests run with anyio's pytest plugin on asyncio.
"""

import pytest

# Before the suites are imported: without the rewrite, a failing assertion would not show the compared values.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{suite}"
        for suite in (
            "assistants",
            "checkpoints",
            "claims",
            "crons",
            "deliveries",
            "fold_snapshots",
            "items",
            "log",
            "runs",
            "state_machine",
            "steps",
            "temporary",
            "threads",
        )
    )
)

from threadwire.testing.conformance.assistants import AssistantsConformance  # noqa: E402
from threadwire.testing.conformance.checkpoints import CheckpointsConformance  # noqa: E402
from threadwire.testing.conformance.claims import ClaimsConformance  # noqa: E402
from threadwire.testing.conformance.crons import CronsConformance  # noqa: E402
from threadwire.testing.conformance.deliveries import DeliveriesConformance  # noqa: E402
from threadwire.testing.conformance.fold_snapshots import FoldSnapshotsConformance  # noqa: E402
from threadwire.testing.conformance.items import ItemsConformance  # noqa: E402
from threadwire.testing.conformance.log import LogConformance  # noqa: E402
from threadwire.testing.conformance.runs import RunsConformance  # noqa: E402
from threadwire.testing.conformance.state_machine import storage_state_machine  # noqa: E402
from threadwire.testing.conformance.temporary import TemporaryRunsConformance  # noqa: E402
from threadwire.testing.conformance.threads import ThreadsConformance  # noqa: E402

__all__ = [
    "AssistantsConformance",
    "CheckpointsConformance",
    "ClaimsConformance",
    "CronsConformance",
    "DeliveriesConformance",
    "FoldSnapshotsConformance",
    "ItemsConformance",
    "LogConformance",
    "RunsConformance",
    "TemporaryRunsConformance",
    "ThreadsConformance",
    "storage_state_machine",
]
