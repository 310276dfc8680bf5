"""A chat that answers its user by name."""

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph


async def answer(state: MessagesState, config: RunnableConfig) -> MessagesState:
    user = config["configurable"]["langgraph_auth_user"]
    return {"messages": [AIMessage(f"{user['display_name']}, you said: {state['messages'][-1].text}")]}


graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer").compile()
