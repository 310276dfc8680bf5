"""Receive the parts of a graph's stream when they are emitted, without LangGraph's queue.

**For:** LangGraph puts each part into a queue, and a task that waits for the queue wakes the generator that yields the
part. For a token, that takes longer than recording it. It also keeps LangGraph from executing the only task of a step
in the generator itself, as `ainvoke` does. A `PartSink` takes the place of the queue: it passes each part on, and the
generator continues only when a step begins or ends.

On the run's own event loop, `NodeLoop` calls a sink immediately, although LangGraph asks for a call later. Parts keep
their order this way even if the loop does not run between the last part of a task and the end of its step.

**Changed LangGraph:** the class of the queue or of the runner is missing. Then the generator yields all parts: tokens
and steps are slower, and nothing else changes. The same happens in an embedded server, which applies no patches, and
for a subclass of `Pregel` with an `astream` of its own.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextvars import ContextVar
from typing import Any

from langgraph.pregel import Pregel

from threadwire.graphs.langgraph_private.process_patch import ProcessPatch

Part = tuple[tuple[str, ...], str, Any]


class PartSink:
    """Stands in for the queue of one stream, which is read by the current task.

    Parts go to `receive`. Between two steps, a part that `holds` selects stays in the queue, like those that follow it:
    the stream yields them before the next step begins, and the step waits for whoever reads the stream.

    If `receive` raises, the stream raises the error. LangGraph emits some parts where an exception would get lost, so
    it is not raised there.
    """

    def __init__(self, receive: Callable[[Part], None], holds: Callable[[Part], bool]) -> None:
        self._receive = receive
        self._holds = holds
        self._held: deque[Part] = deque()
        self._reader = asyncio.current_task()
        self._closed = False
        self.is_used = False
        self.has_runner = False
        self.between_steps = True
        self.error: BaseException | None = None

    def __call__(self, part: Part) -> None:
        if self._closed:
            return
        if self._held or (self.between_steps and self._holds(part)):
            self._held.append(part)
            return
        try:
            self._receive(part)
        except BaseException as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self.error = error
        self.close()
        if self._reader is not None and self._reader is not asyncio.current_task():
            self._reader.cancel()  # otherwise it is LangGraph's own code, which will ask for the next part

    def close(self) -> None:
        """Drop the parts that are emitted from now on. A task may outlive its run."""
        self._closed = True
        self._held.clear()

    # -- what LangGraph uses of a queue --------------------------------------------------------------------------

    @property
    def put_nowait(self) -> "PartSink":
        return self

    def get_nowait(self) -> Part:
        if self.error is not None:
            raise self.error
        if not self._held:
            raise asyncio.QueueEmpty
        return self._held.popleft()

    async def wait(self) -> None:
        """Wait for ever: no part needs to be fetched during a step."""
        await asyncio.get_running_loop().create_future()


_next_sink: ContextVar[PartSink | None] = ContextVar("next_sink", default=None)
"""The sink for the stream that is started next in this context."""


def can_stream_directly(graph: Pregel[Any, Any, Any, Any]) -> bool:
    return DIRECT_STREAM.applied and type(graph).astream is Pregel.astream and not graph.debug


async def stream_directly(
    stream: AsyncGenerator[Part], receive: Callable[[Part], None], holds: Callable[[Part], bool]
) -> AsyncGenerator[Part]:
    """Read a stream that has not started yet. Yields only the parts that are held; see `PartSink`."""
    sink = PartSink(receive, holds)
    _next_sink.set(sink)
    try:
        async for part in stream:
            yield part
    except asyncio.CancelledError:
        reader = asyncio.current_task()
        if sink.error is None or reader is None or reader.uncancel() > 0:
            raise
        raise sink.error from None
    finally:
        sink.close()
        await stream.aclose()


def _queues(original: Callable[[], Any]) -> Callable[[], Any]:
    def create() -> Any:
        sink = _next_sink.get()
        if sink is None or sink.is_used:
            return original()
        sink.is_used = True
        return sink

    return create


def _runners(original: type[Any]) -> Callable[..., Any]:
    class DirectRunner(original):  # type: ignore[misc]
        """Executes the steps of a stream that has a sink."""

        sink: PartSink

        async def atick(self, tasks: Iterable[Any], *, get_waiter: Any, **options: Any) -> AsyncIterator[None]:
            tasks = tuple(tasks)
            self._committed: set[str] = set()
            try:
                async for _ in super().atick(tasks, **options):
                    yield
                    self.sink.between_steps = False  # the first time, the step has not begun yet
            except asyncio.CancelledError as error:
                self.sink.close()
                # LangGraph does the same in a step of several tasks.
                if len(tasks) == 1 and tasks[0].id not in self._committed:
                    self.commit(tasks[0], error)
                raise
            finally:
                self.sink.between_steps = True

        def commit(self, task: Any, exception: BaseException | None) -> None:
            self._committed.add(task.id)
            super().commit(task, exception)

    def create(*args: Any, **kwargs: Any) -> Any:
        sink = _next_sink.get()
        if sink is None or sink.has_runner or not sink.is_used:
            return original(*args, **kwargs)
        sink.has_runner = True
        runner = DirectRunner(*args, **kwargs)
        runner.sink = sink
        return runner

    return create


DIRECT_STREAM = ProcessPatch(
    "direct stream",
    "Tokens and steps are slower.",
    {"langgraph.pregel.main:AsyncQueue": _queues, "langgraph.pregel.main:PregelRunner": _runners},
)
