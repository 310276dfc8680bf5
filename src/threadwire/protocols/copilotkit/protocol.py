from collections.abc import Sequence

from fastapi import APIRouter

from threadwire.http.protocol import Announcement, Protocol, ProtocolContext, Tag
from threadwire.protocols.copilotkit.agents import Agents, default_agent
from threadwire.protocols.copilotkit.routes import PREFIX, copilotkit_routes
from threadwire.protocols.copilotkit.settings import CopilotKitSettings

NAME = "copilotkit"


def _router(context: ProtocolContext[CopilotKitSettings]) -> APIRouter:
    agents = Agents(context.engine, context.settings.default_agent)
    client_policy = context.settings.client_policy(NAME, usual="empty")
    return copilotkit_routes(context.engine, context.streams, agents, client_policy)


def _check_settings(settings: CopilotKitSettings, graph_ids: Sequence[str]) -> None:
    default_agent(settings.default_agent, list(graph_ids))


COPILOTKIT = Protocol(
    name=NAME,
    router=_router,
    announcements=[Announcement("CopilotKit", PREFIX)],
    tags=[Tag("copilotkit", "The protocol of CopilotKit's runtime: agents, runs, suggestions and thread lists.")],
    settings=CopilotKitSettings,
    check_settings=_check_settings,
    head_routes=False,  # its routes reject unknown methods themselves, with the errors of CopilotKit's runtime
)
