from fastapi import APIRouter

from threadwire.core.json import dumps
from threadwire.core.records import Delivery
from threadwire.environment import EnvironmentSettings
from threadwire.http.protocol import Announcement, Protocol, ProtocolContext, Tag
from threadwire.protocols.langgraph.routes import langgraph_routes
from threadwire.protocols.langgraph.wire import webhook_json


def _router(context: ProtocolContext[EnvironmentSettings]) -> APIRouter:
    return langgraph_routes(context.engine, context.streams)


def _webhook_body(delivery: Delivery, sent_at: int) -> bytes:
    return dumps(webhook_json(delivery, sent_at))


LANGGRAPH = Protocol(
    name="langgraph",
    router=_router,
    announcements=[Announcement("LangGraph API", "")],
    tags=[
        Tag("assistants", "Graphs with a configuration, and the versions of that configuration."),
        Tag("threads", "Conversations: create, search, copy and follow them."),
        Tag(
            "thread wire",
            "Events and commands of a thread, for `threads.stream` and `useStream` of `@langchain/react`.",
        ),
        Tag("state", "The state of a thread, and its history."),
        Tag("runs", "Executions of an assistant on a thread."),
        Tag("stateless runs", "Runs without a thread of their own, and runs by their id alone."),
        Tag("crons", "Runs on a schedule."),
        Tag("store", "Long-term memory: JSON items in namespaces, with search."),
        Tag("ui", "UI components of the graphs."),
    ],
    webhook_body=_webhook_body,
)
