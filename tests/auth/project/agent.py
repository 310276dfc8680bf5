"""A graph that reports its user, calls its own server, waits, or raises an interrupt."""

import asyncio
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt
from langgraph_sdk import get_client, get_sync_client
from langgraph_sdk.runtime import ServerRuntime


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    do: str
    seen: dict[str, Any]


async def act(state: State, config: RunnableConfig) -> dict[str, Any]:
    configurable = config["configurable"]
    user = configurable["langgraph_auth_user"]
    seen: dict[str, Any] = {
        "id": configurable["langgraph_auth_user_id"],
        "permissions": configurable["langgraph_auth_permissions"],
        "user": None if user is None else {"identity": user["identity"], "attribute": user.identity},
    }
    match state.get("do"):
        case "call":
            seen["threads"] = [each["thread_id"] for each in await get_client().threads.search(limit=100)]
        case "call sync":
            client = get_sync_client()
            threads = await asyncio.to_thread(client.threads.search, limit=100)
            seen["threads"] = [each["thread_id"] for each in threads]
        case "wait":
            await asyncio.sleep(60)
        case "ask":
            seen["answer"] = interrupt(f"secret of {seen['id']}?")
    return {"seen": seen, "messages": [AIMessage(f"secret of {seen['id']}")]}


builder = StateGraph(State)
builder.add_node("act", act)
builder.add_edge(START, "act")
builder.add_edge("act", END)
graph = builder.compile()


def factory(runtime: ServerRuntime) -> Any:
    def report(state: State) -> dict[str, Any]:
        user = runtime.user
        return {"seen": {"runtime": None if user is None else user.identity}}

    reporting = StateGraph(State)
    reporting.add_node("report", report)
    reporting.add_edge(START, "report")
    reporting.add_edge("report", END)
    return reporting.compile()
