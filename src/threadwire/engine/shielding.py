"""Operations that must finish once started, even if the request that started them is cancelled.

A stored change often has a second half that is not stored: notifying the worker. A request can be cancelled at any
`await`, for example by a middleware's timeout, but must not be cancelled between the two halves.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def run_to_completion(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine to completion and return its result. Cancelling the caller does not cancel the work.

    No reference to the task is kept here. The future that it awaits keeps the task alive, and always completes.
    """
    return await asyncio.shield(asyncio.get_running_loop().create_task(work))
