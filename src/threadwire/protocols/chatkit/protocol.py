from collections.abc import Sequence
from functools import partial

from fastapi import APIRouter

from threadwire.core.ids import parse_uuid
from threadwire.errors import ConfigError
from threadwire.http.protocol import Announcement, Protocol, ProtocolContext, Tag
from threadwire.protocols.chatkit.agents import Agents
from threadwire.protocols.chatkit.encode import PROTOCOL
from threadwire.protocols.chatkit.routes import chatkit_routes
from threadwire.protocols.chatkit.routes.attachment_files import open_attachments
from threadwire.protocols.chatkit.routes.router import PREFIX
from threadwire.protocols.chatkit.routes.uploads import delete_of_thread
from threadwire.protocols.chatkit.settings import ChatKitSettings


def _router(context: ProtocolContext[ChatKitSettings]) -> APIRouter:
    agents = Agents(context.engine.registry)
    attachments = open_attachments(context.data)
    context.engine.deletions.on_delete(PROTOCOL, partial(delete_of_thread, attachments))
    return chatkit_routes(context.engine, context.streams, agents, attachments, context.settings.chatkit_agent)


def _check_settings(settings: ChatKitSettings, graph_ids: Sequence[str]) -> None:
    agent = settings.chatkit_agent
    if agent and agent not in graph_ids and parse_uuid(agent) is None:
        raise ConfigError(f"Invalid value for chatkit_agent: there is no graph {agent!r}")


CHATKIT = Protocol(
    name="chatkit",
    router=_router,
    announcements=[Announcement("ChatKit", f"{PREFIX}/{{agent}}")],
    tags=[Tag("chatkit", "The custom-server protocol of OpenAI's ChatKit: threads, items, actions and attachments.")],
    settings=ChatKitSettings,
    check_settings=_check_settings,
)
