"""How the embedded driver has the disk keep things, and what it does when the disk fails it."""

import errno
import fcntl
import os
import runpy
from collections.abc import Callable

import pytest

from threadwire.storage.sqlite import syncing

pytestmark = pytest.mark.anyio


# Syncing


def _sync_chosen_now() -> Callable[[int], None]:
    sync: Callable[[int], None] = runpy.run_path(syncing.__file__)["sync"]
    return sync


@pytest.mark.parametrize(
    ("offered", "used"),
    [(("fdatasync", "F_FULLFSYNC"), "fdatasync"), (("F_FULLFSYNC",), "F_FULLFSYNC"), ((), "fsync")],
)
def test_a_file_is_synced_with_what_the_system_offers(
    monkeypatch: pytest.MonkeyPatch, offered: tuple[str, ...], used: str
) -> None:
    """macOS has no `fdatasync`, and there an `fsync` is not enough."""
    calls: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda file: calls.append("fsync"))
    monkeypatch.setattr(os, "fdatasync", lambda file: calls.append("fdatasync"), raising=False)
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda file, what: calls.append({51: "F_FULLFSYNC"}[what]))
    for module, name in ((os, "fdatasync"), (fcntl, "F_FULLFSYNC")):
        if name not in offered:
            monkeypatch.delattr(module, name)
    _sync_chosen_now()(3)
    assert calls == [used]


def test_only_where_there_is_no_full_sync_a_lesser_one_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    failures = {3: errno.ENOTSUP, 4: errno.EIO}

    def full_sync(file: int, what: int) -> None:
        raise OSError(failures[file], "no")

    monkeypatch.delattr(os, "fdatasync", raising=False)
    monkeypatch.setattr(os, "fsync", synced.append)
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", full_sync)
    sync = _sync_chosen_now()
    sync(3)
    with pytest.raises(OSError, match="no"):
        sync(4)
    assert synced == [3]
