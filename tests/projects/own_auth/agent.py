"""A graph that greets the user that its run belongs to."""

from typing import TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph


class State(TypedDict, total=False):
    text: str
    greeting: str
    identity: str


def greet(state: State, config: RunnableConfig) -> State:
    configurable = config["configurable"]
    user = configurable["langgraph_auth_user"]
    return {"greeting": configurable["greeting"], "identity": f"{user['identity']} {user.display_name}"}


builder = StateGraph(State)
builder.add_node("greet", greet)
builder.add_edge(START, "greet")
builder.add_edge("greet", END)
graph = builder.compile()
