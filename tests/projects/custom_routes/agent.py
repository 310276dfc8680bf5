"""A graph that greets with the word the application loaded when it started."""

from greetings import GREETINGS
from langgraph.graph import START, MessagesState, StateGraph


def greet(state: MessagesState) -> dict[str, object]:
    return {"messages": [("ai", f"{GREETINGS['word']}, {state['messages'][-1].content}")]}


graph = StateGraph(MessagesState).add_node("greet", greet).add_edge(START, "greet").compile()
