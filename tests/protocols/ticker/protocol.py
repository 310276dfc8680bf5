from fastapi import APIRouter

from threadwire.http.protocol import Announcement, Protocol, ProtocolContext, Tag
from ticker.routes import ticker_routes
from ticker.settings import TickerSettings


def _router(context: ProtocolContext[TickerSettings]) -> APIRouter:
    return ticker_routes(context.engine, context.streams, context.settings.ticker_kinds)


TICKER = Protocol(
    name="ticker",
    router=_router,
    announcements=[Announcement("ticker", "/ticker/{thread_id}")],
    tags=[Tag("ticker", "One tick per entry of a thread's log.")],
    settings=TickerSettings,
)
