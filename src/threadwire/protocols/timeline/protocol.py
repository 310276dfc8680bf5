from fastapi import APIRouter

from threadwire.environment import EnvironmentSettings
from threadwire.http.protocol import Announcement, Protocol, ProtocolContext, Tag
from threadwire.protocols.timeline.routes import timeline_routes


def _router(context: ProtocolContext[EnvironmentSettings]) -> APIRouter:
    return timeline_routes(context.engine, context.streams)


TIMELINE = Protocol(
    name="timeline",
    router=_router,
    announcements=[Announcement("timeline", "/threads/{thread_id}/timeline")],
    tags=[Tag("timeline", "A thread as one ordered list of messages, widgets and interrupts.")],
)
