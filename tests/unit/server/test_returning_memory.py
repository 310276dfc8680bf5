"""What is dropped when the server is quiet. `tests/e2e/test_memory_bounds.py` measures how much memory that returns."""

import asyncio
import sys
from itertools import chain, repeat

import pytest

from threadwire.core.temporary_caches import temporary_cache
from threadwire.server import memory
from threadwire.server.memory import Activity

pytestmark = pytest.mark.anyio


@temporary_cache(maxsize=10)
def cached(word: str) -> str:
    return word


class Looked:
    attribute_of_a_test = 1


@pytest.mark.timeout(30)
async def test_caches_are_cleared_once_the_server_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "INTERVAL", 0)
    sizes: list[int] = []
    cleared = asyncio.Event()
    activities = chain([Activity(0, 0), Activity(1, 1)], repeat(Activity(2, 0)))

    def activity() -> Activity:
        sizes.append(cached.cache_info().currsize)
        if sizes[-1] == 0:
            cleared.set()
        return next(activities)

    cached("word")
    task = asyncio.ensure_future(memory.return_memory_forever(activity))
    await cleared.wait()
    task.cancel()
    assert sizes[: 3 + memory.QUIET_CHECKS] == [1] * (3 + memory.QUIET_CHECKS)


async def test_names_of_looked_up_attributes_are_dropped() -> None:
    name = "".join(["attribute_of", "_a_test"])  # a new string, like those that C code creates for a lookup
    before = sys.getrefcount(name)
    assert getattr(Looked, name) == 1
    assert sys.getrefcount(name) > before  # the cache of attributes has it
    await memory._clear_caches()
    assert sys.getrefcount(name) == before
