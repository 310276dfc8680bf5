"""A process that cannot open another file can still report it, and continues when it can."""

import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import apsw
import pytest

from threadwire.errors import StorageDamaged, StorageUnavailable
from threadwire.storage.sqlite.readers import Readers
from threadwire.storage.sqlite.schema import open_writer


@pytest.fixture
def readers(tmp_path: Path) -> Iterator[Readers]:
    db = open_writer(tmp_path / "threadwire.db")
    readers = Readers(tmp_path / "threadwire.db")
    yield readers
    readers.close()
    db.close()


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    with ExitStack() as opened:
        while (descriptor := os.open("/dev/null", os.O_RDONLY)) < highest:
            opened.callback(os.close, descriptor)
        os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_read_that_cannot_open_the_file_is_unavailable_and_works_later(readers: Readers) -> None:
    with no_descriptor_left(), pytest.raises(StorageUnavailable):
        readers.run(lambda db: db.pragma("user_version"))
    assert readers.run(lambda db: db.pragma("user_version")) > 0


def test_a_read_that_cannot_open_another_file_is_unavailable(readers: Readers) -> None:
    def sort(db: apsw.Connection) -> None:
        raise apsw.CantOpenError("unable to open database file")

    with pytest.raises(StorageUnavailable):
        readers.run(sort)


def test_an_input_output_error_on_a_read_is_reported_as_damage(readers: Readers) -> None:
    def read(db: apsw.Connection) -> None:
        raise apsw.IOError("disk I/O error")

    with pytest.raises(StorageDamaged):
        readers.run(read)
