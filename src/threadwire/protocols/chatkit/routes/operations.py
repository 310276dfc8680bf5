"""ChatKit's operations, one function each."""

import binascii
from base64 import b64decode
from typing import Any

import structlog
from starlette.responses import Response

from threadwire.core.ids import Seq
from threadwire.core.json import native
from threadwire.core.records import Assistant, Run, Thread
from threadwire.engine.lifecycle import Engine
from threadwire.errors import BadRequest, Invalid, NotFound
from threadwire.http.problems import JsonResponse
from threadwire.http.streaming import OpenStreams, event_stream
from threadwire.protocols.chatkit import decode, folds, threads, wire
from threadwire.protocols.chatkit.agents import Agents
from threadwire.protocols.chatkit.attachment_access import find_attachment
from threadwire.protocols.chatkit.attachments import AttachmentStore
from threadwire.protocols.chatkit.encode import PROTOCOL, ChatKitEncoder
from threadwire.protocols.chatkit.routes.attachment_links import AttachmentLinks
from threadwire.protocols.chatkit.routes.run_stream import RunEvents, frames_of
from threadwire.protocols.chatkit.routes.uploads import create_attachment
from threadwire.protocols.chatkit.threads import TITLE_POSITION, find_thread, item_not_found
from threadwire.protocols.chatkit.turns import IdempotentRequest, Turn, Turns
from threadwire.protocols.chatkit.widgets import InvalidWidget, checked
from threadwire.protocols.chatkit.wire import FEEDBACK, TITLE, Object

logger = structlog.get_logger("threadwire.chatkit")

NO_TRANSCRIPTION = "This agent cannot transcribe audio: its `chatkit` section names no `transcribe` function"


class Operations:
    """The operations of one agent for one request."""

    def __init__(
        self,
        engine: Engine,
        streams: OpenStreams,
        agents: Agents,
        attachments: AttachmentStore,
        links: AttachmentLinks,
        agent: Assistant,
        idempotent_request: IdempotentRequest | None = None,
    ) -> None:
        self._engine = engine
        self._streams = streams
        self._agents = agents
        self._attachments = attachments
        self._links = links
        self._agent = agent
        self._idempotent_request = idempotent_request
        self._config = agents.config(agent.graph_id)

    async def respond(self, request: decode.Streaming | decode.Immediate) -> Response:
        turns = Turns(self._engine, self._agents, self._attachments, self._agent, self._idempotent_request)
        match request:
            case decode.CreateThread(params=params):
                turn = await turns.create(params.input, self._links.address)
                return await self._stream(turn, turn.created or {})
            case (
                decode.AddUserMessage()
                | decode.AddClientToolOutput()
                | decode.AddStructuredInput()
                | decode.RetryAfterItem()
                | decode.CustomAction()
            ):
                thread = await self._thread(request.params.thread_id)
                known = await self._described(thread)
                return await self._stream(await self._turn(turns, thread, request), known)
            case _:
                return JsonResponse(await self._immediate(request))

    async def _turn(self, turns: Turns, thread: Thread, request: decode.OnThread) -> Turn:
        match request:
            case decode.AddUserMessage(params=params):
                return await turns.add_message(thread, params.input, self._links.address)
            case decode.AddClientToolOutput(params=params):
                return await turns.add_tool_output(thread, params.result)
            case decode.AddStructuredInput(params=params):
                return await turns.add_structured_input(thread, params)
            case decode.RetryAfterItem(params=params):
                return await turns.retry(thread, params)
            case decode.CustomAction(params=params):
                return await turns.act(thread, params)

    async def _immediate(self, request: decode.Immediate) -> Object:
        match request:
            case decode.GetThread(params=params):
                return await self._get_thread(params)
            case decode.ListThreads(params=params):
                return await threads.list_threads(self._engine, self._agent, params)
            case decode.UpdateThread(params=params):
                return await self._rename(params)
            case decode.DeleteThread(params=params):
                return await self._delete(params)
            case decode.ListItems(params=params):
                thread = await self._thread(params.thread_id)
                return await self._items(thread, params)
            case decode.GiveFeedback(params=params):
                return await self._give_feedback(params)
            case decode.SyncCustomAction(params=params):
                return await self._act_now(params)
            case decode.CreateAttachment(params=params):
                created = await create_attachment(self._attachments, self._agent.graph_id, params, self._config)
                return await self._links.of(created, upload=True)
            case decode.DeleteAttachment(params=params):
                return await self._delete_attachment(params)
            case decode.Transcribe(params=params):
                return await self._transcribe(params)

    # -- threads ------------------------------------------------------------------------------------------------------

    async def _thread(self, thread_id: str) -> Thread:
        return await find_thread(self._engine, self._agent, thread_id)

    async def _fold(self, thread: Thread) -> ChatKitEncoder:
        return await folds.current(self._engine, self._agents, thread.thread_id)

    async def _get_thread(self, params: decode.OfThread) -> Object:
        thread = await self._thread(params.thread_id)
        items = await self._items(thread, decode.PageParams(order="asc"))
        return await self._described(thread, items)

    async def _described(self, thread: Thread, items: Object | None = None) -> Object:
        thread = await threads.with_title(self._engine, thread, await self._fold(thread))
        status = threads.status_of(thread, await self._fold(thread), self._config)
        return wire.thread_json(thread, items, status)

    async def _items(self, thread: Thread, params: decode.PageParams) -> Object:
        # Read the runs first: a run that starts between the two reads must not be missing from both.
        active = await self._engine.runs.all_active(thread.thread_id)
        fold = await self._fold(thread)
        page = threads.items_page(fold, threads.queued_items(fold, thread.thread_id, active), params)
        return await self._links.in_page(page)

    async def _rename(self, params: decode.UpdateParams) -> Object:
        thread = await self._thread(params.thread_id)
        last = await self._engine.log.last(thread.thread_id)
        renamed = {TITLE: params.title, TITLE_POSITION: last}
        thread = await self._engine.threads.update(thread.thread_id, renamed)
        return await self._described(thread, await self._items(thread, decode.PageParams(order="asc")))

    async def _delete(self, params: decode.OfThread) -> Object:
        thread = await self._thread(params.thread_id)
        await self._engine.threads.delete(thread.thread_id)
        return {}

    # -- items --------------------------------------------------------------------------------------------------------

    async def _give_feedback(self, params: decode.FeedbackParams) -> Object:
        thread = await self._thread(params.thread_id)
        shown = {item["id"] for item in (await self._fold(thread)).items.shown()}
        for item_id in params.item_ids:
            if item_id not in shown:
                raise item_not_found(item_id)
        note = {"feedback": params.kind, "item_ids": params.item_ids}
        await self._engine.threads.note(thread.thread_id, PROTOCOL, note)
        await self._engine.threads.update(thread.thread_id, {FEEDBACK: params.kind})
        logger.info(
            "feedback_given",
            thread_id=thread.thread_id,
            graph_id=self._agent.graph_id,
            item_ids=params.item_ids,
            kind=params.kind,
        )
        return {}

    async def _act_now(self, params: decode.ActionParams) -> Object:
        thread = await self._thread(params.thread_id)
        item = None if params.item_id is None else (await self._fold(thread)).items.get(params.item_id)
        if params.item_id is not None and (item is None or item.is_hidden):
            raise item_not_found(params.item_id)
        if item is not None and item.json["type"] != "widget":
            raise Invalid("item_id: must be a widget")
        handle = self._agents.sync_action(self._agent.graph_id, params.action.type)
        if handle is None:
            raise Invalid(f"action.type: no sync action {params.action.type[:100]!r} is registered")
        shown = None if item is None else item.json
        widget = await self._engine.graph_access.call_function(handle, params.action.payload, shown)
        if widget is None or item is None:
            return {} if shown is None else {"updated_item": shown}
        return {"updated_item": await self._replace_widget(thread, item.json["id"], widget)}

    async def _replace_widget(self, thread: Thread, item_id: str, widget: Any) -> Object:
        try:
            note = {"item_id": item_id, "widget": checked(native(widget))}
        except InvalidWidget as error:
            raise Invalid(f"The action returned an invalid widget: {error}") from error
        await self._engine.threads.note(thread.thread_id, PROTOCOL, note)
        item = (await self._fold(thread)).items.get(item_id)
        if item is None:
            raise item_not_found(item_id)
        return item.json

    # -- attachments and speech ---------------------------------------------------------------------------------------

    async def _delete_attachment(self, params: decode.DeleteAttachmentParams) -> Object:
        found = await find_attachment(self._engine, self._attachments, self._agent, params.attachment_id)
        if found.thread_id is not None:
            raise BadRequest("The attachment is part of a message and cannot be deleted")
        await self._attachments.delete(params.attachment_id)
        return {}

    async def _transcribe(self, params: decode.TranscribeParams) -> Object:
        transcribe = self._agents.transcribe(self._agent.graph_id)
        if transcribe is None:
            raise BadRequest(NO_TRANSCRIPTION)
        try:
            audio = b64decode(params.audio_base64, validate=True)
        except (binascii.Error, ValueError):
            raise Invalid("audio_base64: must be Base64") from None
        text = await self._engine.graph_access.call_function(transcribe, audio, params.mime_type)
        return {"text": str(text)}

    # -- streams ------------------------------------------------------------------------------------------------------

    async def _stream(self, turn: Turn, known: Object) -> Response:
        """The response of a turn. `known` is the thread as the client knows it."""
        first = await self._links.in_frames(frames_of(turn.first))
        if turn.run is None:
            return Response(first, media_type="text/event-stream", headers={"cache-control": "no-store"})
        run = turn.run
        follower = await folds.follow(self._engine, self._agents, turn.thread_id, Seq(run.queued_seq - 1))

        async def closing() -> list[bytes]:
            """Report what else the run has changed: a title, or a lock while it waits for an answer."""
            try:
                after = await self._described(await self._engine.threads.get(turn.thread_id, with_state=False))
            except NotFound:  # deleted meanwhile
                return []
            return [] if after == known else [wire.thread_updated(after)]

        events = RunEvents(follower, run.run_id, turn.first, self._links.in_frames, closing)
        on_disconnect = self._stop(run) if self._config.on_disconnect == "cancel" else None
        return event_stream(events, self._streams, first=[first], on_disconnect=on_disconnect, heartbeat=b"")

    def _stop(self, run: Run) -> Any:
        async def stop() -> None:
            await self._engine.runs.stop_if_active(run, "interrupt")

        return stop
