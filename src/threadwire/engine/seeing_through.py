"""What has to be done whole once it is begun, whatever becomes of whoever asked for it.

A change that is kept often has a second half that is not: the worker is told of it. A request may be cancelled at any
`await`, by a middleware's timeout for instance, and between the two halves it must not be.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def see_through(work: Coroutine[Any, Any, T]) -> T:
    """What the work returns. A caller that is cancelled meanwhile leaves at once, and the work goes on without it.

    Nobody keeps the task but what it waits for, which is enough: it is always something that is going to happen.
    """
    return await asyncio.shield(asyncio.get_running_loop().create_task(work))
