"""A supervisor that delegates to two workers and summarizes what they found."""

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, ToolCall
from langchain_core.tools import tool
from langgraph_supervisor import create_supervisor

from threadwire.testing.scripted import ScriptedChatModel


@tool
def search(query: str) -> str:
    """Search the web."""
    return f"facts about {query}"


@tool
def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


def call(name: str, **args: object) -> AIMessage:
    return AIMessage("", tool_calls=[ToolCall(name=name, args=args, id=f"call-{name}", type="tool_call")])


def researcher(conversation: list[BaseMessage]) -> AIMessage:
    last = conversation[-1]
    return AIMessage(f"Found {last.content}") if last.name == "search" else call("search", query="tea")


def calculator(conversation: list[BaseMessage]) -> AIMessage:
    last = conversation[-1]
    return AIMessage(f"It is {last.content}") if last.name == "multiply" else call("multiply", a=6, b=7)


def supervisor(conversation: list[BaseMessage]) -> AIMessage:
    said = " ".join(str(each.content) for each in conversation)
    if "Found" not in said:
        return call("transfer_to_researcher")
    if "It is" not in said:
        return call("transfer_to_calculator")
    return AIMessage("Summary: facts about tea, and 42.")


graph = create_supervisor(
    [
        create_agent(ScriptedChatModel(reply=researcher), [search], name="researcher"),
        create_agent(ScriptedChatModel(reply=calculator), [multiply], name="calculator"),
    ],
    model=ScriptedChatModel(reply=supervisor),
).compile(name="supervisor")
