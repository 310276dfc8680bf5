from fastapi import APIRouter

from threadwire.http.protocol import Announcement, Protocol, ProtocolContext, Tag
from threadwire.protocols.ag_ui.routes import ag_ui_routes
from threadwire.protocols.ag_ui.settings import AgUiSettings

NAME = "ag-ui"


def _router(context: ProtocolContext[AgUiSettings]) -> APIRouter:
    return ag_ui_routes(context.engine, context.streams, context.settings.client_policy(NAME, usual="error"))


AG_UI = Protocol(
    name=NAME,
    router=_router,
    announcements=[Announcement("AG-UI", "/ag-ui/{agent}")],
    tags=[Tag("ag-ui", "AG-UI: start a run, connect to a thread at any time, stop, and follow many runs.")],
    settings=AgUiSettings,
)
