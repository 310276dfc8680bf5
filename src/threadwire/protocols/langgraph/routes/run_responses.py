"""Responses that follow a run: its stream, or its outcome."""

from collections.abc import Awaitable, Callable
from functools import partial

from threadwire.core.entries import START, parse_cursor
from threadwire.core.records import Run
from threadwire.engine.followers import Follower
from threadwire.engine.lifecycle import Engine
from threadwire.http.sse import named_events
from threadwire.http.streaming import LongResponse, OpenStreams, event_stream, slow_json
from threadwire.protocols.langgraph.decode.query import decode_query_modes
from threadwire.protocols.langgraph.decode.runs import RunBody
from threadwire.protocols.langgraph.encode import RunStreamEncoder, StreamOptions


class RunResponses:
    """`path` is where the client can find the run again: below its thread, or by its id alone."""

    def __init__(self, engine: Engine, streams: OpenStreams) -> None:
        self._engine = engine
        self._streams = streams

    def stream(self, run: Run, path: str, body: RunBody) -> LongResponse:
        """The whole stream of a run that was just started."""
        options = StreamOptions(frozenset(body.modes), body.stream_subgraphs)
        follower = self._engine.runs.follow(run, options, partial(RunStreamEncoder, options), named_events, START)
        return self._stream(run, path, follower, cancel_on_disconnect=body.on_disconnect == "cancel")

    async def joined_stream(
        self,
        run: Run,
        path: str,
        stream_mode: list[str] | None,
        last_event_id: str | None,
        *,
        cancel_on_disconnect: bool,
    ) -> LongResponse:
        """The stream of a run after the client's `Last-Event-ID`. Without one, a live run is streamed from now on, and
        a finished one from its end."""
        modes = decode_query_modes(stream_mode or []) or frozenset(run.kwargs["stream_mode"])
        options = StreamOptions(modes, run.kwargs["subgraphs"])
        cursor = None if last_event_id is None else parse_cursor(last_event_id)
        encoder = partial(RunStreamEncoder, options)
        follower = await self._engine.joins.run(run, options, encoder, named_events, cursor)
        return self._stream(run, path, follower, cancel_on_disconnect=cancel_on_disconnect)

    def outcome(self, run: Run, path: str, *, cancel_on_disconnect: bool) -> LongResponse:
        return slow_json(
            partial(self._engine.runs.outcome, run),
            self._streams,
            headers={"location": f"{path}/join", "content-location": path},
            on_disconnect=self._cancel_on_disconnect(run) if cancel_on_disconnect else None,
        )

    def _stream(self, run: Run, path: str, follower: Follower, *, cancel_on_disconnect: bool) -> LongResponse:
        return event_stream(
            follower,
            self._streams,
            headers={"location": f"{path}/stream", "content-location": path},
            on_disconnect=self._cancel_on_disconnect(run) if cancel_on_disconnect else None,
        )

    def _cancel_on_disconnect(self, run: Run) -> Callable[[], Awaitable[None]]:
        async def cancel() -> None:
            await self._engine.runs.stop_if_active(run, "interrupt")

        return cancel
