"""An assistant that remembers what each user asked it to, in the store."""

import uuid

from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.base import BaseStore


async def remember(state: MessagesState, config: RunnableConfig, *, store: BaseStore) -> dict[str, object]:
    namespace = ("memories", config["configurable"]["user_id"])
    said = str(state["messages"][-1].content)
    if said.startswith("Remember "):
        await store.aput(namespace, str(uuid.uuid4()), {"data": said.removeprefix("Remember ")})
    known = sorted(item.value["data"] for item in await store.asearch(namespace))
    return {"messages": [("ai", f"I know: {', '.join(known) or 'nothing'}")]}


graph = StateGraph(MessagesState).add_node("remember", remember).add_edge(START, "remember").compile()
