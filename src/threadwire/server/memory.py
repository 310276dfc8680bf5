"""Return memory to the operating system after a burst.

Freed memory stays in the process for two reasons. glibc keeps what was freed in the middle of its heaps until it is
trimmed. And Python returns the memory of small objects only in arenas of a megabyte, once they are completely empty:
after a burst, hundreds of arenas may contain nothing but one small object each. Most of these objects are in caches,
which are therefore cleared:

- our own caches, of ids for example;
- Python's cache of attributes. C code such as `datetime` creates a new string for every attribute that it looks up by
  name ("utcoffset"), and this cache keeps the last 4096 of them;
- the free lists of Python, which a full collection clears, and those of asyncio and uvloop, which nothing clears.
"""

import asyncio
import ctypes
import gc
import platform
import sys
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, NamedTuple

import anyio
from anyio import to_thread

from threadwire.core.temporary_caches import clear_temporary_caches

INTERVAL = 10.0
"""Seconds between two checks for work."""

QUIET_CHECKS = 4
"""Checks without work after which memory is returned: by then the caches have dropped what the work left in them."""

FREE_LIST_SIZE = 256
"""At least as many objects as a free list of asyncio or uvloop keeps."""


class Activity(NamedTuple):
    entries: int
    """Entries that have been written since the process started."""
    runs: int
    """Runs that are being executed."""


def tune_garbage_collection() -> None:
    """Collect less often. Tokens and checkpoints are created and dropped by the thousand and hardly ever form cycles.
    With Python's defaults, the collector keeps traversing every loaded module, which takes nearly half of the time
    spent on a token."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


async def return_memory_forever(activity: Callable[[], Activity]) -> None:
    """Return memory whenever the server becomes quiet. A collection stops everything else, so it waits until
    no run is active, when there is little to traverse."""
    trim = _find_trim()
    seen, quiet = activity(), QUIET_CHECKS
    while True:
        await anyio.sleep(INTERVAL)
        before, seen = seen, activity()
        quiet = quiet + 1 if seen == before and not seen.runs else 0
        if quiet == QUIET_CHECKS:
            await _clear_caches()
            gc.collect()
            await to_thread.run_sync(trim, 0)


async def _clear_caches() -> None:
    clear_temporary_caches()
    _clear_attribute_cache()
    gc.collect()  # before the free lists are renewed, so that their new objects do not go where the burst was
    await _renew_free_lists()


def _clear_attribute_cache() -> None:
    clear = getattr(sys, "_clear_internal_caches", None) or getattr(sys, "_clear_type_cache", None)
    if clear is not None:
        clear()


async def _renew_free_lists() -> None:
    """Replace the objects in the free lists of asyncio and uvloop. They are spread over the arenas that the burst has
    used; objects that are created now are close to each other."""
    loop, context = asyncio.get_running_loop(), copy_context()
    future = loop.create_future()
    count = range(2 * FREE_LIST_SIZE)  # the first half empties the list, the second half is new
    timers = [loop.call_later(INTERVAL, _do_nothing, context=context) for _ in count]
    for timer in timers:
        timer.cancel()
    calls = [loop.call_soon(_do_nothing, context=context) for _ in count]
    taken: list[list[Any]] = [timers, calls, [iter(future) for _ in count]]
    await asyncio.sleep(0)  # the loop drops the handles
    for objects in taken:
        del objects[FREE_LIST_SIZE:]
        objects.clear()


def _do_nothing() -> None:
    pass


def _find_trim() -> Callable[[int], object]:
    return ctypes.CDLL(None).malloc_trim if platform.libc_ver()[0] == "glibc" else lambda keep: None
