"""Suggestions of what somebody could say next: a run that nobody is to see again, on a thread of its own that goes with
it.

Pages ask for one with the whole conversation and an invented thread's id. Those that know the address `…/suggest` use
it; the others ask for a run like any other, which is known by the tool it is told to call.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import TracebackType
from uuid import uuid5

from starlette.responses import Response

from threadwire.core.ids import NAMED_THREADS, Seq, ThreadId, thread_id_named
from threadwire.core.records import Assistant
from threadwire.engine.lifecycle import Engine
from threadwire.errors import NotFound
from threadwire.http.streaming import OpenStreams, Watcher, event_stream
from threadwire.protocols.ag_ui.decode import RunInput
from threadwire.protocols.ag_ui.encode import Options, RunEncoder
from threadwire.protocols.ag_ui.running import Manners, start
from threadwire.protocols.ag_ui.wire import KEEP_ALIVE

THROWAWAY = "copilotkit_suggestion"
"""Marks, in a thread's metadata, one that should be gone. A crash can leave it; no list shows it."""

_TOOL = "copilotkitSuggest"


def is_suggestion(asked: RunInput) -> bool:
    choice = asked.forwarded.get("toolChoice")
    function = choice.get("function") if isinstance(choice, dict) else None
    return isinstance(function, dict) and function.get("name") == _TOOL


def throwaway_thread(called: str) -> ThreadId:
    """Never a thread that pages could mean: no name of theirs has a control character."""
    thread_id_named(called)
    return ThreadId(str(uuid5(NAMED_THREADS, f"suggestion\0{called}")))


async def suggest(
    engine: Engine, streams: OpenStreams, agent: Assistant, asked: RunInput, manners: Manners
) -> Response:
    thread_id = throwaway_thread(asked.thread_id)
    alone = replace(manners, when_busy="reject")
    run, _ = await start(engine, agent, asked, alone, on=thread_id, thread_metadata={THROWAWAY: True})
    options = Options(asked.thread_id, run_id=asked.run_id, modern=asked.modern, raw=asked.raw)
    follower = engine.runs.follow(run, options, partial(RunEncoder, options), Seq(run.queued_seq - 1))

    async def throw_away() -> None:
        with suppress(NotFound):
            await engine.threads.delete(thread_id)

    return event_stream(_Then(follower, throw_away), streams, heartbeat=KEEP_ALIVE, on_disconnect=throw_away)


class _Then:
    """A watcher after whose last frames something is done, before they are sent."""

    def __init__(self, watcher: Watcher, afterwards: Callable[[], Awaitable[None]]) -> None:
        self._watcher = watcher
        self._afterwards = afterwards

    def __enter__(self) -> "_Then":
        self._watcher.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watcher.__exit__(kind, error, trace)

    @property
    def finished(self) -> bool:
        return self._watcher.finished

    async def next(self, timeout: float) -> bytes | None:
        frames = await self._watcher.next(timeout)
        if frames is None or self._watcher.finished:
            await self._afterwards()
        return frames
