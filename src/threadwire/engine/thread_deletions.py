"""Reports deleted threads to protocols that store their own data for a thread, such as files."""

from collections.abc import Awaitable, Callable

import structlog

from threadwire.core.ids import ThreadId

logger = structlog.get_logger("threadwire")

DeletionCallback = Callable[[ThreadId], Awaitable[None]]


class ThreadDeletions:
    def __init__(self) -> None:
        self._callbacks: dict[str, DeletionCallback] = {}

    def on_delete(self, name: str, callback: DeletionCallback) -> None:
        """Call `callback` after a thread is deleted or expires. It replaces an earlier callback with the same
        name: protocols are built again when the project is reloaded."""
        self._callbacks[name] = callback

    async def report(self, thread_id: ThreadId) -> None:
        """The thread is already deleted, so an error is only logged."""
        for name, callback in self._callbacks.items():
            try:
                await callback(thread_id)
            except OSError as error:
                logger.warning("thread_data_deletion_failed", thread_id=thread_id, protocol=name, error=repr(error))
