"""Suggestions for the user's next message: a run on a temporary thread that is deleted when the run ends.

Clients send the whole conversation and a thread id that they generated. Newer clients use the path `…/suggest`. Older
clients start an ordinary run, which is recognized by the tool that it is forced to call.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import TracebackType
from uuid import uuid5

from starlette.responses import Response

from threadwire.core.ids import NAMED_THREADS, Seq, ThreadId, thread_id_from_name
from threadwire.core.records import Assistant
from threadwire.engine.lifecycle import Engine
from threadwire.errors import NotFound
from threadwire.http.sse import UNNAMED_HEARTBEAT, unnamed_events
from threadwire.http.streaming import FrameSource, OpenStreams, event_stream
from threadwire.protocols.ag_ui.agent_runs import ClientPolicy, start
from threadwire.protocols.ag_ui.decode import RunInput
from threadwire.protocols.ag_ui.encode import Options, RunEncoder

TEMPORARY = "copilotkit_suggestion"
"""The metadata key that marks a temporary thread. A crash can leave such a thread behind; no list shows it."""

_TOOL = "copilotkitSuggest"


def is_suggestion(run_input: RunInput) -> bool:
    choice = run_input.forwarded.get("toolChoice")
    function = choice.get("function") if isinstance(choice, dict) else None
    return isinstance(function, dict) and function.get("name") == _TOOL


def temporary_thread(client_thread_id: str) -> ThreadId:
    """The id of the temporary thread. It never collides with a client's own thread, since the ids of clients contain no
    control characters. Raises `Invalid` for an invalid id."""
    thread_id_from_name(client_thread_id)
    return ThreadId(str(uuid5(NAMED_THREADS, f"suggestion\0{client_thread_id}")))


async def suggest(
    engine: Engine, streams: OpenStreams, agent: Assistant, run_input: RunInput, client_policy: ClientPolicy
) -> Response:
    thread_id = temporary_thread(run_input.thread_id)
    rejecting = replace(client_policy, when_busy="reject")
    run, _ = await start(engine, agent, run_input, rejecting, on=thread_id, thread_metadata={TEMPORARY: True})
    options = Options(run_input.thread_id, run_id=run_input.run_id, modern=run_input.modern, raw=run_input.raw or False)
    follower = engine.runs.follow(run, options, partial(RunEncoder, options), unnamed_events, Seq(run.queued_seq - 1))

    async def delete_thread() -> None:
        with suppress(NotFound):
            await engine.threads.delete(thread_id)

    source = _CleaningUp(follower, delete_thread)
    return event_stream(source, streams, heartbeat=UNNAMED_HEARTBEAT, on_disconnect=delete_thread)


class _CleaningUp:
    """A source of frames that calls `clean_up` before it returns the last ones."""

    def __init__(self, source: FrameSource, clean_up: Callable[[], Awaitable[None]]) -> None:
        self._source = source
        self._clean_up = clean_up

    def __enter__(self) -> "_CleaningUp":
        self._source.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._source.__exit__(kind, error, trace)

    @property
    def finished(self) -> bool:
        return self._source.finished

    async def next(self, timeout: float) -> list[bytes] | None:
        frames = await self._source.next(timeout)
        if frames is None or self._source.finished:
            await self._clean_up()
        return frames
