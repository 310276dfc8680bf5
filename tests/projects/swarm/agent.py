"""Two agents that hand the conversation over to each other. The thread remembers which one has it."""

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall
from langchain_core.tools import tool
from langgraph_swarm import create_handoff_tool, create_swarm

from threadwire.testing.scripted import ScriptedChatModel


@tool
def book(flight: str) -> str:
    """Book a flight."""
    return f"booked {flight}"


def asked(conversation: list[BaseMessage]) -> str:
    return str(next(each.content for each in reversed(conversation) if isinstance(each, HumanMessage)))


def call(name: str, **args: str) -> AIMessage:
    return AIMessage("", tool_calls=[ToolCall(name=name, args=args, id=f"call-{name}", type="tool_call")])


def greeter(conversation: list[BaseMessage]) -> AIMessage:
    if "flight" in asked(conversation):
        return call("transfer_to_flights")
    return AIMessage("Welcome. I am the greeter.")


def flights(conversation: list[BaseMessage]) -> AIMessage:
    if "Book" not in asked(conversation):
        return AIMessage("Flights here. Which one?")
    if conversation[-1].type == "tool" and conversation[-1].name == "book":
        return AIMessage(f"Done: {conversation[-1].content}.")
    return call("book", flight="LH1")


graph = create_swarm(
    [
        create_agent(ScriptedChatModel(reply=greeter), [create_handoff_tool(agent_name="flights")], name="greeter"),
        create_agent(
            ScriptedChatModel(reply=flights), [book, create_handoff_tool(agent_name="greeter")], name="flights"
        ),
    ],
    default_active_agent="greeter",
).compile()
